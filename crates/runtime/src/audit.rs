//! Counting for the audit: what threads wait for and for how long, by readings that the rules of the delay account do not use.
//!
//! The controller compares these numbers with the delay account and with what the kernel says of every thread, so that a wait
//! that no function announces, or that is credited wrongly, shows up as such instead of as a wrong prediction. Nothing in the
//! runtime depends on them.

use crate::memory::shared;
use crate::ticks;
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::mixing::ONE;
use wire::slot::Slot;

/// A thread is about to call something that may wait.
#[inline]
pub fn begin(slot: &Slot) {
    slot.wait_ticks.store(ticks::now(), Relaxed);
    slot.wait_required.inherit(shared().required.load());
}

/// The thread has a lock now that it waited for. Where what it does under the lock is mostly the region, threads would have to wait for it less often if the region were
/// faster.
#[inline]
pub fn took_over(slot: &Slot) {
    if slot.share.load(Relaxed) > ONE as u32 / 2 {
        slot.books.sections.fetch_add(1, Relaxed);
    }
}

/// The call is over. `woken`: another thread ended it.
#[inline]
pub fn end(slot: &Slot, woken: bool) {
    let (begin, now) = (slot.wait_ticks.load(Relaxed), ticks::now());
    let waited = now.wrapping_sub(begin);
    if !woken {
        slot.books.in_world.fetch_add(waited, Relaxed);
        return;
    }
    slot.books.in_waits.fetch_add(waited, Relaxed);
    slot.books.handovers.fetch_add(1, Relaxed);
    let (was, required) = (slot.wait_required.load(), shared().required.load());
    if required.delay() == Nanos::ZERO {
        return;
    }
    let before = if required.same_epoch(was) { was.delay() } else { Nanos::ZERO };
    let waited = ticks::between(begin, now).unwrap_or(Nanos(u64::MAX));
    let grown = required.delay().saturating_sub(before).min(waited);
    slot.books.grown.fetch_add(grown.0, Relaxed);
}
