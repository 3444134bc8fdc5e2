//! Rule 7: a thread that waits for a CPU that another one of the program has is credited with what `required`
//! grows meanwhile.
//!
//! The thread's sampling event also records when it was switched out and in, and whether it wanted to go on
//! running (`context_switch`, unprivileged). The records lie in a small ring that the thread itself reads,
//! in its signal handler and around its waits. [`wire::history`] knows what `required` was at those times.
//!
//! A switch *to wait* that no interposed function announced is a wait that cannot be seen from here: an
//! instruction of the program's own enters the kernel. If an image of the program calls the futex that way
//! (the controller looks: `Header::inline_futex`), it is taken for a wait on another thread (rule 5),
//! otherwise for one on the world (rule 6), which owes.

use crate::cpus::{self, Queued};
use crate::memory::shared;
use crate::{stopwatch, sys};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use wire::Nanos;
use wire::layout::Switches;
use wire::slot::Slot;

/// Pages of data; the kernel wants a power of two, and one page more for itself.
const DATA_PAGES: usize = 1;
const PAGE: usize = 4096;
const DATA: u64 = (DATA_PAGES * PAGE) as u64;
const MAPPED: usize = (DATA_PAGES + 1) * PAGE;
/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

const RECORD_SWITCH: u64 = 14;
const MISC_OUT: u64 = 1 << 13;
const MISC_PREEMPTED: u64 = 1 << 14;

/// Values of [`Slot::out_kind`].
const RUNNING: u32 = 0;
const PREEMPTED: u32 = 1;
const WAITING: u32 = 2;
const NOT_OPENED: u32 = 3;

/// What the records that are read belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// The program's own code.
    Work,
    /// A call that waits, for the whole of which the thread has been credited, or a pause.
    Credited,
    /// A call that waits, for which it has not been credited.
    Wait,
}

/// For a thread that begins to run.
pub fn reset(slot: &Slot) {
    slot.switches.store(0, Relaxed);
    slot.out_kind.store(NOT_OPENED, Relaxed);
}

/// Maps the ring of the thread's event. Called with every sample, for it is only needed where CPUs are short
/// or waits go unannounced.
pub fn open(slot: &Slot) {
    let wanted =
        || cpus::are_short() || cpus::are_shared() || shared().header.inline_futex.load(Relaxed) != 0;
    if slot.out_kind.load(Relaxed) != NOT_OPENED || !wanted() {
        return;
    }
    slot.out_kind.store(RUNNING, Relaxed);
    let header = &shared().header;
    let event = slot.event.load(Relaxed);
    match if event < 0 { None } else { sys::map_shared(event, MAPPED) } {
        Some(ring) => {
            slot.switches.store(ring.addr(), Relaxed);
            header.switches.fetch_max(Switches::Recorded as u32, Relaxed);
        }
        None => {
            header.switches.fetch_max(Switches::Refused as u32, Relaxed);
        }
    }
}

/// Unmaps it.
pub fn close(slot: &Slot) {
    let ring = slot.switches.swap(0, Relaxed);
    if ring != 0 {
        sys::unmap(ring, MAPPED);
    }
}

/// The word at an offset of the mapped ring.
fn word(ring: usize, offset: usize) -> &'static AtomicU64 {
    // SAFETY: offsets are multiples of eight below the mapping's size; only the owning thread comes here, and
    // it unmaps the ring nowhere else than in `close`.
    unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(ring + offset) }
}

/// Whether there is anything to read. Two loads.
#[inline]
pub fn pending(slot: &Slot) -> bool {
    let ring = slot.switches.load(Relaxed);
    ring != 0 && word(ring, HEAD).load(Relaxed) != word(ring, TAIL).load(Relaxed)
}

/// Whether the thread has records.
pub fn are_known(slot: &Slot) -> bool {
    slot.switches.load(Relaxed) != 0
}

/// Reads the records, all of which belong to `during`, and credits what they tell. The caller has made sure
/// that the handler of this thread does not do the same just now. Returns for how long the thread waited for
/// CPUs that the program had.
pub fn drain(slot: &Slot, during: During) -> Nanos {
    let ring = slot.switches.load(Relaxed);
    if ring == 0 {
        return Nanos::ZERO;
    }
    let mut queued = Nanos::ZERO;
    let head = word(ring, HEAD).load(Acquire);
    let mut at = word(ring, TAIL).load(Relaxed);
    let data = |position: u64| word(ring, PAGE + (position % DATA) as usize).load(Relaxed);
    while at < head {
        let first = data(at);
        let (kind, misc, size) = (first & 0xffff_ffff, (first >> 32) & 0xffff, first >> 48);
        if size < 8 || size % 8 != 0 || at + size > head {
            at = head;
            break;
        }
        if kind == RECORD_SWITCH && size >= 16 {
            let time = Nanos(data(at + 8));
            if misc & MISC_OUT == 0 {
                queued += back(slot, time, during);
            } else {
                slot.out_time.store(time.0, Relaxed);
                slot.out_kind.store(if misc & MISC_PREEMPTED != 0 { PREEMPTED } else { WAITING }, Relaxed);
            }
        }
        at += size;
    }
    word(ring, TAIL).store(at, Release);
    queued
}

/// The thread got a CPU at `time`; how long it had waited for one that the program had.
fn back(slot: &Slot, time: Nanos, during: During) -> Nanos {
    let kind = slot.out_kind.swap(RUNNING, Relaxed);
    let memory = shared();
    let required = memory.required.load();
    let out = Nanos(slot.out_time.load(Relaxed));
    let away = time.saturating_sub(out);
    let hidden = kind == WAITING && during == During::Work && memory.header.inline_futex.load(Relaxed) != 0;
    let wait = if kind == PREEMPTED { cpus::whose(away) } else { Queued::default() };
    if during == During::Work {
        stopwatch::leave_out(slot, away.saturating_sub(wait.for_strangers));
        slot.stolen.fetch_add(wait.for_strangers.0, Relaxed);
    }
    if hidden {
        slot.books.in_hidden.fetch_add(away.0, Relaxed);
    }
    let queued = during != During::Credited && memory.header.has_rule(7);
    if required.delay() == Nanos::ZERO || !(hidden || queued && wait.for_program > Nanos::ZERO) {
        return wait.for_program;
    }
    let growth = memory.history.growth(out, time, required);
    let (book, growth) = if hidden {
        (&slot.books.hidden, growth)
    } else {
        (&slot.books.queued, growth.part(wait.for_program, away))
    };
    let credit = slot.local.waited_for_cpu(&memory.required, growth);
    book.fetch_add(credit.0, Relaxed);
    wait.for_program
}
