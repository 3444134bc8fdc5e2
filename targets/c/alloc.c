/*
 * alloc - two threads; each round is A, which allocates, fills and frees blocks, then B (2 ms).
 *
 * A holds 64 blocks of 16 bytes to 4 KiB at a time and replaces the oldest; A_blocks=N replacements
 * per round (default 40000). Most of A's time is inside malloc and free, whichever library they
 * come from.
 *
 * Answer: the threads are independent, so A and B are worth their shares.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include alloc.c -o alloc
 */
#include "target.h"
#include "threads.h"

static long a, b;

REGION static void A(void)
{
    void *blocks[64] = {0};
    uint32_t random = 2463534242u;
    for (long i = 0; i < a; i++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        void **block = &blocks[i % 64];
        free(*block);
        const size_t size = 16u << random % 9;
        *block = malloc(size);
        memset(*block, (int)i, 16);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
}

REGION static void B(void) { WORK(b); }

static void *rounds(void *unused)
{
    while (!over()) {
        A();
        B();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    return unused;
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = (long)(argument("A_blocks", 40000) * argument("scale", 1.0) * argument("A", 1.0));
    b = iterations("B", 2);
    start("round");
    spawn(rounds, NULL);
    rounds(NULL);
    finish();
}
