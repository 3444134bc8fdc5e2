/*
 * What the test programs share: work, a thread that always works, and checks. What a program prints on standard output does not depend on the
 * machine. What it measures goes to standard error, as `NAME NUMBER`, for the checks of `bench accept`.
 */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "whatif.h"

static volatile uint64_t sink;
static int failures;

/* Who writes there gets SIGSEGV. */
__attribute__((unused)) static int *volatile nowhere = (int *)8;

/* The program goes on, says where, and ends with 1. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        const int errno_ = errno;                                                                  \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno_);              \
            __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                                    \
        }                                                                                          \
    } while (0)

/* So much work, in the function that says so. */
#define STEPS(n)                                                                                   \
    do {                                                                                           \
        uint64_t x_ = 88172645463325252u;                                                          \
        for (long i_ = (n); i_ > 0; i_--) {                                                        \
            x_ ^= x_ << 13;                                                                        \
            x_ ^= x_ >> 7;                                                                         \
            x_ ^= x_ << 17;                                                                        \
        }                                                                                          \
        __atomic_store_n(&sink, x_, __ATOMIC_RELAXED); /* of any thread */                         \
    } while (0)

/* About 0.2 ms of work. */
__attribute__((noinline, unused)) static void hot(void)
{
    uint64_t x = 88172645463325252u;
    for (long i = 130000; i > 0; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    __atomic_store_n(&sink, x, __ATOMIC_RELAXED);
}

/* The same elsewhere, so that it is another region. */
__attribute__((noinline, unused)) static void other(void)
{
    uint64_t x = 88172645463325253u;
    for (long i = 130000; i > 0; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    __atomic_store_n(&sink, x, __ATOMIC_RELAXED);
}

/* The same at the end of a stack of so many frames. */
__attribute__((noinline, unused)) static long deep(long depth)
{
    volatile char frame[40];
    frame[depth % 40] = 1;
    if (depth == 0) {
        hot();
        return frame[0];
    }
    return deep(depth - 1) + frame[depth % 40];
}

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A wait for an event that takes so many seconds hangs. No healthy run comes near. */
#define HANG_SECONDS 90

static inline void work_for(double seconds)
{
    const double end = now() + seconds;
    while (now() < end) {
        hot();
        WHATIF_PROGRESS_NAMED("work");
    }
}

static inline struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static int background_over;
static pthread_t background_thread;

static inline void *background(void *unused)
{
    while (!__atomic_load_n(&background_over, __ATOMIC_RELAXED)) {
        hot();
        WHATIF_PROGRESS_NAMED("work");
    }
    return unused;
}

/* From here on a thread runs `hot`, so threads that do not are paused in experiments about it. */
static inline void start_background(void)
{
    CHECK(pthread_create(&background_thread, NULL, background, NULL) == 0);
}

static inline void stop_background(void)
{
    __atomic_store_n(&background_over, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(background_thread, NULL) == 0);
}

/* Goes on in a forked child if the last argument says so: its samples come by another signal. */
static int forked;

static inline void fork_if_asked(int argc, char **argv)
{
    int status;
    if (strcmp(argv[argc - 1], "forked"))
        return;
    const pid_t child = fork();
    forked = child == 0;
    if (forked)
        return;
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(1);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100);
}

/* What a program's `main` returns. */
static inline int done(void)
{
    if (failures == 0)
        puts("done");
    fflush(stdout);
    return failures != 0;
}

#endif
