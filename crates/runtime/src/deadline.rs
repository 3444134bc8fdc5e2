//! What comes at a time of its own: deadlines, and the ticks of periodic timers.
//!
//! Such a moment does not move when the selected code is faster. The thread that waited for it goes on when its own clock shows that moment, and not earlier
//! (rule 6): it is not owed the length of its wait, as after a sleep. Deadlines that functions take for a timeout (`pthread_cond_timedwait`) are left
//! out: most were computed from the present time just before, and are sleeps.
//!
//! A timer that a thread waits for together with something else (`epoll`, `poll`, `select`) is taken for a sleep: a tick that comes too soon in virtual time would have
//! to be put off while what else comes is handled, and the program has read it already.
//!
//! Knows schedules; the calls that make, set and read timers are in `interpose/timers.rs`.
//!
//! Out of reach: ticks that come as signals, and timeouts of `epoll_wait` that an event loop computes from a schedule of its own.

use crate::memory::shared;
use crate::{account, sys};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use wire::Nanos;
use wire::channel::Key;
use wire::slot::{Schedule, Slot};

/// Timers on descriptors beyond this number are taken for sleeps.
const TIMERS: usize = 4096;

/// Deadlines that must have kept their distance while the thread was earlier or later.
const ENOUGH: u32 = 3;
/// The number of deadlines after which half of them are forgotten.
const OLD: u32 = 64;
/// A difference in time that means nothing, in nanoseconds.
const EXACT: u64 = 20_000;

/// `CLOCK_MONOTONIC`.
const MONOTONIC: c_int = 1;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// How long ago the moment was that it waited for.
    pub late: Nanos,
    /// Whether the thread keeps up: it was there before the moment came.
    pub in_time: bool,
}

/// Whether the deadlines of a thread have a time of their own, as far as can be told at this one, for which it begins to wait at `began`. A function that sleeps may well
/// compute a deadline from the present time (Python's `time.sleep` does): such deadlines lie as far ahead as the one before, whatever the thread did in between, and their distances differ. Those of a
/// schedule keep their distances, and it is the thread that is earlier or later.
pub fn learn(schedule: &Schedule, due: Nanos, began: Nanos) -> bool {
    let (due, lead) = (due.0 as i64, (due.0 as i64).wrapping_sub(began.0 as i64));
    let gap = due.wrapping_sub(schedule.due.swap(due as u64, Relaxed) as i64);
    let changed =
        |last: &AtomicU64, now: i64| now.wrapping_sub(last.swap(now as u64, Relaxed) as i64).unsigned_abs();
    let (moved, strayed) = (changed(&schedule.gap, gap), changed(&schedule.lead, lead));
    let (fixed, moving) = (&schedule.fixed, &schedule.moving);
    if moved.saturating_add(EXACT) < strayed {
        fixed.store(fixed.load(Relaxed) + 1, Relaxed);
    } else if strayed.saturating_add(EXACT) < moved {
        moving.store(moving.load(Relaxed) + 1, Relaxed);
    }
    if fixed.load(Relaxed) + moving.load(Relaxed) > OLD {
        fixed.store(fixed.load(Relaxed) / 2, Relaxed);
        moving.store(moving.load(Relaxed) / 2, Relaxed);
    }
    fixed.load(Relaxed) >= ENOUGH && fixed.load(Relaxed) > 4 * moving.load(Relaxed)
}

/// A timer behind a descriptor. Its numbers publish nothing else: a thread that reads them while another one sets the timer may take a tick for one of
/// the setting before.
pub struct Timer {
    /// The clock that it was made for.
    made_on: AtomicU32,
    /// The clock that it was set on.
    clock: AtomicU32,
    /// When it expired first, on its clock; zero if it is none, or is taken for a sleep.
    due: AtomicU64,
    /// From one tick to the next.
    interval: AtomicU64,
    /// Whether threads wait for it together with something else.
    among_others: AtomicBool,
}

static TABLE: [Timer; TIMERS] = [const {
    Timer {
        made_on: AtomicU32::new(0),
        clock: AtomicU32::new(0),
        due: AtomicU64::new(0),
        interval: AtomicU64::new(0),
        among_others: AtomicBool::new(false),
    }
}; TIMERS];

