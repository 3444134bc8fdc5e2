//! One thread-local word: the slot of the calling thread.
//!
//! `thread_local!` in a `std` cdylib goes through `__tls_get_addr` and pulls in `malloc`, and
//! `#[thread_local]` is not stable. Eight bytes in `.tbss`, read with the initial-exec model, cost two
//! instructions and can be read in a signal handler. The loader has room for them: a preloaded library
//! is there before the static TLS block is laid out.

use core::arch::{asm, global_asm};
use core::sync::atomic::Ordering::Relaxed;
use wire::slot::Slot;

use crate::sys;

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".local whatif_thread_slot",
    ".type whatif_thread_slot, @object",
    ".size whatif_thread_slot, 8",
    "whatif_thread_slot:",
    ".zero 8",
    ".popsection",
);

/// The slot of the calling thread, if it is profiled. Called from the signal handler.
#[inline]
pub fn slot() -> Option<&'static Slot> {
    let slot: *const Slot;
    // SAFETY: reads the calling thread's own word; slots live as long as the process.
    unsafe {
        asm!(
            "mov {slot}, qword ptr [rip + whatif_thread_slot@GOTTPOFF]",
            "mov {slot}, qword ptr fs:[{slot}]",
            slot = out(reg) slot,
            options(nostack, readonly, preserves_flags),
        );
        slot.as_ref()
    }
}

/// Whether the calling thread is the one that its slot belongs to. A `vfork`ed child has its parent's, and closes its own copies of descriptors.
pub fn is_own() -> bool {
    slot().is_none_or(|slot| slot.tid.load(Relaxed) == sys::gettid())
}

/// Sets the slot of the calling thread.
pub fn set_slot(slot: Option<&'static Slot>) {
    let slot = slot.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: writes the calling thread's own word.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + whatif_thread_slot@GOTTPOFF]",
            "mov qword ptr fs:[{offset}], {slot}",
            offset = out(reg) _,
            slot = in(reg) slot,
            options(nostack, preserves_flags),
        );
    }
}
