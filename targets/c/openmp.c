/*
 * openmp - two threads of OpenMP; each round is a parallel loop, whose first half is A (6 ms) on the
 * one thread and whose second half is B (4 ms) on the other, then C (2 ms) on one.
 *
 * Answer: C s·25 %. A is worth its share until it is as short as B (25 %), B nothing. The barrier at
 * the loop's end is libgomp's: it spins first and then waits in a futex of its own, with no function
 * that a profiler could wrap.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -fopenmp -I../../include openmp.c -o openmp
 */
#include "target.h"

static long a, b, c;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

REGION static void C(void) { WORK(c); }

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 6) / 10;
    b = iterations("B", 4) / 10;
    c = iterations("C", 2);
    start("round");
    while (!over()) {
#pragma omp parallel for num_threads(2) schedule(static)
        for (int i = 0; i < 20; i++) {
            if (i < 10)
                A();
            else
                B();
        }
        C();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
