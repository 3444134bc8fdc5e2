/* A thread that computes, and so many beside it that sleep for a moment, again and again, until it is killed: for `bench -- attach`. All together wake up ten thousand
   times a second at most. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static volatile uint64_t sink;

static void *sleeps(void *time)
{
    for (;;)
        usleep((useconds_t)(intptr_t)time);
    return time;
}

__attribute__((noinline)) void done(void) { sink++; }

int main(int argc, char **argv)
{
    long threads = argc > 1 ? atol(argv[1]) : 1;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    for (long n = 1; n < threads; n++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, sleeps, (void *)(intptr_t)(1000 + threads * 100)))
            return 1;
    }
    for (;;) {
        for (int i = 0; i < 1000000; i++)
            sink = sink * 31 + 1;
        done();
    }
}
