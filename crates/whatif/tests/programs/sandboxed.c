/* Programs that put themselves into a sandbox whose filter kills for every call that they do not need. The first argument says
 * which filter, the second which threads have it. */
#include "common.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const int needed[] = {
    SYS_read,       SYS_write,   SYS_exit,           SYS_exit_group, SYS_futex,
    SYS_clone3,     SYS_clone,   SYS_mmap,           SYS_munmap,     SYS_mprotect,
    SYS_madvise,    SYS_rseq,    SYS_set_robust_list, SYS_brk,       SYS_rt_sigprocmask,
    SYS_newfstatat, SYS_getrandom, SYS_sched_getaffinity,
    SYS_rt_sigaction, /* the first thread of some versions of glibc */
};

static struct sock_filter code[80];

/* Only the calls in `needed`, and `also` unless it is negative; anything else is answered with `action`. */
static struct sock_fprog allow_list(unsigned action, int also)
{
    unsigned short n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i <= LENGTH(needed); i++) {
        const int number = i < LENGTH(needed) ? needed[i] : also;
        if (number < 0)
            continue;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    return (struct sock_fprog){n, code};
}

/* `action` for a call that no part of this program makes, and nothing else. */
static struct sock_fprog deny_list(unsigned action, int number)
{
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    code[1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
    code[2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    code[3] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return (struct sock_fprog){4, code};
}

static int by_prctl;

static void install(struct sock_fprog filter, unsigned flags)
{
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_prctl)
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    else
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) == 0);
}

__attribute__((noinline)) static void sandboxed_work(long rounds)
{
    for (long i = 0; i < rounds; i++) {
        hot();
        WHATIF_PROGRESS_NAMED("work");
    }
}

/* Work with locks, threads and creations of threads. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *works(void *rounds)
{
    for (long i = 0; i < (long)rounds; i++) {
        pthread_mutex_lock(&mutex);
        hot();
        pthread_mutex_unlock(&mutex);
        other();
        WHATIF_PROGRESS_NAMED("work");
    }
    return rounds;
}

static void work_with_threads(void)
{
    long sum = 0;
    for (int round = 0; round < 10; round++) {
        pthread_t threads[2];
        for (size_t i = 0; i < LENGTH(threads); i++)
            CHECK(pthread_create(&threads[i], NULL, works, (void *)50L) == 0);
        for (size_t i = 0; i < LENGTH(threads); i++) {
            void *done = NULL;
            CHECK(pthread_join(threads[i], &done) == 0);
            sum += (long)done;
        }
    }
    CHECK(sum == 1000);
}

static int over;

static void *works_until_over(void *unused)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&mutex);
        hot();
        pthread_mutex_unlock(&mutex);
        other();
        WHATIF_PROGRESS_NAMED("work");
    }
    return unused;
}

static void *sandboxes_itself(void *filter)
{
    install(*(struct sock_fprog *)filter, 0);
    return works((void *)400L);
}

int main(int argc, char **argv)
{
    const char *kind = argv[1], *threads = argc > 2 ? argv[2] : "one";
    setvbuf(stdout, NULL, _IOFBF, 1 << 12);
    CHECK(write(1, "begins\n", 7) == 7);
    works((void *)200L);

    if (!strcmp(kind, "strict")) {
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
        sandboxed_work(2000);
        CHECK(write(1, "strict\n", 7) == 7);
        syscall(SYS_exit, failures != 0);
    }
    if (!strcmp(kind, "refused")) {
        /* Null pointers are how programs ask; the others are mistakes. Nothing is installed, and the program goes on. */
        struct sock_fprog nowhere_ = {3, (void *)8}, empty = {0, code}, endless = {1, code};
        code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 8) == -1 && errno == EFAULT);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &nowhere_) == -1 && errno == EFAULT);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty) == -1 && errno == EINVAL);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &endless) == -1 && errno == EINVAL);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
        work_with_threads();
        return done();
    }

    struct sock_fprog filter;
    if (!strcmp(kind, "kills_process"))
        filter = allow_list(SECCOMP_RET_KILL_PROCESS, -1);
    else if (!strcmp(kind, "kills_thread"))
        filter = allow_list(SECCOMP_RET_KILL_THREAD, -1);
    else if (!strcmp(kind, "traps"))
        filter = allow_list(SECCOMP_RET_TRAP, -1);
    else if (!strcmp(kind, "fails"))
        filter = deny_list(SECCOMP_RET_ERRNO | EPERM, SYS_perf_event_open);
    else if (!strcmp(kind, "harmless"))
        filter = deny_list(SECCOMP_RET_KILL_PROCESS, SYS_ptrace);
    else if (!strcmp(kind, "executes"))
        filter = deny_list(SECCOMP_RET_KILL_PROCESS, SYS_perf_event_open);
    else
        return 99;

    if (!strcmp(threads, "one")) {
        by_prctl = 1;
        install(filter, 0);
        sandboxed_work(2000);
    } else if (!strcmp(threads, "later")) {
        install(filter, 0);
        work_with_threads();
    } else if (!strcmp(threads, "all")) {
        pthread_t others[3];
        for (size_t i = 0; i < LENGTH(others); i++)
            CHECK(pthread_create(&others[i], NULL, works_until_over, NULL) == 0);
        works((void *)100L);
        install(filter, SECCOMP_FILTER_FLAG_TSYNC);
        works((void *)100L);
        work_with_threads();
        __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
        for (size_t i = 0; i < LENGTH(others); i++)
            CHECK(pthread_join(others[i], NULL) == 0);
    } else if (!strcmp(threads, "another")) {
        /* One thread of several, while the others are sampled as before. */
        pthread_t sandboxed;
        CHECK(pthread_create(&sandboxed, NULL, sandboxes_itself, &filter) == 0);
        works((void *)400L);
        work_with_threads();
        CHECK(pthread_join(sandboxed, NULL) == 0);
    } else if (!strcmp(threads, "child")) {
        int status;
        const pid_t child = fork();
        if (child == 0) {
            install(filter, 0);
            sandboxed_work(500);
            _exit(failures == 0 ? 7 : 8);
        }
        works((void *)400L);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    } else if (!strcmp(threads, "exec")) {
        install(filter, 0);
        fflush(stdout);
        execl("/bin/echo", "echo", "executed", NULL);
        CHECK(!"executed");
    } else if (!strcmp(threads, "deadly")) {
        /* The program's own mistake. */
        install(filter, 0);
        sandboxed_work(100);
        syscall(SYS_getppid);
    }
    return done();
}
