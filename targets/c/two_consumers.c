/*
 * two_consumers - P (0.5 ms) makes items, by turns for B (4 ms) and for C (2 ms), each with a bounded
 * queue of its own; a round is a pair of items.
 *
 * Answer: B is the bottleneck and worth its share until three threads no longer fit on the CPUs
 * (nearly 30 % at s = 50 %), and at most until it is as short as C (50 %); P and C are worth nothing.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include two_consumers.c -o two_consumers
 */
#include "queue.h"
#include "target.h"
#include "threads.h"

static long p, b, c;
static struct queue to_b = QUEUE(4), to_c = QUEUE(4);

REGION static void P(void) { WORK(p); }

REGION static void B(void) { WORK(b); }

REGION static void C(void) { WORK(c); }

static void *slow(void *unused)
{
    for (;;) {
        pop(&to_b);
        B();
    }
    return unused;
}

static void *quick(void *unused)
{
    for (;;) {
        pop(&to_c);
        C();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    p = iterations("P", 0.5);
    b = iterations("B", 4);
    c = iterations("C", 2);
    start("round");
    spawn(slow, NULL);
    spawn(quick, NULL);
    while (!over()) {
        P();
        push(&to_b);
        P();
        push(&to_c);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
