/*
 * Which thread handles signals that are sent to the process: the main one, as long as it does not block them.
 *   reached WAIT…         A timer interrupts what the main thread does, or waits for, again and again; the handler leaves with siglongjmp.
 *   reached nested        A timer and another thread send different signals; one handler interrupts the other, and both make interposed calls.
 *   reached once          Handlers that are to run once are removed by the kernel when they run, not before.
 *   reached actions       What the program has installed is what it is told.
 *   reached pairs         Two signals at once, again and again: both are handled, and neither stays blocked.
 *   reached queued        As many real-time signals are handled as were sent to the process, and one that was sent to a thread is handled by that thread.
 *   reached vforked       What a vforked child does with its actions and its mask is not its parent's.
 *   reached small         The same in a thread with a small stack, and on another small stack.
 * Two other threads have nothing blocked either, and want the CPUs. Standard error says how many of the signals another thread handled.
 */
#include "common.h"
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <linux/futex.h>

/* So many of each kind of signal are enough. */
enum { ENOUGH = 60, ENOUGH_UNASKED = 200 };

static pthread_t expected;
static int elsewhere, here, jumps, small_state, times_handled, working;
static sigjmp_buf again;

static void count(int signal)
{
    __atomic_fetch_add(&times_handled, 1, __ATOMIC_RELAXED);
    if (!pthread_equal(pthread_self(), expected)) {
        __atomic_fetch_add(&elsewhere, 1, __ATOMIC_RELAXED);
        if (jumps)
            pthread_kill(expected, signal);
        else
            __atomic_fetch_add(&here, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_fetch_add(&here, 1, __ATOMIC_RELAXED);
    if (jumps)
        siglongjmp(again, 1);
}

/* A thread that begins asks the kernel for signals that are pending, as one that changes its mask does. */
static void wait_for_threads(void)
{
    while (__atomic_load_n(&working, __ATOMIC_ACQUIRE) < 1)
        usleep(100);
}

static void *works(void *over)
{
    __atomic_fetch_add(&working, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n((int *)over, __ATOMIC_RELAXED)) {
        other();
        WHATIF_PROGRESS_NAMED("other");
    }
    return NULL;
}

static void fire_after(long microseconds)
{
    const struct itimerval once = {{0, 0}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
}

static int ends[2], instance, word;
static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER, given = PTHREAD_MUTEX_INITIALIZER;
static sem_t none;

/* Until a handler jumps away. */
static void wait_for_signals(const char *which)
{
    struct timespec time = {10, 0};
    struct pollfd poll_for = {ends[0], POLLIN, 0};
    struct epoll_event event;
    fd_set set;
    sigset_t mask;
    char byte;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    sigemptyset(&mask);
    /* A wait may be over before the handler has run, where another thread was told first. */
    for (;;) {
        if (!strcmp(which, "work"))
            other();
        else if (!strcmp(which, "calls")) {
            sched_yield();
            pthread_mutex_unlock(&given);
            hot();
            pthread_mutex_lock(&given);
        } else if (!strcmp(which, "read"))
            CHECK(read(ends[0], &byte, 1) < 0);
        else if (!strcmp(which, "nanosleep"))
            nanosleep(&time, NULL);
        else if (!strcmp(which, "usleep"))
            usleep(10000000);
        else if (!strcmp(which, "sleep"))
            sleep(10);
        else if (!strcmp(which, "clock"))
            clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
        else if (!strcmp(which, "poll"))
            poll(&poll_for, 1, -1);
        else if (!strcmp(which, "ppoll"))
            ppoll(&poll_for, 1, NULL, &mask);
        else if (!strcmp(which, "select"))
            select(ends[0] + 1, &set, NULL, NULL, NULL);
        else if (!strcmp(which, "epoll"))
            epoll_wait(instance, &event, 1, -1);
        else if (!strcmp(which, "pause"))
            pause();
        else if (!strcmp(which, "sigsuspend"))
            sigsuspend(&mask);
        else if (!strcmp(which, "mutex"))
            pthread_mutex_lock(&taken);
        else if (!strcmp(which, "semaphore"))
            sem_wait(&none);
        else if (!strcmp(which, "futex"))
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL);
        else
            exit(2);
    }
}

static void prepare_waits(void)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(pipe(ends) == 0 && (instance = epoll_create1(0)) >= 0 && sem_init(&none, 0, 0) == 0);
    CHECK(epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event) == 0);
    pthread_mutex_lock(&taken);
    pthread_mutex_lock(&given);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    jumps = 1;
}

