/*
 * start_true - visits one progress point and returns 0: what is left is the time to start.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include start_true.c -o start_true
 */
#include "whatif.h"

int main(void)
{
    WHATIF_PROGRESS_NAMED("started");
    return 0;
}
