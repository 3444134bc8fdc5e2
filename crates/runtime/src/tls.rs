//! One thread-local word: the slot of the calling thread.
//!
//! `thread_local!` in a `std` cdylib goes through `__tls_get_addr` and pulls in `malloc`, and
//! `#[thread_local]` is not stable. Eight bytes in `.tbss`, read with the initial-exec model, cost two
//! instructions and can be read in a signal handler. The loader has room for them: a preloaded library
//! is there before the static TLS block is laid out.

use core::arch::{asm, global_asm};
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use wire::late::go;
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

/// Threads are profiled again that were left alone by [`leave_all`].
pub fn leave_none() {
    choose(NONE);
}

/// Whether [`leave_all`] was called: what the thread is in the midst of is to end.
pub fn are_all_left() -> bool {
    left().load(SeqCst) == ALL
}

/// Whether the calling thread is left alone, and creates threads that are.
pub fn is_left() -> bool {
    left().load(Relaxed) != NONE && slot().is_none()
}

/// The stack on which the loader of a program that runs already has our functions called: what is done there is never one too many.
static LOADER: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// See [`LOADER`].
pub fn loader_is_on(stack: core::ops::Range<usize>) {
    LOADER[0].store(stack.start, Relaxed);
    LOADER[1].store(stack.end, Relaxed);
}

/// Whether that is done here.
#[cold]
pub fn is_loader() -> bool {
    let here = 0_u8;
    let here = (&raw const here).addr();
    (LOADER[0].load(Relaxed)..LOADER[1].load(Relaxed)).contains(&here)
}

/// Whether a system call of ours might be one too many: the calling thread is left alone, and not about to finish what it has begun.
#[inline]
pub fn is_silent() -> bool {
    match left().load(Relaxed) {
        NONE => false,
        SOME => last_slot().is_none(),
        _ => last_slot().is_none_or(|slot| slot.settling.load(Relaxed) == 0) && !is_loader(),
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

/// Where the calling thread has its word.
pub fn word() -> usize {
    let offset: usize;
    // SAFETY: reads a word of ours.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + whatif_thread_slot@GOTTPOFF]",
            offset = out(reg) offset,
            options(nostack, readonly),
        );
    }
    thread_pointer().wrapping_add(offset)
}

/// One of [`go`] in a program in Go, otherwise zero.
static GO: AtomicU32 = AtomicU32::new(0);

/// Where a thread has its goroutine in a program in Go with C code, from its thread pointer, and where its `m` has the one that it runs for the program; zeros if that is not known.
static OF_GOROUTINE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// How threads find out where they have their words, and where they have their goroutines.
pub fn is_in_go(how: u32, goroutine: [usize; 2]) {
    GO.store(how, Relaxed);
    OF_GOROUTINE.iter().zip(goroutine).for_each(|(word, place)| word.store(place, Relaxed));
}

/// Whether threads of a program in Go have the words of a C library, because it has C code.
pub fn is_in_go_with_c() -> bool {
    GO.load(Relaxed) == go::HAS_C
}

/// The calling thread's address of itself.
fn thread_pointer() -> usize {
    let pointer: usize;
    match GO.load(Relaxed) {
        // SAFETY: the ABI puts it there.
        0 | go::HAS_C => unsafe {
            asm!("mov {pointer}, qword ptr fs:[0]", pointer = out(reg) pointer, options(nostack, readonly))
        },
        // SAFETY: `rdfsbase rax`, which the controller has made sure of.
        go::READS => unsafe {
            asm!(".byte 0xf3, 0x48, 0x0f, 0xae, 0xc0", out("rax") pointer, options(nostack, nomem))
        },
        _ => {
            const ARCH_PRCTL: usize = 158;
            const GET_FS: usize = 0x1003;
            let mut place = 0_usize;
            // SAFETY: the kernel writes it into a place of ours.
            unsafe {
                asm!(
                    "syscall",
                    inlateout("rax") ARCH_PRCTL => _,
                    in("rdi") GET_FS,
                    in("rsi") &raw mut place,
                    lateout("rcx") _,
                    lateout("r11") _,
                    options(nostack),
                );
            }
            pointer = place;
        }
    }
    pointer
}

/// Which goroutine the calling thread runs, in a program in Go: what it is about to do says nothing else of what it has done. Zero in others.
pub fn goroutine() -> usize {
    let goroutine: usize;
    match GO.load(Relaxed) {
        0 => 0,
        go::HAS_C => goroutine_beside_c(),
        _ => {
            // SAFETY: `m.curg`, which comes behind `m.tls` and `m.mstartfn` in all versions.
            unsafe {
                asm!("mov {goroutine}, qword ptr fs:[48]", goroutine = out(reg) goroutine, options(nostack, readonly))
            };
            goroutine
        }
    }
}

/// The same where a thread has the goroutine that it runs, or that of its scheduler, in a word of its own.
fn goroutine_beside_c() -> usize {
    /// `g.m`, behind six words in all versions.
    const OF_THREAD: usize = 48;
    let [place, current] = [0, 1].map(|nth: usize| OF_GOROUTINE[nth].load(Relaxed));
    if place == 0 {
        return 0;
    }
    // SAFETY: Go has a `g` there, or zero in threads that run none; that has its `m`, or zero.
    unsafe {
        let it: *const usize;
        asm!("mov {it}, qword ptr fs:[{place}]", it = out(reg) it, place = in(reg) place, options(nostack, readonly));
        if it.is_null() {
            return 0;
        }
        let thread: *const usize = core::ptr::with_exposed_provenance(it.byte_add(OF_THREAD).read_volatile());
        if thread.is_null() { 0 } else { thread.byte_add(current).read_volatile() }
    }
}

/// Whether the program's handlers are its own, because it is let go, or was.
static HANDS_BACK: AtomicBool = AtomicBool::new(false);

/// The program's handlers are its own from now on, or are no longer.
pub fn hand_back(does: bool) {
    HANDS_BACK.store(does, SeqCst);
}

/// See [`hand_back`].
pub fn hands_back() -> bool {
    HANDS_BACK.load(SeqCst)
}

/// Does `work`, which creates a thread without a slot: in programs with musl that has the same word as its creator. A program is not let go in between, because a word that is
/// set again behind that would lead to another thread's slot in the next session.
pub fn not_handed_down<T>(work: impl FnOnce() -> T) -> T {
    let Some(slot) = slot() else {
        // Where the program is let go this one has none any more either.
        set_slot(None);
        return work();
    };
    slot.settling.fetch_add(1, SeqCst);
    let is_left = left().load(SeqCst) == ALL;
    set_slot(None);
    let result = work();
    if !is_left {
        set_slot(Some(slot));
    }
    slot.settling.fetch_sub(1, SeqCst);
    result
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_not_let_go_while_a_thread_is_created_that_has_no_slot() {
        let layout = std::alloc::Layout::new::<Slot>();
        // SAFETY: all-zero words are a valid slot, as in fresh shared memory.
        let slot = unsafe { &*std::alloc::alloc_zeroed(layout).cast::<Slot>() };
        set_slot(Some(slot));
        let (hidden, settling) = not_handed_down(|| (last_slot().is_none(), slot.settling.load(SeqCst)));
        assert!(hidden, "the new thread has none");
        assert_eq!((settling, slot.settling.load(SeqCst)), (1, 0));
        assert!(last_slot().is_some_and(|own| core::ptr::eq(own, slot)));
        set_slot(None);
    }
}
