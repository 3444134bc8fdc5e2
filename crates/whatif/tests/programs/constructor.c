/* A thread is created before main: by the executable, or (as a library) before our own constructor. */
#include "common.h"

static pthread_t early;

static void *work(void *unused)
{
    work_for(0.6);
    return unused;
}

__attribute__((constructor)) static void begin(void)
{
    CHECK(pthread_create(&early, NULL, work, NULL) == 0);
}

#ifdef LIBRARY
int early_join(void)
{
    return pthread_join(early, NULL) | failures;
}
#else
#ifdef LINKED
int early_join(void);
#endif
int main(void)
{
    CHECK(pthread_join(early, NULL) == 0);
#ifdef LINKED
    CHECK(early_join() == 0);
#endif
    return done();
}
#endif
