/* One thread, whose helper works four times as long for A as for B. */
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

int main(void)
{
    for (;;) {
        A();
        B();
        WHATIF_PROGRESS_NAMED("round");
    }
}
