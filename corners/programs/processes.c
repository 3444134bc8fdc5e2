/* Processes: how they begin, what they are told of each other, and how they end. */
#include "corner.h"
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>

extern char **environ;

static void *brief_work(void *unused)
{
    other();
    return unused;
}

static void threads_come_and_go(int number)
{
    for (int i = 0; i < number; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, brief_work, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static void forks(void)
{
    for (int i = 0; going_on(); i++) {
        const pid_t child = fork();
        if (child == 0) {
            if (i % 3 == 0)
                other();
            _exit(i & 127);
        }
        CHECK(ended(child) == (i & 127));
    }
}

/* Children with children, which have threads. */
static void tree(void)
{
    while (going_on()) {
        const pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 3; i++) {
                const pid_t grandchild = fork();
                if (grandchild == 0) {
                    threads_come_and_go(3);
                    exit(3 + failures);
                }
                CHECK(ended(grandchild) == 3);
            }
            exit(5 + failures);
        }
        CHECK(ended(child) == 5);
    }
}

static void spawns(void)
{
    char *arguments[] = {"sh", "-c", "exit 4", NULL};
    while (going_on()) {
        pid_t child = 0;
        CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0 && ended(child) == 4);
        CHECK(posix_spawn(&child, "/no/such/program", NULL, NULL, arguments, environ) == ENOENT);
    }
}

static void shells(void)
{
    char line[9];
    while (going_on()) {
        CHECK(system("exit 3") == 3 << 8);
        FILE *pipe = popen("echo hi", "r");
        CHECK(pipe && fgets(line, sizeof line, pipe) && !strcmp(line, "hi\n"));
        CHECK(pclose(pipe) == 0);
    }
}

/* The first process ends at once, and what it left behind goes on: it has no parent, but a session of its own. */
static void daemonizes(void)
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    if (fork())
        _exit(0);
    CHECK(setsid() == getpid());
    if (fork())
        _exit(0);
    close(ends[1]);
    threads_come_and_go(5);
    meanwhile(0.2);
    CHECK(read(ends[0], &byte, 1) == 0); /* all others have ended */
    printf("daemon %d\n", getsid(0) != getpid());
}

static int shared;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Calls that the profiler stands in front of, in a process that the C library does not know of. */
static void calls(void)
{
    for (int i = 0; i < 3; i++) {
        other();
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        usleep(50);
        CHECK(sched_yield() == 0 && write(STDOUT_FILENO, "", 0) == 0);
    }
}

static int cloned(void *calling)
{
    shared++;
    if (calling)
        calls();
    return 5;
}

/* With and without its parent's memory, which is a process of its own with no trace in the C library. */
static void clones(void)
{
    char *stack = malloc(65536);
    int with = 0, with_memory = 0;
    while (going_on()) {
        const int flags = SIGCHLD | (with % 2 ? CLONE_VM : 0);
        CHECK(ended(clone(cloned, stack + 65536, flags, flags & CLONE_VM ? NULL : stack)) == 5);
        with_memory += with % 2;
        with++;
        struct clone_args arguments = {.exit_signal = SIGCHLD};
        const pid_t child = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
        if (child == 0) {
            calls();
            _exit(6);
        }
        CHECK(ended(child) == 6);
    }
    CHECK(shared == with_memory);
}

static int executes(void *failing)
{
    char *arguments[] = {"true", NULL};
    shared++;
    execv(failing ? "/no/such/program" : "/bin/true", arguments);
    return errno == ENOENT ? 8 : 9;
}

/* As vfork does it, on a stack of the child's own: the parent waits, and sees what the child wrote. */
static void vforks_with_a_stack(void)
{
    char *stack = malloc(65536);
    int children = 0;
    while (going_on()) {
        void *failing = children % 2 ? stack : NULL;
        const pid_t child = clone(executes, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, failing);
        CHECK(shared == ++children);
        CHECK(ended(child) == (failing ? 8 : 0));
    }
}

/* An executed program without any environment. */
static void executes_without_environment(void)
{
    char *arguments[] = {"processes", "executed", NULL}, *none[] = {NULL};
    execve("/proc/self/exe", arguments, none);
}

static void executed(void)
{
    printf("executed %d\n", environ == NULL || *environ == NULL);
}

static int usr1;

static void count_usr1(int signal)
{
    (void)signal;
    usr1++;
}

