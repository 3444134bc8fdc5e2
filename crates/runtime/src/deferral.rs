//! Handlers of the program's that come while the thread pauses, handles a sample or changes its account: they wait until it is done.
//!
//! No signal is blocked for that. The kernel gives a signal that is sent to the process to the main thread unless that one has it blocked, then to
//! the next thread that has not: a thread that blocks it for a pause would have its handler run elsewhere. So the kernel always enters
//! [`whatif_enter`] instead of the program's handler. Mostly it jumps on to that one, with everything as the kernel has left it. In the midst of something of
//! ours it keeps the signal, has the interrupted code blocked against any further one, and returns; when that is over, the
//! thread sends itself the signal again. The handler finds the account in order then, on the stack that it would have run on, and may leave with
//! `siglongjmp`.
//!
//! Handlers that the program installs by an instruction of its own are not known here: they run at once, whatever is going on.

use crate::context::Context;
use crate::sampler::{self, SIGTRAP, SIGURG};
use crate::{passing, sys, tls};
use core::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};
use wire::slot::Slot;

const SIGNALS: usize = 64;

/// SIGILL, SIGBUS, SIGFPE, SIGSEGV and SIGSYS: where an instruction of the thread is to blame they cannot wait.
const FAULTS: u64 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30;

/// The program's handlers, by the number of the signal less one.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// The signals whose handlers the program has asked to be told more than the number (SA_SIGINFO), as a mask.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Those of which the kernel tells [`entered`] more: all but while they are changed. Of others nothing is known that could wait.
static TOLD: AtomicU64 = AtomicU64::new(0);

core::arch::global_asm!(
    ".type whatif_enter, @function",
    "whatif_enter:",
    ".cfi_startproc",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "call {entered}",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "test rax, rax",
    "je 2f",
    "mov r11, rax",
    "xor eax, eax",
    "jmp r11",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size whatif_enter, . - whatif_enter",
    entered = sym entered,
);

unsafe extern "C" {
    fn whatif_enter();
}

/// What the kernel enters instead of handlers.
pub fn entrance() -> usize {
    whatif_enter as *const () as usize
}

/// Which handler is to run now; zero if the signal waits.
///
/// # Safety
/// Called with the arguments of a handler by [`whatif_enter`], which the kernel has entered.
unsafe extern "C" fn entered(signal: i32, info: *mut [u64; 16], context: *mut Context) -> usize {
    let handler = HANDLERS[(signal as usize).wrapping_sub(1) % SIGNALS].load(Relaxed);
    let is_told = TOLD.load(Relaxed) & (1 << ((signal as usize).wrapping_sub(1) % SIGNALS)) != 0;
    if !is_told || crate::memory::attached().is_none() {
        return handler;
    }
    // SAFETY: the kernel passes a siginfo and an ucontext, which are the handler's.
    if signal == SIGURG && unsafe { keeps_urg(info, context) } {
        return 0;
    }
    // SAFETY: as before.
    let (info, context) = unsafe { (&mut *info, &mut *context) };
    let before = || sys::restore_one_shot(i64::from(signal), entrance());
    let Some(slot) = tls::last_slot() else {
        return if passing::passes_on(None, signal, info, before) { 0 } else { handler };
    };
    let is_nested = slot.entering.load(Relaxed) == ENTRANCE;
    if !is_nested {
        begin_entering(slot, ENTRANCE, context.mask());
    }
    passing::receive(slot, signal, info);
    let waits = passing::passes_on(Some(slot), signal, info, before)
        || has_to_wait(slot, signal, context) && defers(slot, signal, info, context);
    if !is_nested {
        end_entering(slot);
    }
    if waits { 0 } else { handler }
}

/// The handler of samples, which ends with [`leave_handler`].
static SAMPLES: AtomicUsize = AtomicUsize::new(0);

/// Whether a `SIGURG` is not for the program's handler, which it has entered.
pub type Keeps = unsafe fn(*mut [u64; 16], *mut Context) -> bool;

/// A [`Keeps`].
static KEEPS: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Samples are handled there from now on.
pub fn samples_at(handler: usize, keeps: Keeps) {
    SAMPLES.store(handler, Relaxed);
    KEEPS.store(keeps as *mut (), Release);
}

/// As [`Keeps`].
///
/// # Safety
/// As for [`Keeps`].
unsafe fn keeps_urg(info: *mut [u64; 16], context: *mut Context) -> bool {
    let keeps = KEEPS.load(Acquire);
    // SAFETY: it is null or what `samples_at` has stored; the caller vouches for the arguments.
    !keeps.is_null() && unsafe { core::mem::transmute::<*mut (), Keeps>(keeps)(info, context) }
}

/// The handler of samples.
pub fn samples() -> usize {
    SAMPLES.load(Relaxed)
}

