/* Does as many jobs as its first argument says, unless the test has seen enough before, and ends with the second one as its status. With
 * a third one it prints how many jobs there were. */
#include "common.h"
#include "enough.h"

__attribute__((noinline)) void job(void)
{
    STEPS(700000);
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    for (int i = 0; i < atoi(argv[1]) && !is_enough(); i++) {
        job();
#ifndef UNMARKED
        WHATIF_PROGRESS_NAMED("done");
#endif
    }
    if (argc > 3)
        printf("%d\n", atoi(argv[1]));
    return atoi(argv[2]);
}
