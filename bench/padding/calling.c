/*
 * calling.c - calls of every kind, for the test of `pad.c`: what it prints must not depend on what is padded.
 *
 * Every function is out of line and is called in a loop, so that callers keep values in registers; local functions may be called by
 * conventions of the compiler's own.
 */
#include <complex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OUT_OF_LINE __attribute__((noinline))

struct pair { long a, b; };
struct floats { double a, b; };
struct mixed { long a; double b; };
struct big { long values[6]; };
typedef float lanes __attribute__((vector_size(16)));

OUT_OF_LINE static long no_arguments(void)
{
    __asm__("");
    return 7;
}

OUT_OF_LINE static long integers(long a, long b, long c, long d, long e, long f)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}

OUT_OF_LINE long on_the_stack(long a, long b, long c, long d, long e, long f, long g, char h, short i)
{
    return a - b + c - d + e - f + 7 * g + 8 * h + 9 * i;
}

OUT_OF_LINE static double doubles(double a, double b, double c, double d, double e, double f, double g, double h, double i)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

OUT_OF_LINE static float floats_and_integers(int a, float b, long c, float d, unsigned char e)
{
    return (float)a * b + (float)c * d + (float)e;
}

OUT_OF_LINE static long double extended(long double a, double b)
{
    return a * 1.5L + b;
}

OUT_OF_LINE static double complex complicated(double complex a, float complex b)
{
    return a * b + 1;
}

OUT_OF_LINE static struct pair pair_of(long a, long b)
{
    return (struct pair){b, a};
}

OUT_OF_LINE static struct floats floats_of(struct floats a, double b)
{
    return (struct floats){a.b + b, a.a - b};
}

OUT_OF_LINE static struct mixed mixed_of(struct mixed a, struct pair b)
{
    return (struct mixed){a.a + b.b, a.b + (double)b.a};
}

OUT_OF_LINE static struct big big_of(struct big a, long b)
{
    for (int i = 0; i < 6; i++)
        a.values[i] = a.values[i] * 3 + b;
    return a;
}

OUT_OF_LINE static lanes lanes_of(lanes a, lanes b)
{
    return a * b + a;
}

OUT_OF_LINE static double variadic(int count, ...)
{
    va_list list;
    va_start(list, count);
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += i % 2 ? va_arg(list, double) : (double)va_arg(list, long);
    va_end(list);
    return sum;
}

OUT_OF_LINE static long recursive(long n)
{
    return n < 2 ? n : recursive(n - 1) + recursive(n - 2);
}

OUT_OF_LINE static long through_pointer(long (*function)(long), long n)
{
    return function(n) + 1;
}

OUT_OF_LINE long tail(long a, long b)
{
    return on_the_stack(b, a, b, a, b, a, b, (char)a, (short)b);
}

/* Its inner function finds `factor` by the chain register. */
OUT_OF_LINE static long nested(long factor, long n)
{
    OUT_OF_LINE long inner(long k) { return k * factor; }
    long sum = 0;
    for (long k = 0; k < n; k++)
        sum += inner(k);
    return sum;
}

OUT_OF_LINE void point(long turn)
{
    __asm__ volatile("" : : "r"(turn));
}

int main(void)
{
    long sum = 0;
    double real = 0;
    long double wide = 0;
    double complex plane = 1;
    struct big big = {{1, 2, 3, 4, 5, 6}};
    struct floats floats = {0.5, 0.25};
    struct mixed mixed = {1, 2};
    const lanes base = {1, 2, 3, 4};
    lanes four = base;
    for (long turn = 0; turn < 40; turn++) {
        /* Live over all calls, some in registers that a callee may destroy. */
        const long a = turn * 3, b = turn ^ 21;
        const double x = (double)turn / 3, y = x * x;
        point(turn);
        sum += no_arguments() + integers(a, b, turn, a, b, turn) + on_the_stack(a, b, a, b, a, b, a, (char)b, (short)a);
        real += doubles(x, y, x, y, x, y, x, y, x) + floats_and_integers((int)a, (float)x, b, (float)y, (unsigned char)b);
        wide += extended(wide / 2, x);
        plane = complicated(plane / 2, (float complex)(y / 100)) + I;
        const struct pair pair = pair_of(a, b);
        floats = floats_of(floats, x);
        mixed = mixed_of(mixed, pair);
        big = big_of(big, turn);
        for (int i = 0; i < 6; i++)
            big.values[i] %= 1000;
        four = lanes_of(four / 16 + base, four / 8);
        real += variadic(6, a, x, b, y, turn, x) + variadic(1, b);
        sum += recursive(10) + through_pointer(recursive, 5) + tail(a, b) + nested(b, 5) + pair.a;
    }
    printf("%ld %.17g %.20Lg %.17g %.17g\n", sum, real, wide, creal(plane), cimag(plane));
    printf("%.17g %.17g %ld %.17g %ld %ld\n", floats.a, floats.b, mixed.a, mixed.b, big.values[0], big.values[5]);
    printf("%.9g %.9g %.9g %.9g\n", (double)four[0], (double)four[1], (double)four[2], (double)four[3]);
    return 0;
}
