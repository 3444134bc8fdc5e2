/*
 * producer_consumer - two producers and two consumers of tiny items, one bounded buffer.
 *
 * A (10 µs) makes an item, B (10 µs) uses one up; around them stand 100,000s of lock, unlock and
 * signal operations per second: what a profiler that wraps them costs shows here first. buffer=N
 * places (default 100).
 *
 * Answer: none to rely on. Four threads on two CPUs flip between running smoothly and sleeping and
 * waking for every item, which costs more than the work; with A=0.5 one run is 10 % quicker than the
 * unchanged program and the next one 40 % slower. For measuring overhead, unchanged it is steady.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include producer_consumer.c -o producer_consumer
 */
#include "queue.h"
#include "target.h"
#include "threads.h"

static long a, b;
static struct queue buffer = QUEUE(100);

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void *produce(void *unused)
{
    for (;;) {
        A();
        push(&buffer);
    }
    return unused;
}

static void *consume(void *unused)
{
    while (!over()) {
        pop(&buffer);
        B();
        WHATIF_PROGRESS_NAMED("item");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 0.01);
    b = iterations("B", 0.01);
    buffer.capacity = (int)argument("buffer", 100);
    start("item");
    spawn(produce, NULL);
    spawn(produce, NULL);
    spawn(consume, NULL);
    consume(NULL);
    finish();
}
