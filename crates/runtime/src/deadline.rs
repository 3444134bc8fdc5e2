//! What comes at a time of its own: deadlines, and the ticks of periodic timers.
//!
//! Such a moment does not move when the selected code is faster. The thread that waited for it goes on when its own clock shows that moment, and not earlier
//! (rule 6): it is not owed the length of its wait, as after a sleep. Deadlines that functions take for a timeout (`pthread_cond_timedwait`) are left
//! out: most were computed from the present time just before, and are sleeps.
//!
//! Out of reach: ticks that come as signals, and timeouts of `epoll_wait` that an event loop computes from a schedule of its own.

use crate::attach::shared;
use crate::channel::Ptr;
use crate::interpose::{interpose, reading};
use crate::real::real;
use crate::{delay, signals, sys};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use wire::Nanos;
use wire::slot::Slot;

/// Timers on descriptors beyond this number are taken for sleeps.
const TIMERS: usize = 4096;

/// `TIMER_ABSTIME` and `TFD_TIMER_ABSTIME`.
const ABSOLUTE: c_int = 1;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// How long ago the moment was that it waited for.
    pub late: Nanos,
    /// Whether the thread keeps up: it was there before the moment came.
    pub in_time: bool,
}

/// `struct timespec`, in nanoseconds. Negative times and none are zero.
unsafe fn time(of: *const [i64; 2]) -> Nanos {
    // SAFETY: the caller vouches for it.
    let [seconds, nanos] = unsafe { of.as_ref() }.copied().unwrap_or_default();
    Nanos((seconds.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(nanos.max(0) as u64))
}

interpose!(@define clock_nanosleep(clock: c_int, flags: c_int, until: Ptr, left: Ptr) -> c_int, slot, original => {
    let call = || signals::undisturbed(slot, || original(clock, flags, until, left));
    delay::before_sleep(slot);
    if flags & ABSOLUTE == 0 || until.is_null() {
        delay::around_world(slot, call)
    } else {
        let (due, began) = (time(until.cast()), sys::clock(clock.into()));
        let met = |result: &c_int| {
            (*result == 0).then(|| Met { late: sys::clock(clock.into()).saturating_sub(due), in_time: began <= due })
        };
        delay::around_deadline(slot, call, met)
    }
});

/// A timer behind a descriptor.
struct Timer {
    clock: AtomicU32,
    /// When it expires next, as far as has been read, on its clock; zero if it is none, or is taken for a sleep.
    due: AtomicU64,
    /// From one tick to the next; zero for a timer that expires once.
    interval: AtomicU64,
}

static TABLE: [Timer; TIMERS] =
    [const { Timer { clock: AtomicU32::new(0), due: AtomicU64::new(0), interval: AtomicU64::new(0) } };
        TIMERS];

/// Whether there ever was one.
static ANY: AtomicBool = AtomicBool::new(false);

/// The timer that a descriptor is about.
#[inline]
fn of(fd: c_int) -> Option<&'static Timer> {
    if !ANY.load(Relaxed) {
        return None;
    }
    let timer = TABLE.get(usize::try_from(fd).ok()?)?;
    (timer.due.load(Relaxed) != 0).then_some(timer)
}

/// A descriptor is closed, or is now something else.
pub fn forget(fd: c_int) {
    if let Some(timer) = of(fd) {
        timer.due.store(0, Relaxed);
    }
}

/// A new descriptor is a timer on `clock`, which is not armed yet.
pub fn created(fd: c_int, clock: c_int) {
    forget(fd);
    if let Some(timer) = usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd)) {
        timer.clock.store(clock as u32, Relaxed);
    }
}

/// `timerfd_settime(2)`: from here on the timer is a schedule, or a sleep.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn timerfd_settime(fd: c_int, flags: c_int, new: Ptr, old: Ptr) -> c_int {
    let Some(original) = real!(timerfd_settime: fn(c_int, c_int, Ptr, Ptr) -> c_int) else { return -1 };
    // SAFETY: the program's own arguments.
    let result = unsafe { original(fd, flags, new, old) };
    if result == 0
        && let Some(timer) = usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd))
    {
        let parts: *const [i64; 2] = new.cast();
        // SAFETY: an itimerspec, two timespecs, which the kernel has just read.
        let (interval, first) = unsafe { (time(parts), time(parts.add(1))) };
        let now = sys::clock(timer.clock.load(Relaxed).into());
        timer.interval.store(interval.0, Relaxed);
        timer.due.store(due(first, interval, flags & ABSOLUTE != 0, now).0, Relaxed);
        ANY.store(true, Relaxed);
    }
    result
}

