//! Waits that yield.
//!
//! A thread that has nothing to do until another one changes a word in memory often calls `sched_yield` in a loop. Such calls say, to the
//! microsecond, when the wait began and when it was over: many of them in a row with next to nothing between them. So these waits need not
//! be inferred from samples, which miss the short ones.
//!
//! A loop that does a little work between two yields looks alike. Samples tell the two apart: they find a thread that waits in
//! `sched_yield` or in a circle ([`spin`](crate::spin)), and one that works at its work.

use crate::attach::shared;
use crate::stretch::{self, Call};
use crate::{delay, sys};
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::slot::Slot;

/// The longest time between two yields of one wait: a few dozen `pause` instructions, or a look at some queues.
const GAP: Nanos = Nanos(10_000);
/// Yields in a row that make a wait.
const ROW: u32 = 3;
/// Samples between yields that must have found a thread at work, more than spun, before its yields are no waits;
const WORKS: u32 = 8;
/// the older half of them is forgotten from here on.
const OLD: u32 = 64;

/// Around a call of `sched_yield`.
#[inline]
pub fn yielding<T>(slot: &Slot, call: impl FnOnce() -> T) -> T {
    let now = stretch::ticks();
    let row = slot.row.yields.load(Relaxed);
    if row == 0 || row == u32::MAX || !is_close(slot, now) {
        begin(slot, now);
    } else {
        slot.row.yields.store(row + 1, Relaxed);
        slot.row.met.store(u32::from(row + 1 >= ROW), Relaxed);
    }
    slot.yielded.fetch_add(1, Relaxed);
    slot.yielding.store(1, Relaxed);
    let result = call();
    slot.yielding.store(0, Relaxed);
    slot.row.last.store(stretch::ticks(), Relaxed);
    result
}

/// Whether so little time has passed since the last yield that another one belongs to the same row.
fn is_close(slot: &Slot, now: u64) -> bool {
    stretch::between(slot.row.last.load(Relaxed), now).is_some_and(|gap| gap <= GAP)
}

/// A row begins: what the thread did before is over.
#[inline(never)]
fn begin(slot: &Slot, now: u64) {
    settle(slot);
    stretch::cross(slot, Call { function: begin as fn(&Slot, u64) as usize, subject: 0 });
    let row = &slot.row;
    row.begin.store(now, Relaxed);
    row.yields.store(1, Relaxed);
    row.seen.store(0, Relaxed);
    row.queued.store(slot.books.queued.load(Relaxed), Relaxed);
}

/// Learns from a sample, which found the thread spinning or not, whether its yields are waits.
pub fn learn(slot: &Slot, spins: bool) {
    let row = &slot.row;
    let within = slot.yielding.load(Relaxed) != 0 || is_close(slot, stretch::ticks());
    if row.yields.load(Relaxed) < ROW || !within {
        return;
    }
    let counter = if spins { &row.spins } else { &row.works };
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
    let (memory, row) = (shared(), &slot.row);
    let required = memory.required.load();
    let nothing = required.delay() == Nanos::ZERO || row.yields.load(Relaxed) < ROW || !are_waits(slot);
    if nothing || slot.busy.load(Relaxed) != 0 || !memory.header.has_rule(5) {
        return;
    }
    // While another thread had its CPU it waited for that (rule 7).
    delay::take_note(slot);
    let (ticks, now) = (stretch::ticks(), sys::now());
    let ago = |then: u64| stretch::between(then, ticks).map(|ago| now.saturating_sub(ago));
    let last = if slot.yielding.load(Relaxed) != 0 { Some(now) } else { ago(row.last.load(Relaxed)) };
    let (Some(begin), Some(last)) = (ago(row.begin.load(Relaxed)), last) else { return };
    let seen = Nanos(row.seen.swap(now.0, Relaxed)).max(begin);
    let queued = slot.books.queued.load(Relaxed);
    let queued = Nanos(queued.saturating_sub(row.queued.swap(queued, Relaxed)));
    let growth = memory.history.accrued(seen, (begin, last), required).saturating_sub(queued);
    let credit = delay::exclusively(slot, || slot.local.waited_for_cpu(&memory.required, growth));
    slot.books.spun.fetch_add(credit.0, Relaxed);
}
