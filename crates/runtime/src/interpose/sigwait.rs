//! Waits for signals: who sent the signal says whether the wait was for a thread of the program (rule 5) or for the
//! world (rule 6).

use super::interpose;
use super::table::{Ptr, Set, caught, done};
use crate::memory::shared;
use crate::real::real;
use crate::{signals, sys, wait};
use core::ffi::c_int;
use wire::slot::Slot;

/// `siginfo_t`: 128 bytes. The code says what kind of sender it was, and of which process.
#[derive(Clone, Copy)]
#[repr(C)]
struct Info {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    process: c_int,
    rest: [c_int; 27],
}

impl Info {
    const NONE: Self = Self { signal: 0, error: 0, code: 0, padding: 0, process: 0, rest: [0; 27] };

    /// Whether a thread of this process, or of another one that is profiled, sent it: by `kill`, `sigqueue` or `tgkill`.
    fn is_ours(&self) -> bool {
        const SI_USER: c_int = 0;
        const SI_QUEUE: c_int = -1;
        const SI_TKILL: c_int = -6;
        let is_ours = || {
            let process = self.process.cast_unsigned();
            process == sys::getpid() || shared().slots.has_process(process)
        };
        matches!(self.code, SI_USER | SI_QUEUE | SI_TKILL) && is_ours()
    }
}

/// Around a call that takes a pending signal and describes it in `info`.
///
/// # Safety
/// If `caught` says that `call` has taken a signal, `info` must point to its description.
unsafe fn around(slot: &Slot, info: *const Info, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller vouches for it.
    let of_ours = |result: &c_int| caught(result) && unsafe { (*info).is_ours() };
    wait::around_wait(slot, || signals::undisturbed(slot, call), of_ours)
}

interpose!(@define sigwaitinfo(set: Set, info: Ptr) -> c_int, slot, original => {
    let (mut copy, mut own) = ([0_u64; 16], Info::NONE);
    let set = signals::without_ours(slot, set.cast(), &mut copy).cast();
    let info: Ptr = if info.is_null() { (&raw mut own).cast() } else { info };
    around(slot, info.cast(), || original(set, info))
});

interpose!(@define sigtimedwait(set: Set, info: Ptr, time: Ptr) -> c_int, slot, original => {
    let (mut copy, mut own) = ([0_u64; 16], Info::NONE);
    let set = signals::without_ours(slot, set.cast(), &mut copy).cast();
    let info: Ptr = if info.is_null() { (&raw mut own).cast() } else { info };
    around(slot, info.cast(), || original(set, info, time))
});

// It does not say who sent the signal; `sigwaitinfo` does. Where that one fails (a handler ran), it knows better
// what to do.
interpose!(@define sigwait(set: Set, signal: Ptr) -> c_int, slot, original => {
    let (mut copy, mut own) = ([0_u64; 16], Info::NONE);
    let set: Set = signals::without_ours(slot, set.cast(), &mut copy).cast();
    let info: Ptr = (&raw mut own).cast();
    if let Some(describing) = real!(sigwaitinfo: fn(Set, Ptr) -> c_int) {
        let number = around(slot, info.cast(), || describing(set, info));
        if caught(&number) {
            *signal.cast::<c_int>() = number;
            return 0;
        }
    }
    wait::around_wait(slot, || signals::undisturbed(slot, || original(set, signal)), done)
});
