/*
 * fork_join - each round creates two threads, A (3 ms) and B (6 ms), joins them, and does C (2 ms).
 *
 * Answer: C s·25 %. B is worth its share until it is as short as A (37.5 %), A nothing.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include fork_join.c -o fork_join
 */
#include "target.h"
#include "threads.h"

static long a, b, c;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

REGION static void C(void) { WORK(c); }

static void *run_a(void *unused)
{
    A();
    return unused;
}

static void *run_b(void *unused)
{
    B();
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 3);
    b = iterations("B", 6);
    c = iterations("C", 2);
    start("round");
    while (!over()) {
        const pthread_t first = spawn(run_a, NULL);
        const pthread_t second = spawn(run_b, NULL);
        pthread_join(first, NULL);
        pthread_join(second, NULL);
        C();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
