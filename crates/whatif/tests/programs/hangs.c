// Mounts a file system that never answers on /tmp, in a mount namespace of its own, drops to another user, and runs generated code. The
// collector looks for its list in /tmp.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

int main(void) {
    // mov rax, rdi; dec rax; jnz -5; ret
    static const unsigned char code[] = {0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3};
    unsigned char *memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char options[128];
    int device = open("/dev/fuse", O_RDWR);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)
        || mount("none", "/tmp", "fuse", 0, options) || setuid(1234)) {
        puts("no");
        return 0;
    }
    memcpy(memory, code, sizeof code);
    puts("yes"), fflush(stdout);
    for (;;) ((void (*)(long))memory)(1000000);
}
