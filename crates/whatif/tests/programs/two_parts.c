/* What runs first and what runs later are different functions: the second part begins when the input has ended, and lasts until the test has
   seen enough. */
#include "common.h"
#include "enough.h"
#include <poll.h>

int main(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    puts("begin");
    fflush(stdout);
    do
        work_for(0.01);
    while (poll(&input, 1, 0) == 0);
    while (!is_enough()) {
        other();
        WHATIF_PROGRESS_NAMED("other");
    }
    return done();
}
