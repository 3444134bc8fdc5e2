//! Raw system calls: they bypass our own interposed functions and leave `errno` alone.
//!
//! Results are the kernel's: negative numbers are `-errno`. In threads that are left alone every call fails with `EPERM`
//! without being made: a filter of the program's might kill it for the call.

use crate::real::{first, real};
use crate::tls;
use core::arch::asm;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use wire::Nanos;
use wire::slot::Slot;

pub const CLOCK_MONOTONIC: i64 = 1;
pub const CLOCK_THREAD_CPUTIME_ID: i64 = 3;

mod number {
    pub const READ: i64 = 0;
    pub const OPEN: i64 = 2;
    pub const POLL: i64 = 7;
    pub const SCHED_YIELD: i64 = 24;
    pub const RESTART_SYSCALL: i64 = 219;
    pub const MMAP: i64 = 9;
    pub const MPROTECT: i64 = 10;
    pub const MUNMAP: i64 = 11;
    pub const MREMAP: i64 = 25;
    pub const MADVISE: i64 = 28;
    pub const SOCKET: i64 = 41;
    pub const CONNECT: i64 = 42;
    pub const SENDMSG: i64 = 46;
    pub const RECVMSG: i64 = 47;
    pub const SETSOCKOPT: i64 = 54;
    pub const GETSOCKNAME: i64 = 51;
    pub const GETPEERNAME: i64 = 52;
    pub const GETSOCKOPT: i64 = 55;
    pub const SCHED_GETAFFINITY: i64 = 204;
    pub const RT_SIGACTION: i64 = 13;
    pub const RT_SIGPROCMASK: i64 = 14;
    pub const RT_SIGPENDING: i64 = 127;
    pub const SIGALTSTACK: i64 = 131;
    pub const IOCTL: i64 = 16;
    pub const GETPID: i64 = 39;
    pub const GETPPID: i64 = 110;
    pub const CLOSE: i64 = 3;
    pub const FSTAT: i64 = 5;
    pub const EXIT_GROUP: i64 = 231;
    pub const FCNTL: i64 = 72;
    pub const PRCTL: i64 = 157;
    pub const GETTID: i64 = 186;
    pub const FUTEX: i64 = 202;
    pub const EPOLL_WAIT: i64 = 232;
    pub const EPOLL_CTL: i64 = 233;
    pub const TIMER_CREATE: i64 = 222;
    pub const TIMER_SETTIME: i64 = 223;
    pub const TIMER_DELETE: i64 = 226;
    pub const CLOCK_GETTIME: i64 = 228;
    pub const KILL: i64 = 62;
    pub const TGKILL: i64 = 234;
    pub const RT_SIGTIMEDWAIT: i64 = 128;
    pub const RT_SIGQUEUEINFO: i64 = 129;
    pub const RT_TGSIGQUEUEINFO: i64 = 297;
    pub const PERF_EVENT_OPEN: i64 = 298;
    pub const PRLIMIT64: i64 = 302;
    pub const PROCESS_VM_READV: i64 = 310;
}

/// One system call.
///
/// # Safety
/// As safe as the call with these arguments is.
#[inline]
pub unsafe fn call(number: i64, a: [i64; 6]) -> i64 {
    const EPERM: i64 = 1;
    if tls::is_silent() {
        return -EPERM;
    }
    // SAFETY: the caller vouches for the call.
    unsafe { call_at_any_time(number, a) }
}

