//! Threads that wait by spinning.
//!
//! A thread that runs in circles until another one changes a word in memory uses its CPU like any other,
//! and no function tells that it waits. But it gets nowhere: two samples a millisecond apart find it at the
//! same place with the same contents of all its registers, which code that computes anything cannot do.
//! (Or it runs through the `pause` instruction, which exists for such circles, or keeps yielding its CPU.)
//!
//! It is blocked on another thread (rule 5): the time goes by as if it paused, so it need not pause as well. The
//! spinning began and ended somewhere between two samples, so of the first interval half counts, and of the last one what
//! had accrued when the thread was let go, as a mean over three such moments.

use crate::attach::shared;
use crate::sampling::Context;
use core::sync::atomic::Ordering::Relaxed;
use wire::slot::Slot;
use wire::{Account, Nanos};

/// How far from each other two samples of one circle may lie, in bytes.
const CIRCLE: usize = 48;
/// How far from the sampled instruction a `pause` is looked for.
const NEAR: usize = 16;

/// Pairs of samples that must have contradicted a circle before it is forgotten, for each that showed it.
const SEEN: u32 = 2;

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
        slot.circle_seen.store((slot.circle_seen.load(Relaxed) + SEEN).min(8 * SEEN), Relaxed);
    } else if same_place && !paused && !context.in_system_call() && is_known(slot, instruction) {
        doubt(slot);
    }
    // A circle that has been seen before is known at its first sample.
    let known = is_known(slot, instruction);
    let spins = circles || known && (!context.in_system_call() || yielded);
    match (slot.spinning.swap(u32::from(spins), Relaxed) != 0, spins) {
        (false, true) => Spin::Begun,
        (true, true) => Spin::Yes,
        (true, false) => Spin::Ended,
        (false, false) => Spin::No,
    }
}

/// Whether the instruction lies in the circle that is remembered.
fn is_known(slot: &Slot, instruction: usize) -> bool {
    (slot.circle_low.load(Relaxed)..=slot.circle_high.load(Relaxed)).contains(&instruction)
}

/// Two samples found a thread at one place of its circle and getting somewhere. If that goes on, the place is no circle: a hypervisor
/// had taken the CPU for just the time between two samples. (Once or twice, it has come back to a circle.)
fn doubt(slot: &Slot) {
    match slot.circle_seen.load(Relaxed) {
        0 => {
            slot.circle_low.store(usize::MAX, Relaxed);
            slot.circle_high.store(0, Relaxed);
        }
        seen => slot.circle_seen.store(seen - 1, Relaxed),
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
    settle(slot);
    let passed = now.saturating_sub(since);
    match spin {
        Spin::No => {}
        // Its time goes by as if it paused.
        Spin::Begun => give(slot, Nanos(passed.0 / 2)),
        Spin::Yes => give(slot, passed),
        Spin::Ended => {
            // What it owed at the last sample it has gone on waiting for.
            let memory = shared();
            let (required, local) = slot.local.meet(&memory.required);
            let debt = required.delay().saturating_sub(local.delay());
            let before = debt.saturating_sub(memory.history.growth(since, now, required));
            give(slot, passed.min(before + due(required, since, now, since)));
            slot.released_after.store(since.0, Relaxed);
            slot.released_before.store(now.0, Relaxed);
        }
    }
}

/// What the thread waited for and nobody knew when it was let go, some time between `since` and `now`: the mean over three
/// such moments. `noted`: what was noted before that is paid.
fn due(required: Account, since: Nanos, now: Nanos, noted: Nanos) -> Nanos {
    let history = &shared().history;
    let quarter = now.saturating_sub(since).0 / 4;
    let due = |quarters| history.was_due(since + Nanos(quarters * quarter), noted, required).0;
    Nanos((due(1) + due(2) + due(3)) / 3)
}

/// Whoever let the thread go may have had its next sample only after the one that found the thread at work again. What that
/// credited to the time before is known now.
fn settle(slot: &Slot) {
    let since = Nanos(slot.released_after.swap(0, Relaxed));
    if since != Nanos::ZERO {
        let before = Nanos(slot.released_before.load(Relaxed));
        let due = due(shared().required.load(), since, before, before);
        give(slot, before.saturating_sub(since).min(due));
    }
}

/// Credits what `required` grew while the thread waited.
fn give(slot: &Slot, growth: Nanos) {
    let credit = slot.local.waited_for_cpu(&shared().required, growth);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    const LONG: Nanos = Nanos(1_000_000);

    /// Code without a `pause`, and a thread.
    fn thread() -> (usize, &'static Slot) {
        let code: &'static [u8; 8192] = Box::leak(Box::new([0x90; 8192]));
        let layout = std::alloc::Layout::new::<Slot>();
        // SAFETY: all-zero words are a valid slot, as in fresh shared memory.
        let slot = unsafe { &*std::alloc::alloc_zeroed(layout).cast::<Slot>() };
        slot.circle_low.store(usize::MAX, Relaxed);
        (code.as_ptr().addr() + 4096, slot)
    }

    #[test]
    fn a_thread_that_gets_nowhere_spins_and_is_known_at_once_the_next_time() {
        let (code, slot) = thread();
        let look = |at: usize, value| look(slot, &Context::at(code + at, value), LONG);
        assert_eq!(look(0, 1), Spin::No);
        assert_eq!(look(0, 1), Spin::Begun);
        assert_eq!(look(0, 1), Spin::Yes);
        assert_eq!(look(1000, 2), Spin::Ended);
        assert_eq!(look(0, 3), Spin::Begun);
    }

    #[test]
    fn a_circle_where_a_thread_gets_somewhere_after_all_is_none() {
        let (code, slot) = thread();
        let look = |value| look(slot, &Context::at(code, value), LONG);
        // A hypervisor takes the CPU between two samples of a loop that computes.
        assert_eq!((look(1), look(1)), (Spin::No, Spin::Begun));
        for value in 2..=3 {
            assert_eq!(look(value), Spin::Yes, "{value}: it may have come back");
        }
        assert_eq!(look(4), Spin::Ended);
        for value in 5..20 {
            assert_eq!(look(value), Spin::No);
        }
    }

    #[test]
    fn work_elsewhere_does_not_contradict_a_circle() {
        let (code, slot) = thread();
        let look = |at: usize, value| look(slot, &Context::at(code + at, value), LONG);
        assert_eq!((look(0, 1), look(0, 1)), (Spin::No, Spin::Begun));
        for value in 2..20 {
            assert!(!look(1000, value).is_spinning());
        }
        assert_eq!(look(0, 30), Spin::Begun);
    }
}
