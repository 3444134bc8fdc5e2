/* One thread, four fifths of whose time are spent often, and a fifth seldom; for so many seconds
   at most: it ends as soon as there is a file of the second argument's name. */
#include "common.h"
#include <unistd.h>

__attribute__((noinline)) static void often(void) { STEPS(800000); }

__attribute__((noinline)) static void seldom(void) { STEPS(200000); }

int main(int argc, char **argv)
{
    for (const double end = now() + (argc > 1 ? atof(argv[1]) : 1); now() < end && (argc < 3 || access(argv[2], F_OK) != 0);) {
        often();
        seldom();
        WHATIF_PROGRESS_NAMED("round");
    }
    return 7;
}
