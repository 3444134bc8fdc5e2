//! Late: a program that has run before the runtime came, into which a controller has put it (`controller/src/attach/`).
//!
//! The controller stops one thread and has it call the functions here, one at a time, on a stack of their own and with all signals blocked. They call nothing
//! of the C library that could wait for a thread or need memory. All other threads go on. A thread registers itself with the next function of
//! ours that it calls ([`slot`]); one that only computes is interrupted by the controller for that ([`_whatif_join`]).
//!
//! When the program is let go its words lead where they led, its handlers are its own, and all threads are left alone ([`tls`]). The code stays, because threads may be in the midst of
//! it (in a call that waits), and so does the handler of `SIGTRAP`, because the kernel may still have a sample for a thread that sleeps.

use crate::attach::BUILD_ID;
use crate::memory::{self, attached, shared};
use crate::{
    altstack, attach, beliefs, channel, cpus, deferral, maps, object, real, redirect, sampler, sampling,
    signals, switches, sys, thread, ticks, tls,
};
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use wire::SharedMemory;
use wire::late::{Entry, Phase, State, failure};
use wire::slot::{Activity, Slot};

/// What the controller reads.
#[cfg_attr(whatif_cdylib, unsafe(export_name = "_whatif_late"))]
pub static STATE: State = State::new();

/// The process that threads register in by themselves; zero if they do not.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether the C library calls functions of its own that lead to ours, or a new thread has the word of its creator: `is_hooked` or `is_musl` of [`STATE`].
static HAS_OTHER_LIBC: AtomicBool = AtomicBool::new(false);

/// The slot of the calling thread, which has called a function of ours. In a program that has run before we came it registers with its first call.
#[inline]
pub fn slot() -> Option<&'static Slot> {
    match tls::slot() {
        None if PROCESS.load(Relaxed) != 0 => meet(),
        Some(slot) if HAS_OTHER_LIBC.load(Relaxed) => beside_other_libc(slot),
        slot => slot,
    }
}

/// The same in a program whose C library is in the program itself, or is musl.
#[cold]
fn beside_other_libc(slot: &'static Slot) -> Option<&'static Slot> {
    // The C library calls its own functions in the midst of one, which stands for the whole.
    if STATE.is_hooked.load(Relaxed) != 0 && !slot.is_doing(Activity::Running) {
        return None;
    }
    let has_own_word = STATE.is_musl.load(Relaxed) == 0 || slot.word.load(Relaxed) == tls::word();
    if has_own_word { Some(slot) } else { inherited() }
}

/// A thread that the C library has created by itself has its creator's slot.
#[cold]
fn inherited() -> Option<&'static Slot> {
    tls::set_slot(None);
    slot()
}

#[cold]
fn meet() -> Option<&'static Slot> {
    // A `vfork`ed child has its parent's memory, and a handler on an alternate stack is not on the thread's.
    let may_register = !tls::are_all_left()
        && !tls::is_left()
        && sys::getpid() == PROCESS.load(Relaxed)
        && !altstack::is_on_one();
    if !may_register {
        return None;
    }
    let mask = sys::block_signals();
    MEETING.fetch_add(1, SeqCst);
    // The program may have been let go since.
    let mask = if tls::are_all_left() { mask } else { register(page_of_stack(), mask).unwrap_or(mask) };
    MEETING.fetch_sub(1, SeqCst);
    sys::restore_mask(mask);
    tls::slot()
}

/// Threads that register themselves at this moment.
static MEETING: AtomicU32 = AtomicU32::new(0);

/// Registers the calling thread, which has all signals blocked, and `mask` otherwise; returns what it is to have blocked from now on.
fn register(stack: core::ops::Range<usize>, mask: u64) -> Option<u64> {
    let slot = thread::register_late(stack, mask)?;
    // What it has blocked can only be known from the caller.
    let carriers = sampler::carriers(slot);
    slot.masked.store(signals::own_bits_of(mask & carriers), Relaxed);
    Some(mask & !carriers)
}

/// As much of the calling thread's stack as is surely mapped: the page that it is on. The controller widens that, because it can see what is mapped, and a thread
/// may be on a stack that is not its own (a coroutine's).
fn page_of_stack() -> core::ops::Range<usize> {
    const PAGE: usize = 4096;
    let here = 0_u8;
    let page = (&raw const here).addr() & !(PAGE - 1);
    page..page + PAGE
}

