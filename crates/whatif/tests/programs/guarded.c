/* A program with a probe (USDT) that is guarded by a semaphore, shop:sold, as <sys/sdt.h> makes them. It ends when its semaphore
   has been counted up and the test has seen enough; a forked child that does the same is left, and ends when its own has been counted down again.

   "executes": as a program that another one executes; "works": as the first one. "watches": only looks
   at its semaphore until its input ends, and fails if that was ever counted up. */
#include "common.h"
#include "enough.h"
#include <poll.h>

__attribute__((section(".probes"), used)) volatile unsigned short shop_sold_semaphore = 0;

#define SOLD()                                                                                     \
    __asm__ volatile("990: nop\n"                                                                  \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                                  \
                     ".balign 4\n"                                                                 \
                     ".4byte 992f-991f, 994f-993f, 3\n"                                            \
                     "991: .asciz \"stapsdt\"\n"                                                   \
                     "992: .balign 4\n"                                                            \
                     "993: .8byte 990b, _.stapsdt.base, shop_sold_semaphore\n"                     \
                     ".asciz \"shop\"\n.asciz \"sold\"\n.asciz \"\"\n"                             \
                     "994: .balign 4\n"                                                            \
                     ".popsection\n"                                                               \
                     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"       \
                     ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                              \
                     "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"                         \
                     ".popsection\n")

/* More places than a CPU has breakpoints. */
__attribute__((noinline)) void first(void) { __asm__ volatile(""); }
__attribute__((noinline)) void second(void) { __asm__ volatile(""); }
__attribute__((noinline)) void third(void) { __asm__ volatile(""); }
__attribute__((noinline)) void fourth(void) { __asm__ volatile(""); }

__attribute__((noinline)) static void sell(void)
{
    if (shop_sold_semaphore) {
        SOLD();
        WHATIF_PROGRESS_NAMED("marked");
    }
}

/* Works until its semaphore was counted up and the test has seen enough. */
static void works(void)
{
    int was_up = 0;
    first(), second(), third(), fourth();
    while (!was_up || !is_enough()) {
        hot();
        was_up |= shop_sold_semaphore != 0;
        sell();
    }
}

static void with_child(void)
{
    const pid_t child = fork();
    works();
    if (child == 0) {
        while (shop_sold_semaphore)
            hot();
        puts("counted down");
        exit(0);
    }
}

static void watches(void)
{
    struct pollfd input = { .fd = 0, .events = POLLIN };
    int was_up = 0;
    while (poll(&input, 1, 1) == 0)
        was_up |= shop_sold_semaphore;
    CHECK(!was_up);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    if (!strcmp(argv[1], "executes")) {
        int status;
        const pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], "works", NULL);
            _exit(99);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    } else if (!strcmp(argv[1], "watches")) {
        watches();
        return failures != 0;
    } else {
        with_child();
    }
    return done();
}