/// The same in a thread that is left alone as well.
///
/// # Safety
/// As for [`call`].
#[inline]
unsafe fn call_at_any_time(number: i64, a: [i64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the kernel clobbers rcx and r11 only; memory is clobbered because `nomem` is not given.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Whether the C library's clock is the kernel's.
static IS_TRUE: AtomicBool = AtomicBool::new(false);

/// Finds out whether the first `clock_gettime` behind this library tells the kernel's time: there are libraries that tell another one, and sanitizers that may not be
/// called from a signal handler. Once, before anything is timed.
pub fn prepare_clock() {
    let watches = [c"__tsan_init", c"__msan_init"].iter().any(|name| first(name).is_some());
    let before = now();
    IS_TRUE.store(!watches, Relaxed);
    let between = now();
    IS_TRUE.store(false, Relaxed);
    let after = now();
    IS_TRUE.store(!watches && before <= between && between <= after, Relaxed);
}

/// The time on `clock`, by the C library, which reads it without entering the kernel where it can (23 ns instead of 300 on a virtual machine); otherwise by
/// the kernel.
pub fn clock(clock: i64) -> Nanos {
    let mut time = [0_i64; 2];
    // The kernel alone knows the CPU time of threads.
    if clock == CLOCK_THREAD_CPUTIME_ID && tls::is_silent() {
        return Nanos::ZERO;
    }
    // It has no reason to fail, and so none to set `errno`.
    if IS_TRUE.load(Relaxed)
        && let Some(read) = real!(clock_gettime: fn(c_int, *mut [i64; 2]) -> c_int)
    {
        // SAFETY: it writes a timespec, two 64-bit words, to `time`.
        unsafe { read(clock as c_int, &raw mut time) };
        return Nanos(time[0] as u64 * 1_000_000_000 + time[1] as u64);
    }
    // SAFETY: the kernel writes a timespec, two 64-bit words, to `time`.
    unsafe { call(number::CLOCK_GETTIME, [clock, time.as_mut_ptr() as i64, 0, 0, 0, 0]) };
    Nanos(time[0] as u64 * 1_000_000_000 + time[1] as u64)
}

/// The monotonic clock.
pub fn now() -> Nanos {
    clock(CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
pub fn cpu_time() -> Nanos {
    clock(CLOCK_THREAD_CPUTIME_ID)
}

/// Lets other threads have the CPU.
pub fn sched_yield() {
    // SAFETY: no arguments, cannot fail.
    unsafe { call(number::SCHED_YIELD, [0; 6]) };
}

pub fn gettid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { call(number::GETTID, [0; 6]) as u32 }
}

/// Whether the calling thread is the one that its slot belongs to. A `vfork`ed child has its parent's, and closes its own copies of descriptors.
pub fn is_own() -> bool {
    tls::slot().is_none_or(|slot| slot.tid.load(Relaxed) == gettid())
}

pub fn getpid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { call(number::GETPID, [0; 6]) as u32 }
}

pub fn getppid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { call(number::GETPPID, [0; 6]) as u32 }
}

/// `restart_syscall(2)`: goes on with the system call that the thread was stopped in; what that returns.
pub fn restart() -> i64 {
    // SAFETY: the arguments of that call were checked when it began.
    unsafe { call_at_any_time(number::RESTART_SYSCALL, [0; 6]) }
}

pub fn close(fd: i32) {
    // SAFETY: only ever called with descriptors that this library opened.
    unsafe { call(number::CLOSE, [i64::from(fd), 0, 0, 0, 0, 0]) };
}

/// Sleeps while `*word == expected`, until `deadline` on the monotonic clock or a wake-up or a signal.
/// The futex is shared with the controller.
pub fn futex_wait_until(word: &AtomicU32, expected: u32, deadline: Nanos) {
    const FUTEX_WAIT_BITSET: i64 = 9;
    let time = [(deadline.0 / 1_000_000_000) as i64, (deadline.0 % 1_000_000_000) as i64];
    let arguments = [
        word.as_ptr() as i64,
        FUTEX_WAIT_BITSET,
        i64::from(expected),
        time.as_ptr() as i64,
        0,
        i64::from(u32::MAX),
    ];
    // SAFETY: `word` is a live 32-bit word, `time` a timespec that lives through the call.
    unsafe { call(number::FUTEX, arguments) };
}

/// Sets the timer slack of the calling thread, in nanoseconds; zero restores its default.
pub fn set_timer_slack(nanos: u64) {
    // SAFETY: changes an attribute of the calling thread only.
    unsafe { call(number::PRCTL, [29, nanos as i64, 0, 0, 0, 0]) };
}

pub fn timer_slack() -> u64 {
    // SAFETY: reads an attribute of the calling thread.
    unsafe { call(number::PRCTL, [30, 0, 0, 0, 0, 0]) as u64 }
}

/// Maps `length` bytes of `fd`, shared; `None` when refused.
pub fn map_shared(fd: i32, length: usize) -> Option<*mut u8> {
    const READ_WRITE: i64 = 3;
    const MAP_SHARED: i64 = 1;
    // SAFETY: a fresh mapping at an address that the kernel chooses touches nothing that exists.
    let start = unsafe { call(number::MMAP, [0, length as i64, READ_WRITE, MAP_SHARED, i64::from(fd), 0]) };
    (start > 0).then_some(start as *mut u8)
}

/// A word in a page of its own that is zero, and zero again in every process that is made of this one with a copy of its memory.
pub fn wiped_on_fork() -> Option<&'static AtomicU32> {
    const PAGE: usize = 4096;
    const MADV_WIPEONFORK: i64 = 18;
    let start = map_memory(PAGE)?;
    // SAFETY: the page that has just been mapped, and is not in use.
    let result = unsafe { call(number::MADVISE, [start as i64, PAGE as i64, MADV_WIPEONFORK, 0, 0, 0]) };
    if result < 0 {
        unmap(start, PAGE);
        return None;
    }
    // SAFETY: zeros are such a word, and the page is never unmapped.
    Some(unsafe { &*core::ptr::with_exposed_provenance::<AtomicU32>(start) })
}

/// Has `length` bytes of the program's memory, whole pages, writable or only readable; whether that could be done.
pub fn protect(start: usize, length: usize, is_writable: bool) -> bool {
    let protection = if is_writable { 3 } else { 1 };
    // SAFETY: only ever called for pages with the program's own tables, which nothing writes but its loader.
    unsafe { call(number::MPROTECT, [start as i64, length as i64, protection, 0, 0, 0]) >= 0 }
}

/// Whether a page can be written, found out without writing to it; `None` on kernels that cannot tell (before Linux 5.14).
pub fn is_writable(page: usize) -> Option<bool> {
    const PAGE: i64 = 4096;
    const POPULATE_READ: i64 = 22;
    const POPULATE_WRITE: i64 = 23;
    const EINVAL: i64 = -22;
    // SAFETY: the contents of the page stay as they are.
    let advise = |how| unsafe { call(number::MADVISE, [page as i64, PAGE, how, 0, 0, 0]) };
    // An old kernel does not know either of them.
    match advise(POPULATE_WRITE) {
        0.. => Some(true),
        EINVAL if advise(POPULATE_READ) == EINVAL => None,
        _ => Some(false),
    }
}

/// Moves a mapping to where another one is, which is gone then; whether that could be done.
pub fn move_onto(start: usize, length: usize, onto: usize) -> bool {
    const MAYMOVE_FIXED: i64 = 3;
    let (start, length, onto) = (start as i64, length as i64, onto as i64);
    // SAFETY: only called with two mappings of our own, of that length.
    unsafe { call(number::MREMAP, [start, length, length, MAYMOVE_FIXED, onto, 0]) >= 0 }
}

