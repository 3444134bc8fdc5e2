//! Sleeping until a deadline, and timers behind descriptors: what the calls say of a schedule ([`deadline`]).

use super::interpose;
use super::reading;
use super::table::Ptr;
use crate::deadline::{self, Met};
use crate::real::real;
use crate::{signals, sys, wait};
use core::ffi::c_int;
use wire::Nanos;
use wire::slot::Slot;

const REALTIME: c_int = 0;
const MONOTONIC: c_int = 1;
const BOOTTIME: c_int = 7;

/// `TIMER_ABSTIME` and `TFD_TIMER_ABSTIME`.
const ABSOLUTE: c_int = 1;

/// `struct timespec`, in nanoseconds. Negative times are zero.
///
/// # Safety
/// The kernel must have read it from there.
unsafe fn time(of: *const [i64; 2]) -> Nanos {
    // SAFETY: the caller vouches for it.
    let [seconds, nanos] = unsafe { of.read_unaligned() };
    Nanos((seconds.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(nanos.max(0) as u64))
}

interpose!(@define clock_nanosleep(clock: c_int, flags: c_int, until: Ptr, left: Ptr) -> c_int, slot, original => {
    let call = || signals::undisturbed(slot, || original(clock, flags, until, left));
    wait::before_sleep(slot);
    if flags & ABSOLUTE == 0 || !matches!(clock, REALTIME | MONOTONIC | BOOTTIME) {
        wait::around_world(slot, call)
    } else {
        let began = sys::clock(clock.into());
        let met = |result: &c_int| {
            // The kernel has read the time by then.
            let due = (*result == 0).then(|| time(until.cast()));
            let due = due.filter(|due| deadline::learn(&slot.schedule, *due, began));
            due.map(|due| Met { late: sys::clock(clock.into()).saturating_sub(due), in_time: began <= due })
        };
        wait::around_deadline(slot, call, met)
    }
});

/// `timerfd_settime(2)`: from here on the timer is a schedule, or a sleep.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn timerfd_settime(fd: c_int, flags: c_int, new: Ptr, old: Ptr) -> c_int {
    let Some(original) = real!(timerfd_settime: fn(c_int, c_int, Ptr, Ptr) -> c_int) else { return -1 };
    let Some(timer) = deadline::entry(fd) else {
        // SAFETY: the program's own arguments.
        return unsafe { original(fd, flags, new, old) };
    };
    let is_absolute = flags & ABSOLUTE != 0;
    let clock = timer.clock_if_set(is_absolute);
    let now = sys::clock(clock.into());
    // SAFETY: the program's own arguments.
    let result = unsafe { original(fd, flags, new, old) };
    if result == 0 {
        let parts: *const [i64; 2] = new.cast();
        // SAFETY: an itimerspec, two timespecs, which the kernel has just read.
        let parts = unsafe { (time(parts), time(parts.add(1))) };
        timer.set((clock, now), parts, is_absolute);
    }
    result
}

/// Reads from a descriptor that may be a timer.
#[inline]
fn read_from(slot: &Slot, fd: c_int, buffer: Ptr, call: impl FnOnce() -> isize) -> isize {
    let Some(timer) = deadline::of(fd) else { return reading(slot, fd, call) };
    let met = |result: &isize| {
        // SAFETY: the call has written the number of expirations there.
        let expired = (*result == 8).then(|| unsafe { buffer.cast::<u64>().read_unaligned() });
        expired.map(|expired| timer.expired(expired, timer.now()))
    };
    wait::around_deadline(slot, call, met)
}

interpose!(@define read(fd: c_int, buffer: Ptr, size: usize) -> isize, slot, original => {
    read_from(slot, fd, buffer, || original(fd, buffer, size))
});
interpose!(@define __read_chk(fd: c_int, buffer: Ptr, size: usize, room: usize) -> isize, slot, original => {
    read_from(slot, fd, buffer, || original(fd, buffer, size, room))
});
