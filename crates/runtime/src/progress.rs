//! Progress points, and the rest of the established interface for annotated programs.
//!
//! Programs find these names with `dlsym`. The counters lie in shared memory, so the controller reads
//! them whatever happens to the program.

use crate::memory::attached;
use crate::{delay, stretch, sys, tls, wait};
use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use wire::counter::{Counter, Kind, VISIT};
use wire::slot::Slot;
use wire::{Epoch, Nanos, SharedMemory};

/// The counter of a progress point: `type` 1 throughput, 2 begin, 3 end. The same type and name give the
/// same pointer for the life of the process; null when not profiled or when the table is full.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _coz_get_counter(kind: c_int, name: *const c_char) -> *const Counter {
    let Some(kind) = Kind::from_number(kind as u32) else { return ptr::null() };
    if name.is_null() {
        return ptr::null();
    }
    // SAFETY: the interface demands a C string.
    let name = unsafe { CStr::from_ptr(name) };
    attached()
        .and_then(|memory| memory.counters.get(kind, name.to_bytes()))
        .map_or(ptr::null(), ptr::from_ref)
}

/// A visit to the point whose counter [`_coz_get_counter`] has returned: counts it, and notes when it was by the
/// thread's own virtual time. Points of kind 2 and 3 call it, so that what is in flight between them is known exactly.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _whatif_visit(counter: *const Counter) {
    // SAFETY: the interface demands what `_coz_get_counter` has returned, which lives as long as the process.
    let Some(counter) = (unsafe { counter.as_ref() }) else { return };
    let Some(memory) = attached() else { return };
    visit(memory, counter, tls::slot(), (None, Nanos::ZERO));
}

/// The same for a piece of work that `key` tells from all others that are under way between the same two points: how long it takes is known whatever threads begin and end it.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _whatif_visit_key(counter: *const Counter, key: u64) {
    // SAFETY: as above.
    let Some(counter) = (unsafe { counter.as_ref() }) else { return };
    let Some(memory) = attached() else { return };
    visit(memory, counter, tls::slot(), (Some(key), Nanos::ZERO));
}

/// The calling thread, whose slot is given, is interrupted at a place that the user has chosen as a progress point. False if there is no such point.
pub fn interrupted(slot: Option<&Slot>, data: u64) -> bool {
    let began = sys::now();
    let place = data ^ VISIT;
    let counter =
        attached().and_then(|memory| Some((memory, memory.counters.at(usize::try_from(place).ok()?)?)));
    let Some((memory, counter)) = counter else { return false };
    // In the middle of a change of its account, a thread only counts.
    // Of the breakpoint at the beginning the second part lies between, and of that at the end the first.
    let cost = match counter.kind() {
        Some(Kind::End) => Nanos(memory.header.trap_cost.load(Relaxed).into()),
        _ => Nanos::ZERO,
    };
    visit(memory, counter, slot.filter(|slot| slot.busy.load(Relaxed) == 0), (None, cost));
    if let Some(slot) = slot {
        let trap = u64::from(memory.header.trap_cost.load(Relaxed));
        slot.books.noting.fetch_add(trap + sys::now().saturating_sub(began).0, Relaxed);
    }
    true
}

/// `key` tells the piece of work from others; `cost`: what of its time noting it has taken.
fn visit(memory: &SharedMemory, counter: &Counter, slot: Option<&Slot>, (key, cost): (Option<u64>, Nanos)) {
    let moment = if memory.header.experimenting.load(Relaxed) == 0 {
        // Only how many are in flight will matter.
        Moment { epoch: OUTSIDE, time: Nanos::ZERO }
    } else {
        let epoch = memory.header.epoch();
        let account = match slot {
            Some(slot) => {
                let call = stretch::Call {
                    function: _whatif_visit as *const () as usize,
                    subject: ptr::from_ref(counter).addr(),
                };
                stretch::cross(slot, call);
                delay::credit_waits(slot);
                slot.local.load()
            }
            None => memory.required.load(),
        };
        let delay = if account.is_of(epoch) { account.delay() } else { Nanos::ZERO };
        Moment { epoch, time: sys::now().saturating_sub(delay).saturating_sub(cost) }
    };
    counter.visit(moment.time);
    match (key, slot) {
        (Some(key), _) => pair_by_key(memory, counter, key, moment),
        (None, Some(slot)) => pair(memory, counter, slot, moment),
        (None, None) => {}
    }
}