pub fn unmap(start: usize, length: usize) {
    // SAFETY: only called with mappings of our own that are no longer used.
    unsafe { call(number::MUNMAP, [start as i64, length as i64, 0, 0, 0, 0]) };
}

/// `struct stat` of an open file (144 bytes on x86-64), or a negative error.
fn stat(fd: i32) -> Result<[i64; 18], i64> {
    let mut stat = [0_i64; 18];
    // SAFETY: the kernel writes 144 bytes.
    let result = unsafe { call(number::FSTAT, [i64::from(fd), stat.as_mut_ptr() as i64, 0, 0, 0, 0]) };
    if result < 0 { Err(result) } else { Ok(stat) }
}

/// Size of an open file, or a negative error.
pub fn file_size(fd: i32) -> i64 {
    stat(fd).map_or_else(|error| error, |stat| stat[6])
}

/// A fingerprint of the program that this process runs; zero if that cannot be had.
pub fn own_program() -> u64 {
    let Some(file) = open(c"/proc/self/exe") else { return 0 };
    let stat = stat(file);
    close(file);
    stat.map_or(0, |stat| wire::slot::fingerprint(stat[1] as u64, stat[6] as u64))
}

/// Mode, device and inode of an open file.
pub fn file_kind(fd: i32) -> Option<(u64, u64, u64)> {
    let stat = stat(fd).ok()?;
    Some((stat[3] as u64 & 0xffff_ffff, stat[0] as u64, stat[1] as u64))
}

/// The address of a socket or of its peer, and how long it is.
pub fn socket_name(fd: i32, peer: bool) -> Option<([u8; 112], usize)> {
    let mut name = [0_u8; 112];
    let mut length = size_of_val(&name) as u32;
    let number = if peer { number::GETPEERNAME } else { number::GETSOCKNAME };
    let arguments = [i64::from(fd), name.as_mut_ptr() as i64, (&raw mut length) as i64, 0, 0, 0];
    // SAFETY: the kernel writes at most `length` bytes to `name`, and the length.
    let result = unsafe { call(number, arguments) };
    (result == 0).then_some((name, (length as usize).min(name.len())))
}

/// An option of a socket that is an integer (`SOL_SOCKET`).
pub fn socket_option(fd: i32, option: i64) -> Option<i32> {
    const SOL_SOCKET: i64 = 1;
    let mut value = 0_i32;
    let mut length = size_of_val(&value) as u32;
    let arguments = [i64::from(fd), SOL_SOCKET, option, (&raw mut value) as i64, (&raw mut length) as i64, 0];
    // SAFETY: the kernel writes at most `length` bytes to `value`, and the length.
    let result = unsafe { call(number::GETSOCKOPT, arguments) };
    (result == 0).then_some(value)
}

/// The first 26 words of `struct tcp_info` of a TCP socket (linux/tcp.h), which older kernels have as well.
pub fn tcp_info(fd: i32) -> Option<[u32; 26]> {
    const IPPROTO_TCP: i64 = 6;
    const TCP_INFO: i64 = 11;
    let mut info = [0_u32; 26];
    let mut length = size_of_val(&info) as u32;
    let arguments =
        [i64::from(fd), IPPROTO_TCP, TCP_INFO, info.as_mut_ptr() as i64, (&raw mut length) as i64, 0];
    // SAFETY: the kernel writes at most `length` bytes to `info`, and the length.
    let result = unsafe { call(number::GETSOCKOPT, arguments) };
    (result == 0 && length as usize == size_of_val(&info)).then_some(info)
}

/// A connection with the socket of this name, which is no file's (unix(7), "abstract"). Neither this nor what is done with it takes longer than `patience`
/// at a time. It is closed when a program is executed.
pub fn connect_to(name: &[u8], patience: Nanos) -> Option<i32> {
    const AF_UNIX: i64 = 1;
    const SEQPACKET_CLOEXEC: i64 = 5 | 0o2_000_000;
    const SOL_SOCKET: i64 = 1;
    const SO_RCVTIMEO: i64 = 20;
    const SO_SNDTIMEO: i64 = 21;
    // Family, a NUL, and the name.
    let mut address = [0_u8; 110];
    address[0] = AF_UNIX as u8;
    address.get_mut(3..3 + name.len())?.copy_from_slice(name);
    // SAFETY: a new descriptor.
    let socket = unsafe { call(number::SOCKET, [AF_UNIX, SEQPACKET_CLOEXEC, 0, 0, 0, 0]) };
    if socket < 0 {
        return None;
    }
    let time = [(patience.0 / 1_000_000_000) as i64, (patience.0 % 1_000_000_000 / 1000) as i64];
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
        let arguments = [socket, SOL_SOCKET, option, time.as_ptr() as i64, size_of_val(&time) as i64, 0];
        // SAFETY: the kernel reads a timeval.
        unsafe { call(number::SETSOCKOPT, arguments) };
    }
    let arguments = [socket, address.as_ptr() as i64, 3 + name.len() as i64, 0, 0, 0];
    // SAFETY: the kernel reads the address.
    if unsafe { call(number::CONNECT, arguments) } != 0 {
        close(socket as i32);
        return None;
    }
    Some(socket as i32)
}

/// `struct msghdr` (recvmsg(2)).
#[repr(C)]
struct MessageHeader {
    name: usize,
    name_length: u64,
    parts: usize,
    part_count: u64,
    control: usize,
    control_length: u64,
    flags: u64,
}

