/* Says that it is there, and waits until it is ended. */
#include <stdio.h>
#include <unistd.h>

__attribute__((noinline)) static void wait_for_the_end(void)
{
    for (;;)
        pause();
}

int main(void)
{
    puts("here");
    fflush(stdout);
    wait_for_the_end();
    return 0;
}
