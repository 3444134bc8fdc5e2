/* A server of the old kind: the first process only waits, and two that it has forked do the work; nothing is marked. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void parse(unsigned long n)
{
    unsigned long x = 88172645463325252;
    for (unsigned long i = 0; i < n; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
}

__attribute__((noinline)) static void serve(void)
{
    parse(300000);
    sink++;
}

int main(void)
{
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                serve();
        }
    while (wait(NULL) > 0)
        ;
    return 0;
}
