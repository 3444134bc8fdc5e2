//! One thread-local word: the slot of the calling thread.
//!
//! `thread_local!` in a `std` cdylib goes through `__tls_get_addr` and pulls in `malloc`, and
//! `#[thread_local]` is not stable. Eight bytes in `.tbss`, read with the initial-exec model, cost two
//! instructions and can be read in a signal handler. The loader has room for them: a preloaded library
//! is there before the static TLS block is laid out.

use core::arch::{asm, global_asm};
use core::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use wire::slot::Slot;

/// Which threads of this process are left alone: because a seccomp filter does not allow what sampling and pauses need, or because
/// the process was made behind the C library's back (`clone` of a process, or the system call by itself). Such a process has a copy of its creator's
/// slot, but neither its descriptors for itself nor its mappings of perf events. It is known by this word, once [`keep_in`] has moved it to
/// a page that is all zeros in every new process. (Where the kernel has no such pages, it is not known.)
static LEFT: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const LEFT_AT_FIRST).cast_mut());
static LEFT_AT_FIRST: AtomicU32 = AtomicU32::new(NONE);
/// The same as this process has chosen, also for children that the C library forks: [`take_up`] restores it.
static CHOSEN: AtomicU32 = AtomicU32::new(NONE);
/// What the page is filled with in a new process.
const ALL: u32 = 0;
const NONE: u32 = 1;
/// Those that have no slot, and those that they create.
const SOME: u32 = 2;

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".globl whatif_thread_slot",
    ".hidden whatif_thread_slot",
    ".type whatif_thread_slot, @object",
    ".size whatif_thread_slot, 8",
    "whatif_thread_slot:",
    ".zero 8",
    ".popsection",
);

/// Called from the signal handler.
#[inline]
fn left() -> &'static AtomicU32 {
    // SAFETY: points to one of two words that live as long as the process.
    unsafe { &*LEFT.load(Relaxed) }
}

/// Has processes that are made behind the C library's back left alone: `word` is zero in every new process.
pub fn keep_in(word: &'static AtomicU32) {
    word.store(NONE, Relaxed);
    LEFT.store(core::ptr::from_ref(word).cast_mut(), Relaxed);
}

/// In a child that the C library has forked: it is left alone no more than its parent is.
pub fn take_up() {
    left().store(CHOSEN.load(Relaxed), Relaxed);
}

fn choose(what: u32) {
    CHOSEN.store(what, SeqCst);
    left().store(what, SeqCst);
}

/// The slot of the calling thread, if it is profiled. Called from the signal handler.
#[inline]
pub fn slot() -> Option<&'static Slot> {
    if left().load(Relaxed) == ALL { None } else { last_slot() }
}

/// The same, also where all threads are left alone. Called from the signal handler.
#[inline]
pub fn last_slot() -> Option<&'static Slot> {
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

/// From now on threads without a slot, and those that they create, are left alone.
pub fn leave_some() {
    if left().load(SeqCst) == NONE {
        choose(SOME);
    }
}

/// From now on all threads of this process are left alone. The caller waits for those that are [`settling`].
pub fn leave_all() {
    choose(ALL);
}

/// Whether [`leave_all`] was called: what the thread is in the midst of is to end.
pub fn are_all_left() -> bool {
    left().load(Relaxed) == ALL
}

/// Whether the calling thread is left alone, and creates threads that are.
pub fn is_left() -> bool {
    left().load(Relaxed) != NONE && slot().is_none()
}

/// Whether a system call of ours might be one too many: the calling thread is left alone, and not about to finish what it has begun.
#[inline]
pub fn is_silent() -> bool {
    match left().load(Relaxed) {
        NONE => false,
        SOME => last_slot().is_none(),
        _ => last_slot().is_none_or(|slot| slot.settling.load(Relaxed) == 0),
    }
}

/// Runs `work`, in the midst of which the thread must not come under a filter; not if all threads are left alone already. Called from the signal
/// handler as well.
pub fn settling(slot: &Slot, work: impl FnOnce()) {
    // SeqCst: a thread that leaves all alone sees this, or is seen here.
    slot.settling.fetch_add(1, SeqCst);
    if left().load(SeqCst) != ALL {
        work();
    }
    slot.settling.fetch_sub(1, SeqCst);
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