/// Whether there ever was one.
static ANY: AtomicBool = AtomicBool::new(false);

/// What each `epoll` instance watches, by the number of its channel: nothing, one descriptor (plus one), or [`SEVERAL`].
static INSTANCES: [AtomicU32; 1 << 16] = [const { AtomicU32::new(0) }; 1 << 16];
const SEVERAL: u32 = u32::MAX;

/// The entry of a descriptor.
pub fn entry(fd: c_int) -> Option<&'static Timer> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// The timer that a descriptor is about, if it is a schedule.
#[inline]
pub fn of(fd: c_int) -> Option<&'static Timer> {
    if !ANY.load(Relaxed) {
        return None;
    }
    let is_schedule = |timer: &&Timer| timer.due.load(Relaxed) != 0 && !timer.among_others.load(Relaxed);
    entry(fd).filter(is_schedule)
}

/// Threads wait for what is behind `fd` together with something else.
fn join(fd: c_int) {
    if let Some(timer) = entry(fd) {
        timer.among_others.store(true, Relaxed);
    }
}

/// An `epoll` instance is about to watch `fd`.
pub fn watched(instance: Key, fd: c_int) {
    let alone = (fd as u32).wrapping_add(1);
    let before = &INSTANCES[usize::from(instance.number())];
    match before.compare_exchange(0, alone, Relaxed, Relaxed) {
        Ok(_) => {}
        Err(before) if before == alone => {}
        Err(other) => {
            before.store(SEVERAL, Relaxed);
            join(fd);
            if other != SEVERAL {
                join(other.wrapping_sub(1) as c_int);
            }
        }
    }
}

/// A thread waits for all of `fds`.
pub fn asked(fds: impl ExactSizeIterator<Item = c_int>) {
    if fds.len() > 1 && ANY.load(Relaxed) {
        fds.for_each(join);
    }
}

/// A descriptor is closed, or is now something else.
pub fn forget(fd: c_int) {
    if of(fd).is_some() && sys::is_own() {
        clear(fd);
    }
}

fn clear(fd: c_int) {
    if let Some(timer) = entry(fd) {
        timer.due.store(0, Relaxed);
        timer.among_others.store(false, Relaxed);
    }
}

/// A new descriptor is a timer on `clock`, which is not armed yet.
pub fn created(fd: c_int, clock: c_int) {
    clear(fd);
    if let Some(timer) = entry(fd) {
        timer.made_on.store(clock as u32, Relaxed);
    }
}

/// When a timer expires first that is set at `now`; zero if it is disarmed, or expires only once, which may be a sleep.
fn due(first: Nanos, interval: Nanos, absolute: bool, now: Nanos) -> Nanos {
    match absolute {
        _ if first == Nanos::ZERO || interval == Nanos::ZERO => Nanos::ZERO,
        true => first,
        false => now + first,
    }
}

impl Timer {
    /// The clock that it counts on once it is set, with the time of the first tick itself (`absolute`) or the time until then.
    pub fn clock_if_set(&self, absolute: bool) -> c_int {
        // The kernel counts on the monotonic clock what is set from now on.
        if absolute { self.made_on.load(Relaxed) as c_int } else { MONOTONIC }
    }

    /// It has been set at `now` of `clock`: from here on it is a schedule, or a sleep.
    pub fn set(&self, (clock, now): (c_int, Nanos), (interval, first): (Nanos, Nanos), absolute: bool) {
        self.clock.store(clock as u32, Relaxed);
        self.interval.store(interval.0, Relaxed);
        self.due.store(due(first, interval, absolute, now).0, Relaxed);
        ANY.store(true, Relaxed);
    }

    /// The time on the clock that it was set on.
    pub fn now(&self) -> Nanos {
        sys::clock(self.clock.load(Relaxed).into())
    }

    /// `expirations` have been read at `now`. Others may have been read by calls that are not interposed, so the last one is found by the time.
    pub fn expired(&self, expirations: u64, now: Nanos) -> Met {
        let (first, interval) = (self.due.load(Relaxed), self.interval.load(Relaxed).max(1));
        let since_last = now.0.saturating_sub(first) % interval;
        // The thread handles all of them now, some earlier than they were due and some later.
        let late = Nanos(since_last + expirations.saturating_sub(1).saturating_mul(interval) / 2);
        Met { late, in_time: expirations == 1 && since_last <= interval / 2 }
    }
}