static void jumping(const char *which)
{
    volatile int times = 0;
    here = 0;
    while (times < ENOUGH && failures == 0) {
        times = times + 1;
        if (sigsetjmp(again, 1) == 0) {
            fire_after(300 + times * 37 % 3000);
            wait_for_signals(which);
        }
        /* Jumping out of the C library's own bookkeeping would be the program's fault: none of the above has any. */
    }
    CHECK(here == ENOUGH);
    printf("%s: %d\n", which, here);
}

static int seen(const int *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static int alarms, interrupts, depth, deepest;

static void nests(int signal)
{
    const int error = errno;
    /* While one is pending already the kernel may tell any thread of another. */
    if (!pthread_equal(pthread_self(), expected))
        return;
    depth++;
    deepest = depth > deepest ? depth : deepest;
    ++*(signal == SIGALRM ? &alarms : &interrupts);
    CHECK(write(ends[1], "x", 1) == 1);
    if (signal == SIGALRM)
        hot();
    depth--;
    errno = error;
}

static void *kills(void *over)
{
    while (!__atomic_load_n((int *)over, __ATOMIC_RELAXED)) {
        usleep(1900);
        kill(getpid(), SIGUSR1);
    }
    return NULL;
}

static void nested(void)
{
    struct sigaction action = {.sa_handler = nests, .sa_flags = SA_RESTART};
    const struct itimerval every = {{0, 2300}, {0, 2300}}, never = {{0, 0}, {0, 0}};
    char buffer[4096];
    int over = 0;
    pthread_t thread;
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    sigset_t user, old;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    sigaddset(&user, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &user, &old); /* A thread that calls the kernel looks for signals. */
    CHECK(pthread_create(&thread, NULL, kills, &over) == 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (const double end = now() + HANG_SECONDS; (seen(&alarms) <= ENOUGH_UNASKED || seen(&interrupts) <= ENOUGH_UNASKED) && now() < end;) {
        errno = 77;
        other();
        CHECK(errno == 77);
        while (read(ends[0], buffer, sizeof buffer) > 0)
            ;
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK(alarms > ENOUGH_UNASKED && interrupts > ENOUGH_UNASKED && depth == 0 && deepest <= 2);
    puts("nested");
}

static void once(void)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESETHAND}, found;
    for (int i = 1; i <= ENOUGH && failures == 0; i++) {
        CHECK(sigaction(SIGALRM, &action, &found) == 0 && found.sa_handler == SIG_DFL);
        fire_after(200 + i * 37 % 2000);
        for (const double end = now() + HANG_SECONDS; __atomic_load_n(&here, __ATOMIC_RELAXED) < i && now() < end;)
            other();
        CHECK(here == i);
        CHECK(sigaction(SIGALRM, NULL, &found) == 0 && found.sa_handler == SIG_DFL);
    }
    printf("once: %d\n", here);
}

static void told(int signal, siginfo_t *info, void *context)
{
    CHECK(signal == SIGRTMIN && info->si_signo == SIGRTMIN && info->si_code == SI_QUEUE && context != NULL);
    CHECK(info->si_pid == getpid() && info->si_value.sival_int == here);
    here++;
}

static void actions(void)
{
    struct sigaction action = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_NODEFER}, found;
    /* The process that has started this one may ignore them, which is inherited. */
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGRTMIN, &action, &found) == 0 && found.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGRTMIN, NULL, &found) == 0 && found.sa_sigaction == told);
    CHECK((found.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_RESTART)) == (SA_SIGINFO | SA_NODEFER));
    CHECK(sigismember(&found.sa_mask, SIGUSR2) == 1 && sigismember(&found.sa_mask, SIGUSR1) == 0);
    /* One structure for both. */
    struct sigaction *volatile same = &found;
    CHECK(sigaction(SIGRTMIN, &found, same) == 0 && found.sa_sigaction == told);
    CHECK(signal(SIGUSR1, count) == SIG_DFL && signal(SIGUSR1, SIG_IGN) == count && signal(SIGUSR1, count) == SIG_IGN);
    CHECK(sigaction(SIGUSR1, NULL, &found) == 0 && found.sa_handler == count && (found.sa_flags & SA_RESTART));
    CHECK(signal(SIGKILL, count) == SIG_ERR && errno == EINVAL && signal(0, count) == SIG_ERR && signal(65, count) == SIG_ERR);
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK(ssignal(SIGUSR2, count) == SIG_DFL && ssignal(SIGUSR2, SIG_DFL) == count);
    CHECK(sysv_signal(SIGUSR2, count) == SIG_DFL && sysv_signal(SIGUSR2, SIG_DFL) == count);
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } raw;
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &raw, 8L) == 0 && raw.handler == count);
    raw.handler = SIG_IGN;
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, &raw, &raw, 8L) == 0 && raw.handler == count);
    CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, (void *)8, NULL, 8L) == -1 && errno == EFAULT);
    /* All that were sent come, with what was sent along, one after the other; at once mostly, unless another thread has looked for signals first. */
    for (int i = 0; i < 2000 && failures == 0; i++) {
        CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0);
        for (const double end = now() + HANG_SECONDS; __atomic_load_n(&here, __ATOMIC_RELAXED) == i && now() < end;)
            ;
        CHECK(here == i + 1);
        if (i % 8 == 0)
            other();
    }
    puts("actions");
}