/// Whether the handler of a signal that is entered has to wait: in the midst of something of ours, or where the thread has a sample that it has not begun to handle, because the kernel
/// enters both handlers at once. But if the signal is blocked when the sample has been handled, this is the end of a wait that has it unblocked (`ppoll`,
/// `sigsuspend`), and its handler has to run before.
pub fn has_to_wait(slot: &Slot, signal: i32, context: &Context) -> bool {
    if is_midway(slot) {
        return true;
    }
    if context.instruction() != samples() {
        return false;
    }
    // SAFETY: the third argument of our handler, at its first instruction.
    let below = unsafe { &*core::ptr::with_exposed_provenance::<Context>(context.third_argument()) };
    below.mask() & (1 << (signal - 1)) == 0
}

/// Values of [`Slot::entering`]: a handler is sent to the thread again, or its entrance runs.
const SENT: u32 = 1;
const ENTRANCE: u32 = 2;

/// The thread is about to block more than `mask` because a handler is entered, but does not run yet.
fn begin_entering(slot: &Slot, how: u32, mask: u64) {
    slot.entering_mask.store(mask, Relaxed);
    slot.entering.store(how, Release);
}

/// What it blocks is as the program wants it.
pub fn end_entering(slot: &Slot) {
    slot.entering.store(0, Release);
}

/// A handler that the program installs, and the one that was there before.
pub struct Registered {
    signal: usize,
    handler: usize,
    before: usize,
    asked_before: bool,
}

/// Forgets the handlers of signals for which the kernel does not have the entrance. Before anything is registered.
pub fn forget_handlers() {
    for (index, handler) in HANDLERS.iter().enumerate() {
        // SAFETY: nothing is changed.
        let now = unsafe { sys::sigaction(index as i64 + 1, None) };
        if now.is_none_or(|now| now.handler != entrance()) {
            handler.store(0, Relaxed);
        }
    }
}

/// The program installs `handler`, and asks for more than the number or not: the kernel is to be told of [`entrance`] instead, with SA_SIGINFO. `None` where it is to be
/// told what the program says. `is_there`: the kernel has it already, and it counts only if the program has installed none meanwhile.
pub fn register(signal: i32, handler: usize, asks: bool, is_there: bool) -> Option<Registered> {
    /// SIG_DFL, SIG_IGN, SIG_HOLD; and SIG_ERR.
    const NO_HANDLERS: core::ops::RangeInclusive<usize> = 0..=2;
    let index = usize::try_from(signal).ok()?.checked_sub(1).filter(|index| *index < SIGNALS)?;
    let none = NO_HANDLERS.contains(&handler) || handler == usize::MAX || handler == entrance();
    // A `vfork`ed child has its parent's memory, and handlers of its own.
    if none || crate::memory::attached().is_none() || !sys::is_own() {
        return None;
    }
    let before = if is_there {
        HANDLERS[index].compare_exchange(0, handler, Relaxed, Relaxed).ok()?
    } else {
        HANDLERS[index].swap(handler, Relaxed)
    };
    let asked_before = set(&ASKED, index, asks);
    Some(Registered { signal: index, handler, before, asked_before })
}

/// Sets or removes a signal; says whether it was there.
fn set(signals: &AtomicU64, index: usize, is_in: bool) -> bool {
    let bit = 1 << index;
    let before = if is_in { signals.fetch_or(bit, Relaxed) } else { signals.fetch_and(!bit, Relaxed) };
    before & bit != 0
}

impl Registered {
    /// The kernel has refused it.
    pub fn refuse(&self) {
        // Another thread may have installed one since.
        let mine = &HANDLERS[self.signal];
        if mine.compare_exchange(self.handler, self.before, Relaxed, Relaxed).is_ok() {
            set(&ASKED, self.signal, self.asked_before);
        }
    }

    /// The kernel tells the entrance more than the number from here on, or no longer for sure.
    pub fn tells(&self, more: bool) {
        set(&TOLD, self.signal, more);
    }
}

/// What the program believes to have installed, and whether it asked for more than the number, where the kernel says `handler`: `None` if it is right. `new`: what the
/// program has just replaced that with.
pub fn believed(signal: i32, handler: usize, new: Option<&Registered>) -> Option<(usize, bool)> {
    if handler != entrance() {
        return None;
    }
    let index = (signal as usize).wrapping_sub(1) % SIGNALS;
    let now = || (HANDLERS[index].load(Relaxed), ASKED.load(Relaxed) & (1 << index) != 0);
    Some(new.map_or_else(now, |new| (new.before, new.asked_before)))
}

