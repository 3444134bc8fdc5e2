/* Work of two threads that takes turns, and a result that says whether it was done right. Its own CPU time
   decides when it ends, so a pause delays it but does not shorten it. A test that watches it decides when. */
#include "common.h"
#include "enough.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sum;

static void *add(void *unused)
{
    for (int i = 0; i < 800; i++) {
        if (i % 3)
            hot();
        else
            other();
        pthread_mutex_lock(&mutex);
        sum += (uint64_t)i * 7;
        pthread_mutex_unlock(&mutex);
        WHATIF_PROGRESS_NAMED("work");
        /* Half of the work is left until the test has seen enough. */
        while (i == 400 && is_watched() && !is_enough()) {
            hot();
            WHATIF_PROGRESS_NAMED("work");
        }
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    puts("begin");
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, add, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%llu\n", (unsigned long long)sum);
    return done();
}
