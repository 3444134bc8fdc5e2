/* Runs a program and comes between it and the kernel, once:

     faults count FILE -- PROGRAM...               how often it makes each system call
     faults fail CALL ERROR NTH FILE -- PROGRAM... the NTH time that it makes CALL, ERROR is the answer, and nothing was done
     faults cut CALL NTH FILE -- PROGRAM...        the NTH time that it makes CALL, half of what it asks for is done
     faults log FOLDER FILE -- PROGRAM...          what it does to the files in FOLDER, in order, with the bytes
     faults off FOLDER                             no program at all: the ext4 that FOLDER is the root of does as if the power failed

   CALL@PART instead of CALL means only those calls whose file has PART in its path, and +NTH instead of NTH only those that are made
   after it has started another program.
   All threads of the program count, and the processes that it starts until they execute another program: those are left alone. So
   is the dynamic loader, whose failures are not the program's.
   Ends as the program ends. Only files are cut: what is read from or written to anything else comes in messages, which the kernel
   does not cut. FILE says what was done: for `fail` and `cut` a line, nothing if the call was not made so often. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* EXT4_IOC_SHUTDOWN, and that its log is not written out before. */
#define EXT4_SHUTDOWN _IOR('X', 125, uint32_t)
#define WITHOUT_ITS_LOG 2

#define MOST_CALLS 1024
#define MOST_TRACED 512

struct name { const char *name; long number; };
#define CALL(name) {#name, SYS_##name}
static const struct name CALLS[] = {
    CALL(read), CALL(write), CALL(open), CALL(close), CALL(stat), CALL(fstat), CALL(lstat), CALL(poll), CALL(lseek), CALL(mmap),
    CALL(mprotect), CALL(munmap), CALL(brk), CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(ioctl),
    CALL(pread64), CALL(pwrite64), CALL(readv), CALL(writev), CALL(access), CALL(pipe), CALL(sched_yield), CALL(mremap),
    CALL(msync), CALL(mincore), CALL(madvise), CALL(dup), CALL(dup2), CALL(nanosleep), CALL(getpid), CALL(sendfile), CALL(socket),
    CALL(connect), CALL(accept), CALL(sendto), CALL(recvfrom), CALL(sendmsg), CALL(recvmsg), CALL(bind), CALL(listen),
    CALL(socketpair), CALL(clone), CALL(fork), CALL(vfork), CALL(execve), CALL(exit), CALL(wait4), CALL(kill), CALL(uname),
    CALL(fcntl), CALL(flock), CALL(fsync), CALL(fdatasync), CALL(truncate), CALL(ftruncate), CALL(getcwd), CALL(chdir), CALL(fchdir),
    CALL(rename), CALL(mkdir), CALL(rmdir), CALL(link), CALL(unlink), CALL(symlink), CALL(readlink), CALL(chmod), CALL(fchmod),
    CALL(chown), CALL(fchown), CALL(umask), CALL(getrlimit), CALL(getrusage), CALL(sysinfo), CALL(getuid), CALL(getgid),
    CALL(geteuid), CALL(getegid), CALL(setpgid), CALL(getppid), CALL(getpgrp), CALL(sigaltstack), CALL(statfs), CALL(fstatfs),
    CALL(prctl), CALL(getpriority), CALL(setpriority), CALL(getxattr), CALL(arch_prctl), CALL(setrlimit), CALL(gettid), CALL(tkill), CALL(futex), CALL(sched_setaffinity),
    CALL(sched_getaffinity), CALL(epoll_create), CALL(getdents64), CALL(set_tid_address), CALL(fadvise64), CALL(timer_create),
    CALL(restart_syscall), CALL(clock_gettime), CALL(clock_nanosleep), CALL(exit_group), CALL(epoll_wait), CALL(epoll_ctl), CALL(tgkill), CALL(waitid),
    CALL(openat), CALL(mkdirat), CALL(newfstatat), CALL(unlinkat), CALL(renameat), CALL(linkat), CALL(symlinkat), CALL(readlinkat),
    CALL(fchmodat), CALL(faccessat), CALL(pselect6), CALL(ppoll), CALL(set_robust_list), CALL(fallocate), CALL(eventfd),
    CALL(accept4), CALL(signalfd4), CALL(eventfd2), CALL(epoll_create1), CALL(dup3), CALL(pipe2), CALL(inotify_init1), CALL(preadv),
    CALL(pwritev), CALL(rt_tgsigqueueinfo), CALL(perf_event_open), CALL(prlimit64), CALL(process_vm_readv), CALL(renameat2),
    CALL(seccomp), CALL(getrandom), CALL(memfd_create), CALL(bpf), CALL(execveat), CALL(membarrier), CALL(copy_file_range),
    CALL(preadv2), CALL(pwritev2), CALL(statx), CALL(rseq), CALL(pidfd_send_signal), CALL(pidfd_open), CALL(clone3),
    CALL(close_range), CALL(openat2), CALL(faccessat2), CALL(epoll_pwait2),
};
#define ERROR(name) {#name, name}
static const struct name ERRORS[] = {
    ERROR(EPERM), ERROR(ENOENT), ERROR(ESRCH), ERROR(EINTR), ERROR(EIO), ERROR(E2BIG), ERROR(EBADF), ERROR(ECHILD), ERROR(EAGAIN),
    ERROR(ENOMEM), ERROR(EACCES), ERROR(EBUSY), ERROR(EXDEV), ERROR(ENODEV), ERROR(EINVAL), ERROR(ENFILE), ERROR(EMFILE),
    ERROR(ETXTBSY), ERROR(EFBIG), ERROR(ENOSPC), ERROR(EROFS), ERROR(EDQUOT), ERROR(ENOSYS), ERROR(ENOLCK), ERROR(ENOBUFS),
};

