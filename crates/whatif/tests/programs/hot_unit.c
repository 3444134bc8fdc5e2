/* Two threads whose only unit of work is a function that is called a hundred thousand times a second; a handler of signals calls it, too. Aborts if it does not do what it
   does. Nothing is marked. */
#include "enough.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static volatile unsigned long sink;

__attribute__((noinline)) static unsigned long handle(unsigned long n, unsigned long seed)
{
    unsigned long x = seed ^ 88172645463325252;
    for (unsigned long i = 0; i < n; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    /* Called each time. */
    __asm__ volatile("" ::: "memory");
    return x;
}

static unsigned long right;

static void check(unsigned long n)
{
    if (handle(n, 7) != right)
        abort();
}

static void tick(int signal)
{
    (void)signal;
    sink = handle(10, 1);
}

static void *worker(void *unused)
{
    for (;;)
        check(5000);
    return unused;
}

int main(void)
{
    right = handle(5000, 7);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    const struct timespec part = {0, 10000000};
    for (int i = 0; i < 100000 && !is_enough(); i++)
        nanosleep(&part, NULL);
    return 7;
}
