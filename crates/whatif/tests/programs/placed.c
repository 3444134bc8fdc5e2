/* Two threads in rounds; one point is marked, to compare with those that are placed from outside. */
#include "common.h"

/* Each function has cache lines of its own: a breakpoint slows what is in the same one on some CPUs. */
__attribute__((noinline, aligned(64))) void begun(void) { __asm__ volatile("nop" ::: "memory"); }

__attribute__((noinline, aligned(64))) void ended(void) { __asm__ volatile("nop" ::: "memory"); }

static inline __attribute__((always_inline)) void twice(void) { __asm__ volatile("nop" ::: "memory"); }

__attribute__((aligned(64))) static void *rounds(void *unused)
{
    for (const double end = now() + 1.5; now() < end;) {
        begun();
        WHATIF_BEGIN("round");
        hot();
        WHATIF_END("round");
        ended(); /* a round is done */
        twice();
        twice();
        WHATIF_PROGRESS_NAMED("marked");
    }
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, rounds, NULL) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return done();
}