enum what { COUNT, FAIL, CUT, LOG };
static enum what what;
static long wanted, answer, nth, made;
static long counts[MOST_CALLS];
static FILE *out;
static const char *folder;
/* What the path of the file has, if that matters. */
static const char *part;
/* Only calls after another program was executed, and whether one was. */
static int is_after_start, is_another_started;
/* Nothing more is to be done: the program runs on as fast as it can. */
static int is_done;
static pid_t root;
static int is_root_started;
/* Where the dynamic loader lies. */
static unsigned long long loader_begin, loader_end;

/* A thread that is traced, by what it has entered. */
struct traced {
    pid_t id;
    int is_inside;
    int is_failing;
    unsigned long long restore;
    long number;
    unsigned long long arguments[6];
};
static struct traced traced[MOST_TRACED];

static void die(const char *why) {
    fprintf(stderr, "faults: %s: %s\n", why, strerror(errno));
    exit(125);
}

static long find(const struct name *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i].name, name)) return names[i].number;
    fprintf(stderr, "faults: what is %s? Add it to bench/c/faults.c\n", name);
    exit(125);
}

static const char *call_name(long number) {
    static char unknown[32];
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if (CALLS[i].number == number) return CALLS[i].name;
    snprintf(unknown, sizeof unknown, "number-%ld", number);
    return unknown;
}

static struct traced *thread_of(pid_t id) {
    struct traced *unused = NULL;
    for (int i = 0; i < MOST_TRACED; i++) {
        if (traced[i].id == id) return &traced[i];
        if (!traced[i].id && !unused) unused = &traced[i];
    }
    if (!unused) die("more threads than it has room for");
    *unused = (struct traced){.id = id};
    return unused;
}

