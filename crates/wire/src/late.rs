//! Late: what the controller hands to a runtime that it has put into a program which has run before, and what it reads there.
//!
//! The controller calls functions of the runtime in a thread that it has stopped ([`State`] says where they have got to). It finds them, and the state, by
//! their names in the runtime's symbol table.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The names of the functions, and of the [`State`].
pub mod name {
    /// `extern "C" fn(low, high) -> i64`: finds the functions of the C library; `low` and `high` are the bounds of the stack that it is called on.
    pub const FIND: &str = "_whatif_find";
    /// `extern "C" fn(memory, entries, count) -> i64`: begins, with the shared memory that is mapped there, and has [`Entry`](super::Entry)s lead to the runtime's
    /// functions; returns how many do.
    pub const START: &str = "_whatif_start";
    /// `extern "C" fn() -> i64`: threads are registered and sampled from here on, and the kernel has entrances to the program's handlers, which no thread is to see: after
    /// [`START`], when none is in a call any more that does not lead to the runtime.
    pub const OPEN: &str = "_whatif_open";
    /// `extern "C" fn(low, high, mask) -> i64`: registers the calling thread; returns the signals that it is to have blocked, or −1.
    pub const JOIN: &str = "_whatif_join";
    /// `extern "C" fn(entries, count) -> i64`: has further entries lead to the runtime's functions; returns how many do.
    pub const REDIRECT: &str = "_whatif_redirect";
    /// `extern "C" fn(entries, count) -> i64`: has them lead where they led.
    pub const RESTORE: &str = "_whatif_restore";
    /// `extern "C" fn(entries, count) -> i64`: the program's signals are its own again, the entries lead where they led, and threads are left alone.
    pub const LEAVE: &str = "_whatif_leave";
    /// `extern "C" fn(first, end) -> i64`: the threads with slots of these numbers are not sampled any more. After [`LEAVE`].
    pub const SILENCE: &str = "_whatif_silence";
    /// Where the `syscall` instructions of a program lead that makes its system calls by itself: with the address to go on at in `rcx`.
    pub const SYSTEM_CALL: &str = "_whatif_system_call";
    /// The same in a program that has a C library besides.
    pub const SYSTEM_CALL_WITH_C: &str = "_whatif_system_call_with_c";
    /// Where functions of Go's scheduler lead ([`super::SCHEDULER`]): with the address to go on at in `r12`, and the number of the function in `r13`.
    pub const SCHEDULER: &str = "_whatif_scheduler";
    /// The same in a program that has a C library besides.
    pub const SCHEDULER_WITH_C: &str = "_whatif_scheduler_with_c";
    /// `extern "C" fn(number, …) -> i64`: makes a system call; returns what the kernel does.
    pub const PLAIN_CALL: &str = "_whatif_plain_call";
    /// Functions of C that compilers call, for programs that have none of these.
    pub const MEMORY_FUNCTIONS: [(&str, &str); 5] = [
        ("memcpy", "_whatif_memmove"),
        ("memmove", "_whatif_memmove"),
        ("memset", "_whatif_memset"),
        ("bcmp", "_whatif_bcmp"),
        ("strlen", "_whatif_strlen"),
    ];
    /// Where these return to: it says so in the [`State`](super::State), and waits to be stopped.
    pub const DONE: &str = "_whatif_done";
    /// The [`State`](super::State).
    pub const STATE: &str = "_whatif_late";
}

/// Why a function of the runtime has failed, as what it returns.
pub mod failure {
    /// The C library has no room for one more piece of thread-specific data that needs no memory.
    pub const NO_KEY: i64 = -1001;
    /// The shared memory is another build's.
    pub const MISMATCH: i64 = -1002;
    /// The kernel cannot tell forked processes from this one.
    pub const NO_WIPE: i64 = -1003;
    /// The shared memory could not be put where the last one was.
    pub const NO_ROOM: i64 = -1004;
    /// A thread is still in a call that it has begun in the last session, and another process has its slot in this one.
    pub const BUSY: i64 = -1005;
}

