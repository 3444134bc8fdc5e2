/*
 * call_path - two threads meet at a barrier after A (6 ms) and B (4 ms), as in barrier.c; but the work
 * of both is done by one `helper`, and A=0.5 shrinks it for A only. helper=0.5 shrinks it for both.
 *
 * Answer: A is worth its share until it is as short as B (33 %), B nothing, `helper` s·100 %. Only
 * the callchain tells the first two apart.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include call_path.c -o call_path
 */
#include "target.h"
#include "threads.h"

static long a, b;
static double size;
static volatile long as, bs;
static pthread_barrier_t barrier;

REGION static void helper(long iterations) { WORK((long)((double)iterations * size)); }

/* The counting keeps the call from being the last thing A does: that would be a jump, and A in no
   callchain. */
REGION static void A(void)
{
    helper(a);
    as++;
}

REGION static void B(void)
{
    helper(b);
    bs++;
}

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
    size = argument("helper", 1);
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
