/*
 * single - one thread; a round is A (6 ms), then B (4 ms).
 *
 * Answer: A s·60 %, B s·40 %. Every causal profiler gets this right, or is broken.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include single.c -o single
 */
#include "target.h"

static long a, b;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 6);
    b = iterations("B", 4);
    start("round");
    while (!over()) {
        A();
        B();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