/// Sends one message that these parts make; whether it was sent.
pub fn send_all(socket: i32, parts: [&[u8]; 4]) -> bool {
    const MSG_NOSIGNAL: i64 = 0x4000;
    const EINTR: i64 = -4;
    let parts = parts.map(|part| [part.as_ptr() as usize, part.len()]);
    let header = MessageHeader {
        name: 0,
        name_length: 0,
        parts: parts.as_ptr() as usize,
        part_count: parts.len() as u64,
        control: 0,
        control_length: 0,
        flags: 0,
    };
    loop {
        let arguments = [i64::from(socket), (&raw const header) as i64, MSG_NOSIGNAL, 0, 0, 0];
        // SAFETY: the kernel reads the header, the parts and what they point to.
        match unsafe { call(number::SENDMSG, arguments) } {
            EINTR => {}
            result => return result >= 0,
        }
    }
}

/// Receives one message: its length, and the descriptor that came with it. Nothing after `deadline`.
pub fn receive(socket: i32, buffer: &mut [u8], deadline: Nanos) -> Option<(usize, Option<i32>)> {
    const EINTR: i64 = -4;
    const MSG_CMSG_CLOEXEC: i64 = 0x4000_0000;
    /// `SOL_SOCKET` and `SCM_RIGHTS`, in one word.
    const RIGHTS: u64 = 1 | 1 << 32;
    /// A `struct cmsghdr` with one descriptor.
    const LENGTH: u64 = 20;
    loop {
        let part = [buffer.as_mut_ptr() as usize, buffer.len()];
        let mut control = [0_u64; 3];
        let mut header = MessageHeader {
            name: 0,
            name_length: 0,
            parts: part.as_ptr() as usize,
            part_count: 1,
            control: control.as_mut_ptr() as usize,
            control_length: size_of_val(&control) as u64,
            flags: 0,
        };
        let arguments = [i64::from(socket), (&raw mut header) as i64, MSG_CMSG_CLOEXEC, 0, 0, 0];
        // SAFETY: the kernel writes at most the size of `buffer` to it, and at most that of `control`.
        match unsafe { call(number::RECVMSG, arguments) } {
            EINTR if now() < deadline => {}
            length if length > 0 => {
                let [size, kind, descriptor] = control;
                let has_one = header.control_length >= LENGTH && size == LENGTH && kind == RIGHTS;
                let length = (length as usize).min(buffer.len());
                return Some((length, has_one.then_some(descriptor as u32 as i32)));
            }
            _ => return None,
        }
    }
}

/// Whether there is a process of this number, ended or not.
pub fn exists(process: u32) -> bool {
    const ESRCH: i64 = -3;
    // SAFETY: no signal is sent.
    unsafe { call(number::KILL, [i64::from(process), 0, 0, 0, 0, 0]) != ESRCH }
}

/// How many bytes can be read from a descriptor now (FIONREAD).
pub fn bytes_to_read(fd: i32) -> Option<u32> {
    const FIONREAD: i64 = 0x541b;
    let mut bytes = 0_u32;
    // SAFETY: the kernel writes an integer of four bytes.
    let result = unsafe { call(number::IOCTL, [i64::from(fd), FIONREAD, (&raw mut bytes) as i64, 0, 0, 0]) };
    (result == 0).then_some(bytes)
}

/// When the datagram came that was last read from a socket (socket(7), SIOCGSTAMPNS), by the clock of the day.
pub fn datagram_stamp(fd: i32) -> Option<Nanos> {
    const SIOCGSTAMPNS: i64 = 0x8907;
    let mut time = [0_i64; 2];
    // SAFETY: the kernel writes a timespec, two 64-bit words, to `time`.
    let result =
        unsafe { call(number::IOCTL, [i64::from(fd), SIOCGSTAMPNS, time.as_mut_ptr() as i64, 0, 0, 0]) };
    (result == 0).then_some(Nanos(time[0] as u64 * 1_000_000_000 + time[1] as u64))
}

/// Whether any of `events` (as in poll(2)) is there now.
pub fn is_ready(fd: i32, events: u16) -> bool {
    // A descriptor, the events that are asked for, and the answer.
    let mut asked = [u64::from(fd as u32) | u64::from(events) << 32];
    // SAFETY: the array is one `pollfd`; with no timeout the call does not wait.
    unsafe { call(number::POLL, [asked.as_mut_ptr() as i64, 1, 0, 0, 0, 0]) > 0 }
}

/// What events an `epoll` instance has now, without waiting: how many have been written to `events`, or a negative error.
pub fn epoll_look(instance: i32, events: usize, room: i32) -> i32 {
    // SAFETY: the kernel writes no more than the program has asked for, to where it wants them.
    unsafe { call(number::EPOLL_WAIT, [i64::from(instance), events as i64, i64::from(room), 0, 0, 0]) as i32 }
}

/// Changes what an `epoll` instance watches `fd` for to the event at the address `event`; false if that failed.
pub fn epoll_change(instance: i32, fd: i32, event: usize) -> bool {
    const MODIFY: i64 = 3;
    // SAFETY: the kernel reads the event, which the caller has made.
    unsafe { call(number::EPOLL_CTL, [i64::from(instance), MODIFY, i64::from(fd), event as i64, 0, 0]) == 0 }
}

/// Wakes all threads that sleep on `word`, in any process.
pub fn futex_wake(word: &AtomicU32) {
    const FUTEX_WAKE: i64 = 1;
    // SAFETY: `word` is a live 32-bit word.
    unsafe { call(number::FUTEX, [word.as_ptr() as i64, FUTEX_WAKE, i64::from(i32::MAX), 0, 0, 0]) };
}

