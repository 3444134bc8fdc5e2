//! Kinds of faults: the system calls, and what the kernel may answer instead of doing what it was asked.

/// One way in which a call is not done as it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and this error is the answer.
    Error(&'static str),
    /// Half of it is done: a short read or write.
    Cut,
}

impl Fault {
    pub fn name(self) -> &'static str {
        match self {
            Fault::Error(name) => name,
            Fault::Cut => "half",
        }
    }
}

/// System calls, and the errors that they are tried with. `half` stands for a short read or write.
pub const CALLS: [(&str, &[Fault]); 69] = {
    use Fault::{Cut, Error};
    [
        ("openat", &[Error("EMFILE"), Error("ENOMEM"), Error("EIO"), Error("EINTR")]),
        ("open", &[Error("EMFILE"), Error("EIO")]),
        ("read", &[Error("EIO"), Error("EINTR"), Cut]),
        ("pread64", &[Error("EIO"), Error("EINTR"), Cut]),
        ("readv", &[Error("EIO"), Error("EINTR")]),
        ("write", &[Error("ENOSPC"), Error("EIO"), Error("EINTR"), Cut]),
        ("pwrite64", &[Error("ENOSPC"), Error("EIO"), Error("EINTR"), Cut]),
        ("writev", &[Error("ENOSPC"), Error("EINTR")]),
        ("fsync", &[Error("EIO"), Error("ENOSPC")]),
        ("fdatasync", &[Error("EIO"), Error("ENOSPC")]),
        ("ftruncate", &[Error("EIO"), Error("ENOSPC"), Error("EINTR")]),
        ("fallocate", &[Error("EIO"), Error("ENOSPC"), Error("EINTR")]),
        ("rename", &[Error("EIO"), Error("ENOSPC")]),
        ("renameat", &[Error("EIO"), Error("ENOSPC")]),
        ("renameat2", &[Error("EIO"), Error("ENOSPC")]),
        ("unlink", &[Error("EIO")]),
        ("unlinkat", &[Error("EIO")]),
        ("mkdir", &[Error("ENOSPC"), Error("EIO")]),
        ("mkdirat", &[Error("ENOSPC"), Error("EIO")]),
        ("statx", &[Error("EIO"), Error("ENOMEM")]),
        ("newfstatat", &[Error("EIO"), Error("ENOMEM")]),
        ("stat", &[Error("EIO")]),
        ("fstat", &[Error("EIO")]),
        ("lstat", &[Error("EIO")]),
        ("access", &[Error("EIO")]),
        ("faccessat2", &[Error("EIO")]),
        ("statfs", &[Error("EIO")]),
        ("fstatfs", &[Error("EIO")]),
        ("lseek", &[Error("EIO")]),
        ("getdents64", &[Error("EIO"), Error("ENOMEM")]),
        ("readlink", &[Error("EIO"), Error("ENOMEM")]),
        ("readlinkat", &[Error("EIO"), Error("ENOMEM")]),
        ("getcwd", &[Error("ENOENT"), Error("ENOMEM")]),
        ("chmod", &[Error("EIO")]),
        ("fchmod", &[Error("EIO"), Error("EROFS")]),
        ("fchown", &[Error("EIO"), Error("EPERM")]),
        ("fcntl", &[Error("EAGAIN"), Error("EIO"), Error("EMFILE")]),
        ("flock", &[Error("EINTR"), Error("ENOLCK")]),
        ("mmap", &[Error("ENOMEM"), Error("EMFILE")]),
        ("mremap", &[Error("ENOMEM")]),
        ("mprotect", &[Error("ENOMEM")]),
        ("madvise", &[Error("ENOMEM"), Error("EAGAIN")]),
        ("memfd_create", &[Error("EMFILE"), Error("ENOMEM")]),
        ("ioctl", &[Error("ENOMEM"), Error("EINTR")]),
        ("perf_event_open", &[Error("EMFILE"), Error("ENOMEM"), Error("EINTR"), Error("EACCES")]),
        ("bpf", &[Error("EPERM"), Error("ENOMEM")]),
        ("clone", &[Error("EAGAIN"), Error("ENOMEM")]),
        ("clone3", &[Error("EAGAIN"), Error("ENOMEM")]),
        ("vfork", &[Error("EAGAIN")]),
        ("fork", &[Error("EAGAIN")]),
        ("execve", &[Error("ENOMEM"), Error("EIO"), Error("ETXTBSY")]),
        ("wait4", &[Error("EINTR")]),
        ("waitid", &[Error("EINTR")]),
        ("kill", &[Error("EPERM")]),
        ("tgkill", &[Error("EAGAIN")]),
        ("pidfd_open", &[Error("EMFILE"), Error("ENOMEM")]),
        ("futex", &[Error("EINTR"), Error("EAGAIN")]),
        ("poll", &[Error("EINTR"), Error("ENOMEM")]),
        ("ppoll", &[Error("EINTR"), Error("ENOMEM")]),
        ("clock_nanosleep", &[Error("EINTR")]),
        ("pipe2", &[Error("EMFILE")]),
        ("socketpair", &[Error("EMFILE"), Error("ENOBUFS")]),
        ("recvfrom", &[Error("EINTR")]),
        ("setpriority", &[Error("EACCES")]),
        ("getxattr", &[Error("EIO"), Error("ENOMEM")]),
        ("prctl", &[Error("EINVAL"), Error("EPERM")]),
        ("prlimit64", &[Error("EPERM")]),
        ("getrandom", &[Error("EINTR"), Error("ENOSYS"), Cut]),
        ("process_vm_readv", &[Error("EPERM"), Error("ENOMEM")]),
    ]
};

/// System calls that do not fail where they are used rightly, or that only free: a `close` that answers with an error has closed all the
/// same, and what is injected would leave the file open; `brk` has no errors.
pub const CANNOT_FAIL: [&str; 29] = [
    "close",
    "brk",
    "munmap",
    "exit",
    "exit_group",
    "gettid",
    "getpid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getppid",
    "getpgrp",
    "umask",
    "uname",
    "sysinfo",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "sched_yield",
    "sched_getaffinity",
    "fadvise64",
    "clock_gettime",
    // The kernel makes it, to go on with a wait that was interrupted.
    "restart_syscall",
];
