/* turns NAME WORK [COUNT]: appends NAME to the file `order`, does so much WORK in units, and ends; with COUNT, it goes on for ever. */
#include <stdio.h>
#include <stdlib.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void unit(unsigned long n)
{
    unsigned long x = 88172645463325252;
    for (unsigned long i = 0; i < n; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 3;
    FILE *order = fopen("order", "a");
    if (!order || fprintf(order, "%s\n", argv[1]) < 0 || fclose(order))
        return 4;
    const unsigned long work = strtoul(argv[2], NULL, 10);
    for (int units = 0; argc > 3 || units < 40; units++)
        unit(work);
    return 0;
}
