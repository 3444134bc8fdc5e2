/* Whether the test has seen enough: the file exists that the environment variable ENOUGH names. */
#ifndef ENOUGH_H
#define ENOUGH_H

#include <stdlib.h>
#include <unistd.h>

/* Whether there is a test that will see enough; without one, programs end by themselves. */
__attribute__((unused)) static int is_watched(void)
{
    return getenv("ENOUGH") != NULL;
}

__attribute__((unused)) static int is_enough(void)
{
    return is_watched() && access(getenv("ENOUGH"), F_OK) == 0;
}

#endif
