/* Does as many jobs as its first argument says, and ends with the second one as its status. */
#include "common.h"

__attribute__((noinline)) void job(void)
{
    static volatile unsigned long sink;
    unsigned long x = 88172645463325252;
    for (unsigned long i = 0; i < 700000; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
    (void)sink;
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    for (int i = 0; i < atoi(argv[1]); i++) {
        job();
#ifndef UNMARKED
        WHATIF_PROGRESS_NAMED("done");
#endif
    }
    return atoi(argv[2]);
}
