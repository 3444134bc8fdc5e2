//! Which pipe, socket or event descriptor a call is about: the kinds by which threads wake one another.
//!
//! The kind of a descriptor is found out when it is first used and remembered by its number until the
//! program closes it. One that is closed unnoticed and used again for something else is taken
//! for what it was: a wait on it may then count as one on the wrong side of rules 5 and 6.
//!
//! Not here: what is reached without a call that we see (`io_uring`, system call instructions of the program's own).

use crate::memory::{attached, shared};
use crate::real::real;
use crate::socket::{self, Socket};
use crate::{arrivals, deadline, delay, epoll, sys, tls};
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wire::Nanos;
use wire::channel::{Event, Key};

pub(crate) type Ptr = *mut c_void;

/// Descriptors beyond this number are the world.
const REMEMBERED: usize = 1 << 16;
/// Not looked at yet.
const UNKNOWN: u32 = 0;
/// Neither end is another thread's.
const WORLD: u32 = u32::MAX;

static KINDS: [AtomicU32; REMEMBERED] = [const { AtomicU32::new(UNKNOWN) }; REMEMBERED];

/// The channels that a descriptor reads from and writes to: the same for pipes and event descriptors, two for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub input: Option<Key>,
    pub output: Option<Key>,
}

impl Ends {
    const WORLD: Self = Self { input: None, output: None };

    const fn both(key: Key) -> Self {
        Self { input: Some(key), output: Some(key) }
    }

    /// As a word that is not [`UNKNOWN`].
    fn to_word(self) -> u32 {
        let number = |key: Option<Key>| key.map_or(0, Key::number);
        let word = u32::from(number(self.input)) | u32::from(number(self.output)) << 16;
        if word == 0 { WORLD } else { word }
    }

    /// The numbers of [`WORLD`] are no keys.
    fn from_word(word: u32) -> Self {
        Self { input: Key::from_number(word as u16), output: Key::from_number((word >> 16) as u16) }
    }

    /// When threads last caused any of `events` (as in poll(2)).
    fn used(self, events: u32) -> Nanos {
        const POLLOUT: u32 = 4;
        let data = self.input.filter(|_| events & !POLLOUT != 0).map(|key| used(key.data()));
        let room = self.output.filter(|_| events & POLLOUT != 0).map(|key| used(key.room()));
        data.max(room).unwrap_or(Nanos::ZERO)
    }
}

/// The channels behind a descriptor.
#[inline]
pub fn of(fd: c_int) -> Ends {
    let Some(kind) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) else { return Ends::WORLD };
    match kind.load(Relaxed) {
        UNKNOWN => find(fd, kind),
        word => Ends::from_word(word),
    }
}

/// The same, if it is known already.
fn known(fd: c_int) -> Ends {
    let kind = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd));
    kind.map_or(Ends::WORLD, |kind| Ends::from_word(kind.load(Relaxed)))
}

/// `None`: to be looked at when it is used next.
pub fn remember(fd: c_int, ends: Option<Ends>) {
    deadline::forget(fd);
    arrivals::forget(fd);
    if let Some(kind) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) {
        kind.store(ends.map_or(UNKNOWN, Ends::to_word), Relaxed);
    }
}

/// A pipe is one inode, a connection within this machine two addresses. (Event descriptors and pairs of sockets are only
/// known from their making.)
#[cold]
fn find(fd: c_int, kind: &AtomicU32) -> Ends {
    let Some((mode, device, inode)) = sys::file_kind(fd) else { return Ends::WORLD };
    let ends = match mode & KIND {
        FIFO => Ends::both(Key::hashed([inode, device])),
        SOCKET => match socket::look(fd) {
            Socket::Connected { input, output } => Ends { input: Some(input), output: Some(output) },
            Socket::Listening(key) => Ends::both(key),
            Socket::World => Ends::WORLD,
            // What it will be is not known yet, so nothing is remembered.
            Socket::Unconnected => return Ends::WORLD,
        },
        _ => Ends::WORLD,
    };
    kind.store(ends.to_word(), Relaxed);
    ends
}

/// The type of a file, as `st_mode` has it.
const KIND: u64 = 0o170_000;
const FIFO: u64 = 0o010_000;
const SOCKET: u64 = 0o140_000;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Pipe,
    Socket,
    Other,
}

/// Looks at a descriptor: a system call.
pub fn what(fd: c_int) -> What {
    match sys::file_kind(fd).map(|(mode, ..)| mode & KIND) {
        Some(FIFO) => What::Pipe,
        Some(SOCKET) => What::Socket,
        _ => What::Other,
    }
}

