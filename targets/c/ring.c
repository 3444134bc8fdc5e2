/*
 * ring - three stages, A (0.1 ms), B (0.2 ms) and C (0.05 ms) on two CPUs, with rings between them that have no lock: a stage that finds
 * one full or empty spins, first with the CPU's hint and then with sched_yield.
 *
 * Answer: the CPUs are saturated, and a stage that waits uses one as well. B is the bottleneck and worth about s·45 %, and A and C
 * less than their share, for what they leave of a CPU another stage may use.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include ring.c -o ring
 */
#include "spin.h"
#include "target.h"
#include "threads.h"

#define CAPACITY 8
#define HINTS 64

/* The producer writes one of the numbers, the consumer the other. */
struct ring {
    _Alignas(64) unsigned long pushed;
    _Alignas(64) unsigned long popped;
};

static long a, b, c;
static struct ring to_b, to_c;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

REGION static void C(void) { WORK(c); }

static unsigned long load(unsigned long *number) { return __atomic_load_n(number, __ATOMIC_ACQUIRE); }

static void push(struct ring *ring)
{
    for (int turns = 0; ring->pushed - load(&ring->popped) == CAPACITY; turns++)
        relax(turns < HINTS ? WITH_HINT : WITH_YIELD);
    __atomic_store_n(&ring->pushed, ring->pushed + 1, __ATOMIC_RELEASE);
}

static void pop(struct ring *ring)
{
    for (int turns = 0; load(&ring->pushed) == ring->popped; turns++)
        relax(turns < HINTS ? WITH_HINT : WITH_YIELD);
    __atomic_store_n(&ring->popped, ring->popped + 1, __ATOMIC_RELEASE);
}

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
    a = iterations("A", 0.1);
    b = iterations("B", 0.2);
    c = iterations("C", 0.05);
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
