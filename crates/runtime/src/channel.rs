//! Which pipe, socket or event descriptor a call is about: the kinds by which threads wake one another.
//!
//! The kind of a descriptor is found out when it is first used and remembered by its number until the
//! program closes it. One that is closed where nobody sees it and used again for something else is taken
//! for what it was: a wait on it may then count as one on the wrong side of rules 5 and 6.

use crate::attach::{attached, shared};
use crate::real::real;
use crate::sys;
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wire::Nanos;
use wire::channel::Key;

type Ptr = *mut c_void;

/// Descriptors beyond this number are the world.
const REMEMBERED: usize = 1 << 16;
/// Not looked at yet.
const UNKNOWN: u32 = 0;
/// Something with one end only.
const WORLD: u32 = u32::MAX;

static KINDS: [AtomicU32; REMEMBERED] = [const { AtomicU32::new(UNKNOWN) }; REMEMBERED];

/// The channel behind a descriptor, if it is one.
#[inline]
pub fn of(fd: c_int) -> Option<Key> {
    let kind = KINDS.get(usize::try_from(fd).ok()?)?;
    match kind.load(Relaxed) {
        UNKNOWN => {
            let key = find(fd);
            kind.store(key.map_or(WORLD, Key::number), Relaxed);
            key
        }
        number => Key::from_number(number),
    }
}

fn remember(fd: c_int, key: Option<Key>) {
    if let Some(kind) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) {
        kind.store(key.map_or(UNKNOWN, Key::number), Relaxed);
    }
}

/// Both ends of a pipe are one inode, both ends of a connection within this machine one pair of addresses.
/// (Event descriptors and pairs of sockets are only known from their making.)
#[cold]
fn find(fd: c_int) -> Option<Key> {
    const KIND: u64 = 0o170_000;
    const FIFO: u64 = 0o010_000;
    const SOCKET: u64 = 0o140_000;
    let (mode, device, inode) = sys::file_kind(fd)?;
    match mode & KIND {
        FIFO => Some(Key::hashed([inode, device])),
        SOCKET => connection(fd),
        _ => None,
    }
}

/// The key of a TCP connection of this machine with itself.
fn connection(fd: c_int) -> Option<Key> {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let (here, there) = (sys::socket_name(fd, false)?, sys::socket_name(fd, true)?);
    // The first word of an address has the family and the port.
    let family = here[0] as u16;
    let address = |name: &[u64; 4]| if family == AF_INET { [name[0] >> 32, 0] } else { [name[1], name[2]] };
    let port = |name: &[u64; 4]| (name[0] >> 16) & 0xffff;
    if !matches!(family, AF_INET | AF_INET6) || address(&here) != address(&there) {
        return None;
    }
    let (low, high) = (port(&here).min(port(&there)), port(&here).max(port(&there)));
    let [first, second] = address(&here);
    Some(Key::hashed([first ^ second.rotate_left(7), (low << 16) | high]))
}

/// A key that both of two new descriptors get.
fn made(fds: [c_int; 2]) {
    if attached().is_some() {
        let key = Some(shared().channels.fresh());
        fds.into_iter().for_each(|fd| remember(fd, key));
    }
}

/// Defines a function that makes a channel or gives one up, and says what is to be done with its result.
macro_rules! noted {
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
    made(unsafe { pair(fds) });
});
noted!(eventfd(value: c_uint, flags: c_int), fd => made([fd; 2]));
noted!(epoll_create(size: c_int), fd => made([fd; 2]));
noted!(epoll_create1(flags: c_int), fd => made([fd; 2]));
noted!(socket(domain: c_int, kind: c_int, protocol: c_int), fd => remember(fd, None));
noted!(dup(from: c_int), fd => remember(fd, of(from)));
noted!(dup2(from: c_int, to: c_int), fd => remember(fd, of(from)));
noted!(dup3(from: c_int, to: c_int, flags: c_int), fd => remember(fd, of(from)));

/// `close(2)`: forgotten first, for the number may belong to another thread's file right after.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    let Some(original) = real!(close: fn(c_int) -> c_int) else { return -1 };
    remember(fd, None);
    // SAFETY: the program's own argument.
    unsafe { original(fd) }
}

/// `epoll_ctl(2)`: whoever waits for the instance is woken by those who use the descriptor.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_ctl(watcher: c_int, operation: c_int, fd: c_int, event: Ptr) -> c_int {
    const DELETE: c_int = 2;
    let Some(original) = real!(epoll_ctl: fn(c_int, c_int, c_int, Ptr) -> c_int) else { return -1 };
    if operation != DELETE
        && attached().is_some()
        && let (Some(key), Some(watcher)) = (of(fd), of(watcher))
    {
        shared().channels.watch(key, watcher);
    }
    // SAFETY: the program's own arguments.
    unsafe { original(watcher, operation, fd, event) }
}

/// When another thread last used a channel.
pub fn used(key: Option<Key>) -> Nanos {
    key.map_or(Nanos::ZERO, |key| shared().channels.touched(key))
}

/// When the channels that a `poll` found ready were last used.
///
/// # Safety
/// `fds` must point to `count` structures `pollfd`.
pub unsafe fn polled(fds: Ptr, count: usize) -> Nanos {
    // A descriptor and two 16-bit sets of events, the second of which is the result.
    let fds: *const [u32; 2] = fds.cast();
    let mut last = Nanos::ZERO;
    for i in 0..count {
        // SAFETY: the caller vouches for the array.
        let [fd, events] = unsafe { *fds.add(i) };
        if events >> 16 != 0 {
            last = last.max(used(of(fd as c_int)));
        }
    }
    last
}

/// The same for the sets that `select` has left.
///
/// # Safety
/// Each of `sets` must be null or point to an `fd_set` of at least `count` bits.
pub unsafe fn selected(sets: [Ptr; 2], count: c_int) -> Nanos {
    let mut last = Nanos::ZERO;
    for set in sets.into_iter().filter(|set| !set.is_null()) {
        for fd in 0..count {
            // SAFETY: the caller vouches for the set.
            let word = unsafe { *set.cast::<u64>().add(fd as usize / 64) };
            if word & (1 << (fd % 64)) != 0 {
                last = last.max(used(of(fd)));
            }
        }
    }
    last
}

/// `fcntl(2)` with its third argument, an integer or a pointer; what it duplicates stays the same channel.
macro_rules! duplicating {
    ($name:ident) => {
        noted!($name(fd: c_int, command: c_int, argument: usize), result => if matches!(command, 0 | 1030) {
            remember(result, of(fd)); // F_DUPFD, F_DUPFD_CLOEXEC
        });
    };
}

duplicating!(fcntl);
duplicating!(fcntl64);
