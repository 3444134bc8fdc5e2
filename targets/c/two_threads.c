/*
 * two_threads - each round creates two threads and joins them; A works 5 % longer than B.
 *
 * Answer: A at most 5 %, whatever the speedup; B nothing. (Figure 1 of the Coz papers: a profiler
 * that counts time shows two functions worth half of the program each.)
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include two_threads.c -o two_threads
 */
#include "target.h"
#include "threads.h"

static long a, b;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

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
    a = iterations("A", 10);
    b = iterations("B", 10 / 1.05);
    start("round");
    while (!over()) {
        const pthread_t first = spawn(run_a, NULL);
        const pthread_t second = spawn(run_b, NULL);
        pthread_join(first, NULL);
        pthread_join(second, NULL);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
