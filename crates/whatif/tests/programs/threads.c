/* Threads and processes of all kinds. The argument says which. */
#include "common.h"
#include <dirent.h>
#include <threads.h>
#include <ucontext.h>

static int ran;

/* What this thread has used of a CPU, in seconds. */
static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *brief(void *unused)
{
    __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
    return unused;
}

/* Sampling events that this process has open. */
static int events(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    char target[300];
    int count = 0;
    while ((entry = readdir(folder))) {
        const ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        if (length > 0) {
            target[length] = 0;
            count += strstr(target, "perf_event") != NULL;
        }
    }
    closedir(folder);
    return count;
}

static void one_by_one(void)
{
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, brief, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(ran == 2000);
    CHECK(events() <= 2); /* this thread's and the background's */
}

static pthread_barrier_t barrier;

static void *together(void *unused)
{
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 20; i++)
        hot();
    pthread_barrier_wait(&barrier);
    __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
    return unused;
}

static void at_once(void)
{
    static pthread_t threads[200];
    pthread_barrier_init(&barrier, NULL, 200);
    for (int i = 0; i < 200; i++)
        CHECK(pthread_create(&threads[i], NULL, together, NULL) == 0);
    for (int i = 0; i < 200; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(ran == 200);
    CHECK(events() <= 2);
}

__attribute__((noinline)) static void work_of_child(void)
{
    const double end = now() + 1.2;
    while (now() < end) {
        other();
        WHATIF_PROGRESS_NAMED("child");
    }
}

static void *in_thread_of_child(void *unused)
{
    work_of_child();
    return unused;
}

static void forks(void)
{
    int status;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, in_thread_of_child, NULL) == 0);
        work_of_child();
        CHECK(pthread_join(thread, NULL) == 0);
        exit(failures ? 1 : 17);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 17);
    const double end = now() + 0.3;
    while (now() < end) {
        const pid_t brief_child = fork();
        if (brief_child == 0)
            _exit(3);
        CHECK(waitpid(brief_child, &status, 0) == brief_child && WEXITSTATUS(status) == 3);
    }
}

/* A vforked child runs on its parent's memory until it executes another program or ends. */
static void vforks(void)
{
    int status;
    for (int i = 0; i < 100; i++) {
        char *arguments[] = {"true", NULL};
        const pid_t child = vfork();
        if (child == 0) {
            if (i % 4 == 0)
                execvp("true", arguments);
            else if (i % 4 == 1)
                execlp("true", "true", NULL);
            else if (i % 4 == 2)
                execv("/no/such/program", arguments);
            _exit(i % 4 == 2 && errno == ENOENT ? 0 : 3);
        }
        CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == (i % 4 == 3 ? 3 : 0));
    }
}

