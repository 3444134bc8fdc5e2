/*
 * phases - one thread; 300 rounds of A (1 ms) follow upon 200 of B (1 ms), over and over.
 *
 * Answer: A s·60 %, B s·40 %, over whole cycles. A look at one phase shows A worth s·100 % or
 * nothing. The program ends with a cycle, up to half a second late.
 *
 *   times=N   phases are N times as long: windows then lie within one, and only correction gives the answer above
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include phases.c -o phases
 */
#include "target.h"

static long a, b;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void phase(void (*work)(void), int rounds)
{
    for (int round = 0; round < rounds; round++) {
        work();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 1);
    b = iterations("B", 1);
    const int times = (int)argument("times", 1);
    start("round");
    while (!over()) {
        phase(A, 300 * times);
        phase(B, 200 * times);
    }
    finish();
}
