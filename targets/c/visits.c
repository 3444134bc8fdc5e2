/*
 * visits - calls a function so often, and prints how many nanoseconds each call took: what counting its visits adds is what a visit costs.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include visits.c -o visits
 *   ./visits [calls]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) unsigned long visited(unsigned long x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17; /* behind the first instruction */
}

static double nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int count, char **arguments)
{
    const long calls = count > 1 ? atol(arguments[1]) : 1000000;
    volatile unsigned long result;
    unsigned long x = 88172645463325252u;
    const double begin = nanoseconds();
    for (long i = 0; i < calls; i++)
        x = visited(x);
    result = x;
    (void)result;
    printf("%.3f\n", (nanoseconds() - begin) / calls);
    return 0;
}
