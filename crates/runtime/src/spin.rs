//! Threads that wait by spinning.
//!
//! A thread that runs in circles until another one changes a word in memory uses its CPU like any other,
//! and no function tells that it waits. But it gets nowhere: two samples a millisecond apart find it at the
//! same place with the same contents of all its registers, which code that computes anything cannot do.
//! (Or it runs through the `pause` instruction, which exists for such circles, or keeps yielding its CPU.)
//!
//! It is blocked on another thread (rule 5): the time goes by as if it paused, so it need not pause as well. The
//! spinning began and ended somewhere between two samples, so of the first interval half counts, and of what
//! accrued in the last one the mean over all moments when the thread may have been let go.

use crate::attach::shared;
use crate::sampling::Context;
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::slot::Slot;

/// How far from each other two samples of one circle may lie, in bytes.
const CIRCLE: usize = 48;
/// How far from the sampled instruction a `pause` is looked for.
const NEAR: usize = 16;

/// CPU time in which code that works must get somewhere.
const ENOUGH: Nanos = Nanos(100_000);

/// What a sample says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// The thread works.
    No,
    /// It spins, and worked at the last sample.
    Begun,
    /// It spins, as it did at the last sample.
    Yes,
    /// It works, and spun at the last sample.
    Ended,
}

impl Spin {
    /// Whether the thread spins now.
    pub fn is_spinning(self) -> bool {
        matches!(self, Self::Begun | Self::Yes)
    }
}

/// Looks at the interrupted thread. Call once for every sample, with the CPU time that it stands for.
pub fn look(slot: &Slot, context: &Context, weight: Nanos) -> Spin {
    if weight < ENOUGH {
        // It has not had the time to get anywhere.
        return if slot.spinning.load(Relaxed) != 0 { Spin::Yes } else { Spin::No };
    }
    // A sample that falls due in a pause comes right after it, and where the last one was.
    let paused = slot.paused.swap(0, Relaxed) != 0;
    let instruction = context.instruction();
    let print = context.fingerprint();
    let before = slot.instruction.swap(instruction, Relaxed);
    let same_place = instruction.abs_diff(before) <= CIRCLE;
    let same_registers = slot.registers.swap(print, Relaxed) == print;
    let yielded = slot.yielded.swap(0, Relaxed) > 1;
    // Within one long system call registers do not change either.
    let circles = same_place
        && !paused
        && if context.in_system_call() { yielded } else { same_registers || pauses_near(instruction) };
    if circles {
        widen(slot, before.min(instruction), before.max(instruction));
    }
    // A circle that has been seen before is known at its first sample. One where the thread has got somewhere after
    // all was none: a hypervisor had taken the CPU between two samples.
    if same_place && !circles && !paused && !context.in_system_call() {
        slot.circle_low.store(usize::MAX, Relaxed);
        slot.circle_high.store(0, Relaxed);
    }
    let known = (slot.circle_low.load(Relaxed)..=slot.circle_high.load(Relaxed)).contains(&instruction);
    let spins = circles || known && (!context.in_system_call() || yielded);
    match (slot.spinning.swap(u32::from(spins), Relaxed) != 0, spins) {
        (false, true) => Spin::Begun,
        (true, true) => Spin::Yes,
        (true, false) => Spin::Ended,
        (false, false) => Spin::No,
    }
}

/// Remembers the places of a circle; only the latest one is.
fn widen(slot: &Slot, first: usize, last: usize) {
    let (low, high) = (slot.circle_low.load(Relaxed), slot.circle_high.load(Relaxed));
    let (first, last) = if low.abs_diff(first) <= CIRCLE && high.abs_diff(last) <= CIRCLE {
        (low.min(first), high.max(last))
    } else {
        (first, last)
    };
    slot.circle_low.store(first, Relaxed);
    slot.circle_high.store(last, Relaxed);
}

/// Credits the thread for what it waited. `since` and `now` are the times of the last sample and of this one.
pub fn credit(slot: &Slot, spin: Spin, since: Nanos, now: Nanos) {
    let memory = shared();
    let required = memory.required.load();
    let growth = match spin {
        Spin::No => return,
        // Its time goes by as if it paused.
        Spin::Begun => Nanos(now.saturating_sub(since).0 / 2),
        Spin::Yes => now.saturating_sub(since),
        // What grew until it was let go: the mean over the moments when that may have been.
        Spin::Ended => {
            let quarter = now.saturating_sub(since).0 / 4;
            let until =
                |quarters| memory.history.growth(since, since + Nanos(quarters * quarter), required).0;
            Nanos((until(1) + until(2) + until(3)) / 3)
        }
    };
    let credit = slot.local.waited_for_cpu(&memory.required, growth);
    slot.books.inherited.fetch_add(credit.0, Relaxed);
}

/// Whether a `pause` (f3 90) lies a few bytes from `instruction`, in the same page.
fn pauses_near(instruction: usize) -> bool {
    const PAGE: usize = 4096;
    let page = instruction & !(PAGE - 1);
    let first = instruction.saturating_sub(NEAR).max(page);
    let last = (instruction + NEAR).min(page + PAGE - 1);
    (first..last).any(|at| {
        // SAFETY: the page is mapped, for the thread has just executed it; code may be unreadable on no
        // x86-64 Linux that runs ordinary programs.
        let bytes = unsafe {
            let at = core::ptr::with_exposed_provenance::<u8>(at);
            [at.read_volatile(), at.add(1).read_volatile()]
        };
        bytes == [0xf3, 0x90]
    })
}
