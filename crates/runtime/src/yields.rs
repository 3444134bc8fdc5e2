//! Waits that yield.
//!
//! A thread that has nothing to do until another one changes a word in memory often calls `sched_yield` in a loop. Such calls say, to the
//! microsecond, when the wait began and when it was over: many of them in a row with next to nothing between them. So these waits need not
//! be inferred from samples, which miss the short ones.
//!
//! A loop that does a little work between two yields looks alike. Samples tell the two apart: they find a thread that waits in
//! `sched_yield` or in a circle ([`spin`](crate::spin)), and one that works at its work.

use crate::memory::shared;
use crate::{account, sys, ticks};
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::slot::Slot;

/// The longest time between two yields of one wait: a few dozen `pause` instructions, or a look at some queues.
const GAP: Nanos = Nanos(10_000);
/// Yields in a row that make a wait.
const ROW: u32 = 3;
/// Samples between yields that must have found a thread at work, more than spun, before its yields are no waits.
const WORKS: u32 = 8;
/// The number of samples between yields at which the older half of them is forgotten.
const OLD: u32 = 64;

/// A sample that counts once the row has gone on.
const AT_WORK: u32 = 2;
const SPINNING: u32 = 1;

/// Around a call of `sched_yield`. `ends_stretch`: what is to be done where a row begins, which ends the stretch of code before it.
#[inline]
pub fn yielding<T>(slot: &Slot, ends_stretch: impl FnOnce(), call: impl FnOnce() -> T) -> T {
    let now = ticks::now();
    let row = &slot.row;
    let yields = row.yields.load(Relaxed);
    if yields == 0 || yields == u32::MAX || !is_close(slot, now) {
        begin(slot, now, ends_stretch);
    } else {
        row.yields.store(yields + 1, Relaxed);
        if yields + 1 >= ROW {
            row.met.store(1, Relaxed);
        }
        if row.doubtful.load(Relaxed) != 0 {
            count(slot, row.doubtful.swap(0, Relaxed));
        }
    }
    slot.yielded.fetch_add(1, Relaxed);
    slot.yielding.store(1, Relaxed);
    let result = call();
    slot.yielding.store(0, Relaxed);
    // What another thread of the program had the CPU for meanwhile is credited as that (rule 7).
    account::take_note(slot);
    row.queued_last.store(slot.books.queued.load(Relaxed), Relaxed);
    row.last.store(ticks::now(), Relaxed);
    result
}

/// Whether so little time has passed since the last yield that another one belongs to the same row.
fn is_close(slot: &Slot, now: u64) -> bool {
    ticks::between(slot.row.last.load(Relaxed), now).is_some_and(|gap| gap <= GAP)
}

/// Whether the thread is in a row of yields, as far as is known.
pub fn is_within(slot: &Slot) -> bool {
    slot.yielding.load(Relaxed) != 0 || slot.row.yields.load(Relaxed) != 0 && is_close(slot, ticks::now())
}

/// Taking a sample has taken the time since `began`, by the processor's clock, which is no time between two yields.
pub fn leave_out(slot: &Slot, began: u64) {
    if slot.row.yields.load(Relaxed) != 0 && is_close(slot, began) {
        slot.row.last.fetch_add(ticks::now().wrapping_sub(began), Relaxed);
    }
}

/// A row begins: what the thread did before is over.
#[inline(never)]
fn begin(slot: &Slot, now: u64, ends_stretch: impl FnOnce()) {
    settle(slot);
    ends_stretch();
    let row = &slot.row;
    row.begin.store(now, Relaxed);
    row.doubtful.store(0, Relaxed);
    row.yields.store(1, Relaxed);
    row.seen.store(0, Relaxed);
    row.queued.store(slot.books.queued.load(Relaxed), Relaxed);
}

