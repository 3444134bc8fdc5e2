//! Threads that wait by spinning.
//!
//! A thread that runs in circles until another one changes a word in memory uses its CPU like any other,
//! and no function tells that it waits. But it gets nowhere: two samples a millisecond apart find it at the
//! same place with the same contents of all its registers, which code that computes anything cannot do.
//! (Or it runs through the `pause` instruction, which exists for such circles, or keeps yielding its CPU.)
//!
//! What `required` grows while it spins it is credited with: it is blocked on another thread (rule 5). The
//! spinning began and ended somewhere between two samples, in the middle on average, so half of what
//! accrued between the last sample of the circle and the first one outside it is credited too.

use crate::attach::shared;
use crate::sampling::Context;
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::slot::Slot;

/// How far from each other two samples of one circle may lie, in bytes.
const CIRCLE: usize = 48;
/// How far from the sampled instruction a `pause` is looked for.
const NEAR: usize = 16;

/// What a sample says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// The thread works.
    No,
    /// It spins.
    Yes,
    /// It works, and spun at the last sample.
    Ended,
}

/// Looks at the interrupted thread. Call once for every sample.
pub fn look(slot: &Slot, context: &Context) -> Spin {
    let instruction = context.instruction();
    let print = context.fingerprint();
    let before = slot.instruction.swap(instruction, Relaxed);
    let same_place = instruction.abs_diff(before) <= CIRCLE;
    let same_registers = slot.registers.swap(print, Relaxed) == print;
    let yielded = slot.yielded.swap(0, Relaxed) > 1;
    // Within one long system call registers do not change either.
    let spins = same_place
        && if context.in_system_call() { yielded } else { same_registers || pauses_near(instruction) };
    match (slot.spinning.swap(u32::from(spins), Relaxed) != 0, spins) {
        (_, true) => Spin::Yes,
        (true, false) => Spin::Ended,
        (false, false) => Spin::No,
    }
}

/// Credits the thread for what it waited. `since` and `now` are the times of the last sample and of this one.
pub fn credit(slot: &Slot, spin: Spin, since: Nanos, now: Nanos) {
    let memory = shared();
    let required = memory.required.load();
    let growth = match spin {
        Spin::No => return,
        Spin::Yes => required.delay(), // all that it owes
        Spin::Ended => Nanos(memory.history.growth(since, now, required).0 / 2),
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
