/* Loads for the collector: a mix of functions whose shares are known, code in lockstep with a clock, processes that end at once.
 *
 *   machine mix THREADS SECONDS
 *   machine lockstep HZ SECONDS
 *   machine forks HZ SECONDS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
static volatile uint64_t sink;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* About 2 us each, the same instructions in all three. */
#define WORK(units)                                                                                                    \
    do {                                                                                                               \
        uint64_t x = 88172645463325252u;                                                                               \
        for (int n = (units) * 1000; n > 0; n--) {                                                                     \
            x ^= x << 13;                                                                                              \
            x ^= x >> 7;                                                                                               \
            x ^= x << 17;                                                                                              \
        }                                                                                                              \
        sink = x;                                                                                                      \
    } while (0)

__attribute__((noinline)) static void seventy(void) { WORK(7); }
__attribute__((noinline)) static void twenty(void) { WORK(2); }
__attribute__((noinline)) static void ten(void) { WORK(1); }

static double end;

static void *mix(void *rounds)
{
    uint64_t n = 0;
    for (; (n & 63) || now() < end; n++) {
        seventy();
        twenty();
        ten();
    }
    *(uint64_t *)rounds = n;
    return 0;
}

/* Takes the time until then, all of it in this function. */
#define UNTIL(then)                                                                                                    \
    do {                                                                                                               \
        struct timespec t_;                                                                                            \
        do                                                                                                             \
            clock_gettime(CLOCK_MONOTONIC, &t_);                                                                       \
        while (t_.tv_sec + t_.tv_nsec * 1e-9 < (then));                                                                \
    } while (0)

__attribute__((noinline)) static void in_phase(double then) { UNTIL(then); sink += 2; }
__attribute__((noinline)) static void out_of_phase(double then) { UNTIL(then); sink++; }

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const double rate = atof(argv[2]), seconds = atof(argv[3]);
    const double begin = now();
    end = begin + seconds;
    if (!strcmp(argv[1], "mix")) {
        const int count = (int)rate;
        pthread_t threads[64];
        uint64_t rounds[64] = {0}, sum = 0;
        for (int n = 0; n < count && n < 64; n++)
            pthread_create(&threads[n], 0, mix, &rounds[n]);
        for (int n = 0; n < count && n < 64; n++) {
            pthread_join(threads[n], 0);
            sum += rounds[n];
        }
        printf("done %.1f\n", sum / (now() - begin));
    } else if (!strcmp(argv[1], "lockstep")) {
        const double period = 1 / rate;
        double inside = 0;
        for (double next = begin; next < end; next += period) {
            const double from = now();
            in_phase(next + 0.3 * period);
            inside += now() - from;
            out_of_phase(next + period);
        }
        printf("done %.4f\n", inside / (now() - begin));
    } else {
        char *const arguments[] = {"true", 0};
        long forks = 0;
        for (double next = begin; now() < end; next += 1 / rate) {
            pid_t child;
            if (!posix_spawn(&child, "/bin/true", 0, 0, arguments, environ))
                forks++;
            waitpid(child, 0, 0);
            struct timespec pause = {0, 0};
            const double left = next + 1 / rate - now();
            if (left > 0) {
                pause.tv_nsec = (long)(left * 1e9);
                nanosleep(&pause, 0);
            }
        }
        printf("done %.1f\n", forks / (now() - begin));
    }
    return 0;
}
