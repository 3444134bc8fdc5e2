/*
 * short_lived - lanes=N (default 1) threads; each round is a thread that does A (1 ms), created and
 * joined, then one that does B (0.5 ms): about 1,300 short lives per second and lane.
 *
 * Answer: in a lane one thread works at a time: A s·67 %, B s·33 %, less what creating costs. Most
 * threads are over before a sampling period is.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include short_lived.c -o short_lived
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

static void *lane(void *unused)
{
    while (!over()) {
        pthread_join(spawn(run_a, NULL), NULL);
        pthread_join(spawn(run_b, NULL), NULL);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 1);
    b = iterations("B", 0.5);
    const int lanes = (int)argument("lanes", 1);
    start("round");
    for (int i = 1; i < lanes; i++)
        spawn(lane, NULL);
    lane(NULL);
    finish();
}
