/*
 * spin_barrier - barrier.c with a hand-written barrier: two threads meet after A (6 ms) and B (4 ms).
 * wait=0|1|2 (default 1) is described in spin.h.
 *
 * Answer: as barrier.c: A is worth its share until it is as short as B (33 %), B nothing. Who waits
 * works, and no call tells a profiler that a thread waits or is woken.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include spin_barrier.c -o spin_barrier
 */
#include "spin.h"
#include "target.h"
#include "threads.h"

static long a, b;
static enum waiting waiting;
static int arrived, meetings;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void meet(void)
{
    const int meeting = __atomic_load_n(&meetings, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == 2) {
        __atomic_store_n(&arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&meetings, meeting + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&meetings, __ATOMIC_ACQUIRE) == meeting)
        relax(waiting);
}

static void *other(void *unused)
{
    for (;;) {
        B();
        meet();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 6);
    b = iterations("B", 4);
    waiting = (enum waiting)argument("wait", 1);
    start("round");
    spawn(other, NULL);
    while (!over()) {
        A();
        meet();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
