/* All the time is spent in the vdso, for a function that asks for the time: so often, or until it is asked to end. */
#include <stdlib.h>
#include <time.h>

static volatile long sink;

__attribute__((noinline)) static void tick(void)
{
    struct timespec time;
    for (int i = 0; i < 100000; i++) {
        clock_gettime(CLOCK_MONOTONIC, &time);
        sink += time.tv_nsec;
    }
}

int main(int argc, char **argv)
{
    const int times = argc > 1 ? atoi(argv[1]) : -1;
    for (int i = 0; i != times; i++)
        tick();
    return 0;
}
