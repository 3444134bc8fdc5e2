/* All the time is spent in the vdso, for a function that asks for the time. */
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

int main(void)
{
    for (;;)
        tick();
}
