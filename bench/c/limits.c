/*
 * limits - as much as a program can have of one thing, with a checksum of what it did.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include limits.c -o limits
 *   ./limits threads 10000    so many threads at once, each of which works for 0.2 ms every two seconds
 *   ./limits short 96000      so many threads, eight at a time, that work for a few microseconds each
 *   ./limits deep 190         a stack of so many frames, at the end of which there is work
 *   ./limits images FOLDER    all libraries of a folder, whose `serve` is called in turn
 *
 * prints "done CHECKSUM SECONDS DESCRIPTORS": the last is how many are open at the end.
 */
#define _GNU_SOURCE 1

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "whatif.h"

static volatile uint64_t sink;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void work(long n)
{
    uint64_t x = 88172645463325252u;
    for (; n > 0; n--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
}

static long sum;
static pthread_barrier_t all;

static void *crowded(void *number)
{
    pthread_barrier_wait(&all);
    unsigned seed = (unsigned)(intptr_t)number;
    for (const double end = now() + 8; now() < end;) {
        const long pause = 1000 + rand_r(&seed) % 2000;
        const struct timespec time = {pause / 1000, pause % 1000 * 1000000};
        nanosleep(&time, NULL);
        work(100000);
        WHATIF_PROGRESS_NAMED("turn");
    }
    pthread_barrier_wait(&all);
    __atomic_fetch_add(&sum, (long)(intptr_t)number, __ATOMIC_RELAXED);
    return NULL;
}

static void *brief(void *number)
{
    work(5000);
    WHATIF_PROGRESS_NAMED("turn");
    __atomic_fetch_add(&sum, (long)(intptr_t)number, __ATOMIC_RELAXED);
    return NULL;
}

static void create(pthread_t *thread, void *(*body)(void *), long number)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    if (pthread_create(thread, &small, body, (void *)(intptr_t)number)) {
        printf("cannot create thread %ld\n", number);
        exit(1);
    }
    pthread_attr_destroy(&small);
}

static void threads(long count, long at_once, void *(*body)(void *))
{
    pthread_t *ids = calloc((size_t)at_once, sizeof *ids);
    for (long first = 0; first < count; first += at_once) {
        for (long i = 0; i < at_once; i++)
            create(&ids[i], body, first + i);
        for (long i = 0; i < at_once; i++)
            pthread_join(ids[i], NULL);
    }
    free(ids);
}

__attribute__((noinline)) static long deep(long depth)
{
    volatile char frame[40];
    frame[depth % 40] = 1;
    if (depth == 0) {
        work(200000);
        return frame[0];
    }
    return deep(depth - 1) + frame[depth % 40];
}

static void images(const char *folder)
{
    static void (*serve[4000])(void);
    long count = 0;
    char path[4096];
    DIR *all_of_them = opendir(folder);
    for (struct dirent *entry; all_of_them && (entry = readdir(all_of_them)) && count < 4000;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        void *library = dlopen(path, RTLD_NOW);
        serve[count] = library ? (void (*)(void))(uintptr_t)dlsym(library, "serve") : NULL;
        if (!serve[count]) {
            printf("cannot load %s\n", path);
            exit(1);
        }
        count++;
    }
    for (const double end = now() + 6; now() < end;)
        for (long i = 0; i < count; i++) {
            serve[i]();
            WHATIF_PROGRESS_NAMED("turn");
        }
    sum = count;
}

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    return count - 3; /* the folder, and the two with dots */
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const double begin = now();
    const long count = atol(argv[2]);
    if (!strcmp(argv[1], "threads")) {
        pthread_barrier_init(&all, NULL, (unsigned)count);
        threads(count, count, crowded);
    } else if (!strcmp(argv[1], "short"))
        threads(count, 8, brief);
    else if (!strcmp(argv[1], "deep"))
        for (const double end = now() + 4; now() < end;) {
            sum = deep(count);
            WHATIF_PROGRESS_NAMED("turn");
        }
    else
        images(argv[2]);
    printf("done %ld %.3f %d\n", sum, now() - begin, descriptors());
    return 0;
}
