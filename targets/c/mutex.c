/*
 * mutex - two threads; each round is A (3 ms) inside one mutex, then B (2 ms) outside it.
 *
 * Answer: the mutex is never free, so B is worth nothing. A is worth its share until it is shorter
 * than B, and then less. scale=0.1 and scale=10 give phases far below and above a sampling period.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include mutex.c -o mutex
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
        pthread_mutex_lock(&mutex);
        A();
        pthread_mutex_unlock(&mutex);
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
    start("round");
    spawn(rounds, NULL);
    rounds(NULL);
    finish();
}