/// See [`wire::late::name`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub extern "C" fn _whatif_find(low: usize, high: usize) -> i64 {
    tls::loader_is_on(low..high);
    let goroutine = [&STATE.goroutine, &STATE.current].map(|place| place.load(Relaxed) as usize);
    tls::is_in_go(STATE.is_go.load(Relaxed), goroutine);
    HAS_OTHER_LIBC.store(STATE.is_hooked.load(Relaxed) != 0 || STATE.is_musl.load(Relaxed) != 0, Relaxed);
    attach::is_late();
    if STATE.phase.load(Acquire) == Phase::New as u32 {
        real::find_all();
    }
    thread::prepare();
    // Without any such data it has threads that end by a function which leads to ours, or none.
    let has_none = STATE.is_hooked.load(Relaxed) != 0 && thread::has_no_key();
    let is_told = thread::is_told_of_ends() || has_none;
    if is_told { 0 } else { failure::NO_KEY }
}

/// See [`wire::late::name::MEMORY_FUNCTIONS`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_memmove() {
    core::arch::naked_asm!(
        "mov rax, rdi",
        "mov rcx, rdx",
        "mov rdx, rdi",
        "sub rdx, rsi",
        // The end of the source is not where it is written to before it is read.
        "cmp rdx, rcx",
        "jb 2f",
        "rep movsb",
        "ret",
        "2:",
        "lea rsi, [rsi + rcx - 1]",
        "lea rdi, [rdi + rcx - 1]",
        "std",
        "rep movsb",
        "cld",
        "ret",
    )
}

/// See [`wire::late::name::MEMORY_FUNCTIONS`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_memset() {
    core::arch::naked_asm!("mov r8, rdi", "mov eax, esi", "mov rcx, rdx", "rep stosb", "mov rax, r8", "ret",)
}

/// See [`wire::late::name::MEMORY_FUNCTIONS`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_bcmp() {
    core::arch::naked_asm!(
        "mov rcx, rdx",
        "xor eax, eax",
        // Equal, if there is nothing to compare.
        "cmp eax, eax",
        "repe cmpsb",
        "setne al",
        "ret",
    )
}

/// See [`wire::late::name::MEMORY_FUNCTIONS`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_strlen() {
    core::arch::naked_asm!(
        "xor eax, eax",
        "mov rcx, -1",
        "repne scasb",
        "not rcx",
        "lea rax, [rcx - 1]",
        "ret",
    )
}

/// See [`wire::late::name`].
///
/// # Safety
/// A new shared memory must be mapped there, for good; there must be so many entries, and they must be right.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _whatif_start(start: *mut u8, entries: *const Entry, count: usize) -> i64 {
    // SAFETY: the caller vouches for it.
    let mut memory = unsafe { SharedMemory::at(start) };
    let generation = match STATE.joins.load(Relaxed) {
        0 => memory.header.accept(sys::getpid(), BUILD_ID).then_some(None),
        _ => memory.header.accept_executed(BUILD_ID).map(Some),
    };
    let Some(generation) = generation else { return failure::MISMATCH };
    let former_process = STATE.process.load(Relaxed);
    if former_process != 0 && former_process != sys::getpid() {
        // Forked from one that was profiled: what that one's threads were doing is not done here.
        MEETING.store(0, SeqCst);
        maps::in_copy();
    }
    if let Some(former) = attached() {
        if let Err(failure) = replace(former, memory) {
            return failure;
        }
        memory = former;
    } else {
        let Some(word) = sys::wiped_on_fork() else { return failure::NO_WIPE };
        memory::set(memory);
        tls::keep_in(word);
        sys::prepare_clock();
        ticks::begin();
    }
    if let Some(generation) = generation {
        maps::begin(generation);
    } else {
        cpus::prepare();
        maps::tell();
    }
    channel::forget();
    object::in_child();
    tls::leave_none();
    // Where it was not let go they are in use.
    if tls::hands_back() {
        deferral::forget_handlers();
    }
    tls::hand_back(false);
    STATE.memory.store(core::ptr::from_ref(memory).addr() as u64, Relaxed);
    STATE.process.store(sys::getpid(), Relaxed);
    STATE.phase.store(Phase::Profiles as u32, Release);
    // A thread that begins from here on may need the handler for SIGURG.
    let handler = sampling::handler as *const () as usize;
    deferral::samples_at(handler, sampling::keeps);
    // SAFETY: the caller vouches for them.
    let redirected = redirect::redirect(unsafe { list(entries, count) });
    // What the program says of it from here on does not reach the kernel.
    signals::install_handler(handler, sampling::keeps);
    redirected
}