/// When a visit was, in the virtual time of an experiment.
#[derive(Clone, Copy)]
struct Moment {
    epoch: Epoch,
    time: Nanos,
}

/// The epoch of all visits outside of experiments: no experiment has it.
const OUTSIDE: Epoch = Epoch(0);

/// What ends at `counter` began at `begin`; where it has begun in another epoch, how long it took in this one is not known.
fn ended(memory: &SharedMemory, counter: &Counter, end: Moment, begin: Option<Moment>) {
    let paired = &counter.paired;
    match begin {
        _ if end.epoch == OUTSIDE => {}
        None => {
            paired.strays.fetch_add(1, Relaxed);
        }
        Some(begin) if begin.epoch == end.epoch => {
            let took = end.time.saturating_sub(begin.time);
            paired.count.fetch_add(1, Relaxed);
            paired.time.fetch_add(took.0, Relaxed);
            if let Some(distribution) = memory.distributions.of(&counter.distribution) {
                distribution.add(took);
            }
        }
        Some(_) => {}
    }
}

/// Beginnings and ends with the same key, in any threads.
fn pair_by_key(memory: &SharedMemory, counter: &Counter, key: u64, moment: Moment) {
    let place = |begin: &Counter| memory.counters.place(begin) as u32;
    match counter.kind() {
        Some(Kind::Begin) if !memory.begun.begin(place(counter), key, moment.epoch, moment.time) => {
            counter.paired.strays.fetch_add(1, Relaxed);
        }
        Some(Kind::End) => {
            let Some(begin) = counter.beginning(&memory.counters) else { return };
            let begin = memory.begun.end(place(begin), key);
            ended(memory, counter, moment, begin.map(|(epoch, time)| Moment { epoch, time }));
        }
        _ => {}
    }
}

/// Beginnings and ends in one thread, one after the other.
fn pair(memory: &SharedMemory, counter: &Counter, slot: &Slot, moment: Moment) {
    let counters = &memory.counters;
    let place = |begin: &Counter| counters.place(begin) as u32 + 1;
    let open_of = |place: u32| &slot.open[place as usize % slot.open.len()];
    match counter.kind() {
        Some(Kind::Begin) => {
            let place = place(counter);
            let open = open_of(place);
            // Of the same window: the one before has not ended, so they overlap, or its end was elsewhere.
            if open.begin.swap(place, Relaxed) != 0
                && open.epoch.load(Relaxed) == moment.epoch.0
                && moment.epoch != OUTSIDE
            {
                counter.paired.strays.fetch_add(1, Relaxed);
            }
            open.epoch.store(moment.epoch.0, Relaxed);
            open.time.store(moment.time.0, Relaxed);
        }
        Some(Kind::End) => {
            let Some(begin) = counter.beginning(counters) else { return };
            let open = open_of(place(begin));
            let is_open = open.begin.compare_exchange(place(begin), 0, Relaxed, Relaxed).is_ok();
            let begin =
                Moment { epoch: Epoch(open.epoch.load(Relaxed)), time: Nanos(open.time.load(Relaxed)) };
            ended(memory, counter, moment, is_open.then_some(begin));
        }
        _ => {}
    }
}

/// Pays what the calling thread owes.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub extern "C" fn _coz_add_delays() {
    if let Some(slot) = tls::slot() {
        delay::pay(slot);
    }
}

/// Before a wait that we cannot see.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub extern "C" fn _coz_pre_block() {
    if let Some(slot) = tls::slot() {
        let waiting = wait::before_wait(slot);
        slot.blocked.inherit(waiting.account());
    }
}

/// After it. `skip` not zero: another thread ended the wait.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub extern "C" fn _coz_post_block(skip: c_int) {
    if let Some(slot) = tls::slot() {
        wait::after_wait(slot, wire::Waiting::since(slot.blocked.load()), skip != 0);
        if skip == 0 {
            delay::pay(slot);
        }
    }
}
