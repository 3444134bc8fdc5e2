// A program that says it is an interpreter of Python 3.12, whose threads and frames go round in circles and lead nowhere.
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// What Python exports.
const unsigned long Py_Version = 0x030c01f0;
volatile uint64_t _PyRuntime[64];

static volatile uint64_t interpreter[64], thread[64], frames[3][9], structure[2], code[32], string[16];

__attribute__((noinline)) void innermost(volatile uint64_t *x) {
    for (int i = 0; i < 100000; i++) *x += i;
}

__attribute__((noinline)) void _PyEval_EvalFrameDefault(volatile uint64_t *x) {
    innermost(x);
    *x += 1;
}

int main(int argc, char **argv) {
    volatile uint64_t x = 0;
    int kind = argc > 1 ? argv[1][0] - '0' : 0;
    _PyRuntime[5] = (uint64_t)interpreter;
    interpreter[0] = (uint64_t)interpreter;
    interpreter[9] = (uint64_t)thread;
    thread[1] = (uint64_t)thread;
    // 0: a thread that it does not know; otherwise one with frames.
    thread[18] = kind ? syscall(SYS_gettid) : 1;
    thread[7] = (uint64_t)structure;
    structure[0] = (uint64_t)frames[0];
    for (int i = 0; i < 3; i++) {
        frames[i][0] = (uint64_t)code;
        frames[i][1] = (uint64_t)frames[(i + 1) % 3];
        // 2: frames that say that they are on the C stack, where they are not.
        frames[i][8] = kind == 2 ? (uint64_t)3 << 48 : 0;
    }
    // 3: names of a length that no memory has. Otherwise: in the middle of nowhere.
    code[14] = code[16] = kind == 3 ? (uint64_t)string : 0xffff888000000000;
    string[2] = UINT64_MAX;
    string[4] = 1 << 2 | 1 << 5 | 1 << 6;
    for (;;) _PyEval_EvalFrameDefault(&x);
}
