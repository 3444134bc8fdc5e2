/* What sanitizers find: "overflow" reads behind an array on the heap, "race" counts without a lock. "none" does what they allow:
   threads, locks, condition variables, a signal handler, a child. */
#include "common.h"

static long raced;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static volatile sig_atomic_t caught;

static void handler(int signal)
{
    caught = signal;
}

static void *race(void *unused)
{
    static int begun;
    __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&begun, __ATOMIC_RELAXED) < 2)
        usleep(100);
    for (int i = 0; i < 1000; i++)
        raced++;
    return unused;
}

static void *turns(void *mine)
{
    const int self = *(int *)mine;
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&lock);
        while (turn != self)
            pthread_cond_wait(&changed, &lock);
        turn = !self;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        free(malloc(100));
    }
    return NULL;
}

static void two(void *(*what)(void *))
{
    static int selves[] = { 0, 1 };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, what, &selves[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    start_background();
    two(turns);
    if (strcmp(argv[1], "overflow") == 0) {
        volatile char *array = malloc(10);
        CHECK(array[argc + 8] != 1000 + argc);
    }
    if (strcmp(argv[1], "race") == 0)
        two(race);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    CHECK(caught == SIGUSR1);
    const pid_t child = fork();
    if (child == 0)
        _exit(7);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    usleep(300000);
    stop_background();
    return done();
}
