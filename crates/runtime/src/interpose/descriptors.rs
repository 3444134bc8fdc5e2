//! Calls that make a descriptor, copy it or give it up: what is known of its number from then on.
//!
//! Three files remember something by the number of a descriptor: which channel it is ([`channel`]), what comes through it from outside
//! ([`arrivals`]) and whether it is a timer ([`deadline`]). The calls here tell them, and [`epoll`] of what is closed.

use super::locks::{Locking, locking};
use crate::channel::{self, Ends, REMEMBERED};
use crate::memory::{attached, shared};
use crate::real::real;
use crate::{arrivals, deadline, delay, epoll, object, signals, stretch, sys, tls};
use core::ffi::{c_int, c_uint};

/// A descriptor is something else from now on; `None`: to be looked at when it is used next.
pub(super) fn remember(fd: c_int, ends: Option<Ends>) {
    deadline::forget(fd);
    arrivals::forget(fd);
    channel::remember(fd, ends);
}

/// A new descriptor gets a key of its own.
fn made(fd: c_int) {
    if attached().is_some() {
        remember(fd, Some(Ends::both(shared().channels.fresh())));
    }
}

/// Two new descriptors with a channel from each to the other.
fn connected([first, second]: [c_int; 2]) {
    if attached().is_some()
        && let (Some(one), Some(other)) = (channel::inode(first), channel::inode(second))
    {
        shared().channels.pair([one, other]);
        Ends::of_pair([one, other]).begin();
        remember(first, Some(Ends::of_pair([one, other])));
        remember(second, Some(Ends::of_pair([other, one])));
    }
}

/// The two ends of a pipe, or an event descriptor, which the kernel gives a number, so that programs that are executed with one of them know it as well. Looked at in any case: one that is
/// only closed ends waits as well.
fn piped<const N: usize>(fds: [c_int; N]) {
    for fd in fds {
        remember(fd, None);
        if attached().is_some() {
            channel::of(fd).begin();
        }
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
    piped(unsafe { pair(fds) });
});
noted!(pipe2(fds: *mut c_int, flags: c_int), result => if result == 0 {
    // SAFETY: as above.
    piped(unsafe { pair(fds) });
});
noted!(socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int), result => if result == 0 {
    // SAFETY: as above.
    connected(unsafe { pair(fds) });
});
noted!(eventfd(value: c_uint, flags: c_int), fd => {
    piped([fd]);
    // The kernel does not tell its number.
    if channel::known(fd) == Ends::WORLD {
        made(fd);
    }
});
noted!(epoll_create(size: c_int), fd => made(fd));
noted!(epoll_create1(flags: c_int), fd => made(fd));
noted!(socket(domain: c_int, kind: c_int, protocol: c_int), fd => remember(fd, None));
noted!(listen(fd: c_int, most: c_int), _result => remember(fd, None));
noted!(timerfd_create(clock: c_int, flags: c_int), fd => {
    remember(fd, None);
    deadline::created(fd, clock);
});
noted!(before {
    signals::awaited(set)
}, signalfd(fd: c_int, set: *const u64, flags: c_int));
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
    Some(channel::of(from)).filter(|&ends| ends != Ends::WORLD)
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

noted!(before { channel::of(fd); hang_up(fd) }, shutdown(fd: c_int, how: c_int));

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
    object::closes(fd);
    let ends = channel::known(fd);
    if ends != Ends::WORLD
        && let Some(slot) = tls::slot()
    {
        delay::pay(slot);
        ends.hang_up(sys::now());
    }
}

/// `fcntl(2)` with its third argument, an integer or a pointer; what it duplicates stays the same channel, and it may lock a file.
macro_rules! controlling {
    ($name:ident) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(fd: c_int, command: c_int, argument: usize) -> c_int {
            let Some(original) = real!($name: fn(c_int, c_int, usize) -> c_int) else { return -1 };
            // SAFETY: the program's own arguments go to the function it meant to call.
            let call = || unsafe { original(fd, command, argument) };
            if let Some(slot) = tls::slot()
                && let Some(what) = Locking::by_fcntl(command, argument)
            {
                stretch::cross(slot, super::call!($name fd));
                return locking(slot, fd, what, call);
            }
            let result = call();
            if matches!(command, 0 | 1030) {
                remember(result, copied(fd)); // F_DUPFD, F_DUPFD_CLOEXEC
            }
            result
        }
    };
}

controlling!(fcntl);
controlling!(fcntl64);
