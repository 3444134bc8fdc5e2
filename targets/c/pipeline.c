/*
 * pipeline - three stages, A (1 ms), B (4 ms) and C (1 ms), with bounded queues between them.
 *
 * Answer: B is the bottleneck and worth its share until three stages no longer fit on the CPUs; A
 * and C are worth nothing. With A_ms=3 C_ms=3 two CPUs are saturated, and every stage counts.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include pipeline.c -o pipeline
 */
#include "queue.h"
#include "target.h"
#include "threads.h"

static long a, b, c;
static struct queue to_b = QUEUE(4), to_c = QUEUE(4);

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

REGION static void C(void) { WORK(c); }

static void *first(void *unused)
{
    for (;;) {
        A();
        push(&to_b);
    }
    return unused;
}

static void *second(void *unused)
{
    for (;;) {
        pop(&to_b);
        B();
        push(&to_c);
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 1);
    b = iterations("B", 4);
    c = iterations("C", 1);
    start("item");
    spawn(first, NULL);
    spawn(second, NULL);
    while (!over()) {
        pop(&to_c);
        C();
        WHATIF_PROGRESS_NAMED("item");
        visited();
    }
    finish();
}