/// One key that both of two new descriptors get.
fn made(fds: [c_int; 2]) {
    if attached().is_some() {
        let ends = Some(Ends::both(shared().channels.fresh()));
        fds.into_iter().for_each(|fd| remember(fd, ends));
    }
}

/// Two new descriptors with a channel from each to the other.
fn connected([first, second]: [c_int; 2]) {
    if attached().is_some() {
        let (there, back) = (Some(shared().channels.fresh()), Some(shared().channels.fresh()));
        remember(first, Some(Ends { input: back, output: there }));
        remember(second, Some(Ends { input: there, output: back }));
    }
}

/// Defines a function that makes a channel or gives one up, and states what to do with its result.
macro_rules! noted {
    (before $before:expr, $name:ident ( $($arg:ident : $type:ty),* )) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            let Some(original) = real!($name: fn($($type),*) -> c_int) else { return -1 };
            $before;
            // SAFETY: the program's own arguments go to the function it meant to call.
            unsafe { original($($arg),*) }
        }
    };
    ($name:ident ( $($arg:ident : $type:ty),* ), $result:ident => $then:expr) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            let Some(original) = real!($name: fn($($type),*) -> c_int) else { return -1 };
            // SAFETY: the program's own arguments go to the function it meant to call.
            let $result = unsafe { original($($arg),*) };
            $then;
            $result
        }
    };
}

/// Both descriptors that a call has written.
///
/// # Safety
/// `fds` must point to two integers.
unsafe fn pair(fds: *const c_int) -> [c_int; 2] {
    // SAFETY: the caller vouches for both.
    unsafe { [*fds, *fds.add(1)] }
}

noted!(pipe(fds: *mut c_int), result => if result == 0 {
    // SAFETY: the call succeeded, so it wrote two descriptors.
    made(unsafe { pair(fds) });
});
noted!(pipe2(fds: *mut c_int, flags: c_int), result => if result == 0 {
    // SAFETY: as above.
    made(unsafe { pair(fds) });
});
noted!(socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int), result => if result == 0 {
    // SAFETY: as above.
    connected(unsafe { pair(fds) });
});
noted!(eventfd(value: c_uint, flags: c_int), fd => made([fd; 2]));
noted!(epoll_create(size: c_int), fd => made([fd; 2]));
noted!(epoll_create1(flags: c_int), fd => made([fd; 2]));
noted!(socket(domain: c_int, kind: c_int, protocol: c_int), fd => remember(fd, None));
noted!(listen(fd: c_int, most: c_int), _result => remember(fd, None));
noted!(timerfd_create(clock: c_int, flags: c_int), fd => {
    remember(fd, None);
    deadline::created(fd, clock);
});
noted!(dup(from: c_int), fd => remember(fd, copied(from)));
noted!(dup2(from: c_int, to: c_int), fd => replaced(from, fd));
noted!(dup3(from: c_int, to: c_int, flags: c_int), fd => replaced(from, fd));

/// `fd` is a copy of `from` now, and no instance watches it.
fn replaced(from: c_int, fd: c_int) {
    if fd != from {
        epoll::forget(fd);
    }
    remember(fd, copied(from));
}

/// What a copy of a descriptor is. A socket that is not connected yet is looked at again.
fn copied(from: c_int) -> Option<Ends> {
    Some(of(from)).filter(|&ends| ends != Ends::WORLD)
}

/// `close(2)`: forgotten first, for the number may belong to another thread's file right after. The other end sees the end
/// of the connection, which ends its wait.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    let Some(original) = real!(close: fn(c_int) -> c_int) else { return -1 };
    hang_up(fd);
    remember(fd, None);
    epoll::forget(fd);
    // SAFETY: the program's own argument.
    unsafe { original(fd) }
}

noted!(before { of(fd); hang_up(fd) }, shutdown(fd: c_int, how: c_int));

/// `close_range(2)`, as far as it closes.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOSE_RANGE_CLOEXEC: c_int = 4;
    let Some(original) = real!(close_range: fn(c_uint, c_uint, c_int) -> c_int) else { return -1 };
    if flags & CLOSE_RANGE_CLOEXEC == 0 {
        for fd in first..=last.min(REMEMBERED as c_uint - 1) {
            hang_up(fd as c_int);
            remember(fd as c_int, None);
            epoll::forget(fd as c_int);
        }
    }
    // SAFETY: the program's own arguments.
    unsafe { original(first, last, flags) }
}

