//! System calls that Rust's library has no words for, through the C library.
//!
//! # Safety
//!
//! Every descriptor is owned; buffers are as large as the call is told; structures are C structures of integers.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use libc::c_int;

use super::posix::span;

/// The size of a page, and of a message in a pipe.
pub const PAGE: usize = 4096;

/// The value, or what the C library says.
fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(descriptor: c_int) -> io::Result<OwnedFd> {
    let descriptor = checked(descriptor)?;
    // SAFETY: it was just made, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Waits while `word` is `value`, for `time` at most; may return at any time.
pub fn futex_wait(word: &AtomicU32, value: u32, time: Option<Duration>) {
    let time = time.map(span);
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time live during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, time) };
}

/// Wakes so many that wait for `word`.
pub fn futex_wake(word: &AtomicU32, most: c_int) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}

/// An eventfd that counts.
pub fn counting_eventfd(count: u32) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor.
    owned(unsafe { libc::eventfd(count, libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC) })
}

/// A pipe with room for so many pages: its ends for reading and for writing.
pub fn pipe(pages: u32) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: there is room for two descriptors.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    let (read, write) = (owned(ends[0])?, owned(ends[1])?);
    let size = c_int::try_from(pages as usize * PAGE).unwrap_or(c_int::MAX);
    // SAFETY: an open descriptor and a number.
    checked(unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, size) })?;
    Ok((read, write))
}

/// Gives a socket room for so many small messages to be sent, or a few times as many: how much the kernel charges for one is its own business.
pub fn small_buffer(socket: BorrowedFd, messages: u32) -> io::Result<()> {
    let size = c_int::try_from(messages as usize * PAGE).unwrap_or(c_int::MAX);
    let length = libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(4);
    let value = ptr::from_ref(&size).cast();
    // SAFETY: the value is there and as long as the call is told.
    checked(unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, value, length)
    })?;
    Ok(())
}

/// Reads once into `buffer`, however often a signal comes between.
pub fn read(descriptor: BorrowedFd, buffer: &mut [u8]) {
    loop {
        // SAFETY: the buffer is as large as the call is told.
        let got = unsafe { libc::read(descriptor.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if got >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// Writes `buffer` once, however often a signal comes between.
pub fn write(descriptor: BorrowedFd, buffer: &[u8]) {
    loop {
        // SAFETY: the buffer is as large as the call is told.
        let put = unsafe { libc::write(descriptor.as_raw_fd(), buffer.as_ptr().cast(), buffer.len()) };
        if put >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// A timer that goes off every so often.
pub fn periodic_timer(period: Duration) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor.
    let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) })?;
    let setting = libc::itimerspec { it_interval: span(period), it_value: span(period) };
    // SAFETY: the setting is there; the old one is not asked for.
    checked(unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const setting, ptr::null_mut()) })?;
    Ok(timer)
}

/// An epoll instance.
pub fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

/// How an epoll instance comes to watch a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// From now on.
    Level,
    /// From now on, for one event.
    Once,
    /// Again, for one event.
    Again,
}

/// Lets `epoll` say `name` when there is something to read.
pub fn watch(epoll: BorrowedFd, descriptor: RawFd, name: u64, how: Watch) -> io::Result<()> {
    let operation = if how == Watch::Again { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
    let once = if how == Watch::Level { 0 } else { libc::EPOLLONESHOT };
    #[expect(clippy::cast_sign_loss, reason = "the C library's flags are of the other type")]
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | once) as u32, u64: name };
    // SAFETY: the event is there.
    checked(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, descriptor, &raw mut event) })?;
    Ok(())
}

/// The names of what there is to read, once there is something, or none after `milliseconds`; −1 is no timeout.
pub fn wait(epoll: BorrowedFd, names: &mut [u64; 8], milliseconds: c_int) -> usize {
    // SAFETY: integers may be zero.
    let mut events: [libc::epoll_event; 8] = unsafe { zeroed() };
    // SAFETY: there is room for so many events.
    let found = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 8, milliseconds) };
    let found = usize::try_from(found).unwrap_or(0);
    for (name, event) in names.iter_mut().zip(&events[..found]) {
        *name = event.u64;
    }
    found
}

/// Sleeps with `nanosleep`.
pub fn sleep(time: Duration) {
    let mut left = span(time);
    // SAFETY: the time is there, and what is left of it is written to the same place.
    while unsafe { libc::nanosleep(&raw const left, &raw mut left) } != 0 {}
}

/// Waits for no descriptor at all with `ppoll`.
pub fn poll_nothing(time: Duration) {
    let time = span(time);
    // SAFETY: there are no descriptors; the time is there.
    unsafe { libc::ppoll(ptr::null_mut(), 0, &raw const time, ptr::null()) };
}

/// Which of two processes this is, after a fork.
pub enum Fork {
    /// The new one. It ends with its parent.
    Child,
    /// The old one, which knows the new one.
    Parent(Child),
}

/// A forked process.
pub struct Child(libc::pid_t);

/// Makes a second process of this one, which has a single thread.
pub fn fork() -> io::Result<Fork> {
    let parent = std::process::id();
    // SAFETY: the process has a single thread, so that the child finds all locks free.
    let child = checked(unsafe { libc::fork() })?;
    if child > 0 {
        return Ok(Fork::Parent(Child(child)));
    }
    // SAFETY: asks for a signal when the parent ends.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if std::os::unix::process::parent_id() != parent {
        std::process::exit(0);
    }
    Ok(Fork::Child)
}

impl Child {
    /// Ends the process and waits until it has ended.
    pub fn end(&self) {
        // SAFETY: a process that this one started and has not waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}
