//! Progress points, and the rest of the established interface for annotated programs.
//!
//! Programs find these names with `dlsym`. The counters lie in shared memory, so the controller reads
//! them whatever happens to the program.

use crate::attach::attached;
use crate::{delay, stretch, sys, tls};
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
    visit(memory, counter, tls::slot());
}

/// The calling thread, whose slot is given, is interrupted at a place that the user has chosen as a progress point. False if there is no such point.
pub fn interrupted(slot: Option<&Slot>, data: u64) -> bool {
    let place = data ^ VISIT;
    let counter =
        attached().and_then(|memory| Some((memory, memory.counters.at(usize::try_from(place).ok()?)?)));
    let Some((memory, counter)) = counter else { return false };
    // In the middle of a change of its account, a thread only counts.
    visit(memory, counter, slot.filter(|slot| slot.busy.load(Relaxed) == 0));
    true
}

fn visit(memory: &SharedMemory, counter: &Counter, slot: Option<&Slot>) {
    if memory.header.experimenting.load(Relaxed) == 0 {
        // Only how many are in flight will matter.
        return counter.visit(Nanos::ZERO);
    }
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
    let time = Nanos(sys::now().0.saturating_sub(delay.0));
    counter.visit(time);
    if let Some(slot) = slot {
        pair(memory, counter, slot, (epoch, time));
    }
}

/// Beginnings and ends in one thread, one after the other, say how long each took.
fn pair(memory: &SharedMemory, counter: &Counter, slot: &Slot, (epoch, time): (Epoch, Nanos)) {
    let counters = &memory.counters;
    let place = |begin: &Counter| counters.place(begin) as u32 + 1;
    let open_of = |place: u32| &slot.open[place as usize % slot.open.len()];
    match counter.kind() {
        Some(Kind::Begin) => {
            let place = place(counter);
            let open = open_of(place);
            // Of the same window: the one before has not ended, so they overlap, or its end was elsewhere.
            if open.begin.swap(place, Relaxed) != 0 && open.epoch.load(Relaxed) == epoch.0 {
                counter.paired.strays.fetch_add(1, Relaxed);
            }
            open.epoch.store(epoch.0, Relaxed);
            open.time.store(time.0, Relaxed);
        }
        Some(Kind::End) => {
            let Some(begin) = counter.beginning(counters) else { return };
            let open = open_of(place(begin));
            let is_open = open.begin.compare_exchange(place(begin), 0, Relaxed, Relaxed).is_ok();
            if is_open && open.epoch.load(Relaxed) == epoch.0 {
                counter.paired.count.fetch_add(1, Relaxed);
                counter.paired.time.fetch_add(time.0.saturating_sub(open.time.load(Relaxed)), Relaxed);
            } else if !is_open {
                counter.paired.strays.fetch_add(1, Relaxed);
            }
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
        let waiting = delay::before_wait(slot);
        slot.blocked.inherit(waiting.account());
    }
}

/// After it. `skip` not zero: another thread ended the wait.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub extern "C" fn _coz_post_block(skip: c_int) {
    if let Some(slot) = tls::slot() {
        delay::after_wait(slot, wire::Waiting::since(slot.blocked.load()), skip != 0);
        if skip == 0 {
            delay::pay(slot);
        }
    }
}