/// Rule 6: the thread goes on behind such a moment, before it pays.
pub fn met(slot: &Slot, met: Met) {
    let memory = shared();
    let schedule = &slot.schedule;
    let required = memory.required.load().delay();
    if required == Nanos::ZERO {
        schedule.in_time.store(u32::from(met.in_time), Relaxed);
    }
    if memory.header.experimenting.load(Relaxed) == 0 {
        if met.in_time {
            slot.behind.store(0, Relaxed);
        }
        return;
    }
    if schedule.in_time.load(Relaxed) != 0 {
        slot.behind.store(memory.header.epoch().0, Relaxed);
    }
    if memory.header.has_rule(6) {
        let taken = account::exclusively(slot, || slot.local.released(&memory.required, met.late));
        slot.books.taken_back.fetch_add(taken.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_a_schedule_unless_it_expires_once() {
        let [none, now, first] = [Nanos::ZERO, Nanos(1000), Nanos(70)];
        assert_eq!(due(none, Nanos(5), true, now), none, "disarmed");
        assert_eq!(due(first, none, false, now), none);
        assert_eq!(due(first, none, true, now), none);
        assert_eq!(due(first, Nanos(5), true, now), first);
        assert_eq!(due(first, Nanos(5), false, now), Nanos(1070));
    }

    /// Whether the deadlines of a thread that works `work` in its rounds are a schedule in the end.
    fn learnt(work: impl Fn(u64) -> u64, next: impl Fn(u64, u64) -> u64) -> bool {
        let (schedule, mut due, mut now) = (Schedule::default(), 1_000_000_000, 1_000_000_000);
        let mut known = false;
        for round in 0..40 {
            now += work(round);
            due = next(due, now);
            known = learn(&schedule, Nanos(due), Nanos(now));
            now = now.max(due);
        }
        known
    }

    #[test]
    fn deadlines_that_move_with_the_thread_are_sleeps() {
        const MS: u64 = 1_000_000;
        let varies = |round| 2 * MS + round % 3 * MS;
        assert!(learnt(varies, |due, _| due + 10 * MS));
        assert!(!learnt(varies, |_, now| now + 10 * MS));
        assert!(!learnt(|_| 2 * MS, |due, _| due + 10 * MS), "cannot be told");
        assert!(!learnt(
            |round| round % 7 * 3 * MS,
            |due, now| if now > due { now + 2 * MS } else { due + 2 * MS }
        ));
    }

    #[test]
    fn a_timer_among_others_is_a_sleep() {
        let due = |fd: c_int| TABLE[fd as usize].due.store(1, Relaxed);
        ANY.store(true, Relaxed);
        (20..=23).for_each(due);
        let [alone, several] = [Key::hashed([1, 2]), Key::hashed([3, 4])];
        watched(alone, 20);
        watched(alone, 20);
        watched(several, 21);
        assert!(of(20).is_some() && of(21).is_some());
        watched(several, 9);
        assert!(of(20).is_some() && of(21).is_none(), "added before the other one");
        watched(several, 22);
        assert!(of(22).is_none(), "and after it");
        asked([23].into_iter());
        assert!(of(23).is_some());
        asked([23, 9].into_iter());
        assert!(of(23).is_none());
        clear(23);
        due(23);
        assert!(of(23).is_some(), "another timer");
    }

    #[test]
    fn ticks_are_where_the_interval_puts_them() {
        let timer = Timer {
            made_on: AtomicU32::new(1),
            clock: AtomicU32::new(1),
            due: AtomicU64::new(1000),
            interval: AtomicU64::new(100),
            among_others: AtomicBool::new(false),
        };
        assert_eq!(timer.expired(1, Nanos(1010)), Met { late: Nanos(10), in_time: true });
        assert_eq!(timer.expired(3, Nanos(1330)), Met { late: Nanos(130), in_time: false });
        assert_eq!(timer.expired(1, Nanos(9490)), Met { late: Nanos(90), in_time: false }, "ticks were lost");
    }
}