/// Moves a descriptor to a high number: the program may count on low ones, or close a range of them. Not to the highest: every child gets a copy of a table that
/// reaches as far.
pub fn out_of_the_way(fd: i32) -> i32 {
    const HIGH: i64 = 4096;
    const F_DUPFD_CLOEXEC: i64 = 1030;
    const RLIMIT_NOFILE: i64 = 7;
    let limit = soft_limit(RLIMIT_NOFILE).min(1 << 20) as i64;
    let high = fcntl(fd, F_DUPFD_CLOEXEC, (limit / 2).min(HIGH));
    if high < 0 {
        return fd;
    }
    close(fd);
    high as i32
}

/// A program that is executed keeps the descriptor.
pub fn keep_when_executing(fd: i32) {
    const F_SETFD: i64 = 2;
    fcntl(fd, F_SETFD, 0);
}

/// Opens a file to read it.
pub fn open(path: &core::ffi::CStr) -> Option<i32> {
    const O_CLOEXEC: i64 = 0o2_000_000;
    // SAFETY: a path that ends with NUL.
    let fd = unsafe { call(number::OPEN, [path.as_ptr() as i64, O_CLOEXEC, 0, 0, 0, 0]) };
    (fd >= 0).then_some(fd as i32)
}

/// Reads the beginning of a file; what could not be read is not there.
pub fn read_file<'a>(path: &core::ffi::CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    let length = with_file(|| open(path), |fd| read(fd, buffer));
    &buffer[..length]
}

/// Opens a file, does `work` with it and closes it, or none of that: a thread that was left alone in between would have it open for good.
pub fn with_file<T: Default>(open: impl FnOnce() -> Option<i32>, work: impl FnOnce(i32) -> T) -> T {
    let all = || {
        let Some(fd) = open() else { return T::default() };
        let result = work(fd);
        close(fd);
        result
    };
    // What a thread does that settles is waited for already, and what the loader of a program that runs has it do is done in any case.
    let may_be_left = |slot: &&Slot| slot.settling.load(Relaxed) == 0 && !tls::is_loader();
    let Some(slot) = tls::last_slot().filter(may_be_left) else { return all() };
    let mut result = T::default();
    tls::settling(slot, || result = all());
    result
}

/// Whether this process has no other thread; false if that cannot be found out.
pub fn has_one_thread() -> bool {
    /// Behind the name (proc_pid_stat(5)).
    const THREADS: usize = 17;
    let mut buffer = [0; 512];
    let text = read_file(c"/proc/self/stat", &mut buffer);
    let behind_name = text.iter().rposition(|byte| *byte == b')').map_or(&[][..], |at| &text[at + 1..]);
    behind_name.trim_ascii_start().split(|byte| *byte == b' ').nth(THREADS) == Some(b"1")
}

/// Whether so many bytes can be read of what a call was given by the program: the kernel says so where they cannot.
fn is_readable_argument(start: usize, length: usize) -> bool {
    /// On the same stack, mostly.
    const NEAR: usize = 1 << 16;
    let here = 0_u8;
    let from_here = start.wrapping_sub((&raw const here).addr());
    from_here < NEAR || start != 0 && is_readable(start, length) == Ok(true)
}

/// What a call was given by the program, for which any bytes must do, unless it is null or cannot be read. It need not be aligned.
pub fn read_argument<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: it can be read, and the caller takes any bytes.
    is_readable_argument(at.addr(), size_of::<T>()).then(|| unsafe { at.read_unaligned() })
}

/// The same for so many bytes; whether they could be read.
pub fn read_arguments(at: *const u8, bytes: &mut [u8]) -> bool {
    let is_readable = is_readable_argument(at.addr(), bytes.len());
    if is_readable {
        // SAFETY: they can be read, and are not in a buffer of ours.
        unsafe { core::ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), bytes.len()) };
    }
    is_readable
}

/// Whether `length` bytes from `start` on can be read: an error says that they cannot, or that this cannot be found out.
pub fn is_readable(start: usize, length: usize) -> Result<bool, i64> {
    const EFAULT: i64 = -14;
    let mut buffer = [0_u8; 256];
    let (mut at, end) = (start, start.saturating_add(length));
    while at < end {
        let part = (end - at).min(buffer.len());
        // SAFETY: no more than the size of `buffer`.
        match unsafe { copy_own(at, buffer.as_mut_ptr(), part) } {
            EFAULT => return Ok(false),
            error if error < 0 => return Err(error),
            read if read < part as i64 => return Ok(false),
            _ => at += part,
        }
    }
    Ok(true)
}

/// Has the kernel copy `length` bytes of this process's memory, from `start` on: how many it could, or its error.
///
/// # Safety
/// There must be room for so many bytes at `to`.
unsafe fn copy_own(start: usize, to: *mut u8, length: usize) -> i64 {
    let (here, there) = ([to as i64, length as i64], [start as i64, length as i64]);
    let arguments = [i64::from(getpid()), here.as_ptr() as i64, 1, there.as_ptr() as i64, 1, 0];
    // SAFETY: the caller vouches for the room; what cannot be read is an error.
    unsafe { call(number::PROCESS_VM_READV, arguments) }
}

/// Reads bytes of this process's memory, if all can be read.
pub fn read_all<const LENGTH: usize>(start: usize) -> Option<[u8; LENGTH]> {
    let mut bytes = [0_u8; LENGTH];
    // SAFETY: the size of `bytes`.
    let read = unsafe { copy_own(start, bytes.as_mut_ptr(), LENGTH) };
    (read == LENGTH as i64).then_some(bytes)
}