static int first, second;

static void counts(int signal)
{
    __atomic_fetch_add(signal == SIGUSR1 ? &first : &second, 1, __ATOMIC_RELAXED);
}

static void *sends_pairs(void *over)
{
    while (!__atomic_load_n((int *)over, __ATOMIC_RELAXED)) {
        usleep(700);
        pthread_kill(expected, SIGUSR1);
        pthread_kill(expected, SIGUSR2);
    }
    return NULL;
}

static void pairs(void)
{
    struct sigaction action = {.sa_handler = counts, .sa_flags = SA_RESTART};
    int over = 0;
    pthread_t thread;
    sigset_t mask;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, sends_pairs, &over) == 0);
    const double end = now() + HANG_SECONDS;
    while ((seen(&first) <= ENOUGH_UNASKED || seen(&second) <= ENOUGH_UNASKED) && now() < end) {
        pthread_mutex_lock(&given);
        other();
        pthread_mutex_unlock(&given);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    const int before = first;
    CHECK(raise(SIGUSR1) == 0 && first == before + 1);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGUSR2));
    CHECK(first > ENOUGH_UNASKED && second > ENOUGH_UNASKED);
    puts("pairs");
}

static void *waits_for_one(void *told_by)
{
    for (const double end = now() + HANG_SECONDS; __atomic_load_n((int *)told_by, __ATOMIC_ACQUIRE) == 0 && now() < end;)
        usleep(100);
    return NULL;
}

static pthread_t handled_by;
static int told_of_it;

static void is_handled_by(int signal)
{
    (void)signal;
    handled_by = pthread_self();
    __atomic_store_n(&told_of_it, 1, __ATOMIC_RELEASE);
}

static void *names_itself(void *id)
{
    __atomic_store_n((long *)id, syscall(SYS_gettid), __ATOMIC_RELEASE);
    return waits_for_one(&told_of_it);
}

static void queued(void)
{
    enum { MANY = 20000 };
    struct sigaction action = {.sa_handler = counts}, other_action = {.sa_handler = is_handled_by};
    siginfo_t info = {.si_signo = SIGRTMIN + 1, .si_code = SI_QUEUE, .si_pid = getpid()};
    long id = 0;
    pthread_t thread;
    CHECK(sigaction(SIGRTMIN, &action, NULL) == 0 && sigaction(SIGRTMIN + 1, &other_action, NULL) == 0);
    for (int i = 0; i < MANY; i++)
        CHECK(kill(getpid(), SIGRTMIN) == 0);
    for (const double end = now() + HANG_SECONDS; __atomic_load_n(&second, __ATOMIC_RELAXED) < MANY && now() < end;)
        other();
    CHECK(second == MANY);
    CHECK(pthread_create(&thread, NULL, names_itself, &id) == 0);
    while (__atomic_load_n(&id, __ATOMIC_ACQUIRE) == 0)
        usleep(100);
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), id, SIGRTMIN + 1, &info) == 0);
    pthread_join(thread, NULL);
    CHECK(told_of_it && pthread_equal(handled_by, thread));
    puts("queued");
}

