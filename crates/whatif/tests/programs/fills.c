/* All the time is spent in the C library, for a function that calls it. */
#include <string.h>

static char buffer[1 << 20];

__attribute__((noinline)) static void fill(int byte)
{
    for (int i = 0; i < 10; i++) {
        memset(buffer, byte + i, sizeof buffer);
        __asm__ volatile("" ::"r"(buffer) : "memory");
    }
}

int main(void)
{
    for (int i = 0;; i++)
        fill(i);
}
