/* One thread, four fifths of whose time are spent often, and a fifth seldom; for so many seconds. */
#include "common.h"

__attribute__((noinline)) static void often(void) { STEPS(800000); }

__attribute__((noinline)) static void seldom(void) { STEPS(200000); }

int main(int argc, char **argv)
{
    for (const double end = now() + (argc > 1 ? atof(argv[1]) : 1); now() < end;) {
        often();
        seldom();
        WHATIF_PROGRESS_NAMED("round");
    }
    return 7;
}
