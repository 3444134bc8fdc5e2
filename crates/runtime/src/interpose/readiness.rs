//! What `poll` and `select` were asked for, and what they have found ready.

use super::table::Ptr;
use crate::channel::{self, POLLIN, POLLOUT};
use crate::{arrivals, deadline, sys};
use core::ffi::c_int;
use wire::Nanos;

/// When the channels that a `poll` found ready were last used.
///
/// # Safety
/// `fds` must point to `count` structures `pollfd`.
pub(super) unsafe fn polled(fds: Ptr, count: usize) -> Nanos {
    // A descriptor and two 16-bit sets of events, the second of which is the result.
    let fds: *const [u32; 2] = fds.cast();
    // SAFETY: the caller vouches for the array.
    deadline::asked((0..count).map(|i| unsafe { (*fds.add(i))[0] } as c_int));
    let mut last = Nanos::ZERO;
    for i in 0..count {
        // SAFETY: the caller vouches for the array.
        let [fd, events] = unsafe { *fds.add(i) };
        if events >> 16 != 0 {
            if events >> 16 & POLLIN != 0 {
                arrivals::found(fd as c_int);
            }
            last = last.max(channel::used_by(fd as c_int, events >> 16));
        }
    }
    last
}

/// When the channels that a `poll` asks for were last used.
///
/// # Safety
/// As for [`polled`].
pub(super) unsafe fn asked(fds: Ptr, count: usize) -> Nanos {
    let fds: *const [u32; 2] = fds.cast();
    // SAFETY: the caller vouches for the array.
    let asked = (0..count).map(|i| unsafe { *fds.add(i) });
    asked.map(|[fd, events]| channel::used_by(fd as c_int, events & 0xffff)).max().unwrap_or(Nanos::ZERO)
}

/// The same for the sets of readable and writable descriptors that `select` has left.
///
/// # Safety
/// Each of `sets` must be null or point to an `fd_set` of at least `count` bits, or of as many as the C library's has.
pub(super) unsafe fn selected(sets: [Ptr; 2], count: c_int) -> Nanos {
    // Programs name their limit of descriptors, of which the kernel only looks at those that they have.
    const SIZE: c_int = 1024;
    let count = count.min(SIZE);
    if let Ok(count) = usize::try_from(count) {
        deadline::asked((0..count).map(|fd| fd as c_int));
    }
    let mut last = Nanos::ZERO;
    for (set, events) in sets.into_iter().zip([POLLIN, POLLOUT]).filter(|(set, _)| !set.is_null()) {
        for fd in 0..count {
            // SAFETY: the caller vouches for the set.
            let word = unsafe { *set.cast::<u64>().add(fd as usize / 64) };
            if word & (1 << (fd % 64)) != 0 {
                if events == POLLIN {
                    arrivals::found(fd);
                }
                last = last.max(channel::used_by(fd, events));
            }
        }
    }
    last
}

/// `timespec` and `timeval` have seconds, and so many parts of a millisecond.
pub(super) const NANOS: i64 = 1_000_000;
pub(super) const MICROS: i64 = 1000;

/// Milliseconds of a time limit, rounded up; negative without one.
pub(super) fn limit(time: Ptr, parts: i64) -> i64 {
    sys::read_argument(time.cast::<[i64; 2]>()).map_or(-1, |[seconds, rest]| {
        seconds.saturating_mul(1000).saturating_add(rest.saturating_add(parts - 1) / parts)
    })
}
