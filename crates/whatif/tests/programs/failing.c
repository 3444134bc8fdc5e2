/* Programs that give no answer. The argument says why. */
#include "common.h"

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    if (!strcmp(which, "sleeps")) {
        const struct timespec time = {0, 400000000};
        nanosleep(&time, NULL);
        return 0;
    }
    if (!strcmp(which, "visits_once"))
        WHATIF_PROGRESS_NAMED("start-up");
    if (!strcmp(which, "brief")) {
        struct timespec used;
        do {
            hot();
            WHATIF_PROGRESS_NAMED("work");
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        } while (used.tv_nsec < 25000000);
        return 0;
    }
    if (!strcmp(which, "deep")) {
        for (const double end = now() + 1.0; now() < end;) {
            deep(300);
            WHATIF_PROGRESS_NAMED("work");
        }
        return 0;
    }
    if (!strcmp(which, "works")) {
        work_for(1);
        return 0;
    }
    for (const double end = now() + 1.0; now() < end;)
        hot();
    return 0;
}
