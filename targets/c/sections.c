/*
 * sections - two threads; each turn is A (1 µs) inside one mutex, then B (1 µs) outside it. A round
 * is 1,000 turns of one thread. With B_ms=0.019 the lock is taken about 90,000 times per second, and
 * nearly always free.
 *
 * Answer: contended, by measurement. A queue at a lock costs about as much as A does, and goes with
 * it: A is worth more than its share (60 % at s = 50 %, 74 % at 100 %), and B is worth something as
 * well (10 % and 40 %). With B_ms=0.019 each is worth its share: A s·5 %, B s·95 %, but B no more
 * than about 87 %, where the lock has become contended.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include sections.c -o sections
 */
#include "target.h"
#include "threads.h"

static long a, b;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void *rounds(void *unused)
{
    while (!over()) {
        for (int turn = 0; turn < 1000; turn++) {
            pthread_mutex_lock(&mutex);
            A();
            pthread_mutex_unlock(&mutex);
            B();
        }
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 0.001);
    b = iterations("B", 0.001);
    start("round");
    spawn(rounds, NULL);
    rounds(NULL);
    finish();
}
