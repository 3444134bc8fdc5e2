/*
 * calls - how long single calls take: calls that a profiler interposes, and memcpy, which none does.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include calls.c -o calls
 *   ./calls iterations=200000
 *
 * prints lines "call NAME NANOSECONDS". Pairs (lock and unlock, write and read) count as one call. All
 * are uncontended and no thread waits: the shortest way through each. The iterations are divided into
 * batches, so that what happens meanwhile hits every call alike. clock_nanosleep, which takes as long
 * as a hundred others, has a twentieth of them.
 */
#define _GNU_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "whatif.h"

#define BATCHES 20

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static mtx_t mtx;
static int zero, null, ends[2];
static int word;
static char from[64], to[64];

static void check(int failed, const char *what)
{
    if (failed) {
        perror(what);
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A function that times a loop over a statement. */
#define CALL(name, statement)                                                                      \
    static double name(long iterations)                                                            \
    {                                                                                              \
        const double began = now();                                                                \
        for (long i = 0; i < iterations; i++) {                                                    \
            statement;                                                                             \
        }                                                                                          \
        return now() - began;                                                                      \
    }

CALL(call_memcpy, memcpy(to, from, sizeof to); __asm__ volatile("" ::"r"(to), "r"(from) : "memory"))
CALL(call_mutex, pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex))
CALL(call_recursive, pthread_mutex_lock(&recursive); pthread_mutex_unlock(&recursive))
CALL(call_trylock, pthread_mutex_trylock(&mutex); pthread_mutex_unlock(&mutex))
CALL(call_rdlock, pthread_rwlock_rdlock(&rwlock); pthread_rwlock_unlock(&rwlock))
CALL(call_wrlock, pthread_rwlock_wrlock(&rwlock); pthread_rwlock_unlock(&rwlock))
CALL(call_semaphore, sem_post(&semaphore); sem_wait(&semaphore))
CALL(call_signal, pthread_cond_signal(&cond))
CALL(call_broadcast, pthread_cond_broadcast(&cond))
CALL(call_spin, pthread_spin_lock(&spin); pthread_spin_unlock(&spin))
CALL(call_mtx, mtx_lock(&mtx); mtx_unlock(&mtx))
CALL(call_yield, sched_yield())
CALL(call_read, check(read(zero, to, 1) != 1, "read"))
CALL(call_write, check(write(null, from, 1) != 1, "write"))
CALL(call_pipe, check(write(ends[1], from, 1) != 1, "write"); check(read(ends[0], to, 1) != 1, "read"))
CALL(call_futex, syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0))
/* An absolute time long ago: relative to now even nothing takes the timer's slack of 50 us. */
CALL(call_sleep, clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){0, 0}, NULL))

static const struct {
    const char *name;
    double (*time)(long iterations);
    long divisor; /* fewer iterations of what takes long; 0: all */
} calls[] = {
    {"memcpy", call_memcpy},
    {"mutex", call_mutex},
    {"recursive mutex", call_recursive},
    {"mutex trylock", call_trylock},
    {"rwlock read", call_rdlock},
    {"rwlock write", call_wrlock},
    {"semaphore", call_semaphore},
    {"cond signal", call_signal},
    {"cond broadcast", call_broadcast},
    {"spin lock", call_spin},
    {"C11 mtx", call_mtx},
    {"sched_yield", call_yield},
    {"read", call_read},
    {"write", call_write},
    {"pipe", call_pipe},
    {"futex wake", call_futex},
    {"clock_nanosleep", call_sleep, 20},
};

enum { CALLS = sizeof calls / sizeof *calls };

static void *nothing(void *unused)
{
    return unused;
}

int main(int argc, char **argv)
{
    long iterations = 200000;
    double nanos[CALLS] = {0};
    if (argc > 2 || (argc == 2 && sscanf(argv[1], "iterations=%ld", &iterations) != 1) ||
        iterations < 20 * BATCHES) {
        fprintf(stderr, "usage: %s [iterations=N]   (N at least %d)\n", argv[0], 20 * BATCHES);
        return 2;
    }
    check((zero = open("/dev/zero", O_RDONLY)) < 0, "/dev/zero");
    check((null = open("/dev/null", O_WRONLY)) < 0, "/dev/null");
    check(pipe(ends) != 0, "pipe");
    check(sem_init(&semaphore, 0, 0) != 0, "sem_init");
    check((errno = pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE)) != 0, "pthread_spin_init");
    check(mtx_init(&mtx, mtx_plain) != thrd_success, "mtx_init");
    /* A process that never had a second thread takes shorter ways. */
    pthread_t thread;
    check((errno = pthread_create(&thread, NULL, nothing, NULL)) != 0, "pthread_create");
    pthread_join(thread, NULL);

    /* not counted: caches, and the profiler's first look at the thread */
    for (int i = 0; i < CALLS; i++)
        calls[i].time(iterations / BATCHES / (calls[i].divisor ? calls[i].divisor : 1));
    for (int turn = 0; turn < BATCHES; turn++) {
        for (int i = 0; i < CALLS; i++) {
            const long batch = iterations / BATCHES / (calls[i].divisor ? calls[i].divisor : 1);
            nanos[i] += calls[i].time(batch) / (double)batch / BATCHES;
        }
        WHATIF_PROGRESS_NAMED("batch");
    }
    for (int i = 0; i < CALLS; i++)
        printf("call %s %.2f\n", calls[i].name, nanos[i]);
    return 0;
}
