/* Works in four functions, about 50, 30, 15 and 5 % of its time, and says how much CPU time each of them really took.
 *
 *   truth SECONDS shares            in functions of its own
 *   truth SECONDS forks             in processes that live for some milliseconds
 *   truth SECONDS dlopen LIBRARY    in those of a library (this file again, with -shared)
 *   truth SECONDS jit               in functions that it generates, and lists in /tmp/perf-PID.map
 *   truth SECONDS vdso              one half asks for the time, the other half works
 *
 * Then it waits until its input ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef void work(long);

/* Told apart by the number, so that no compiler makes one of them. */
#define WORK(name, number)                                              \
    __attribute__((noinline, noclone)) void name(long rounds)           \
    {                                                                   \
        for (long nth = 0; nth < rounds; nth++)                         \
            __asm__ volatile("" : : "i"(number), "r"(nth));             \
    }

WORK(half_of_it, 50)
WORK(third_of_it, 30)
WORK(some_of_it, 15)
WORK(little_of_it, 5)

#ifndef SHARED

__attribute__((noinline, noclone)) void asks_for_the_time(long rounds)
{
    struct timespec now;
    for (long nth = 0; nth < rounds / 50; nth++)
        clock_gettime(CLOCK_MONOTONIC, &now);
}

enum { KINDS = 4 };
static const long rounds[KINDS] = { 50, 30, 15, 5 };
static const char *const names[KINDS] = { "half_of_it", "third_of_it", "some_of_it", "little_of_it" };

static double cpu_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* One of each, some milliseconds in all. */
static void round_of(work *const *functions, const long *lengths, double *took)
{
    for (int kind = 0; kind < KINDS && functions[kind]; kind++) {
        double begin = cpu_time();
        functions[kind](lengths[kind] * 60000);
        took[kind] += cpu_time() - begin;
    }
}

/* Code that counts down from its argument, four times. */
static void generate(work **functions)
{
    /* mov %rdi,%rax; 1: dec %rax; jnz 1b; ret */
    static const unsigned char code[] = { 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3 };
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    for (int kind = 0; kind < KINDS; kind++) {
        char *place = memory + 64 * kind;
        memcpy(place, code, sizeof code);
        functions[kind] = (work *)place;
        fprintf(map, "%lx %zx %s\n", (unsigned long)place, sizeof code, names[kind]);
    }
    fclose(map);
}

int main(int argc, char **argv)
{
    work *functions[KINDS] = { half_of_it, third_of_it, some_of_it, little_of_it };
    const long *lengths = rounds;
    double seconds = atof(argv[1]), took[KINDS] = { 0 }, sum = 0;
    const char *kind = argv[2];
    if (!strcmp(kind, "dlopen")) {
        void *library = argc > 3 ? dlopen(argv[3], RTLD_NOW) : NULL;
        if (!library)
            return fprintf(stderr, "%s\n", dlerror()), 1;
        for (int nth = 0; nth < KINDS; nth++)
            functions[nth] = (work *)dlsym(library, names[nth]);
    } else if (!strcmp(kind, "jit")) {
        generate(functions);
    } else if (!strcmp(kind, "vdso")) {
        static const long equal[KINDS] = { 50, 50 };
        functions[1] = asks_for_the_time;
        functions[2] = NULL;
        lengths = equal;
    }
    int is_forking = !strcmp(kind, "forks");
    while (sum < seconds) {
        int ends[2];
        double of_round[KINDS] = { 0 };
        if (!is_forking) {
            round_of(functions, lengths, of_round);
        } else {
            if (pipe(ends))
                return 1;
            if (fork() == 0) {
                round_of(functions, lengths, of_round);
                _exit(write(ends[1], of_round, sizeof of_round) != sizeof of_round);
            }
            if (read(ends[0], of_round, sizeof of_round) != sizeof of_round)
                return 1;
            wait(NULL);
            close(ends[0]);
            close(ends[1]);
        }
        for (int nth = 0; nth < KINDS; nth++) {
            took[nth] += of_round[nth];
            sum += of_round[nth];
        }
    }
    for (int nth = 0; nth < KINDS; nth++)
        printf("%f ", took[nth] / sum);
    printf("\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    if (!strcmp(kind, "jit")) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
        unlink(path);
    }
    return 0;
}

#endif
