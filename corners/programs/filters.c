/* One system call that a seccomp filter answers for all threads: by an error, by death, or by a signal. The second argument is the call. */
#include "corner.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void *brief_work(void *unused)
{
    other();
    return unused;
}

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"perf_event_open", SYS_perf_event_open},
    {"ioctl", SYS_ioctl},
    {"rt_sigaction", SYS_rt_sigaction},
    {"clock_nanosleep", SYS_clock_nanosleep},
    {"mmap", SYS_mmap},
    {"prctl", SYS_prctl},
    {"gettid", SYS_gettid},
    {"sched_yield", SYS_sched_yield},
};

static unsigned number_of(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, name))
            return calls[i].number;
    exit(98);
}

static void filtered(unsigned answer)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number_of(second_word), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {4, code};
    int refused = 0;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0);
    meanwhile(0.3);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, brief_work, NULL))
            refused++;
        else
            CHECK(pthread_join(thread, NULL) == 0);
    }
    printf("%d threads refused\n", refused);
}

static void fails(void)
{
    filtered(SECCOMP_RET_ERRNO | EPERM);
}

static void kills(void)
{
    filtered(SECCOMP_RET_KILL_PROCESS);
}

static void kills_thread(void)
{
    filtered(SECCOMP_RET_KILL_THREAD);
}

static void traps(void)
{
    filtered(SECCOMP_RET_TRAP);
}

int main(int argc, char **argv)
{
    static const struct corner corners[] = {
        {"fails", fails, 0}, {"kills", kills, 0}, {"kills_thread", kills_thread, 0}, {"traps", traps, 0}, {NULL, NULL, 0},
    };
    return run_corner(argc, argv, corners);
}
