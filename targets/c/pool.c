/*
 * pool - threads=N (default 4) identical threads; each round is X (2 ms), then Y (2 ms).
 *
 * Answer: X s·50 % and Y s·50 %, at every N: threads that wait for a CPU are part of the program.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include pool.c -o pool
 */
#include "target.h"
#include "threads.h"

static long x, y;

REGION static void X(void) { WORK(x); }

REGION static void Y(void) { WORK(y); }

static void *rounds(void *unused)
{
    while (!over()) {
        X();
        Y();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    x = iterations("X", 2);
    y = iterations("Y", 2);
    const int threads = (int)argument("threads", 4);
    start("round");
    for (int i = 1; i < threads; i++)
        spawn(rounds, NULL);
    rounds(NULL);
    finish();
}
