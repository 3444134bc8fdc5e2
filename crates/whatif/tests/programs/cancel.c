/* Cancellation in calls that we stand in front of: cleanup handlers run, locks are held as they should. */
#include "common.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int pipe_ends[2], cleaned, destroyed, waiting;
static pthread_key_t key;

static void cleanup(void *argument)
{
    if (argument)
        pthread_mutex_unlock(argument);
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void destroy(void *value)
{
    hot();
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
    (void)value;
}

static void *reads(void *unused)
{
    char byte;
    pthread_setspecific(key, &key);
    pthread_cleanup_push(cleanup, NULL);
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    for (;;)
        if (read(pipe_ends[0], &byte, 1) != 1)
            return NULL;
    pthread_cleanup_pop(0);
    return unused;
}

static void *waits(void *unused)
{
    pthread_setspecific(key, &key);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(cleanup, &mutex);
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(0);
    return unused;
}

static void *sleeps(void *unused)
{
    pthread_setspecific(key, &key);
    pthread_cleanup_push(cleanup, NULL);
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    for (;;)
        sleep(1000);
    pthread_cleanup_pop(0);
    return unused;
}

static void *leaves(void *unused)
{
    pthread_setspecific(key, &key);
    pthread_cleanup_push(cleanup, NULL);
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    pthread_exit(PTHREAD_CANCELED);
    pthread_cleanup_pop(0);
    return unused;
}

int main(void)
{
    void *(*const starts[])(void *) = {reads, waits, sleeps, leaves};
    int threads = 0;
    void *result;
    CHECK(pipe(pipe_ends) == 0);
    CHECK(pthread_key_create(&key, destroy) == 0);
    start_background();
    const double end = now() + 1.0;
    while (now() < end || threads == 0) {
        for (int i = 0; i < 4; i++) {
            pthread_t thread;
            waiting = 0;
            CHECK(pthread_create(&thread, NULL, starts[i], NULL) == 0);
            while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
                usleep(100);
            other();
            if (i < 3)
                CHECK(pthread_cancel(thread) == 0);
            CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
            threads++;
            CHECK(cleaned == threads && destroyed == threads);
            CHECK(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
        }
    }
    stop_background();
    return done();
}
