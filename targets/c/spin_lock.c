/*
 * spin_lock - mutex.c with a hand-written lock: two threads; each round is A (3 ms) inside the lock,
 * then B (2 ms) outside it. wait=0|1|2 (default 1) is described in spin.h.
 *
 * Answer: as mutex.c. But here who waits works: half of all samples fall into acquire(), and no call
 * tells a profiler that a thread waits or is woken.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include spin_lock.c -o spin_lock
 */
#include "spin.h"
#include "target.h"
#include "threads.h"

static long a, b;
static enum waiting waiting;
static int locked;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void acquire(void)
{
    while (__atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(&locked, __ATOMIC_RELAXED))
            relax(waiting);
}

static void release(void)
{
    __atomic_store_n(&locked, 0, __ATOMIC_RELEASE);
}

static void *rounds(void *unused)
{
    while (!over()) {
        acquire();
        A();
        release();
        B();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 3);
    b = iterations("B", 2);
    waiting = (enum waiting)argument("wait", 1);
    start("round");
    spawn(rounds, NULL);
    rounds(NULL);
    finish();
}