/// How far a runtime has got that was put into a program.
#[derive(Debug, Default)]
#[repr(C)]
pub struct State {
    /// A [`Phase`].
    pub phase: AtomicU32,
    /// The process that looks after it, by its number in the controller's name space.
    pub guardian: AtomicU32,
    /// Where the shared memory is mapped.
    pub memory: AtomicU64,
    /// Where the memory is mapped that the controller's calls use. The runtime only keeps this.
    pub room: AtomicU64,
    /// What the last function that was called has returned.
    pub result: AtomicU64,
    /// Whether it has returned.
    pub done: AtomicU32,
    /// The process that profiles itself, if any does: one that was forked from it has a copy of all this.
    pub process: AtomicU32,
    /// Whether it joins a session that another process has begun.
    pub joins: AtomicU32,
    /// Whether functions of the C library lead to ours where they begin, and not only where the program calls them: also those that they call themselves.
    pub is_hooked: AtomicU32,
    /// Whether the program makes its system calls by itself (Go): one of [`go`].
    pub is_go: AtomicU32,
    /// Whether a new thread has the word of its creator (musl).
    pub is_musl: AtomicU32,
    /// Where a thread has its goroutine in a program in Go with C code, from its thread pointer; zero if that is not known.
    pub goroutine: AtomicU64,
    /// Where `m.curg` is in Go's `struct m`; in such a program.
    pub current: AtomicU64,
    /// Where the cells of the hooks are. The runtime only keeps this.
    pub cells: AtomicU64,
    /// How many there are.
    pub cell_count: AtomicU64,
}

/// Programs in Go: how a thread finds out where it has its words.
pub mod go {
    /// It asks the kernel.
    pub const ASKS: u32 = 1;
    /// The processor says it (`rdfsbase`).
    pub const READS: u32 = 2;
    /// It has them where all programs have them, because it has a C library as well.
    pub const HAS_C: u32 = 3;
}

/// A function of Go's scheduler, whose first argument is a goroutine.
#[derive(Clone, Copy, Debug)]
pub struct Schedules {
    /// The function.
    pub name: &'static str,
    /// Whether the thread goes on with the goroutine that it runs.
    pub goes_on: bool,
}

/// The functions by which a goroutine that waited may be executed, and is.
pub const SCHEDULER: [Schedules; 2] = [
    Schedules { name: "runtime.ready", goes_on: true },
    Schedules { name: "runtime.execute", goes_on: false },
];

/// Functions that the runtime stands in front of, and the system call that each makes with its own arguments: in a program without a C library they make no more than that.
pub const SYSTEM_CALLS: [(&str, u32); 25] = [
    ("read", 0),
    ("write", 1),
    ("close", 3),
    ("poll", 7),
    ("pread64", 17),
    ("pwrite64", 18),
    ("readv", 19),
    ("writev", 20),
    ("sched_yield", 24),
    ("nanosleep", 35),
    ("connect", 42),
    ("accept", 43),
    ("sendto", 44),
    ("recvfrom", 45),
    ("sendmsg", 46),
    ("recvmsg", 47),
    ("wait4", 61),
    ("kill", 62),
    ("fsync", 74),
    ("fdatasync", 75),
    ("epoll_wait", 232),
    ("epoll_ctl", 233),
    ("tgkill", 234),
    ("epoll_pwait", 281),
    ("accept4", 288),
];

impl State {
    /// Nothing has been done.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            phase: AtomicU32::new(0),
            guardian: AtomicU32::new(0),
            memory: AtomicU64::new(0),
            room: AtomicU64::new(0),
            result: AtomicU64::new(0),
            done: AtomicU32::new(0),
            process: AtomicU32::new(0),
            joins: AtomicU32::new(0),
            is_hooked: AtomicU32::new(0),
            is_go: AtomicU32::new(0),
            is_musl: AtomicU32::new(0),
            goroutine: AtomicU64::new(0),
            current: AtomicU64::new(0),
            cells: AtomicU64::new(0),
            cell_count: AtomicU64::new(0),
        }
    }
}

/// See [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// The program has never been profiled.
    New = 0,
    /// It is.
    Profiles = 1,
    /// It was let go.
    Dormant = 2,
}

/// A word of the program that has the address of a function of the C library, and is to have that of the runtime's instead.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Entry {
    /// Where it is.
    pub place: u64,
    /// What it held before.
    pub before: AtomicU64,
    /// The function that the runtime's stands in front of: a word that is not bound yet may be so by now.
    pub real: u64,
    /// The runtime's function.
    pub ours: u64,
    /// Whether its page can only be read.
    pub is_locked: u32,
    /// Whether it leads to the runtime.
    pub is_redirected: AtomicU32,
}