/* The file under a descriptor. */
static int descriptor_path(pid_t id, long descriptor, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%ld", id, descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

static int is_file(pid_t id, long descriptor) {
    char link[64];
    struct stat about;
    snprintf(link, sizeof link, "/proc/%d/fd/%ld", id, descriptor);
    return !stat(link, &about) && S_ISREG(about.st_mode);
}

static size_t memory(pid_t id, unsigned long long from, void *to, size_t length) {
    struct iovec here = {to, length}, there = {(void *)from, length};
    ssize_t got = process_vm_readv(id, &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

/* The path that an argument points to, from the root on. */
static void argument_path(pid_t id, int folder_descriptor, unsigned long long at, char path[PATH_MAX]) {
    char name[PATH_MAX] = "", base[PATH_MAX] = "";
    /* A string may end just before memory that is not there. */
    for (size_t length = 0; length < PATH_MAX - 1; length++)
        if (!memory(id, at + length, name + length, 1) || !name[length]) break;
    if (name[0] != '/' && folder_descriptor != AT_FDCWD) descriptor_path(id, folder_descriptor, base);
    else if (name[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, "/proc/%d/cwd", id);
        ssize_t length = readlink(link, base, PATH_MAX - 1);
        base[length > 0 ? length : 0] = 0;
    }
    if ((size_t)snprintf(path, PATH_MAX, "%s%s%s", base, *base ? "/" : "", name) >= PATH_MAX) die("a path that is too long");
}

static int is_ours(const char *path) {
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

/* A record of the log: a line with its kind and numbers, a line with its path, and its bytes. */
static void record(const char *kind, const char *path, long long offset, const void *bytes, long long length) {
    fprintf(out, "%s %lld %lld\n%s\n", kind, offset, length, path);
    if (bytes) fwrite(bytes, 1, length, out);
}

static void record_write(struct traced *thread, const struct iovec *pieces, int count, long long offset, long long length) {
    char path[PATH_MAX];
    pid_t id = thread->id;
    if (!descriptor_path(id, thread->arguments[0], path)) return;
    int is_said = !is_ours(path) && (thread->arguments[0] == 1 || thread->arguments[0] == 2);
    if (!is_ours(path) && !is_said) return;
    char *bytes = malloc(length + 1);
    long long have = 0;
    for (int i = 0; i < count && have < length; i++) {
        long long want = (long long)pieces[i].iov_len < length - have ? (long long)pieces[i].iov_len : length - have;
        if (memory(id, (uintptr_t)pieces[i].iov_base, bytes + have, want) != (size_t)want) die("memory that cannot be read");
        have += want;
    }
    if (offset < 0 && !is_said) {
        char name[64];
        snprintf(name, sizeof name, "/proc/%d/fdinfo/%lld", id, thread->arguments[0]);
        FILE *about = fopen(name, "r");
        if (!about || fscanf(about, "pos: %lld", &offset) != 1) die("a descriptor without a place");
        fclose(about);
        offset -= length;
    }
    record(is_said ? "said" : "write", path, offset, bytes, length);
    free(bytes);
}

/* What a call that has succeeded did to files. */
static void log_call(struct traced *thread, long long result) {
    const unsigned long long *a = thread->arguments;
    pid_t id = thread->id;
    char path[PATH_MAX], to[PATH_MAX];
    struct iovec one = {(void *)a[1], a[2]}, pieces[64];
    switch (thread->number) {
    case SYS_write: record_write(thread, &one, 1, -1, result); break;
    case SYS_pwrite64: record_write(thread, &one, 1, a[3], result); break;
    case SYS_writev:
    case SYS_pwritev: {
        int count = a[2] > 64 ? 64 : a[2];
        if (memory(id, a[1], pieces, count * sizeof *pieces) != count * sizeof *pieces) die("memory that cannot be read");
        record_write(thread, pieces, count, thread->number == SYS_writev ? -1 : (long long)a[3], result);
        break;
    }
    case SYS_open:
    case SYS_openat: {
        unsigned long long flags = thread->number == SYS_open ? a[1] : a[2];
        if (!descriptor_path(id, result, path) || !is_ours(path)) break;
        if (flags & O_CREAT) record("create", path, 0, NULL, 0);
        if (flags & O_TRUNC) record("resize", path, 0, NULL, 0);
        break;
    }
    case SYS_ftruncate:
        if (descriptor_path(id, a[0], path) && is_ours(path)) record("resize", path, a[1], NULL, 0);
        break;
    case SYS_fsync:
    case SYS_fdatasync:
        if (descriptor_path(id, a[0], path) && is_ours(path)) record("sync", path, 0, NULL, 0);
        break;
    case SYS_mkdir:
    case SYS_mkdirat:
        if (thread->number == SYS_mkdir) argument_path(id, AT_FDCWD, a[0], path);
        else argument_path(id, a[0], a[1], path);
        if (is_ours(path)) record("folder", path, 0, NULL, 0);
        break;
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_rmdir:
        if (thread->number == SYS_unlinkat) argument_path(id, a[0], a[1], path);
        else argument_path(id, AT_FDCWD, a[0], path);
        if (is_ours(path)) record("remove", path, 0, NULL, 0);
        break;
    case SYS_rename:
    case SYS_renameat:
    case SYS_renameat2:
        if (thread->number == SYS_rename) {
            argument_path(id, AT_FDCWD, a[0], path);
            argument_path(id, AT_FDCWD, a[1], to);
        } else {
            argument_path(id, a[0], a[1], path);
            argument_path(id, a[2], a[3], to);
        }
        if (is_ours(path) || is_ours(to)) record("rename", path, 0, to, strlen(to));
        break;
    case SYS_mmap:
        if ((a[3] & MAP_SHARED) && (a[2] & PROT_WRITE) && descriptor_path(id, a[4], path) && is_ours(path))
            record("map", path, 0, NULL, 0);
        break;
    /* What there would have to be a record for. */
    case SYS_fallocate:
    case SYS_copy_file_range:
    case SYS_sendfile:
    case SYS_pwritev2:
        if (descriptor_path(id, a[thread->number == SYS_copy_file_range ? 2 : 0], path) && is_ours(path))
            record("unknown", call_name(thread->number), 0, NULL, 0);
        break;
    case SYS_truncate:
    case SYS_link:
    case SYS_linkat:
    case SYS_symlink:
    case SYS_symlinkat: record("unknown", call_name(thread->number), 0, NULL, 0); break;
    }
}

static void say_what_was_done(struct traced *thread) {
    char path[PATH_MAX], command[64] = "", name[64];
    snprintf(name, sizeof name, "/proc/%d/comm", thread->id);
    FILE *about = fopen(name, "r");
    if (about && fgets(command, sizeof command, about)) command[strcspn(command, "\n")] = 0;
    if (about) fclose(about);
    switch (thread->number) {
    case SYS_open: case SYS_stat: case SYS_lstat: case SYS_access: case SYS_unlink: case SYS_rename: case SYS_mkdir: case SYS_rmdir:
    case SYS_readlink: case SYS_execve: case SYS_statfs: case SYS_chmod: case SYS_link: case SYS_truncate:
        argument_path(thread->id, AT_FDCWD, thread->arguments[0], path);
        break;
    case SYS_openat: case SYS_statx: case SYS_newfstatat: case SYS_unlinkat: case SYS_mkdirat: case SYS_renameat: case SYS_readlinkat:
        argument_path(thread->id, thread->arguments[0], thread->arguments[1], path);
        break;
    case SYS_mmap: if (!descriptor_path(thread->id, (int)thread->arguments[4], path)) strcpy(path, "memory"); break;
    case SYS_futex: case SYS_clone: case SYS_clone3: case SYS_prctl: case SYS_wait4: case SYS_waitid: case SYS_kill: case SYS_mprotect:
    case SYS_munmap: case SYS_madvise: case SYS_rt_sigaction: case SYS_memfd_create: case SYS_perf_event_open: case SYS_mremap:
    case SYS_clock_nanosleep: case SYS_getrandom: case SYS_prlimit64:
        snprintf(path, sizeof path, "%#llx, %#llx", thread->arguments[0], thread->arguments[1]);
        break;
    default: if (!descriptor_path(thread->id, (int)thread->arguments[0], path)) *path = 0;
    }
    fprintf(out, "in %s: %s\n", command, path);
    fflush(out);
}

/* Which argument says how much is asked for. */
static unsigned long long *length_of(struct user_regs_struct *registers) {
    switch (registers->orig_rax) {
    case SYS_read: case SYS_write: case SYS_pread64: case SYS_pwrite64: return &registers->rdx;
    case SYS_getrandom: return &registers->rsi;
    default: return NULL;
    }
}

/* After the program has been mapped, the file that is neither it nor of the kernel is its loader. */
static void find_loader(void) {
    char name[64], line[PATH_MAX + 128], path[PATH_MAX], executable[PATH_MAX];
    snprintf(name, sizeof name, "/proc/%d/exe", root);
    ssize_t length = readlink(name, executable, sizeof executable - 1);
    executable[length > 0 ? length : 0] = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", root);
    FILE *maps = fopen(name, "r");
    if (!maps) die(name);
    while (fgets(line, sizeof line, maps)) {
        unsigned long long begin, end;
        if (sscanf(line, "%llx-%llx %*s %*s %*s %*s %4095s", &begin, &end, path) != 3 || *path != '/' || !strcmp(path, executable))
            continue;
        if (!loader_begin) loader_begin = begin;
        loader_end = end;
    }
    fclose(maps);
}

/* A wake-up does not fail, and one that was not made would be missed for ever. */
static int wakes(const struct user_regs_struct *registers) {
    long what_for = registers->rsi & FUTEX_CMD_MASK;
    return registers->orig_rax == SYS_futex && what_for != FUTEX_WAIT && what_for != FUTEX_WAIT_BITSET;
}

/* Whether a call is one of those that are counted until the NTH. */
static int is_counted(struct traced *thread) {
    char path[PATH_MAX];
    if (is_after_start && !is_another_started) return 0;
    if (!part) return 1;
    int of_file = thread->number == SYS_mmap ? 4 : 0;
    return descriptor_path(thread->id, (int)thread->arguments[of_file], path) && strstr(path, part);
}

static void enter(struct traced *thread) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread->id, 0, &registers)) return;
    long number = registers.orig_rax;
    unsigned long long arguments[6] =
        {registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9};
    memcpy(thread->arguments, arguments, sizeof arguments);
    thread->number = number;
    if (what != LOG && ((registers.rip >= loader_begin && registers.rip < loader_end) || wakes(&registers))) return;
    if (what == COUNT && number >= 0 && number < MOST_CALLS) counts[number]++;
    if ((what != FAIL && what != CUT) || number != wanted || !is_counted(thread)) return;
    if (what == FAIL) {
        if (++made != nth) return;
        say_what_was_done(thread);
        thread->is_failing = 1;
        registers.orig_rax = -1;
    } else {
        unsigned long long *length = length_of(&registers);
        if (!length || *length < 2 || (number != SYS_getrandom && !is_file(thread->id, registers.rdi)) || ++made != nth) return;
        say_what_was_done(thread);
        thread->restore = *length;
        *length /= 2;
    }
    if (ptrace(PTRACE_SETREGS, thread->id, 0, &registers)) die("setting registers");
}

static void leave(struct traced *thread) {
    struct user_regs_struct registers;
    if (what == COUNT || (what != LOG && !thread->is_failing && !thread->restore)) return;
    if (ptrace(PTRACE_GETREGS, thread->id, 0, &registers)) return;
    if (what == LOG) {
        if ((long long)registers.rax >= 0) log_call(thread, registers.rax);
        return;
    }
    if (thread->is_failing) registers.rax = -answer;
    /* Compilers know that the kernel leaves this register as it was. */
    else if (thread->number == SYS_getrandom) registers.rsi = thread->restore;
    else registers.rdx = thread->restore;
    thread->is_failing = 0;
    thread->restore = 0;
    is_done = 1;
    if (ptrace(PTRACE_SETREGS, thread->id, 0, &registers)) die("setting registers");
}

static void go_on(pid_t id, int signal) {
    /* An error: it has been killed, and `waitpid` will say so. */
    ptrace(is_done || !is_root_started ? PTRACE_CONT : PTRACE_SYSCALL, id, 0, (long)signal);
}

static int follow(void) {
    for (;;) {
        int status;
        pid_t id = waitpid(-1, &status, __WALL);
        if (id < 0 && errno == EINTR) continue;
        if (id < 0) die("waiting");
        struct traced *thread = thread_of(id);
        if (!WIFSTOPPED(status)) {
            thread->id = 0;
            if (id == root) return status;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (signal == (SIGTRAP | 0x80)) {
            thread->is_inside = !thread->is_inside;
            if (thread->is_inside) enter(thread);
            else leave(thread);
            go_on(id, 0);
        } else if (event == PTRACE_EVENT_EXEC && id != root) {
            thread->id = 0;
            is_another_started = 1;
            ptrace(PTRACE_DETACH, id, 0, 0);
        } else if (event == PTRACE_EVENT_EXEC) {
            /* The call ends yet. */
            is_root_started = 1;
            find_loader();
            thread->is_inside = 1;
            thread->number = -1;
            go_on(id, 0);
        } else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
            ptrace(PTRACE_LISTEN, id, 0, 0);
        } else if (event) {
            go_on(id, 0);
        } else {
            go_on(id, signal);
        }
    }
}

static int power_off(const char *path) {
    uint32_t how = WITHOUT_ITS_LOG;
    int root_of_it = open(path, O_RDONLY | O_DIRECTORY);
    if (root_of_it < 0 || ioctl(root_of_it, EXT4_SHUTDOWN, &how)) die(path);
    return 0;
}

static void start(char **command) {
    int gate[2];
    if (pipe2(gate, O_CLOEXEC)) die("pipe");
    root = fork();
    if (root < 0) die("fork");
    if (!root) {
        char byte;
        if (read(gate[0], &byte, 1) != 1) _exit(125);
        execvp(command[0], command);
        _exit(127);
    }
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |
                   PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, root, 0, options)) die("this process may not be traced");
    if (write(gate[1], "", 1) != 1) die("write");
    close(gate[0]);
    close(gate[1]);
}