/// Reads words of this process's memory: how many bytes could be read; none if that cannot be found out.
pub fn read_own(start: usize, words: &mut [usize]) -> Option<usize> {
    const EFAULT: i64 = -14;
    // SAFETY: the size of `words`.
    match unsafe { copy_own(start, words.as_mut_ptr().cast(), size_of_val(words)) } {
        EFAULT => Some(0),
        error if error < 0 => None,
        read => Some(read as usize),
    }
}

/// Whether a byte can be read at each of these addresses, at most 64, as far as that can be found out.
pub fn begin_readably(addresses: &[usize]) -> bool {
    const EFAULT: i64 = -14;
    let (mut bytes, mut there) = ([0_u8; 64], [[0_i64; 2]; 64]);
    for (part, address) in there.iter_mut().zip(addresses) {
        *part = [*address as i64, 1];
    }
    let count = addresses.len().min(there.len()) as i64;
    let here = [bytes.as_mut_ptr() as i64, count];
    let arguments = [i64::from(getpid()), here.as_ptr() as i64, 1, there.as_ptr() as i64, count, 0];
    // SAFETY: the kernel writes at most as many bytes as there are addresses.
    match unsafe { call(number::PROCESS_VM_READV, arguments) } {
        EFAULT => count == 0,
        error if error < 0 => true,
        read => read == count,
    }
}

/// Maps memory of zeros.
pub fn map_memory(length: usize) -> Option<usize> {
    const READ_WRITE: i64 = 3;
    const MAP_PRIVATE_ANONYMOUS: i64 = 0x22;
    // SAFETY: asks for fresh memory.
    let start = unsafe { call(number::MMAP, [0, length as i64, READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0]) };
    (start > 0).then_some(start as usize)
}

/// Opens `/proc/self/`, a folder of no more than 8 bytes, a number, and the rest, of no more than 16.
fn open_numbered(folder: &str, number: u32, rest: &str) -> Option<i32> {
    let mut path = [0_u8; 48];
    let mut end = 0;
    let mut push = |bytes: &[u8]| {
        path[end..end + bytes.len()].copy_from_slice(bytes);
        end += bytes.len();
    };
    push(b"/proc/self/");
    push(folder.as_bytes());
    let divisors = core::iter::successors(Some(1_u32), |ten| ten.checked_mul(10));
    let count = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    let mut digits = [0_u8; 10];
    digits.iter_mut().zip(divisors).for_each(|(digit, ten)| *digit = b'0' + (number / ten % 10) as u8);
    digits[..count].iter().rev().for_each(|digit| push(&[*digit]));
    push(rest.as_bytes());
    open(core::ffi::CStr::from_bytes_until_nul(&path).ok()?)
}

/// Reads the beginning of such a file.
pub fn read_numbered<'a>(folder: &str, number: u32, rest: &str, buffer: &'a mut [u8]) -> &'a [u8] {
    let length = with_file(|| open_numbered(folder, number, rest), |fd| read(fd, buffer));
    &buffer[..length]
}

/// Reads from a file; zero at its end, or if it cannot be read.
pub fn read(fd: i32, buffer: &mut [u8]) -> usize {
    let arguments = [i64::from(fd), buffer.as_mut_ptr() as i64, buffer.len() as i64, 0, 0, 0];
    // SAFETY: the kernel writes at most the size of `buffer`.
    let length = unsafe { call(number::READ, arguments) };
    (length.max(0) as usize).min(buffer.len())
}

/// The thread's alternate stack, as the three words of a `stack_t`.
pub fn alternate_stack() -> [u64; 3] {
    let mut stack = [0_u64; 3];
    // SAFETY: nothing is changed; the kernel writes a `stack_t` of 24 bytes.
    unsafe { call(number::SIGALTSTACK, [0, stack.as_mut_ptr() as i64, 0, 0, 0, 0]) };
    stack
}

/// The signals that a thread has blocked, in the text of its `status`.
pub fn mask_in(status: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"SigBlk:\t";
    let at = status.windows(KEY.len()).position(|at| at == KEY)? + KEY.len();
    u64::from_str_radix(core::str::from_utf8(status.get(at..at + 16)?).ok()?, 16).ok()
}

/// The signals that a thread of this process has blocked. Needs little stack: called where the program may have given its handler little.
#[cold]
#[inline(never)]
pub fn blocked_by(thread: u32) -> Option<u64> {
    /// `SigBlk:\t` and 16 digits.
    const LINE: usize = 24;
    let mut text = [0_u8; 192];
    let mut kept = 0;
    let fd = open_numbered("task/", thread, "/status")?;
    let found = loop {
        let read = read(fd, &mut text[kept..]);
        if read == 0 {
            break None;
        }
        let length = kept + read;
        if let Some(mask) = mask_in(&text[..length]) {
            break Some(mask);
        }
        // It may have been cut.
        kept = length.min(LINE - 1);
        text.copy_within(length - kept..length, 0);
    };
    close(fd);
    found
}

/// Sends a signal to a thread of this process; false if there is none.
pub fn send_to(thread: u32, signal: i32) -> bool {
    // SAFETY: a signal that was sent to this process already.
    unsafe { call(number::TGKILL, [i64::from(getpid()), i64::from(thread), i64::from(signal), 0, 0, 0]) == 0 }
}

