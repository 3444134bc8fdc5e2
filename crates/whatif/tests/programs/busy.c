/*
 * Code that works, and looks like code that waits. Arguments: which kind, and for how many seconds.
 *
 * jump    the loop ends in a jump of -13 bytes and a nop: together they have the bytes of `pause`
 * stack   the loop counts on the stack, and no register ever changes
 * lock    a spin lock's slow path, with its `pause`, lies in the loop that does the work
 */
#include "common.h"

 
static int lock;

__attribute__((noinline)) static void jump(long turns)
{
    __asm__ volatile(".p2align 4\n"
                     "1: add $1, %%rax\n"
                     "xor %%rax, %%rdx\n"
                     "dec %%rcx\n"
                     "nop\n"
                     "jne 1b\n"
                     "nop\n"
                     : "+c"(turns)::"rax", "rdx", "cc");
}

__attribute__((noinline)) static void stack(long turns)
{
    volatile long left = turns;
    __asm__ volatile("1: subq $1, %0\n"
                     "jne 1b\n"
                     : "+m"(left)::"cc");
}

__attribute__((noinline)) static void locked(long turns)
{
    unsigned long x = 88172645463325252u;
    for (long i = 0; i < turns; i++) {
        while (__builtin_expect(__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE), 0))
            while (__atomic_load_n(&lock, __ATOMIC_RELAXED))
                __builtin_ia32_pause();
        for (int step = 0; step < 20; step++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    }
    sink = x;
}

int main(int count, char **arguments)
{
    const char *kind = count > 1 ? arguments[1] : "jump";
    const double ends = now() + (count > 2 ? atof(arguments[2]) : 1);
    while (now() < ends) {
        if (strcmp(kind, "stack") == 0)
            stack(1000000);
        else if (strcmp(kind, "lock") == 0)
            locked(20000);
        else
            jump(1000000);
        WHATIF_PROGRESS_NAMED("round");
    }
    return 0;
}
