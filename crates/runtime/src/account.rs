//! The account of a thread: what is credited to it, and when it may be changed.
//!
//! The arithmetic is in [`wire::account`]; here is the interplay with the signal handler of the same thread. A thread's
//! account is changed in two places: in interposed functions, and in the handler that
//! may interrupt them. The former raise [`Slot::busy`]; a handler that finds it raised only notes its
//! credit down, and the code that lowers `busy` to zero adds it and pays.
//!
//! Never pauses: [`delay`](crate::delay) does.

use crate::deferral;
use crate::memory::shared;
use crate::switches::{self, During};
use crate::sys;
use core::sync::atomic::{Ordering::Relaxed, compiler_fence};
use wire::history::Accrued;
use wire::layout::Fault;
use wire::slot::Slot;
use wire::{Account, Epoch, Nanos};

/// Debts below this wait until they have grown: a sleep costs about as much.
pub const LEAST: Nanos = Nanos(20_000);

/// The steps in which the history of `required` is kept.
const STEP: Nanos = Nanos(30_000);

/// Whether the thread owes anything worth a pause. A few loads; called on every lock operation.
#[inline]
pub fn owes(slot: &Slot) -> bool {
    let memory = shared();
    let required = memory.required.load();
    let local = slot.local.load();
    if required.same_epoch(local) {
        required.delay() + slot.arrears.within(required) >= local.delay() + LEAST
    } else {
        required.delay() >= LEAST
    }
}

/// The thread begins code that is selected in part. What it owes now, it owes for what others have done before, so what it does from here on must
/// not make up for it: that is right only for what they do at the same time. Threads that take turns in short sections of one lock would
/// otherwise hardly delay one another. So a debt that is too small for a pause counts as paid from here on, and the
/// thread pauses for several at once.
#[inline]
pub fn put_off(slot: &Slot) {
    let (required, local) = (shared().required.load(), slot.local.load());
    if required.same_epoch(local) && required.delay() > local.delay() && shared().header.has_rule(4) {
        exclusively(slot, || slot.local.put_off(&shared().required, LEAST, &slot.arrears));
    }
}

/// Keeps the signal handler of this thread from touching the account while `change` does, and handlers of the program's from leaving it half done: those run behind
/// it, and may never return. Called from the handler as well.
pub fn exclusively<T>(slot: &Slot, change: impl FnOnce() -> T) -> T {
    slot.busy.store(slot.busy.load(Relaxed) + 1, Relaxed);
    compiler_fence(core::sync::atomic::Ordering::SeqCst);
    let result = change();
    compiler_fence(core::sync::atomic::Ordering::SeqCst);
    slot.busy.store(slot.busy.load(Relaxed) - 1, Relaxed);
    deferral::release(slot);
    result
}

/// Adds the credit that the handler noted down while the thread was busy. Call when not busy. Called from the signal handler as well.
pub fn catch_up(slot: &Slot) {
    if slot.interrupted.load(Relaxed) != 0 {
        slot.interrupted.store(0, Relaxed);
        let noted = slot.deferred.load();
        slot.deferred.inherit(Account::default());
        let epoch = shared().header.epoch();
        if noted.is_of(epoch) {
            exclusively(slot, || credit(slot, epoch, noted.delay(), Accrued::default()));
            slot.books.caught_up.fetch_add(noted.delay().0, Relaxed);
        } else {
            slot.books.stale.fetch_add(1, Relaxed);
        }
    }
}

/// Rule 7, where nothing else happens: brings the account up to date.
#[inline]
pub fn take_note(slot: &Slot) {
    if slot.busy.load(Relaxed) == 0 {
        read_switches(slot, During::Work);
    }
}

/// Rule 7: credits what the records of context switches tell, if there are any.
#[inline]
pub fn read_switches(slot: &Slot, during: During) {
    if switches::pending(slot) {
        exclusively(slot, || switches::drain(slot, during));
    }
}

/// Rule 1: the thread is credited with `delay` for having run the selected code, and when that was. Called from the signal
/// handler as well.
pub fn credit(slot: &Slot, epoch: Epoch, delay: Nanos, accrued: Accrued) {
    let memory = shared();
    if memory.header.has_fault(Fault::CreditIsDropped) && slot.books.samples.load(Relaxed).is_multiple_of(3) {
        return;
    }
    let before = memory.required.load();
    if !memory.header.has_rule(1) {
        // As if delays added up, no matter which thread was ahead: what rule 1 forbids.
        let (required, _) = slot.local.meet(&memory.required);
        memory.required.raise(Account::new(epoch, required.delay() + delay));
    }
    if slot.local.credit(&memory.required, epoch, delay) {
        let raised = slot.local.load().delay().saturating_sub(before.delay());
        slot.meanwhile.raised.fetch_add(raised.min(delay).0, Relaxed);
        note_growth(accrued);
        slot.books.credited.fetch_add(delay.0, Relaxed);
    } else {
        slot.books.stale.fetch_add(1, Relaxed);
    }
}

/// Keeps the history of `required`, in steps that are worth it.
fn note_growth(accrued: Accrued) {
    let memory = shared();
    let (required, noted) = (memory.required.load(), Account::from_bits(memory.noted.load(Relaxed)));
    if !required.same_epoch(noted) || required.delay() >= noted.delay() + STEP {
        memory.noted.store(required.to_bits(), Relaxed);
        memory.history.note(sys::now(), required, accrued);
    }
}

/// Rule 1, from a signal handler that interrupted a change of the account: notes the credit down.
pub fn defer_credit(slot: &Slot, epoch: Epoch, delay: Nanos) {
    slot.books.deferred.fetch_add(delay.0, Relaxed);
    let noted = slot.deferred.load();
    let sum = if noted.is_of(epoch) { noted.delay() + delay } else { delay };
    slot.deferred.inherit(Account::new(epoch, sum));
    slot.interrupted.store(1, Relaxed);
}
