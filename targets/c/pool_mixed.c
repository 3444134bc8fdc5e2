/*
 * pool_mixed - threads=N (default 4, half of them of each kind). A round of the one kind is X (3 ms),
 * then Y (1 ms), of the other X (1 ms), then Y (3 ms).
 *
 * Answer: threads get equal parts of the CPUs, so the rate goes with 1/(4-3s) + 1/(4-s), for X as for
 * Y: 27 % at s = 50 %, 63 % at 100 %. More than its share (50 %): where X is the larger part, rounds
 * become more frequent and count for more.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include pool_mixed.c -o pool_mixed
 */
#include "target.h"
#include "threads.h"

static long x, y;

REGION static void X(long times) { WORK(times * x); }

REGION static void Y(long times) { WORK(times * y); }

static void *mostly_x(void *unused)
{
    while (!over()) {
        X(3);
        Y(1);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    return unused;
}

static void *mostly_y(void *unused)
{
    while (!over()) {
        X(1);
        Y(3);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    x = iterations("X", 1);
    y = iterations("Y", 1);
    const int threads = (int)argument("threads", 4);
    start("round");
    for (int i = 1; i < threads; i++)
        spawn(i % 2 ? mostly_y : mostly_x, NULL);
    mostly_x(NULL);
    finish();
}
