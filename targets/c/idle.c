/*
 * idle - one busy thread, whose round is A (6 ms), then B (4 ms), beside one that sleeps 9.5 ms and
 * does I (0.5 ms).
 *
 * Answer: A s·60 %, B s·40 %, I nothing while a CPU is free. A profiler that interrupts threads by
 * their CPU time forgets the idle one, and lets it run ahead.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include idle.c -o idle
 */
#include "target.h"
#include "threads.h"

static long a, b, i;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

REGION static void I(void) { WORK(i); }

static void *idle(void *unused)
{
    const struct timespec time = {0, 9500000};
    for (;;) {
        nanosleep(&time, NULL);
        I();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 6);
    b = iterations("B", 4);
    i = iterations("I", 0.5);
    start("round");
    spawn(idle, NULL);
    while (!over()) {
        A();
        B();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}
