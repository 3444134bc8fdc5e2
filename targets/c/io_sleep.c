/*
 * io_sleep - one thread; a round is S, a sleep of 6 ms, then A, 4 ms of work. S=0.5 sleeps half.
 *
 * Answer: A s·40 %, S s·60 %. A profiler that samples CPU time only never sees S.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include io_sleep.c -o io_sleep
 */
#include "target.h"

static long a, s;

REGION static void A(void) { WORK(a); }

REGION static void S(void)
{
    const struct timespec time = {s / 1000000000, s % 1000000000};
    if (s > 0)
        nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 4);
    s = (long)(6e6 * argument("scale", 1.0) * argument("S", 1.0));
    start("round");
    while (!over()) {
        S();
        A();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