/* Of SIGURG and SIGTRAP the runtime answers itself. */
static void vforked(void)
{
    struct sigaction action = {.sa_handler = counts}, found;
    sigset_t ours, mask;
    int status;
    sigemptyset(&ours);
    sigaddset(&ours, SIGURG);
    CHECK(sigaction(SIGURG, &action, NULL) == 0 && sigaction(SIGTRAP, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    const pid_t child = vfork();
    if (child == 0) {
        for (int number = 1; number < 32; number++)
            signal(number, SIG_DFL);
        sigprocmask(SIG_UNBLOCK, &ours, NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGURG));
    sigprocmask(SIG_UNBLOCK, &ours, NULL);
    CHECK(raise(SIGURG) == 0 && raise(SIGTRAP) == 0 && raise(SIGUSR2) == 0 && second == 3);
    CHECK(sigaction(SIGURG, NULL, &found) == 0 && found.sa_handler == counts);
    puts("vforked");
}

static void nothing(int signal)
{
    (void)signal;
}

/* What the thread with the small stack does. The main thread may be late to look. */
enum { SMALL_BEGINS, SMALL_RUNS, SMALL_IS_OVER };

static void *on_small_stack(void *alternate)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART | (alternate ? SA_ONSTACK : 0)};
    struct sigaction other_action = action;
    /* Room for both handlers, a sample on top, and not much more. */
    const stack_t stack = {.ss_sp = alternate, .ss_size = 3 * (size_t)sysconf(_SC_MINSIGSTKSZ) + 4096};
    other_action.sa_handler = nothing;
    expected = pthread_self();
    here = 0;
    CHECK(alternate == NULL || sigaltstack(&stack, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &other_action, NULL) == 0);
    __atomic_store_n(&small_state, SMALL_RUNS, __ATOMIC_RELEASE);
    const double end = now() + 1;
    for (int i = 1; now() < end && failures == 0; i++) {
        other();
        CHECK(raise(SIGUSR1) == 0 && here == i);
    }
    __atomic_store_n(&small_state, SMALL_IS_OVER, __ATOMIC_RELEASE);
    return NULL;
}

static void small(void)
{
    static char memory[1 << 16];
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_attr_setstacksize(&attributes, i ? 1 << 16 : 32 << 10) == 0);
        CHECK(pthread_create(&thread, &attributes, on_small_stack, i ? memory : NULL) == 0);
        while (__atomic_load_n(&small_state, __ATOMIC_ACQUIRE) == SMALL_BEGINS)
            usleep(100);
        while (__atomic_load_n(&small_state, __ATOMIC_ACQUIRE) == SMALL_RUNS) {
            usleep(300);
            pthread_kill(thread, SIGUSR2);
        }
        pthread_join(thread, NULL);
        small_state = SMALL_BEGINS;
    }
    puts("small");
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    int over = 0;
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    expected = pthread_self();
    start_background();
    CHECK(pthread_create(&thread, NULL, works, &over) == 0);
    wait_for_threads();
    if (!strcmp(which, "nested"))
        nested();
    else if (!strcmp(which, "once"))
        once();
    else if (!strcmp(which, "actions"))
        actions();
    else if (!strcmp(which, "pairs"))
        pairs();
    else if (!strcmp(which, "queued"))
        queued();
    else if (!strcmp(which, "vforked"))
        vforked();
    else if (!strcmp(which, "small"))
        small();
    else {
        prepare_waits();
        for (int i = 1; i < argc; i++)
            jumping(argv[i]);
    }
    /* On a busy machine another thread may take one before the main thread has a CPU. */
    fprintf(stderr, "handled %d\nelsewhere %d\n", times_handled, elsewhere);
    /* Long enough for an experiment. */
    for (const double end = now() + 0.3; now() < end;)
        other();
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    stop_background();
    return done();
}
