/* Rounds of needed work beside work that no thread waits for, for so many tenths of a second. Some work is never done. */
#include "common.h"

static volatile int over;

__attribute__((noinline)) static void needed(void)
{
    STEPS(130000);
}

__attribute__((noinline)) static void nobody_waits(void)
{
    STEPS(130001);
}

__attribute__((noinline)) static void elsewhere(void)
{
    STEPS(130002);
}

static void *beside(void *unused)
{
    while (!over)
        nobody_waits();
    return unused;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) / 10 : 2;
    if (argc > 2)
        elsewhere();
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, beside, NULL) == 0);
    do {
        needed();
        WHATIF_PROGRESS_NAMED("round");
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
    over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("done");
    return failures != 0;
}
