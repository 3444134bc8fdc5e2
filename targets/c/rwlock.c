/*
 * rwlock - two threads; each round is A (3 ms) under the write lock, B (2 ms) outside, and a glance
 * under the read lock.
 *
 * Answer: as mutex.c, nearly: the glance waits for the other thread's A as the write lock would.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include rwlock.c -o rwlock
 */
#include "target.h"
#include "threads.h"

static long a, b;
static long total;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void *rounds(void *unused)
{
    long glance = 0;
    while (!over()) {
        pthread_rwlock_wrlock(&lock);
        A();
        total++;
        pthread_rwlock_unlock(&lock);
        B();
        pthread_rwlock_rdlock(&lock);
        glance ^= total;
        pthread_rwlock_unlock(&lock);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    __atomic_store_n(&target.sink, (uint64_t)glance, __ATOMIC_RELAXED);
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
