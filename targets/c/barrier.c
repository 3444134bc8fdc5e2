/*
 * barrier - two threads meet at a barrier after A (6 ms) and B (4 ms).
 *
 * Answer: A is worth its share until it is as short as B (33 %), B nothing.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include barrier.c -o barrier
 */
#include "target.h"
#include "threads.h"

static long a, b;
static pthread_barrier_t barrier;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void *other(void *unused)
{
    for (;;) {
        B();
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 6);
    b = iterations("B", 4);
    pthread_barrier_init(&barrier, NULL, 2);
    start("round");
    spawn(other, NULL);
    while (!over()) {
        A();
        pthread_barrier_wait(&barrier);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