/// See [`wire::late::name`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub extern "C" fn _whatif_open() -> i64 {
    let header = &shared().header;
    signals::take_over();
    // Go demands that handlers run on alternate stacks, which it makes large enough; its own have all signals blocked.
    if STATE.is_go.load(Relaxed) == 0 {
        signals::expect_any_stack();
    }
    // Who has stopped this thread is no debugger.
    beliefs::TRAPS.store(1, Relaxed);
    header.traps.store(1, Relaxed);
    PROCESS.store(sys::getpid(), Release);
    header.attached();
    0
}

/// Puts a new memory where the one of the last session is, which threads may still know. Slots in which one may be in the midst of a call stay taken. That of a
/// process that was forked from a profiled one is its parent's.
///
/// # Errors
/// A [`failure`].
fn replace(former: &SharedMemory, new: &SharedMemory) -> Result<(), i64> {
    let process = sys::getpid();
    let own = || former.slots.used().iter().filter(|slot| slot.pid.load(Relaxed) == process);
    let is_left = |slot: &Slot| {
        slot.is_taken()
            && (!slot.is_doing(Activity::Running)
                || [&slot.settling, &slot.busy, &slot.whole].iter().any(|word| word.load(Relaxed) != 0))
    };
    // Threads that register before all processes have done this take others.
    new.slots.keep_free(former.slots.used().len());
    for slot in own().filter(|slot| is_left(slot)) {
        let Some(kept) = new.slots.take_same(slot.number(&former.slots)) else {
            give_back(new, process);
            return Err(failure::BUSY);
        };
        kept.activity.store(slot.activity.load(Relaxed), Relaxed);
        for (kept, word) in
            [(&kept.settling, &slot.settling), (&kept.busy, &slot.busy), (&kept.whole, &slot.whole)]
        {
            kept.store(word.load(Relaxed), Relaxed);
        }
        kept.pid.store(process, Relaxed);
    }
    own().for_each(switches::close);
    let at = |memory: &SharedMemory| core::ptr::from_ref(memory).addr();
    if sys::move_onto(at(new), SharedMemory::SIZE, at(former)) {
        return Ok(());
    }
    give_back(new, process);
    Err(failure::NO_ROOM)
}

/// Gives all slots back that a process has in a memory that it does not use yet.
fn give_back(memory: &SharedMemory, process: u32) {
    let of_process = |slot: &&Slot| slot.is_taken() && slot.pid.load(Relaxed) == process;
    for slot in memory.slots.used().iter().filter(of_process) {
        slot.doing(Activity::Running);
        [&slot.settling, &slot.busy, &slot.whole].iter().for_each(|word| word.store(0, Relaxed));
        slot.pid.store(0, Relaxed);
        memory.slots.give_back(slot);
    }
}

/// See [`wire::late::name`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub extern "C" fn _whatif_join(low: usize, high: usize, mask: u64) -> i64 {
    if tls::slot().is_some() || tls::are_all_left() || MEETING.load(SeqCst) != 0 {
        return -1;
    }
    register(low..high, mask).map_or(-1, |mask| mask as i64)
}

/// Where a function that the controller has called returns to: says what it has returned, and waits to be stopped.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_done() {
    core::arch::naked_asm!(
        "mov rdx, qword ptr [rip + {state}@GOTPCREL]",
        "mov qword ptr [rdx + {result}], rax",
        "mov dword ptr [rdx + {done}], 1",
        "2:",
        "mov eax, 34", // pause
        "syscall",
        "jmp 2b",
        state = sym STATE,
        result = const core::mem::offset_of!(State, result),
        done = const core::mem::offset_of!(State, done),
    )
}

