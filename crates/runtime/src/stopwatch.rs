//! How long a thread has been in its stretch of code, by the processor's clock.
//!
//! Waits, pauses and times without a CPU are no time of the code: those who know of them have it resumed behind, or left out. What
//! the time is worth is not known here: [`stretch`](crate::stretch) knows. The clock is not read for stretches that are worth nothing
//! ([`Slot::share`]): most calls of most programs lie between two of these.

use crate::memory::shared;
use crate::ticks;
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::slot::Slot;

/// When a stretch began and when it was over, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    began: u64,
    ended: u64,
}

impl Took {
    /// The time in between; `None` until the processor's clock is known.
    #[inline]
    pub fn time(self) -> Option<Nanos> {
        ticks::between(self.began, self.ended)
    }
}

/// The thread's first stretch begins.
pub fn start(slot: &Slot) {
    slot.stretch_ticks.store(ticks::now(), Relaxed);
}

/// One stretch, or the part of it that was measured so far, is over, and the next begins. Called from the signal handler.
#[inline]
pub fn restart(slot: &Slot) -> Took {
    let ended = ticks::now();
    // Not a swap, which takes as long as reading the clock: what a handler that comes just in between has measured or left out is then measured once more, and the balance evens
    // that out.
    let began = slot.stretch_ticks.load(Relaxed);
    slot.stretch_ticks.store(ended, Relaxed);
    Took { began, ended }
}

/// Time that passes from here on belongs to the thread's stretch again: it has waited or paused. Called from the signal handler.
#[inline]
pub fn resume(slot: &Slot) {
    if slot.share.load(Relaxed) != 0 && shared().header.experimenting.load(Relaxed) != 0 {
        start(slot);
    }
}

/// Time that does not belong to the stretch: the thread was without a CPU for that long. Called from the signal handler.
pub fn leave_out(slot: &Slot, time: Nanos) {
    slot.stretch_ticks.fetch_add(ticks::of(time), Relaxed);
}
