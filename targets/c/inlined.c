/*
 * inlined - one thread; a round is first() and second(), into which A (3 ms) is inlined, then B (4 ms).
 *
 * Answer: A s·60 %, B s·40 %. A is no function of the machine code; only debug information says
 * where it went.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include inlined.c -o inlined
 */
#include "target.h"

static long a, b;
static volatile long firsts, seconds;

__attribute__((always_inline)) static inline void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

__attribute__((noinline)) static void first(void)
{
    firsts++;
    A();
}

__attribute__((noinline)) static void second(void)
{
    A();
    seconds++;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 3);
    b = iterations("B", 4);
    start("round");
    while (!over()) {
        first();
        second();
        B();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