/// Whether there is no such process any more, as far as this one can see.
pub fn has_ended(process: u32) -> bool {
    const ESRCH: i64 = 3;
    let process = i64::from(process);
    // SAFETY: no signal is sent; the kernel only says whether there is such a thread.
    unsafe { call(number::TGKILL, [process, process, 0, 0, 0, 0]) == -ESRCH }
}

/// Reads one word from a descriptor.
pub fn read_word(fd: i32) -> Option<u64> {
    let mut word = 0_u64;
    // SAFETY: the kernel writes at most eight bytes to `word`.
    let length = unsafe { call(number::READ, [i64::from(fd), (&raw mut word) as i64, 8, 0, 0, 0]) };
    (length == 8).then_some(word)
}

/// How many CPUs the calling thread may use.
pub fn usable_cpus() -> u32 {
    let mut mask = [0_u64; 128];
    let arguments = [0, size_of_val(&mask) as i64, mask.as_mut_ptr() as i64, 0, 0, 0];
    // SAFETY: the kernel writes at most the size of `mask`.
    let written = unsafe { call(number::SCHED_GETAFFINITY, arguments) };
    if written <= 0 { 1 } else { mask.iter().map(|word| word.count_ones()).sum() }
}

/// The soft limit of a resource.
pub fn soft_limit(resource: i64) -> u64 {
    let mut limits = [0_u64; 2];
    // SAFETY: the kernel writes two words.
    unsafe { call(number::PRLIMIT64, [0, resource, 0, limits.as_mut_ptr() as i64, 0, 0]) };
    limits[0]
}

pub fn fcntl(fd: i32, command: i64, argument: i64) -> i64 {
    // SAFETY: used with integers, and with a pointer to a live `f_owner_ex` for F_SETOWN_EX.
    unsafe { call(number::FCNTL, [i64::from(fd), command, argument, 0, 0, 0]) }
}

pub fn ioctl(fd: i32, request: i64, argument: i64) -> i64 {
    // SAFETY: used on our own perf descriptors with integers or a pointer to a live u64.
    unsafe { call(number::IOCTL, [i64::from(fd), request, argument, 0, 0, 0]) }
}

/// Whether a debugger or tracer is attached: `TracerPid` in `/proc/self/status` is not zero.
pub fn is_traced() -> bool {
    let mut buffer = [0_u8; 512];
    let text = read_file(c"/proc/self/status", &mut buffer);
    let key = b"TracerPid:\t";
    text.windows(key.len() + 1).any(|at| at.starts_with(key) && at[key.len()] != b'0')
}

/// Opens a perf event for the calling thread on any CPU. `attributes` must be a valid
/// `perf_event_attr` whose `size` says how long it is.
pub fn perf_event_open(attributes: &[u64]) -> i64 {
    const CLOEXEC: i64 = 8;
    // SAFETY: the kernel reads `attr.size` bytes, which the caller's array has.
    unsafe { call(number::PERF_EVENT_OPEN, [attributes.as_ptr() as i64, 0, -1, -1, CLOEXEC, 0]) }
}

/// Adds (`how` 0), removes (1) or sets (2) signals of the calling thread's mask; returns the old one.
pub fn mask_signals(how: i64, set: u64) -> u64 {
    let mut old = 0_u64;
    let arguments = [how, (&raw const set) as i64, (&raw mut old) as i64, 8, 0, 0];
    // SAFETY: both pointers are to live 8-byte signal sets.
    unsafe { call(number::RT_SIGPROCMASK, arguments) };
    old
}

/// Blocks all signals; returns the old mask.
pub fn block_signals() -> u64 {
    const BLOCK: i64 = 0;
    mask_signals(BLOCK, u64::MAX)
}

/// Sets the mask, also in a thread that has been left alone meanwhile.
pub fn restore_mask(mask: u64) {
    const SET: i64 = 2;
    // SAFETY: the pointer is to a live 8-byte signal set.
    unsafe { call_at_any_time(number::RT_SIGPROCMASK, [SET, (&raw const mask) as i64, 0, 8, 0, 0]) };
}

/// Takes one of these signals, which are blocked, if one is pending: what came with it. One that is pending to the thread comes before one that is pending to the process.
pub fn take_pending(signals: u64) -> Option<[u64; 16]> {
    let (mut info, at_once) = ([0_u64; 16], [0_i64; 2]);
    let arguments = [(&raw const signals) as i64, (&raw mut info) as i64, at_once.as_ptr() as i64, 8, 0, 0];
    // SAFETY: a signal set of 8 bytes, a siginfo of 128 and a timespec.
    (unsafe { call(number::RT_SIGTIMEDWAIT, arguments) } > 0).then_some(info)
}

/// Signals that wait for the calling thread to unblock them.
pub fn pending_signals() -> u64 {
    let mut pending = 0_u64;
    // SAFETY: the pointer is to a live 8-byte signal set.
    unsafe { call(number::RT_SIGPENDING, [(&raw mut pending) as i64, 8, 0, 0, 0, 0]) };
    pending
}

/// The kernel's `struct sigaction` on x86-64.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct KernelAction {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: u64,
}

/// Replaces the action of a signal; returns the old one, or `None` when refused.
///
/// # Safety
/// `new.handler` must be a signal handler that is fit for the process, forever.
pub unsafe fn sigaction(signal: i64, new: Option<&KernelAction>) -> Option<KernelAction> {
    let mut old = KernelAction::default();
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as i64);
    // SAFETY: the pointers are to live structures of the kernel's layout.
    let result = unsafe { call(number::RT_SIGACTION, [signal, new, (&raw mut old) as i64, 8, 0, 0]) };
    (result == 0).then_some(old)
}

