/*
 * readers - two threads; each round is R (3 ms) under the read lock, then W (1 ms) under the write lock.
 *
 * Answer: the reads overlap, the writes do not; a pair of rounds takes R + 2 W. R s·60 %, W s·40 %.
 * (Writers are preferred: else a thread that has written reads before the other one may write.)
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include readers.c -o readers
 */
#include "target.h"
#include "threads.h"

static long r, w;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

REGION static void R(void) { WORK(r); }

REGION static void W(void) { WORK(w); }

static void *rounds(void *unused)
{
    while (!over()) {
        pthread_rwlock_rdlock(&lock);
        R();
        pthread_rwlock_unlock(&lock);
        pthread_rwlock_wrlock(&lock);
        W();
        pthread_rwlock_unlock(&lock);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    r = iterations("R", 3);
    w = iterations("W", 1);
    start("round");
    spawn(rounds, NULL);
    rounds(NULL);
    finish();
}