/* Arguments and environment arrive, however many they are. */
static void execs(void)
{
    const char *script = "test \"$A$#$1$2$3$4$5$6$7\" = \"$WANTED\"";
    char *environment[] = {"A=a", "WANTED=a71234567", NULL};
    int status;
    setenv("WANTED", "7123456" "7", 1);
    unsetenv("A");
    for (int i = 0; i < 4; i++) {
        const pid_t child = fork();
        if (child == 0) {
            if (i == 0)
                execl("/bin/sh", "sh", "-c", script, "sh", "1", "2", "3", "4", "5", "6", "7", NULL);
            else if (i == 1)
                execlp("sh", "sh", "-c", script, "sh", "1", "2", "3", "4", "5", "6", "7", NULL);
            else if (i == 2)
                execle("/bin/sh", "sh", "-c", script, "sh", "1", "2", "3", "4", "5", "6", "7", NULL, environment);
            else
                execle("/bin/sh", "sh", NULL, environment);
            _exit(3);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

/* Again and again a child that executes another program, and one that just ends. */
static void leave_children(void)
{
    for (const double end = now() + 1; now() < end;) {
        const pid_t child = fork();
        if (child == 0) {
            execlp("true", "true", NULL);
            _exit(1);
        }
        const pid_t brief_child = fork();
        if (brief_child == 0)
            _exit(0);
        for (int i = 0; i < 100; i++)
            other();
        CHECK(waitpid(child, NULL, 0) == child && waitpid(brief_child, NULL, 0) == brief_child);
    }
}

/* A failed exec leaves everything as it was. */
static void failed_execs(void)
{
    char *arguments[] = {"none", NULL};
    for (int i = 0; i < 100; i++) {
        errno = 0;
        CHECK(execv("/no/such/program", arguments) == -1 && errno == ENOENT);
        CHECK(execlp("./no-such-program", "none", "with", "many", "more", "arguments", "than", "six", NULL) == -1);
        CHECK(errno == ENOENT);
        CHECK(execle("/no/such/program", "none", NULL, arguments) == -1 && errno == ENOENT);
    }
}

static ucontext_t main_context, contexts[8];
static int finished, switches;

static void coroutine(int number)
{
    for (int i = 0; i < 200; i++) {
        if (i % 2)
            hot();
        else
            other();
        switches++;
        swapcontext(&contexts[number], &contexts[(number + 1) % 8]);
    }
    finished++;
    swapcontext(&contexts[number], finished == 8 ? &main_context : &contexts[(number + 1) % 8]);
}

static void *coroutines(void *unused)
{
    for (int i = 0; i < 8; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_size = 32 * 1024;
        contexts[i].uc_stack.ss_sp = malloc(32 * 1024);
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
    }
    swapcontext(&main_context, &contexts[0]);
    CHECK(finished == 8 && switches == 1600);
    finished = switches = 0;
    return unused;
}

static mtx_t mutex;
static cnd_t condition;
static int turn;

static int c11(void *argument)
{
    const int mine = *(int *)argument;
    for (int i = 0; i < 300; i++) {
        mtx_lock(&mutex);
        while (turn != mine)
            cnd_wait(&condition, &mutex);
        other();
        turn = !mine;
        cnd_signal(&condition);
        mtx_unlock(&mutex);
    }
    if (mine)
        thrd_exit(11);
    return 10;
}

static void c11_threads(void)
{
    int numbers[2] = {0, 1}, results[2];
    thrd_t threads[2];
    struct timespec soon = in_ms(CLOCK_REALTIME, 2);
    CHECK(mtx_init(&mutex, mtx_timed) == thrd_success && cnd_init(&condition) == thrd_success);
    for (int i = 0; i < 2; i++)
        CHECK(thrd_create(&threads[i], c11, &numbers[i]) == thrd_success);
    for (int i = 0; i < 2; i++)
        CHECK(thrd_join(threads[i], &results[i]) == thrd_success && results[i] == 10 + i);
    mtx_lock(&mutex);
    CHECK(cnd_timedwait(&condition, &mutex, &soon) == thrd_timedout);
    mtx_unlock(&mutex);
    CHECK(thrd_sleep(&(struct timespec){0, 1000000}, NULL) == 0);
}

static void *allocates(void *unused)
{
    void *blocks[64] = {NULL};
    const double end = now() + 0.8;
    for (unsigned i = 0; now() < end; i++) {
        free(blocks[i % 64]);
        blocks[i % 64] = memset(malloc(1 + i * 37 % 20000), 1, 1);
        if (i % 64 == 0)
            other();
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return unused;
}

static void allocators(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, allocates, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    if (!strcmp(which, "forks"))
        forks(); /* alone: with other threads a forked child may only call little */
    start_background();
    if (!strcmp(which, "one_by_one"))
        one_by_one();
    else if (!strcmp(which, "at_once"))
        at_once();
    else if (!strcmp(which, "deep"))
        for (const double end = now() + 0.8; now() < end;)
            CHECK(deep(60000) > 0);
    else if (!strcmp(which, "coroutines")) {
        pthread_t thread;
        coroutines(NULL);
        CHECK(pthread_create(&thread, NULL, coroutines, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    } else if (!strcmp(which, "c11"))
        c11_threads();
    else if (!strcmp(which, "allocators"))
        allocators();
    else if (!strcmp(which, "vforks"))
        vforks();
    else if (!strcmp(which, "execs"))
        execs();
    else if (!strcmp(which, "leave_children"))
        leave_children();
    else if (!strcmp(which, "failed_execs"))
        failed_execs();
    else if (strcmp(which, "forks"))
        return 2;
    /* Of a CPU, so that there are samples however busy the machine is. */
    for (const double end = cpu_time() + (strcmp(which, "leave_children") ? 0.4 : 0); cpu_time() < end;)
        other();
    stop_background();
    return done();
}
