/*
 * target.h - what every C target shares: its arguments, its work and its rate.
 *
 * A target is a program whose causal answer is known, because the work of its functions can really
 * be shrunk. Arguments:
 *
 *   A=0.75      function A does 75 % of its work (any function that the program calls work for)
 *   A_ms=3      function A works 3 ms at full size, instead of its default
 *   scale=0.1   every function works a tenth of its default
 *   seconds=S   run that long (default 10), then print "rate <point> <visits per second>"
 *
 * and what a program asks for with argument(). An argument that was not asked for is an error.
 *
 * Work is a number of iterations, not a time: a function that is paused or preempted has as much
 * left to do as before. "ms" are those of the machine that ITERATIONS_PER_MS was measured on.
 */
#ifndef TARGET_H
#define TARGET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "whatif.h"

#define ITERATIONS_PER_MS 660000

#define REGION __attribute__((noinline))

/* A chain of dependent instructions that no compiler can shorten. A macro, so that the loop belongs
   to the function that it stands in. */
#define WORK(iterations)                                                                           \
    do {                                                                                           \
        uint64_t x_ = 88172645463325252u;                                                          \
        for (long i_ = (iterations); i_ > 0; i_--) {                                               \
            x_ ^= x_ << 13;                                                                        \
            x_ ^= x_ >> 7;                                                                         \
            x_ ^= x_ << 17;                                                                        \
        }                                                                                          \
        __atomic_store_n(&target.sink, x_, __ATOMIC_RELAXED); /* of any thread */                  \
    } while (0)

static struct {
    int count;
    char **arguments;
    unsigned char *used;
    const char *point;
    double began, ends;
    double last;   /* time of the last visit; written with every visit */
    long visits;
    volatile uint64_t sink;
} target;

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void arguments(int count, char **values)
{
    target.count = count;
    target.arguments = values;
    target.used = (unsigned char *)calloc((size_t)count, 1);
}

/* The value of NAME=VALUE, or the default. */
static inline double argument(const char *name, double otherwise)
{
    const size_t length = strlen(name);
    for (int i = 1; i < target.count; i++) {
        const char *text = target.arguments[i];
        if (strncmp(text, name, length) != 0 || text[length] != '=')
            continue;
        char *end;
        const double value = strtod(text + length + 1, &end);
        if (*end == '\0' && value >= 0) {
            target.used[i] = 1;
            otherwise = value;
        }
    }
    return otherwise;
}

/* The iterations of region `name`, which works `ms` unless an argument says otherwise. */
static inline long iterations(const char *name, double ms)
{
    char key[32];
    snprintf(key, sizeof key, "%s_ms", name);
    ms = argument(key, ms * argument("scale", 1.0));
    return (long)(ms * argument(name, 1.0) * ITERATIONS_PER_MS);
}

/* Call when every argument has been asked for: the clock starts. `point` is the one that the rate
   is printed for. */
static inline void start(const char *point)
{
    const double seconds = argument("seconds", 10.0);
    for (int i = 1; i < target.count; i++) {
        if (!target.used[i]) {
            fprintf(stderr, "%s: '%s' is not an argument of this target (the head of its source "
                            "lists them; a value is a number, 0 or more)\n",
                    target.arguments[0], target.arguments[i]);
            exit(2);
        }
    }
    free(target.used);
    target.point = point;
    target.began = target.last = now();
    target.ends = target.began + seconds;
}

/* Whether the time is up. Not before the first visit: on a busy machine a short time is over before all threads have begun. */
static inline int over(void)
{
    return now() >= target.ends && __atomic_load_n(&target.visits, __ATOMIC_RELAXED) > 0;
}

/* Counts one visit for the printed rate; stands beside the progress point. */
static inline void visited(void)
{
    double at = now();
    __atomic_fetch_add(&target.visits, 1, __ATOMIC_RELAXED);
    __atomic_store(&target.last, &at, __ATOMIC_RELAXED);
}

/* Prints the rate and ends the program, whatever its other threads are doing. The rate ends at the
   last visit, so that a half-finished round does not blur it. */
__attribute__((noreturn)) static inline void finish(void)
{
    double last;
    __atomic_load(&target.last, &last, __ATOMIC_RELAXED);
    const double elapsed = last - target.began;
    const long visits = __atomic_load_n(&target.visits, __ATOMIC_RELAXED);
    printf("rate %s %.3f\n", target.point, elapsed > 0 ? (double)visits / elapsed : 0.0);
    fflush(stdout);
    _exit(0); /* other threads may be waiting for objects that exit() would destroy */
}

#endif
