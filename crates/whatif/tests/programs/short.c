/*
 * A program that is over before a window is: two thirds of its time are slow's. It has no progress point.
 */
__attribute__((noinline)) static void slow(void)
{
    for (volatile long i = 0; i < 100000000; i++)
        ;
}

__attribute__((noinline)) static void quick(void)
{
    for (volatile long i = 0; i < 50000000; i++)
        ;
}

int main(void)
{
    slow();
    quick();
    return 0;
}
