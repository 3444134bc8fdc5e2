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

use crate::context::Context;
use crate::maps::shared_address;
use crate::memory::shared;
use crate::yields;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wire::circles::Place;
use wire::layout::Fault;
use wire::mixing::ONE;
use wire::slot::Slot;
use wire::{Account, Nanos};

/// How far from each other two samples of one circle may lie, in bytes.
const CIRCLE: usize = 48;

/// Pairs of samples that must have contradicted a circle before it is forgotten, for each that showed it.
const SEEN: u32 = 2;

/// Samples of two threads that are not further apart than this part of a period show what both were doing at one moment.
const CLOSE: u64 = 10;
/// Pairs of such samples after which a share is believed.
const KNOWN: u32 = 30;
/// The number of such pairs after which half of them are forgotten.
const OLD: u32 = 600;

/// What rows were given too much is remembered up to this.
const MOST_GIVEN: Nanos = Nanos(1_000_000);

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
    if shared().header.has_fault(Fault::EverythingSpins) {
        return Spin::Yes;
    }
    let address = shared_address(context.instruction());
    look_in(slot, context, weight, shared().circles.find(address))
}

/// The same; `place`: where the instruction lies in circles through a `pause`.
fn look_in(slot: &Slot, context: &Context, weight: Nanos, place: Place) -> Spin {
    if weight < ENOUGH {
        // It has not had the time to get anywhere.
        return if slot.spinning.load(Relaxed) != 0 { Spin::Yes } else { Spin::No };
    }
    // A sample that falls due in a pause comes right after it, and where the last one was.
    let paused = slot.paused.swap(0, Relaxed) != 0;
    let instruction = context.instruction();
    let print = context.fingerprint() ^ stack_print(slot, context);
    let before = slot.instruction.swap(instruction, Relaxed);
    let same_place = instruction.abs_diff(before) <= CIRCLE;
    let same_registers = slot.registers.swap(print, Relaxed) == print;
    let yielded = slot.yielded.swap(0, Relaxed) > 1;
    // Within one long system call registers do not change either.
    let circles = same_place && !paused && if context.in_system_call() { yielded } else { same_registers };
    if circles {
        widen(slot, before.min(instruction), before.max(instruction));
        slot.circle_seen.store((slot.circle_seen.load(Relaxed) + SEEN).min(8 * SEEN), Relaxed);
    } else if same_place && !paused && !context.in_system_call() && is_known(slot, instruction) {
        doubt(slot);
    }
    // A circle that has been seen before is known at its first sample.
    let known = is_known(slot, instruction);
    let spun = slot.spinning.load(Relaxed) != 0;
    let yields = yielded && slot.yielding.load(Relaxed) != 0;
    // Elsewhere in such a circle a thread may just pass, on its way through a lock that is free.
    let pauses = place == Place::Pause || place == Place::Inside && (spun || same_place && !paused);
    let spins = circles || pauses || yields || known && (!context.in_system_call() || yielded);
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

/// Learns from a sample, taken at `now`, what the thread does while `region` runs in other threads. Call for every sample during an
/// experiment, with a speedup or without.
pub fn learn(slot: &Slot, spin: Spin, region: u32, now: Nanos) {
    let meanwhile = &slot.meanwhile;
    if meanwhile.region.swap(region, Relaxed) != region {
        for number in [&meanwhile.hits, &meanwhile.spinning, &meanwhile.samples, &meanwhile.spins] {
            number.store(0, Relaxed);
        }
    }
    let memory = shared();
    let spins = spin.is_spinning();
    let number = slot.number(&memory.slots);
    let close = Nanos(memory.header.period.load(Relaxed) / CLOSE);
    let close = memory.hits.of_others(number, now.saturating_sub(close), now);
    let met = if spins { close } else { 0 };
    let add = |(all, of_them): (&AtomicU32, &AtomicU32), (more, more_of_them): (u32, u32)| {
        of_them.store(of_them.load(Relaxed) + more_of_them, Relaxed);
        all.store(all.load(Relaxed) + more, Relaxed);
        if all.load(Relaxed) > OLD {
            all.store(all.load(Relaxed) / 2, Relaxed);
            of_them.store(of_them.load(Relaxed) / 2, Relaxed);
        }
    };
    add((&meanwhile.hits, &meanwhile.spinning), (close, met));
    let share =
        i64::from(meanwhile.spins.load(Relaxed)) * ONE / i64::from(meanwhile.samples.load(Relaxed).max(1));
    let before = matches!(spin, Spin::Yes | Spin::Ended);
    meanwhile.mixing.learn(region, share, (before, spins));
    add((&meanwhile.samples, &meanwhile.spins), (1, u32::from(spins)));
}

/// Credits the thread for what it waited. `since` and `now` are the times of the last sample and of this one.
///
/// Spins that last longer than the time between two samples are seen one by one. Of shorter ones most are missed, but the thread
/// knows which share of the region's time, in other threads, it spends spinning: of all that `required` has grown, it waited
/// for that share. Which of the two counts depends on how long spins last ([`wire::mixing`]).
pub fn credit(slot: &Slot, spin: Spin, region: u32, since: Nanos, now: Nanos) {
    let yielded = yields::sampled(slot);
    let given = Nanos(slot.row.given.swap(0, Relaxed));
    let share = share_of_growth(slot, region);
    let by_spin = if share.is_some() { slot.meanwhile.mixing.weight(region) } else { ONE };
    if yielded && (spin == Spin::No || yields::is_within(slot)) {
        if let Some(share) = share {
            // What rows were given beyond that is taken off the next time.
            let by_share = part(grown_meanwhile(slot), share);
            give(slot, part(by_share.saturating_sub(given), ONE - by_spin));
            let more = part(given.saturating_sub(by_share), ONE - by_spin).min(MOST_GIVEN);
            slot.row.given.fetch_add(more.0, Relaxed);
        }
        return remember(slot);
    }
    let grown = if yielded { Nanos::ZERO } else { grown_meanwhile(slot) };
    settle(slot, by_spin);
    let passed = now.saturating_sub(since);
    match spin {
        Spin::No => {}
        // Its time goes by as if it paused.
        Spin::Begun => give(slot, part(Nanos(passed.0 / 2), by_spin)),
        Spin::Yes => give(slot, part(passed, by_spin)),
        Spin::Ended => {
            // What it owed at the last sample it has gone on waiting for.
            let memory = shared();
            let (required, local) = slot.local.meet(&memory.required);
            let debt = required.delay().saturating_sub(local.delay());
            let before = debt.saturating_sub(memory.history.growth(since, now, required));
            give(slot, part(passed.min(before + due(required, since, now, since)), by_spin));
            slot.released_after.store(since.0, Relaxed);
            slot.released_before.store(now.0, Relaxed);
        }
    }
    if let Some(share) = share {
        give(slot, part(part(grown, share).saturating_sub(given), ONE - by_spin));
    }
    remember(slot);
}

/// A part, in parts of [`ONE`], of some time.
fn part(time: Nanos, part: i64) -> Nanos {
    Nanos(time.0 * part as u64 / ONE as u64)
}

/// The share of the region's time in other threads that this one spends spinning, in parts of [`ONE`], if it is known.
fn share_of_growth(slot: &Slot, region: u32) -> Option<i64> {
    let meanwhile = &slot.meanwhile;
    let hits = meanwhile.hits.load(Relaxed);
    let known = meanwhile.region.load(Relaxed) == region && hits >= KNOWN;
    known.then(|| i64::from(meanwhile.spinning.load(Relaxed)) * ONE / i64::from(hits))
}

/// By how much `required` has grown since the last sample, without what the thread was credited with for it otherwise.
fn grown_meanwhile(slot: &Slot) -> Nanos {
    let required = shared().required.load();
    let before = slot.meanwhile.required.load();
    let before = if required.same_epoch(before) { before.delay() } else { Nanos::ZERO };
    let credited = credited(slot).saturating_sub(slot.meanwhile.credited.load(Relaxed));
    required.delay().saturating_sub(before).saturating_sub(Nanos(credited))
}

/// From here on growth is counted.
fn remember(slot: &Slot) {
    slot.meanwhile.required.inherit(shared().required.load());
    slot.meanwhile.credited.store(credited(slot), Relaxed);
}

/// What the thread itself has made `required` grow so far, and what it was credited with for other waits than spinning, in nanoseconds.
fn credited(slot: &Slot) -> u64 {
    let books = &slot.books;
    [&slot.meanwhile.raised, &books.inherited, &books.hidden, &books.queued]
        .into_iter()
        .map(|book| book.load(Relaxed))
        .sum()
}

/// What was due but not yet known when the thread was let go, some time between `since` and `now`: the mean over three
/// such moments. `noted`: what was noted before that is paid.
fn due(required: Account, since: Nanos, now: Nanos, noted: Nanos) -> Nanos {
    let history = &shared().history;
    let quarter = now.saturating_sub(since).0 / 4;
    let due = |quarters| history.was_due(since + Nanos(quarters * quarter), noted, required).0;
    Nanos((due(1) + due(2) + due(3)) / 3)
}

/// The thread that ended the wait may have had its next sample only after the one that found this thread at work again.
/// What that sample credited to the time before is known now.
fn settle(slot: &Slot, by_spin: i64) {
    let since = Nanos(slot.released_after.swap(0, Relaxed));
    if since != Nanos::ZERO {
        let before = Nanos(slot.released_before.load(Relaxed));
        let due = due(shared().required.load(), since, before, before);
        let waited = before.saturating_sub(since).min(due);
        give(slot, part(waited, by_spin));
    }
}

/// Credits what `required` grew while the thread waited.
fn give(slot: &Slot, growth: Nanos) {
    let credit = slot.local.waited_for_cpu(&shared().required, growth);
    slot.books.spun.fetch_add(credit.0, Relaxed);
}

/// A hash of what lies around the stack pointer, where code that was compiled without optimisation keeps what it counts: its
/// registers may be the same in every turn.
fn stack_print(slot: &Slot, context: &Context) -> u64 {
    /// Words below the stack pointer that belong to the running function: the red zone.
    const BELOW: usize = 16;
    const ABOVE: usize = 48;
    const WORD: usize = size_of::<u64>();
    let (low, high) = (slot.stack_low.load(Relaxed), slot.stack_high.load(Relaxed));
    let pointer = context.stack() & !(WORD - 1);
    if pointer < low || pointer >= high {
        return 0;
    }
    let first = pointer.saturating_sub(BELOW * WORD).max(low);
    let last = (pointer + ABOVE * WORD).min(high);
    (first..last).step_by(WORD).fold(0, |hash: u64, at| {
        // SAFETY: an aligned word of the thread's own stack: the red zone, which the kernel leaves alone when it delivers a
        // signal, or between the stack pointer and the top.
        let word = unsafe { core::ptr::with_exposed_provenance::<u64>(at).read_volatile() };
        (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    const LONG: Nanos = Nanos(1_000_000);

    /// An address of code, and a thread.
    fn thread() -> (usize, &'static Slot) {
        let layout = std::alloc::Layout::new::<Slot>();
        // SAFETY: all-zero words are a valid slot, as in fresh shared memory.
        let slot = unsafe { &*std::alloc::alloc_zeroed(layout).cast::<Slot>() };
        slot.circle_low.store(usize::MAX, Relaxed);
        (0x40_1000, slot)
    }

    #[test]
    fn a_thread_that_gets_nowhere_spins_and_is_known_at_once_the_next_time() {
        let (code, slot) = thread();
        let look = |at: usize, value| look_in(slot, &Context::at(code + at, value), LONG, Place::Outside);
        assert_eq!(look(0, 1), Spin::No);
        assert_eq!(look(0, 1), Spin::Begun);
        assert_eq!(look(0, 1), Spin::Yes);
        assert_eq!(look(1000, 2), Spin::Ended);
        assert_eq!(look(0, 3), Spin::Begun);
    }

    #[test]
    fn a_circle_where_a_thread_gets_somewhere_after_all_is_none() {
        let (code, slot) = thread();
        let look = |value| look_in(slot, &Context::at(code, value), LONG, Place::Outside);
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
        let look = |at: usize, value| look_in(slot, &Context::at(code + at, value), LONG, Place::Outside);
        assert_eq!((look(0, 1), look(0, 1)), (Spin::No, Spin::Begun));
        for value in 2..20 {
            assert!(!look(1000, value).is_spinning());
        }
        assert_eq!(look(0, 30), Spin::Begun);
    }

    #[test]
    fn a_circle_through_a_pause_shows_at_once_and_its_other_instructions_do_not() {
        let (code, slot) = thread();
        let look = |value, place| look_in(slot, &Context::at(code + value, value), LONG, place);
        assert_eq!(look(0, Place::Pause), Spin::Begun);
        assert_eq!(look(8, Place::Inside), Spin::Yes);
        assert_eq!(look(400, Place::Outside), Spin::Ended);
        assert_eq!(look(8, Place::Inside), Spin::No, "it passes");
        assert_eq!(look(9, Place::Inside), Spin::Begun, "it is still there");
    }

    #[test]
    fn a_loop_that_counts_on_the_stack_gets_somewhere() {
        let (code, slot) = thread();
        let stack = Box::leak(Box::new([0_u64; 64]));
        slot.stack_low.store(stack.as_ptr().addr(), Relaxed);
        slot.stack_high.store(stack.as_ptr().addr() + 512, Relaxed);
        for turn in 0..20 {
            stack[20] = turn;
            let context = Context::at(code, 7).with_stack(stack.as_ptr().addr() + 128);
            assert_eq!(look_in(slot, &context, LONG, Place::Outside), Spin::No);
        }
        let context = Context::at(code, 7).with_stack(stack.as_ptr().addr() + 128);
        assert_eq!(look_in(slot, &context, LONG, Place::Outside), Spin::Begun);
    }
}