/// The handler of a signal has been entered that is to run later: installs it again if the kernel has removed it, as it does with those that are to run once.
pub fn restore_one_shot(signal: i64, handler: usize) {
    const SA_RESETHAND: u64 = 0x8000_0000;
    // SAFETY: nothing is changed.
    let now = unsafe { sigaction(signal, None) };
    if let Some(now) = now.filter(|now| now.flags & SA_RESETHAND != 0 && now.handler == 0) {
        // SAFETY: what the kernel had before.
        unsafe { sigaction(signal, Some(&KernelAction { handler, ..now })) };
    }
}

/// Has the kernel tell `handler`, which is that of a signal, more than its number; whether it does.
pub fn inform(signal: i64, handler: usize) -> bool {
    const SA_SIGINFO: u64 = 4;
    // SAFETY: nothing is changed.
    let now = unsafe { sigaction(signal, None) };
    now.filter(|now| now.handler == handler).is_some_and(|now| {
        // SAFETY: the handler takes all arguments.
        unsafe { sigaction(signal, Some(&KernelAction { flags: now.flags | SA_SIGINFO, ..now })) }.is_some()
    })
}

/// Creates a timer on the calling thread's CPU clock that sends `signal` to it, carrying `value`.
pub fn cpu_timer(signal: i32, value: usize) -> Option<i32> {
    const SIGEV_THREAD_ID: i64 = 4;
    let mut event = [0_u64; 8];
    event[0] = value as u64;
    event[1] = u64::from(signal as u32) | ((SIGEV_THREAD_ID as u64) << 32);
    event[2] = u64::from(gettid());
    let mut id = 0_i32;
    let arguments = [CLOCK_THREAD_CPUTIME_ID, event.as_ptr() as i64, (&raw mut id) as i64, 0, 0, 0];
    // SAFETY: `event` is a sigevent of 64 bytes, `id` receives a timer ID.
    let result = unsafe { call(number::TIMER_CREATE, arguments) };
    (result == 0).then_some(id)
}

/// Lets a timer expire once after `after`, and not again; never, if that is zero.
pub fn arm_timer(id: i32, after: Nanos) {
    let spec = [0_i64, 0, (after.0 / 1_000_000_000) as i64, (after.0 % 1_000_000_000) as i64];
    // SAFETY: `spec` is an itimerspec.
    unsafe { call(number::TIMER_SETTIME, [i64::from(id), 0, spec.as_ptr() as i64, 0, 0, 0]) };
}

pub fn delete_timer(id: i32) {
    // SAFETY: only called with timers of our own.
    unsafe { call(number::TIMER_DELETE, [i64::from(id), 0, 0, 0, 0, 0]) };
}

/// Sends a signal to the calling thread.
pub fn raise(signal: i32) {
    // SAFETY: a signal that the program itself had asked for.
    unsafe { call(number::TGKILL, [i64::from(getpid()), i64::from(gettid()), i64::from(signal), 0, 0, 0]) };
}

/// `si_code` of a signal that was sent to a thread.
pub const SI_TKILL: i32 = -6;

/// Sends the calling thread a signal with the information it once came with.
pub fn raise_with(signal: i32, info: &[u64; 16]) {
    if !send_with(gettid(), signal, info) {
        raise(signal);
    }
}

/// The same for a thread of this process; false if it was not sent.
pub fn send_with(thread: u32, signal: i32, info: &[u64; 16]) -> bool {
    let arguments = [i64::from(getpid()), i64::from(thread), i64::from(signal), info.as_ptr() as i64, 0, 0];
    // SAFETY: `info` is a siginfo of 128 bytes.
    unsafe { call_at_any_time(number::RT_TGSIGQUEUEINFO, arguments) >= 0 }
}

/// The same for the process, in which any thread may take it. The kernel lets threads but the main one send nothing that looks as if it came from another
/// process's `kill` or from the kernel: such a signal comes as from its `sigqueue`.
pub fn send_to_process(signal: i32, info: &[u64; 16]) -> bool {
    const SI_USER: i32 = 0;
    const SI_QUEUE: i32 = -1;
    let (code, sender) = (info[1] as u32 as i32, info[2] as u32);
    if code == SI_USER && sender == getpid() {
        // SAFETY: a signal that was sent to this process already.
        return unsafe { call(number::KILL, [i64::from(getpid()), i64::from(signal), 0, 0, 0, 0]) >= 0 };
    }
    let mut info = *info;
    if code >= 0 {
        info[1] = info[1] & !u64::from(u32::MAX) | u64::from(SI_QUEUE as u32);
    }
    let arguments = [i64::from(getpid()), i64::from(signal), info.as_ptr() as i64, 0, 0, 0];
    // SAFETY: `info` is a siginfo of 128 bytes.
    unsafe { call(number::RT_SIGQUEUEINFO, arguments) >= 0 }
}

/// Ends the process.
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: what the program has asked for.
        unsafe { call_at_any_time(number::EXIT_GROUP, [i64::from(status), 0, 0, 0, 0, 0]) };
    }
}

/// Ends the process with SIGABRT, whatever the program does about that signal.
pub fn abort() -> ! {
    const SIGABRT: i64 = 6;
    // SAFETY: resetting the action to the default and raising the signal needs no memory.
    unsafe {
        sigaction(SIGABRT, Some(&KernelAction::default()));
        mask_signals(1, 1 << (SIGABRT - 1));
        raise(SIGABRT as i32);
        loop {
            call(number::EXIT_GROUP, [134, 0, 0, 0, 0, 0]);
        }
    }
}
