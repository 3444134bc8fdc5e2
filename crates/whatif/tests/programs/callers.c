/* One thread, whose helper works four times as long for A as for B: for so many rounds, or until it is asked to end. */
#include "common.h"

__attribute__((noinline)) static void helper(long n) { STEPS(n); }

/* What follows the call keeps it from being a jump, which leaves no caller. */
__attribute__((noinline)) static void A(void)
{
    helper(4000000);
    sink++;
}

__attribute__((noinline)) static void B(void)
{
    helper(1000000);
    sink++;
}

int main(int argc, char **argv)
{
    const long rounds = argc > 1 ? atol(argv[1]) : -1;
    for (long i = 0; i != rounds; i++) {
        A();
        B();
        WHATIF_PROGRESS_NAMED("round");
    }
    return 0;
}
