/*
 * contended - two threads, each: 3 us inside one mutex, then 17 us outside it: together 100,000 times
 * a second.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include contended.c -o contended
 */
#include "../../targets/c/target.h"
#include "../../targets/c/threads.h"

static long a, b;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

REGION static void A(void) { WORK(a); }

REGION static void B(void) { WORK(b); }

static void *operations(void *unused)
{
    while (!over()) {
        pthread_mutex_lock(&mutex);
        A();
        pthread_mutex_unlock(&mutex);
        B();
        WHATIF_PROGRESS_NAMED("operation");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 0.003);
    b = iterations("B", 0.017);
    start("operation");
    spawn(operations, NULL);
    operations(NULL);
    finish();
}
