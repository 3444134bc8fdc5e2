/* Two threads on one CPU add to a number in restartable sequences (rseq(2)), one of which takes about 0.2 ms: when one thread is interrupted in its sequence and the
   other one adds meanwhile, nothing may be lost. Prints "ready", or "none" where the C library does not register threads for that. Each line on standard input is
   answered by "fine", or by what was lost. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static uint64_t number;
static volatile int ends;

static void add(void *area) {
    __asm__ volatile(
        ".pushsection sequences,\"aw\"\n"
        ".balign 32\n"
        "3: .long 0, 0\n"
        ".quad 1f, 2f - 1f, 4f\n"
        ".popsection\n"
        "5: lea 3b(%%rip), %%rax\n"
        "mov %%rax, 8(%[area])\n"
        "1: mov %[number], %%rcx\n"
        "mov $400000, %%edx\n"
        "6: dec %%edx\n"
        "jnz 6b\n"
        "inc %%rcx\n"
        "mov %%rcx, %[number]\n"
        "2: jmp 7f\n"
        ".byte 0x0f, 0xb9, 0x3d\n" /* the signature that an abort needs */
        ".long 0x53053053\n"
        "4: jmp 5b\n"
        "7:\n"
        : [number] "+m"(number)
        : [area] "r"(area)
        : "rax", "rcx", "rdx", "cc", "memory");
}

static void *adds(void *added) {
    void *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    while (!ends) {
        add(area);
        ++*(uint64_t *)added;
    }
    return 0;
}

int main(void) {
    if (!&__rseq_size || __rseq_size == 0) {
        printf("none\n");
        return 0;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        uint64_t added[2] = {0, 0};
        pthread_t threads[2];
        number = 0;
        ends = 0;
        for (int n = 0; n < 2; n++)
            if (pthread_create(&threads[n], 0, adds, &added[n]))
                return 1;
        char word[64];
        ssize_t got = read(0, word, sizeof word);
        ends = 1;
        for (int n = 0; n < 2; n++)
            pthread_join(threads[n], 0);
        if (number != added[0] + added[1])
            printf("%ld of %ld lost\n", (long)(added[0] + added[1] - number), (long)(added[0] + added[1]));
        else if (got > 0)
            printf("fine\n");
        fflush(stdout);
        if (got <= 0)
            return number != added[0] + added[1];
    }
}
