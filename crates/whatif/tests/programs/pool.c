/* A program whose work is done by threads of a library (-DPROGRAM: the program); nothing is marked. */
#ifdef PROGRAM
#include <unistd.h>
void pool_start(void);

int main(void)
{
    pool_start();
    for (;;)
        pause();
}
#else
#include <pthread.h>

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

static void *worker(void *unused)
{
    for (;;)
        serve();
    return unused;
}

void pool_start(void)
{
    static pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
}
#endif