/// The entries of a list.
///
/// # Safety
/// There must be so many.
unsafe fn list<'a>(entries: *const Entry, count: usize) -> &'a [Entry] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { core::slice::from_raw_parts(entries, count) }
}

/// See [`wire::late::name`].
///
/// # Safety
/// There must be so many entries, and they must be right.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _whatif_redirect(entries: *const Entry, count: usize) -> i64 {
    // SAFETY: the caller vouches for it.
    redirect::redirect(unsafe { list(entries, count) })
}

/// See [`wire::late::name`].
///
/// # Safety
/// As for [`_whatif_redirect`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _whatif_restore(entries: *const Entry, count: usize) -> i64 {
    // SAFETY: the caller vouches for it.
    redirect::restore(unsafe { list(entries, count) })
}

/// See [`wire::late::name`].
///
/// # Safety
/// As for [`_whatif_redirect`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _whatif_leave(entries: *const Entry, count: usize) -> i64 {
    let Some(memory) = attached() else { return 0 };
    PROCESS.store(0, Relaxed);
    tls::hand_back(true);
    // The handlers first: no thread is to see ours.
    signals::give_back_actions();
    // SAFETY: the caller vouches for them.
    let restored = redirect::restore(unsafe { list(entries, count) });
    tls::leave_all();
    // Not for the processes that go on: each is let go by itself.
    if memory.header.pid.load(Relaxed) == sys::getpid() {
        memory.header.alive_until.store(0, Relaxed);
    }
    sys::futex_wake(&memory.header.epoch);
    STATE.phase.store(Phase::Dormant as u32, Release);
    restored
}

/// See [`wire::late::name`]. May be called again, until no thread is settling.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub extern "C" fn _whatif_silence(first: usize, end: usize) -> i64 {
    let process = sys::getpid();
    let of_process = |slot: &&Slot| slot.is_taken() && slot.pid.load(Relaxed) == process;
    let slots = shared().slots.used().get(first..end).unwrap_or_default();
    slots.iter().filter(of_process).for_each(sampler::silence);
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_memory_functions_are_those_of_c() {
        type Move = extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
        type Set = extern "C" fn(*mut u8, i32, usize) -> *mut u8;
        type Compare = extern "C" fn(*const u8, *const u8, usize) -> i32;
        type Length = extern "C" fn(*const u8) -> usize;
        // SAFETY: they are what C says, in the C calling convention.
        let (copy, set, compare, length) = unsafe {
            (
                core::mem::transmute::<extern "C" fn(), Move>(_whatif_memmove),
                core::mem::transmute::<extern "C" fn(), Set>(_whatif_memset),
                core::mem::transmute::<extern "C" fn(), Compare>(_whatif_bcmp),
                core::mem::transmute::<extern "C" fn(), Length>(_whatif_strlen),
            )
        };
        for (from, to, count) in [(0, 10, 20), (10, 0, 20), (5, 5, 20), (0, 40, 20), (3, 4, 0), (3, 4, 1)] {
            let mut bytes: Vec<u8> = (0..64).collect();
            let mut expected = bytes.clone();
            expected.copy_within(from..from + count, to);
            let start = bytes.as_mut_ptr();
            assert_eq!(copy(start.wrapping_add(to), start.wrapping_add(from), count), start.wrapping_add(to));
            assert_eq!(bytes, expected, "{from} {to} {count}");
        }
        let mut bytes = [1_u8; 8];
        assert_eq!(set(bytes.as_mut_ptr(), 0x1_05, 6), bytes.as_mut_ptr());
        assert_eq!(bytes, [5, 5, 5, 5, 5, 5, 1, 1]);
        let is_same = |one: &[u8], other: &[u8]| compare(one.as_ptr(), other.as_ptr(), one.len()) == 0;
        assert!(is_same(b"abc", b"abc") && is_same(b"", b""));
        assert!(!is_same(b"abc", b"abd") && !is_same(b"xbc", b"abc"));
        assert_eq!(
            ["", "a", "whatif"].map(|text| {
                let text = std::ffi::CString::new(text).unwrap();
                length(text.as_ptr().cast())
            }),
            [0, 1, 6]
        );
    }
}
