/* A function that is visited some hundred thousand times a second, and one that is visited seldom. */
static volatile unsigned long sink;

__attribute__((noinline)) static void often(unsigned long n)
{
    unsigned long x = 88172645463325252;
    for (unsigned long i = 0; i < n; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
}

__attribute__((noinline)) static void seldom(void)
{
    for (int i = 0; i < 10000; i++)
        often(60);
    sink++;
}

int main(void)
{
    for (;;)
        seldom();
}
