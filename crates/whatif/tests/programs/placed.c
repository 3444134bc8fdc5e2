/* Two threads in rounds; one point is marked, to compare with those that are placed from outside. With an argument each makes so many rounds, and how many there were is
   printed. */
#include "common.h"

/* Each function has cache lines of its own: a breakpoint slows what is in the same one on some CPUs. */
__attribute__((noinline, aligned(64))) void begun(void) { __asm__ volatile("nop" ::: "memory"); }

__attribute__((noinline, aligned(64))) void ended(void) { __asm__ volatile("nop" ::: "memory"); }

static inline __attribute__((always_inline)) void twice(void) { __asm__ volatile("nop" ::: "memory"); }

static long rounds_of_thread, made;

__attribute__((aligned(64))) static void *rounds(void *unused)
{
    const double end = now() + 1.5;
    for (long n = 0; rounds_of_thread ? n < rounds_of_thread : now() < end; n++) {
        begun();
        WHATIF_BEGIN("round");
        hot();
        WHATIF_END("round");
        ended(); /* a round is done */
        twice();
        twice();
        WHATIF_PROGRESS_NAMED("marked");
        __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    if (argc > 1)
        rounds_of_thread = atol(argv[1]);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, rounds, NULL) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    if (rounds_of_thread)
        printf("%ld\n", made);
    return done();
}
