/* Two workers that serve, for so many seconds or so often each, and a loop in a function that never returns; nothing is marked. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void parse(unsigned long n)
{
    unsigned long x = 88172645463325252;
    for (unsigned long i = 0; i < n; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
}

__attribute__((noinline)) static void serve(void)
{
    parse(300000);
    sink++;
    parse(200000);
    sink++;
}

/* Serves so often, or until the program ends. */
static void *worker(void *times)
{
    for (long i = 0; i != (long)times; i++)
        serve();
    return NULL;
}

/* It ends after so many seconds, or as soon as the test has seen enough. */
#include "enough.h"

int main(int argc, char **argv)
{
    pthread_t threads[2];
    const long times = argc > 2 ? atol(argv[2]) : -1;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, (void *)times);
    for (int i = 0; i < 2 && times >= 0; i++)
        pthread_join(threads[i], NULL);
    double seconds = argc > 1 ? atof(argv[1]) : 1000;
    /* 10 ms at a time, at most. */
    for (struct timespec part = { 0, seconds < 0.01 ? (long)(seconds * 1e9) : 10000000 }; times < 0 && seconds > 0 && !is_enough(); seconds -= 0.01)
        nanosleep(&part, NULL);
    return 7;
}
