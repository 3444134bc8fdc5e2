/* Calls three deep and works there, until it is killed. One of the functions aligns its stack anew. */
#include <string.h>

static volatile unsigned sum;

__attribute__((noinline)) void innermost(unsigned n) {
    for (unsigned i = 0; i < n; i++)
        sum += i * sum;
}

__attribute__((noinline)) void aligned(unsigned n) {
    __attribute__((aligned(64))) volatile char buffer[128];
    buffer[n % 128] = 1;
    innermost(n);
    sum += buffer[n % 64];
}

__attribute__((noinline)) void outer(unsigned n) {
    volatile char frame[700];
    frame[n % 700] = 1;
    aligned(n);
    sum += frame[n % 70];
}

int main(void) {
    for (;;)
        outer(100000);
}