/// Runs `work`, in the midst of which no handler of the program's runs, and no sample is taken. `work` is not to take long once [`has_caught`]
/// says that one waits. Called from the signal handler as well.
pub fn whole<T>(slot: &Slot, work: impl FnOnce() -> T) -> T {
    slot.whole.store(slot.whole.load(Relaxed) + 1, Relaxed);
    compiler_fence(SeqCst);
    let result = work();
    compiler_fence(SeqCst);
    slot.whole.store(slot.whole.load(Relaxed) - 1, Relaxed);
    result
}

/// Whether the thread pauses or handles a sample.
pub fn is_whole(slot: &Slot) -> bool {
    slot.whole.load(Relaxed) != 0
}

/// Whether handlers wait.
pub fn is_midway(slot: &Slot) -> bool {
    is_whole(slot) || slot.busy.load(Relaxed) != 0
}

/// Whether a handler waits for the thread to finish.
pub fn has_caught(slot: &Slot) -> bool {
    slot.caught.load(Relaxed) != 0
}

/// Keeps a signal that has come in the midst of something of ours, and has the interrupted code go on with all signals blocked. If another one is kept already, this one
/// is sent again at once, and the kernel keeps it. False if it cannot wait.
pub fn defers(slot: &Slot, signal: i32, info: &[u64; 16], context: &mut Context) -> bool {
    let code = info[1] as u32 as i32;
    let may_be_fault = FAULTS & (1 << (signal - 1)) != 0;
    // A thread that was created by an instruction of the program's own may have the slot of its creator.
    if may_be_fault && code > 0 || slot.tid.load(Relaxed) != sys::gettid() {
        return false;
    }
    if slot.caught.compare_exchange(0, signal as u32, Relaxed, Relaxed).is_ok() {
        slot.caught_info.iter().zip(info).for_each(|(kept, word)| kept.store(*word, Relaxed));
        slot.caught_mask.store(context.mask(), Relaxed);
        context.set_mask(context.mask() | !FAULTS);
        sys::restore_one_shot(i64::from(signal), entrance());
        return true;
    }
    if may_be_fault {
        return false; // it would not be blocked, and come again and again
    }
    // Until the kernel sets the mask of the interrupted code.
    sys::block_signals();
    sys::restore_one_shot(i64::from(signal), entrance());
    sys::raise_with(signal, info);
    // Of two that are pending together, the kernel enters one in the entrance of the other: that one knows what was really blocked.
    slot.caught_mask.fetch_and(context.mask(), Relaxed);
    context.set_mask(context.mask() | !FAULTS);
    true
}

/// Sends the thread the signal that waits, if there is one and nothing of ours is going on any more. It has all signals blocked still; returns the mask that lets the handler run.
pub fn send_again(slot: &Slot) -> Option<u64> {
    if !has_caught(slot) || is_midway(slot) {
        return None;
    }
    Some(send(slot))
}

/// At the end of our own handler, from which the kernel returns with the mask that was interrupted. The signal comes then, or goes on waiting if the handler has
/// interrupted something of ours, which has signals blocked from there on.
pub fn leave_handler(slot: &Slot, context: &mut Context) {
    if !has_caught(slot) {
        return;
    }
    if is_midway(slot) {
        // It has come to our handler, which had more blocked, or we have interrupted its own entrance, which has more blocked.
        slot.caught_mask.store(slot.caught_mask.load(Relaxed) & context.mask(), Relaxed);
        context.set_mask(context.mask() | !FAULTS);
    } else {
        send(slot);
    }
}

#[cold]
fn send(slot: &Slot) -> u64 {
    let info = core::array::from_fn(|i| slot.caught_info[i].load(Relaxed));
    let (signal, mask) = (slot.caught.load(Relaxed) as i32, slot.caught_mask.load(Relaxed));
    if ![SIGURG, SIGTRAP].contains(&signal) {
        begin_entering(slot, SENT, mask);
    }
    slot.caught.store(0, Release);
    // Another thread may wait for a SIGURG that was sent to the process, and one that is sent to this thread would be merged with a sample.
    let to_process =
        signal == SIGURG && sampler::urg_is_taken() && !passing::is_to_thread(info[1] as u32 as i32);
    if !to_process || !sys::send_to_process(signal, &info) {
        alone(slot, signal, || sys::raise_with(signal, &info));
    }
    mask
}

/// Runs the handler that waits, if there is one. It may never return.
#[inline]
pub fn release(slot: &Slot) {
    if let Some(mask) = send_again(slot) {
        sys::restore_mask(mask);
        end_entering(slot);
    }
}

/// Runs `send`, which sends one of our signals to the calling thread, while no sample can come: a second
/// signal of the same number would be merged with it, and the program's would be lost. (Samples by `SIGTRAP`
/// are delivered at once and never wait.)
pub fn alone(slot: &Slot, signal: i32, send: impl FnOnce()) {
    let paused = slot.asynchronous.load(Relaxed) == signal as u32 && sampler::suspend(slot);
    send();
    if paused {
        sampler::resume(slot);
    }
}
