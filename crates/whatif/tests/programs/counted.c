/*
 * Functions that begin in different ways, and are called once a round: when they are progress points, the program counts its visits itself. Two threads and a
 * forked child make rounds; one point is marked, to compare with. Prints how many rounds there were.
 */
#include "common.h"
#include <sys/mman.h>

int global = 41;

/* Its first instruction finds an operand by its distance from itself. */
__attribute__((naked, noinline)) int from_global(void)
{
    __asm__("mov global(%rip), %eax\n"
            "add $1, %eax\n"
            "ret\n");
}

/* A conditional jump is among its first instructions. */
__attribute__((naked, noinline)) int sign(int number)
{
    (void)number;
    __asm__("test %edi, %edi\n"
            "jle 1f\n"
            "mov $1, %eax\n"
            "ret\n"
            "1: mov $-1, %eax\n"
            "ret\n");
}

/* It is passed something in a register that no function is passed anything in. */
__attribute__((naked, noinline)) long in_register(void)
{
    __asm__("mov %r11, %rax\n"
            "add %r10, %rax\n"
            "ret\n");
}

/* It calls within what a jump takes. */
__attribute__((naked, noinline)) int calls(void)
{
    __asm__("push %rbx\n"
            "call from_nothing\n"
            "pop %rbx\n"
            "ret\n");
}

/* It calls through a register. */
__attribute__((naked, noinline)) int calls_through(int (*function)(void))
{
    (void)function;
    __asm__("sub $8, %rsp\n"
            "call *%rdi\n"
            "add $8, %rsp\n"
            "ret\n");
}

/* It leaves for another function. */
__attribute__((naked, noinline)) int leaves(void)
{
    __asm__("jmp from_nothing\n");
}

/* It is shorter than a jump. */
__attribute__((naked, noinline)) int returns(int number)
{
    (void)number;
    __asm__("mov %edi, %eax\n"
            "ret\n"
            ".byte 0x90, 0x90, 0x90\n");
}

/* Its first instruction may fail, and what comes behind it looks at the flags. */
__attribute__((naked, noinline)) int compares(const int *number)
{
    (void)number;
    __asm__("cmpl $7, (%rdi)\n"
            "mov $1, %eax\n"
            "je 1f\n"
            "mov $-1, %eax\n"
            "1: ret\n");
}

/* The following are counted in another way. Another function leads between the first instructions of this one: */
__attribute__((naked, noinline)) int entered_within(int number)
{
    (void)number;
    __asm__("push %rbx\n"
            "mov %edi, %eax\n"
            "add $1, %eax\n"
            "pop %rbx\n"
            "ret\n");
}

__attribute__((naked, noinline)) int enters_it(int number)
{
    (void)number;
    __asm__("push %rbx\n"
            "lea 10(%rdi), %eax\n"
            "jmp entered_within + 3\n");
}

/* It leads back to its first instruction. */
__attribute__((naked, noinline)) long loops(long turns)
{
    (void)turns;
    __asm__("sub $1, %rdi\n"
            "mov %rdi, %rax\n"
            "jne loops\n"
            "ret\n");
}

__attribute__((noinline, used)) int from_nothing(void) { return 7; }

static const int seven = 7, eight = 8;

static long call_in_register(long a, long b)
{
    long result;
    __asm__ volatile("mov %1, %%r10\n"
                     "mov %2, %%r11\n"
                     "call in_register\n"
                     "mov %%rax, %0\n"
                     : "=r"(result)
                     : "r"(a), "r"(b)
                     : "rax", "r10", "r11", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "memory", "cc");
    return result;
}

/* Rounds of both processes. */
static long *made;

static void *rounds(void *unused)
{
    for (int n = 0; n < 300; n++) {
        hot();
        CHECK(from_global() == 42);
        CHECK(sign(3) + sign(-3) == 0);
        CHECK(call_in_register(1000, 7) == 1007);
        CHECK(entered_within(1) == 2 && enters_it(1) == 12);
        CHECK(loops(1) == 0);
        CHECK(calls() == 7 && calls_through(from_nothing) == 7 && leaves() == 7);
        CHECK(returns(n) == n && compares(&seven) == 1 && compares(&eight) == -1);
        WHATIF_PROGRESS_NAMED("marked");
        __atomic_fetch_add(made, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    int status = -1;
    made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(made != MAP_FAILED);
    const pid_t child = fork();
    CHECK(pthread_create(&thread, NULL, rounds, NULL) == 0);
    rounds(NULL);
    pthread_join(thread, NULL);
    if (child == 0)
        _exit(failures);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("%ld\n", *made);
    return done();
}
