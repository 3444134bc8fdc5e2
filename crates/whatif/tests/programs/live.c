/* One thread, four fifths of whose time are spent often, and a fifth seldom; for so many seconds. */
#include "common.h"

__attribute__((noinline)) static void often(void)
{
    uint64_t x = 88172645463325252u;
    for (long n = 800000; n > 0; n--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
}

__attribute__((noinline)) static void seldom(void)
{
    uint64_t x = 88172645463325253u;
    for (long n = 200000; n > 0; n--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
}

int main(int argc, char **argv)
{
    for (const double end = now() + (argc > 1 ? atof(argv[1]) : 1); now() < end;) {
        often();
        seldom();
        WHATIF_PROGRESS_NAMED("round");
    }
    return 7;
}
