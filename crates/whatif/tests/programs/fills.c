/* All the time is spent in the C library, for a function that calls it: so often, or until it is asked to end. */
#include <stdlib.h>
#include <string.h>

static char buffer[1 << 20];

__attribute__((noinline)) static void fill(int byte)
{
    for (int i = 0; i < 10; i++) {
        memset(buffer, byte + i, sizeof buffer);
        __asm__ volatile("" ::"r"(buffer) : "memory");
    }
}

int main(int argc, char **argv)
{
    const int times = argc > 1 ? atoi(argv[1]) : -1;
    for (int i = 0; i != times; i++)
        fill(i);
    return 0;
}