/// When a timer expires first that is set at `now`; zero if it is disarmed, or expires once after a time from now.
fn due(first: Nanos, interval: Nanos, absolute: bool, now: Nanos) -> Nanos {
    match (absolute, interval) {
        _ if first == Nanos::ZERO => Nanos::ZERO,
        (true, _) => first,
        (false, Nanos::ZERO) => Nanos::ZERO,
        (false, _) => now + first,
    }
}

/// Reads from a descriptor that may be a timer.
#[inline]
fn read_from(slot: &Slot, fd: c_int, buffer: Ptr, call: impl FnOnce() -> isize) -> isize {
    let Some(timer) = of(fd) else { return reading(slot, fd, call) };
    let met = |result: &isize| {
        // SAFETY: the call has written the number of expirations there.
        let expired = (*result == 8).then(|| unsafe { buffer.cast::<u64>().read_unaligned() });
        expired.map(|expired| timer.expired(expired, sys::clock(timer.clock.load(Relaxed).into())))
    };
    delay::around_deadline(slot, call, met)
}

interpose!(@define read(fd: c_int, buffer: Ptr, size: usize) -> isize, slot, original => {
    read_from(slot, fd, buffer, || original(fd, buffer, size))
});
interpose!(@define __read_chk(fd: c_int, buffer: Ptr, size: usize, room: usize) -> isize, slot, original => {
    read_from(slot, fd, buffer, || original(fd, buffer, size, room))
});

impl Timer {
    /// So many expirations have been read at `now`.
    fn expired(&self, expirations: u64, now: Nanos) -> Met {
        let (due, interval) = (self.due.load(Relaxed), self.interval.load(Relaxed));
        let last = due.saturating_add(expirations.saturating_sub(1).saturating_mul(interval));
        self.due.store(if interval == 0 { 0 } else { last.saturating_add(interval) }, Relaxed);
        // The thread handles all of them now, some earlier than they were due and some later.
        let middle = due + (last - due) / 2;
        let late = now.saturating_sub(Nanos(middle));
        Met { late, in_time: expirations == 1 && late.0 <= interval / 2 }
    }
}

/// Rule 6: the thread goes on behind such a moment, before it pays.
pub fn met(slot: &Slot, met: Met) {
    let memory = shared();
    if memory.header.experimenting.load(Relaxed) == 0 {
        if met.in_time {
            slot.behind.store(0, Relaxed);
        }
        return;
    }
    slot.behind.store(memory.header.epoch().0, Relaxed);
    if memory.header.has_rule(6) {
        let taken = delay::exclusively(slot, || slot.local.released(&memory.required, met.late));
        slot.books.taken_back.fetch_add(taken.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_a_schedule_unless_it_expires_once_after_some_time() {
        let [none, now, first] = [Nanos::ZERO, Nanos(1000), Nanos(70)];
        assert_eq!(due(none, Nanos(5), true, now), none, "disarmed");
        assert_eq!(due(first, none, false, now), none, "a sleep");
        assert_eq!(due(first, none, true, now), first);
        assert_eq!(due(first, Nanos(5), false, now), Nanos(1070));
    }

    #[test]
    fn ticks_are_counted_from_the_first() {
        let timer =
            Timer { clock: AtomicU32::new(1), due: AtomicU64::new(1000), interval: AtomicU64::new(100) };
        assert_eq!(timer.expired(1, Nanos(1010)), Met { late: Nanos(10), in_time: true });
        assert_eq!(timer.expired(3, Nanos(1330)), Met { late: Nanos(130), in_time: false });
        assert_eq!(timer.expired(1, Nanos(1490)), Met { late: Nanos(90), in_time: false });
        assert_eq!(timer.due.load(Relaxed), 1500);
    }
}