static void descriptors_of_processes(void)
{
    signal(SIGUSR1, count_usr1);
    int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (own < 0)
        skipped("no pidfd_open");
    while (going_on()) {
        const int before = usr1;
        CHECK(syscall(SYS_pidfd_send_signal, own, SIGUSR1, NULL, 0) == 0);
        while (usr1 == before && failures < 10)
            usleep(50);
        const pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(1);
        }
        siginfo_t info = {0};
        const int fd = (int)syscall(SYS_pidfd_open, child, 0);
        struct pollfd poll_it = {fd, POLLIN, 0};
        CHECK(poll(&poll_it, 1, 1) == 0);
        CHECK(waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
        other();
        CHECK(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) == 0);
        CHECK(poll(&poll_it, 1, -1) == 1 && poll_it.revents == POLLIN);
        CHECK(waitid(P_PIDFD, (id_t)fd, &info, WEXITED) == 0 && info.si_pid == child);
        CHECK(info.si_code == CLD_KILLED && info.si_status == SIGTERM);
        errno = 0;
        CHECK(waitid(P_PIDFD, (id_t)fd, &info, WEXITED) == -1 && errno == ECHILD);
        errno = 0;
        CHECK(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) == -1 && errno == ESRCH);
        close(fd);
    }
    close(own);
}

/* The stops that a tracer sees are the traced process's own. */
static void traced(void)
{
    int stops[65] = {0};
    for (int i = 0; i < 5; i++) {
        const pid_t child = fork();
        int status = 0;
        if (child == 0) {
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
            raise(SIGSTOP);
            meanwhile(0.08);
            threads_come_and_go(2);
            _exit(8);
        }
        while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
            const int signal = WSTOPSIG(status);
            stops[signal]++;
            ptrace(PTRACE_CONT, child, NULL, (long)(signal == SIGSTOP ? 0 : signal));
        }
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 8);
    }
    for (int i = 1; i < 65; i++)
        if (stops[i])
            printf("%d stops by signal %d\n", stops[i], i);
}

static void other_namespaces(void)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWIPC))
        skipped("unshare is refused");
    threads_come_and_go(3);
    meanwhile(0.2);
    CHECK(unshare(CLONE_NEWPID) == 0); /* no more threads from here on, but children */
    const pid_t child = fork();
    if (child == 0) {
        const pid_t first = getpid();
        threads_come_and_go(3);
        meanwhile(0.2);
        _exit(first + 10);
    }
    printf("first process: %d\n", ended(child));
}

static void another_root(void)
{
    char folder[] = "/tmp/whatif-corner-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    const int here = open(folder, O_RDONLY | O_DIRECTORY), root = open("/", O_RDONLY | O_DIRECTORY);
    if (chroot(folder))
        skipped("chroot is refused");
    CHECK(chdir("/") == 0 && access("/proc", F_OK) == -1 && errno == ENOENT);
    threads_come_and_go(20);
    meanwhile(0.2);
    const pid_t child = fork();
    if (child == 0) {
        threads_come_and_go(3);
        _exit(6);
    }
    CHECK(ended(child) == 6);
    CHECK(fchdir(root) == 0 && chroot(".") == 0 && rmdir(folder) == 0);
    close(here);
    close(root);
}

static void another_user(void)
{
    if (setgid(65534) || setuid(65534))
        skipped("setuid is refused");
    CHECK(setuid(0) == -1 && errno == EPERM);
    threads_come_and_go(20);
    const pid_t child = fork();
    if (child == 0) {
        meanwhile(0.1);
        threads_come_and_go(3);
        _exit(getuid() == 65534 ? 6 : 1);
    }
    CHECK(ended(child) == 6);
    meanwhile(0.2);
}

int main(int argc, char **argv)
{
    static const struct corner corners[] = {
        {"fork", forks, 0},
        {"tree", tree, 0},
        {"spawn", spawns, 0},
        {"shell", shells, 0},
        {"daemon", daemonizes, 1},
        {"clone", clones, 0},
        {"vfork_stack", vforks_with_a_stack, 0},
        {"exec_bare", executes_without_environment, 0},
        {"executed", executed, 0},
        {"pidfd", descriptors_of_processes, 0},
        {"ptrace", traced, 0},
        {"unshare", other_namespaces, 1},
        {"chroot", another_root, 0},
        {"setuid", another_user, 0},
        {NULL, NULL, 0},
    };
    return run_corner(argc, argv, corners);
}
