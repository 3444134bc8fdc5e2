/* Computes in a function of which no table says anything, with the address of the program's first byte on top of its stack. */
#include "common.h"

void leaf(void);

__asm__(".text\n"
        ".type leaf, @function\n"
        "leaf:\n"
        "    lea __executable_start(%rip), %rax\n"
        "    push %rax\n"
        "    mov $1000000, %eax\n"
        "1:  dec %eax\n"
        "    jnz 1b\n"
        "    pop %rax\n"
        "    ret\n"
        ".size leaf, .-leaf\n");

int main(void)
{
    for (;;) {
        leaf();
        WHATIF_PROGRESS_NAMED("leaf");
    }
}
