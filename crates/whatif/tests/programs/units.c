/* Two workers that serve again and again, and a loop in a function that never returns; nothing is marked. */
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

static void *worker(void *unused)
{
    for (;;)
        serve();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    double seconds = argc > 1 ? atof(argv[1]) : 1000;
    struct timespec time = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&time, NULL);
    return 7;
}