#define FIND(names, name) find(names, sizeof names / sizeof *names, name)

int main(int argc, char **argv) {
    int at = 1;
    const char *kind = argc > 1 ? argv[at++] : "";
    if (!strcmp(kind, "off") && argc == 3) return power_off(argv[2]);
    int needs = !strcmp(kind, "count") ? 1 : !strcmp(kind, "fail") ? 4 : !strcmp(kind, "cut") ? 3 : !strcmp(kind, "log") ? 2 : -1;
    if (needs < 0 || argc < at + needs + 2 || strcmp(argv[at + needs], "--")) {
        fprintf(stderr, "usage: see the head of bench/c/faults.c\n");
        return 125;
    }
    what = *kind == 'c' ? (kind[1] == 'o' ? COUNT : CUT) : *kind == 'f' ? FAIL : LOG;
    if (what == FAIL || what == CUT) {
        char *file = strchr(argv[at], '@');
        if (file) *file++ = 0;
        part = file;
        wanted = FIND(CALLS, argv[at++]);
    }
    if (what == FAIL) answer = FIND(ERRORS, argv[at++]);
    if (what == FAIL || what == CUT) {
        is_after_start = *argv[at] == '+';
        nth = atol(argv[at++]);
    }
    if (what == LOG) folder = argv[at++];
    out = fopen(argv[at++], "we");
    if (!out) die(argv[at - 1]);
    start(argv + at + 1);
    int status = follow();
    if (what == COUNT)
        for (int i = 0; i < MOST_CALLS; i++)
            if (counts[i]) fprintf(out, "%s %ld\n", call_name(i), counts[i]);
    if (fclose(out)) die("writing what was done");
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}
