/* A program of which it is known what it prints and how it ends: it works for so long, says so, and ends with 7.
   witness MILLISECONDS */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "whatif.h"

static volatile uint64_t sink;

#define WORK(iterations)                                       \
    do {                                                       \
        uint64_t x = 88172645463325252u;                       \
        for (long i = 0; i < (iterations); i++) {              \
            x ^= x << 13;                                      \
            x ^= x >> 7;                                       \
            x ^= x << 17;                                      \
        }                                                      \
        sink = x;                                              \
    } while (0)

__attribute__((noinline)) static void work(void) { WORK(100000); }

__attribute__((noinline)) static void more(void) { WORK(50000); }

static double milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    const double end = milliseconds() + (argc > 1 ? atof(argv[1]) : 0);
    puts("begins");
    fflush(stdout);
    do {
        work();
        more();
        WHATIF_PROGRESS_NAMED("round");
    } while (milliseconds() < end);
    puts("ends");
    return 7;
}
