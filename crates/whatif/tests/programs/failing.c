/* Programs that give no answer. The argument says why. They use CPU time until the test has seen enough, or for as long as samples take. */
#include "common.h"
#include "enough.h"

/* The CPU time of this process, in seconds. */
static double used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int goes_on(void)
{
    return is_watched() ? !is_enough() : used() < 0.2;
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    if (!strcmp(which, "sleeps")) {
        const struct timespec time = {0, 400000000};
        nanosleep(&time, NULL);
        return 0;
    }
    if (!strcmp(which, "waits")) {
        const struct timespec time = {1, 200000000};
        nanosleep(&time, NULL);
        return 0;
    }
    if (!strcmp(which, "visits_once"))
        WHATIF_PROGRESS_NAMED("start-up");
    /* For fewer samples than it takes to look for a place. */
    if (!strcmp(which, "points_nothing_out")) {
        while (used() < 0.05)
            hot();
        return 0;
    }
    if (!strcmp(which, "brief")) {
        while (used() < 0.025) {
            hot();
            WHATIF_PROGRESS_NAMED("work");
        }
        return 0;
    }
    if (!strcmp(which, "deep")) {
        while (goes_on()) {
            deep(300);
            WHATIF_PROGRESS_NAMED("work");
        }
        return 0;
    }
    if (!strcmp(which, "works")) {
        while (goes_on()) {
            hot();
            WHATIF_PROGRESS_NAMED("work");
        }
        return 0;
    }
    while (goes_on())
        hot();
    return 0;
}