/// Rule 4 for a descriptor that is about to be shut or closed: threads that wait at the other end will find its end. One that
/// was never used is not looked at, for most are files.
fn hang_up(fd: c_int) {
    let ends = known(fd);
    if ends != Ends::WORLD
        && let Some(slot) = tls::slot()
    {
        delay::pay(slot);
        let now = sys::now();
        ends.output.into_iter().for_each(|key| touch(key.data(), now));
        ends.input.into_iter().for_each(|key| touch(key.room(), now));
    }
}

/// A thread is about to cause `event` at once.
pub fn touch(event: Event, time: Nanos) {
    shared().channels.touch(event, time, sys::futex_wake);
}

/// When a thread of the program last caused `event`.
pub fn used(event: Event) -> Nanos {
    shared().channels.used(event)
}

/// The same for a descriptor and events as in poll(2).
pub fn used_by(fd: c_int, events: u32) -> Nanos {
    of(fd).used(events)
}

/// Calls a function that may fill or empty a channel, beginning at `time`.
#[inline]
pub fn causing<T>(event: Option<Event>, time: Nanos, call: impl FnOnce() -> T) -> T {
    let Some(event) = event else { return call() };
    let channels = &shared().channels;
    channels.begins(event, time, sys::futex_wake);
    let result = call();
    channels.ends(event);
    result
}

/// When the channels that a `poll` found ready were last used.
///
/// # Safety
/// `fds` must point to `count` structures `pollfd`.
pub unsafe fn polled(fds: Ptr, count: usize) -> Nanos {
    // A descriptor and two 16-bit sets of events, the second of which is the result.
    let fds: *const [u32; 2] = fds.cast();
    // SAFETY: the caller vouches for the array.
    deadline::asked((0..count).map(|i| unsafe { (*fds.add(i))[0] } as c_int));
    let mut last = Nanos::ZERO;
    for i in 0..count {
        // SAFETY: the caller vouches for the array.
        let [fd, events] = unsafe { *fds.add(i) };
        if events >> 16 != 0 {
            last = last.max(used_by(fd as c_int, events >> 16));
        }
    }
    last
}

/// When the channels that a `poll` asks for were last used.
///
/// # Safety
/// As for [`polled`].
pub unsafe fn asked(fds: Ptr, count: usize) -> Nanos {
    let fds: *const [u32; 2] = fds.cast();
    // SAFETY: the caller vouches for the array.
    let asked = (0..count).map(|i| unsafe { *fds.add(i) });
    asked.map(|[fd, events]| used_by(fd as c_int, events & 0xffff)).max().unwrap_or(Nanos::ZERO)
}

/// The same for the sets of readable and writable descriptors that `select` has left.
///
/// # Safety
/// Each of `sets` must be null or point to an `fd_set` of at least `count` bits.
pub unsafe fn selected(sets: [Ptr; 2], count: c_int) -> Nanos {
    if let Ok(count) = usize::try_from(count) {
        deadline::asked((0..count).map(|fd| fd as c_int));
    }
    let mut last = Nanos::ZERO;
    for (set, events) in sets.into_iter().zip([1, 4]).filter(|(set, _)| !set.is_null()) {
        for fd in 0..count {
            // SAFETY: the caller vouches for the set.
            let word = unsafe { *set.cast::<u64>().add(fd as usize / 64) };
            if word & (1 << (fd % 64)) != 0 {
                last = last.max(used_by(fd, events));
            }
        }
    }
    last
}

/// `fcntl(2)` with its third argument, an integer or a pointer; what it duplicates stays the same channel.
macro_rules! duplicating {
    ($name:ident) => {
        noted!($name(fd: c_int, command: c_int, argument: usize), result => if matches!(command, 0 | 1030) {
            remember(result, copied(fd)); // F_DUPFD, F_DUPFD_CLOEXEC
        });
    };
}

duplicating!(fcntl);
duplicating!(fcntl64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_fit_into_a_word() {
        let [first, second] = [Key::hashed([1, 2]), Key::hashed([3, 4])];
        for ends in [
            Ends::WORLD,
            Ends::both(first),
            Ends { input: Some(first), output: Some(second) },
            Ends { input: None, output: Some(second) },
        ] {
            assert_ne!(ends.to_word(), UNKNOWN);
            assert_eq!(Ends::from_word(ends.to_word()), ends);
        }
        assert_eq!(Ends::from_word(UNKNOWN), Ends::WORLD);
    }
}
