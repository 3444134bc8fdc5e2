// refuse CALL[,CALL…] COMMAND…: executes a command whose system calls of these names fail with EPERM, as in a container that forbids
// them. For `.ci/stress`.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    int number;
} CALLS[] = {{"perf_event_open", SYS_perf_event_open}, {"bpf", SYS_bpf}, {"ptrace", SYS_ptrace}};

static int number_of(const char *name) {
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if (strcmp(CALLS[i].name, name) == 0)
            return CALLS[i].number;
    return -1;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: refuse CALL[,CALL...] COMMAND...\n");
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        perror("refuse: prctl");
        return 2;
    }
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
        int number = number_of(name);
        if (number < 0) {
            fprintf(stderr, "refuse: no call %s\n", name);
            return 2;
        }
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
            perror("refuse: seccomp");
            return 2;
        }
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