/// Learns from a sample, which found the thread spinning or not, whether its yields are waits. `began`: when the sample came, by the
/// processor's clock.
pub fn learn(slot: &Slot, spins: bool, began: u64) {
    let row = &slot.row;
    if row.yields.load(Relaxed) < ROW {
        return;
    }
    if slot.yielding.load(Relaxed) != 0 {
        count(slot, SPINNING);
    } else if is_close(slot, began) {
        row.doubtful.store(if spins { SPINNING } else { AT_WORK }, Relaxed);
    }
}

/// Counts a sample between two yields of a row.
fn count(slot: &Slot, found: u32) {
    let row = &slot.row;
    let counter = if found == AT_WORK { &row.works } else { &row.spins };
    if counter.fetch_add(1, Relaxed) >= OLD {
        for counter in [&row.spins, &row.works] {
            counter.store(counter.load(Relaxed) / 2, Relaxed);
        }
    }
}

/// Whether yields of the thread are waits, as far as samples tell.
fn are_waits(slot: &Slot) -> bool {
    slot.row.works.load(Relaxed) <= slot.row.spins.load(Relaxed) + WORKS
}

/// Rule 5, with every sample: as [`settle`]. Returns whether the thread has waited that way since the last sample.
pub fn sampled(slot: &Slot) -> bool {
    settle(slot);
    slot.row.met.swap(0, Relaxed) != 0 && are_waits(slot)
}

/// Rule 5 for the latest row: credits what `required` has grown meanwhile, as far as it is known now and was not credited before.
pub fn settle(slot: &Slot) {
    let memory = shared();
    let nothing = memory.required.load().delay() == Nanos::ZERO
        || slot.row.yields.load(Relaxed) < ROW
        || !are_waits(slot);
    if nothing || slot.busy.load(Relaxed) != 0 || !memory.header.has_rule(5) {
        return;
    }
    account::take_note(slot);
    account::exclusively(slot, || credit(slot));
    account::catch_up(slot);
}

/// The same, while no handler changes the account.
fn credit(slot: &Slot) {
    let (memory, row, books) = (shared(), &slot.row, &slot.books);
    let required = memory.required.load();
    let (ticks, now) = (ticks::now(), sys::now());
    let ago = |then: u64| ticks::between(then, ticks).map(|ago| now.saturating_sub(ago));
    let goes_on = slot.yielding.load(Relaxed) != 0;
    let last = if goes_on { Some(now) } else { ago(row.last.load(Relaxed)) };
    let (Some(begin), Some(last)) = (ago(row.begin.load(Relaxed)), last) else { return };
    let seen = Nanos(row.seen.swap(now.0, Relaxed)).max(begin);
    // What was credited for waits for a CPU during the row is not credited again.
    let queued = if goes_on { &books.queued } else { &row.queued_last }.load(Relaxed);
    let queued = Nanos(queued.saturating_sub(row.queued.swap(queued, Relaxed)));
    let growth = memory.history.accrued((seen, now), (begin, last), required).saturating_sub(queued);
    let credit = slot.local.waited_for_cpu(&memory.required, growth);
    books.spun.fetch_add(credit.0, Relaxed);
    row.given.fetch_add(credit.0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> &'static Slot {
        let layout = std::alloc::Layout::new::<Slot>();
        // SAFETY: all-zero words are a valid slot, as in fresh shared memory.
        unsafe { &*std::alloc::alloc_zeroed(layout).cast::<Slot>() }
    }

    #[test]
    fn work_between_yields_contradicts_that_they_are_waits() {
        let slot = thread();
        for _ in 0..WORKS {
            count(slot, AT_WORK);
        }
        assert!(are_waits(slot));
        count(slot, AT_WORK);
        assert!(!are_waits(slot));
        count(slot, SPINNING);
        assert!(are_waits(slot));
    }

    #[test]
    fn old_samples_are_forgotten() {
        let slot = thread();
        for _ in 0..1000 {
            count(slot, AT_WORK);
        }
        for _ in 0..2 * OLD {
            count(slot, SPINNING);
        }
        assert!(are_waits(slot));
        slot.row.forget();
        assert_eq!(slot.row.works.load(Relaxed), 0);
    }
}
