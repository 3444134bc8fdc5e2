//! `SIGURG`: the program's, unless samples have to come by it.
//!
//! Samples come by `SIGTRAP` where they can. Where they cannot (forked children, timers, old kernels, debuggers), the first thread that needs `SIGURG` has our
//! handler installed for it; what the program believes of it is kept by [`beliefs`] from there on. Once the program uses it (it installs a handler, or waits for it,
//! so that it has to be blocked really), it is the program's like any other signal: threads that begin have samples by `SIGTRAP`, and the others as soon as their next
//! sample comes.

use crate::beliefs::{self, BLOCK, SETMASK, URG, bit, mask_of};
use crate::context::Context;
use crate::sampler::{self, Permitted, SIGTRAP, SIGURG, carriers};
use crate::{passing, sys, tls};
use core::sync::atomic::Ordering::Relaxed;
use wire::slot::Slot;

/// The signals that may carry samples now.
pub const PERMITTED: Permitted = Permitted { trap: beliefs::may_trap, urg: carries };

/// Whether samples may come by it, which takes our handler.
fn carries() -> bool {
    if !sampler::use_urg() {
        return false;
    }
    if beliefs::take_over_urg() {
        return true;
    }
    // The program has a handler, which it has installed by an instruction of its own, or just now.
    take();
    false
}

/// The program has it for itself from now on: threads that begin have samples by another signal, and the others once it comes to them. What they hold is
/// pending to the process again.
#[cold]
fn take() {
    if sampler::urg_carries() {
        // Before another thread that begins finds `SIGURG` taken.
        beliefs::trap_again();
    }
    if !sampler::leave_urg() {
        return;
    }
    beliefs::block_urg_at_traps(false);
    let process = sys::getpid();
    let of_process = |slot: &&Slot| slot.is_taken() && slot.pid.load(Relaxed) == process;
    for slot in crate::memory::shared().slots.used().iter().filter(of_process) {
        if let Some(info) = beliefs::take_held(slot, URG) {
            give_back(slot, &info);
        }
    }
}

/// The program uses it; the calling thread, if it is one of ours, has samples by another signal at once, and what it has blocked is blocked in the kernel.
pub fn take_here(slot: Option<&'static Slot>) {
    take();
    let Some(slot) = slot else { return };
    change(slot);
    slot.masked.fetch_and(!(1 << URG), Relaxed);
}

/// The calling thread has samples by another signal from now on.
fn change(slot: &'static Slot) {
    if carriers(slot) & bit(SIGURG) == 0 {
        return;
    }
    let before = sys::mask_signals(BLOCK, bit(SIGURG) | bit(SIGTRAP));
    let event = slot.event.load(Relaxed);
    tls::settling(slot, || {
        sampler::stop(slot);
        sampler::start(slot, PERMITTED);
    });
    // A sample that fell due meanwhile is not to be taken for a signal of the program's. At most one is pending to the thread, and one to the process.
    for _ in 0..2 {
        let Some(info) = sys::take_pending(bit(SIGURG)) else { break };
        if !sampler::is_by_urg(slot, event, &info) {
            give_back(slot, &info);
            break;
        }
    }
    sys::mask_signals(SETMASK, before | mask_of(slot.masked.load(Relaxed)) & bit(SIGURG));
}

/// The same in a handler, where the kernel sets the mask of `context` in the end. If that interrupts another handler, or a wait with a mask of its own, the
/// kernel goes back to an older mask later on: so what the program has blocked stays noted until it changes its mask, or a signal comes ([`sampling::keeps`](crate::sampling::keeps)).
fn change_in_handler(slot: &'static Slot, context: &mut Context) {
    context.set_mask(context.mask() | mask_of(slot.masked.load(Relaxed)) & bit(SIGURG));
    change(slot);
}

/// A sample by `SIGURG` that the program has for itself is none: the thread has samples by another signal from now on. Called from the signal handler.
pub fn leaves(slot: &'static Slot, signal: i32, context: &mut Context) -> bool {
    let leaves = signal == SIGURG && sampler::urg_is_taken();
    if leaves {
        change_in_handler(slot, context);
    }
    leaves
}

/// A `SIGURG` of the program's has come to a thread that has it blocked, but not in the kernel.
pub fn give_back_here(slot: &'static Slot, info: &[u64; 16], context: &mut Context) {
    change_in_handler(slot, context);
    slot.masked.fetch_and(!(1 << URG), Relaxed);
    give_back(slot, info);
}

/// Sends a `SIGURG` of the program's again, which came to the thread of `slot`.
fn give_back(slot: &Slot, info: &[u64; 16]) {
    let to_thread = passing::is_to_thread(info[1] as u32 as i32);
    if to_thread || !sys::send_to_process(SIGURG, info) {
        sys::send_with(slot.tid.load(Relaxed), SIGURG, info);
    }
}
