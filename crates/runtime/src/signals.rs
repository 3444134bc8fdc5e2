//! Coexisting with the program's own use of signals.
//!
//! Our handler stays installed for the signals that carry samples, whatever the program does with `SIGTRAP`, and as long as it does nothing with `SIGURG` ([`urgent`]); what the
//! program *believes* to have installed is kept here and is what `sigaction` tells it. A signal of these numbers that is not a sample is the program's, and
//! goes to its handler.
//!
//! The signals that carry a thread's samples ([`sampler::carriers`](crate::sampler::carriers)) are never blocked in the kernel (samples would be late): the program's mask is answered
//! from [`Slot::masked`], and a signal of the program's waits here while that has it. In threads that have no samples by `SIGURG` the kernel blocks it as the program asks.
//!
//! Of all other signals only the handlers are changed: see [`deferral`].

use crate::actions::{self, Act, Action, SA_SIGINFO};
use crate::altstack::{self, SA_ONSTACK, Size, Stack};
use crate::beliefs::{
    BLOCK, OURS, SA_RESTART, SETMASK, SIG_DFL, SIG_ERR, SIG_HOLD, SIG_IGN, TRAP, TRAPS, UNBLOCK, URG, WANTED,
    Wanted, bit, block_urg_at_traps, install_for, is_ours_now, is_real, kernel_action, mask_of, ours,
    own_bits, take_held,
};
use crate::context::Context;
use crate::deferral::{self, alone};
use crate::real::real;
use crate::sampler::{self, SIGTRAP, SIGURG, carriers};
use crate::{sys, tls, urgent};
use core::ffi::c_int;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use wire::slot::Slot;

const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;

/// Both signals as a mask.
const BITS: u64 = bit(SIGURG) | bit(SIGTRAP);

/// Installs the handler of samples, and what is asked before the program's handler of `SIGURG`; what was there before is the program's wish (it may have been set
/// to ignored by the parent). Returns the calling thread's [`Slot::masked`], for the parent may also have
/// blocked them.
pub fn install(handler: usize, keeps: deferral::Keeps) -> u32 {
    install_handler(handler, keeps);
    take_over()
}

/// The first half: the handler of samples.
pub fn install_handler(handler: usize, keeps: deferral::Keeps) {
    deferral::samples_at(handler, keeps);
    // In a program that was let go it may still be ours.
    if let Some(old) = install_for(SIGTRAP).filter(|old| !is_ours_now(old)) {
        WANTED[TRAP].set(old.handler, old.flags, old.mask);
    }
}

/// The second half: the program's handlers that are there already have entrances.
pub fn take_over() -> u32 {
    // Constructors of the program's libraries may have run before.
    for signal in (1..=64).filter(|signal| *signal != SIGTRAP) {
        actions::take_over(signal);
    }
    // SAFETY: a `stack_t` of our own.
    unsafe { expect_stack(&altstack::current()) };
    let mask = sys::mask_signals(UNBLOCK, bit(SIGTRAP));
    // A debugger would be told of every SIGTRAP, and stop.
    TRAPS.store(u32::from(!sys::is_traced()), Relaxed);
    own_bits(mask)
}

/// What is done where it is not known which alternate stacks threads have: no sample is to land on one, however small.
pub fn expect_any_stack() {
    altstack::shield_all();
    OURS.into_iter().for_each(stay_on_threads_stack);
}

/// The kernel has the program's handlers again, but for `SIGTRAP`, of which a sample may still be on its way to a thread.
pub fn give_back_actions() {
    for signal in (1..=64).filter(|signal| *signal != SIGTRAP) {
        actions::give_back(signal);
    }
    if let Some(now) = kernel_action(SIGURG).filter(is_ours_now) {
        let (handler, flags) = (WANTED[URG].handler.load(Relaxed), WANTED[URG].flags.load(Relaxed));
        if !is_real(handler) {
            let mask = WANTED[URG].mask.load(Relaxed);
            // SAFETY: what was there before, which is no handler.
            unsafe {
                sys::sigaction(i64::from(SIGURG), Some(&sys::KernelAction { handler, flags, mask, ..now }))
            };
        }
    }
}

/// The bits of our signals in a mask, in the manner of [`Slot::masked`].
pub fn own_bits_of(mask: u64) -> u32 {
    own_bits(mask)
}

/// The program asks for an action of a signal, or is about to install `handler` for it: what it believes, if the kernel has our handler and is to keep it.
fn belief(signal: i32, handler: Option<usize>) -> Option<&'static Wanted> {
    // A `vfork`ed child has actions of its own, and its parent's memory.
    let index = ours(signal).filter(|_| crate::memory::attached().is_some() && sys::is_own())?;
    if index == URG {
        if handler.is_some_and(is_real) {
            urgent::take_here(own_slot());
            return None;
        }
        kernel_action(SIGURG).filter(is_ours_now)?;
    }
    Some(&WANTED[index])
}

/// What the kernel says was installed before is our handler of `SIGURG`: what the program believes instead.
fn former_belief(signal: i32, handler: usize) -> Option<&'static Wanted> {
    (signal == SIGURG && handler == deferral::samples()).then_some(&WANTED[URG])
}

/// A thread is about to have an alternate stack.
///
/// # Safety
/// What can be read there must be a `stack_t`.
pub unsafe fn expect_stack(stack: *const Stack) {
    if stack.is_null() || sys::is_readable(stack.addr(), size_of::<Stack>()) != Ok(true) {
        return; // the kernel refuses it
    }
    // SAFETY: it can be read, and the caller vouches for what it is.
    let size = altstack::size(unsafe { &*stack });
    // A `vfork`ed child has handlers of its own, and its parent's memory.
    if size == Size::Large || crate::memory::attached().is_none() || !sys::is_own() {
        return;
    }
    altstack::shield_all();
    if size == Size::Tiny {
        OURS.into_iter().for_each(stay_on_threads_stack);
    }
}

/// Has the handler of samples run on threads' own stacks.
fn stay_on_threads_stack(signal: i32) {
    if let Some(now) = kernel_action(signal).filter(|now| is_ours_now(now) && now.flags & SA_ONSTACK != 0) {
        let changed = sys::KernelAction { flags: now.flags & !SA_ONSTACK, ..now };
        // SAFETY: the same handler as before.
        unsafe { sys::sigaction(i64::from(signal), Some(&changed)) };
    }
}

/// `sigaltstack(2)`.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn sigaltstack(new: *const Stack, old: *mut Stack) -> c_int {
    let function = real!(sigaltstack: fn(*const Stack, *mut Stack) -> c_int);
    // SAFETY: passes the arguments on.
    unsafe {
        expect_stack(new);
        function.map_or(-1, |real| real(new, old))
    }
}

/// A thread's sampling has begun: has the kernel block what the program has blocked and what carries no samples, and nothing that does.
pub fn adopt(slot: &Slot) {
    let ours = carriers(slot);
    if ours & bit(SIGURG) != 0 {
        block_urg_at_traps(true);
    }
    let kept = mask_of(slot.masked.load(Relaxed));
    let blocked = sys::mask_signals(BLOCK, kept & !ours);
    slot.masked.store(own_bits((kept | blocked) & ours), Relaxed);
    // What is pending is held from here on.
    if blocked & ours != 0 {
        sys::mask_signals(UNBLOCK, ours);
    }
}

/// Which of our signals a thread that the calling one creates is to have blocked, in the manner of [`Slot::masked`]. What the kernel has blocked it inherits, unless it begins
/// with [`unshield`].
pub fn handed_down(slot: &Slot) -> u32 {
    let masked = slot.masked.load(Relaxed);
    // A handler on a small stack has blocked them, not the program.
    if !altstack::are_small() || altstack::is_on_one() {
        return masked;
    }
    masked | own_bits(sys::mask_signals(BLOCK, 0) & !carriers(slot))
}

/// The program is about to wait for these signals without a handler: `SIGURG` has to be left to it if it is among them.
///
pub fn awaited(set: *const u64) {
    if crate::memory::attached().is_none() || signals_in(set).is_none_or(|signals| signals & bit(SIGURG) == 0)
    {
        return;
    }
    urgent::take_here(own_slot());
}

/// The signals of a set (the kernel's 8 bytes of it), unless it is null or cannot be read.
fn signals_in(set: *const u64) -> Option<u64> {
    sys::read_argument(set)
}

/// The slot of the calling thread, unless it is a `vfork`ed child, which has a mask of its own, and its parent's slot.
pub fn own_slot() -> Option<&'static Slot> {
    tls::slot().filter(|slot| slot.tid.load(Relaxed) == sys::gettid())
}

/// Runs `call`, which executes another program, with what the program has blocked really blocked: the other one begins so. No sample may come meanwhile.
pub fn handing_on<T>(slot: &Slot, call: impl FnOnce() -> T) -> T {
    blocking(mask_of(slot.masked.load(Relaxed)), call)
}

/// What a thread that is about to be left alone has blocked, and what waits for it, as far as the kernel does not know.
pub struct Kept {
    masked: u64,
    held: [Option<[u64; 16]>; 2],
}

impl Kept {
    pub fn of(slot: &Slot) -> Self {
        Self { masked: mask_of(slot.masked.load(Relaxed)), held: [0, 1].map(|index| take_held(slot, index)) }
    }

    /// Tells the kernel. No more samples of the calling thread's can come.
    pub fn hand_over(self) {
        sys::mask_signals(BLOCK, self.masked);
        for (signal, info) in OURS.into_iter().zip(self.held) {
            if let Some(info) = info {
                sys::raise_with(signal, &info);
            }
        }
    }
}

/// Runs `call`, which creates a thread, with `SIGURG` really blocked if the program has it blocked: the new thread takes none before it is known here ([`adopt`]).
pub fn handing_down<T>(call: impl FnOnce() -> T) -> T {
    blocking(tls::slot().map_or(0, |slot| mask_of(slot.masked.load(Relaxed)) & bit(SIGURG)), call)
}

fn blocking<T>(signals: u64, call: impl FnOnce() -> T) -> T {
    if signals == 0 {
        return call();
    }
    let before = sys::mask_signals(BLOCK, signals);
    let result = call();
    sys::mask_signals(SETMASK, before);
    result
}

/// Hands a signal that was not a sample to the program.
///
/// # Safety
/// The arguments must be those of the interrupted handler.
pub unsafe fn deliver(slot: Option<&'static Slot>, signal: i32, info: *mut [u64; 16], context: *mut Context) {
    let Some(index) = ours(signal) else { return };
    let is_masked = |slot: &Slot| slot.masked.load(Relaxed) & (1 << index) != 0;
    // SAFETY: the kernel passed a siginfo of 16 words.
    let is_own_trap = signal == SIGTRAP && unsafe { (*info)[1] as u32 as i32 } > 0;
    let is_ignored = WANTED[index].handler.load(Relaxed) == SIG_IGN;
    if is_own_trap && (is_ignored || slot.is_some_and(is_masked)) {
        die_by(signal); // as the kernel does where a thread runs into a trap that it has blocked
    }
    if let Some(slot) = slot
        && is_masked(slot)
    {
        if signal == SIGURG && sampler::urg_is_taken() {
            // SAFETY: the kernel passed a siginfo and an ucontext.
            let (info, context) = unsafe { (&*info, &mut *context) };
            if !deferral::is_midway(slot) || !deferral::defers(slot, signal, info, context) {
                urgent::give_back_here(slot, info, context);
            }
            return;
        }
        // SAFETY: the kernel passed a siginfo of 16 words.
        for (word, kept) in unsafe { &*info }.iter().zip(&slot.held_info[index]) {
            kept.store(*word, Relaxed);
        }
        slot.held.fetch_or(1 << index, SeqCst);
        // The program has begun to wait for it meanwhile, and may not have seen it here.
        if signal == SIGURG
            && sampler::urg_is_taken()
            && let Some(info) = take_held(slot, URG)
        {
            // SAFETY: the kernel passed an ucontext.
            urgent::give_back_here(slot, &info, unsafe { &mut *context });
        }
        return;
    }
    if let Some(slot) = slot {
        // SAFETY: the kernel passed a siginfo and an ucontext.
        let (info, context) = unsafe { (&*info, &mut *context) };
        if deferral::has_to_wait(slot, signal, context) && deferral::defers(slot, signal, info, context) {
            return;
        }
    }
    let wanted = &WANTED[index];
    let handler = wanted.handler.load(Relaxed);
    if handler == SIG_IGN || (handler == SIG_DFL && signal == SIGURG) {
        return; // the default of SIGURG is to ignore it
    }
    if handler == SIG_DFL || handler == SIG_ERR {
        die_by(signal);
    }
    let flags = wanted.flags.load(Relaxed);
    if flags & SA_RESETHAND != 0 {
        wanted.handler.store(SIG_DFL, Relaxed);
    }
    let carriers = slot.map_or(BITS, carriers);
    let before = sys::mask_signals(BLOCK, wanted.mask.load(Relaxed) & !carriers);
    // SAFETY: the program installed this handler, with these flags, for this signal.
    unsafe {
        if flags & SA_SIGINFO != 0 {
            let handler = core::mem::transmute::<usize, extern "C" fn(i32, *mut [u64; 16], *mut u8)>(handler);
            handler(signal, info, context.cast());
        } else {
            core::mem::transmute::<usize, extern "C" fn(i32)>(handler)(signal);
        }
    }
    sys::mask_signals(SETMASK, before);
}

/// What the default action would have done.
fn die_by(signal: i32) {
    // SAFETY: the default action needs no handler.
    unsafe { sys::sigaction(i64::from(signal), Some(&sys::KernelAction::default())) };
    sys::mask_signals(UNBLOCK, bit(signal));
    sys::raise(signal);
}

/// `raise(3)`.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn raise(number: c_int) -> c_int {
    let function = real!(raise: fn(c_int) -> c_int);
    let mut result = -1;
    // SAFETY: passes the argument on.
    let mut call = || result = function.map_or(-1, |real| unsafe { real(number) });
    match tls::slot() {
        Some(slot) => alone(slot, number, call),
        None => call(),
    }
    result
}

/// The signal that carries this thread's samples, if it is asynchronous, as a mask.
fn asynchronous(slot: &Slot) -> u64 {
    match slot.asynchronous.load(Relaxed) {
        0 => 0,
        signal => bit(signal as i32),
    }
}

/// Runs `call` with that signal blocked: for system calls that
/// fail with `EINTR` after any handler has run, `SA_RESTART` or not. A sample that falls due is taken
/// right after.
#[inline]
pub fn undisturbed<T>(slot: &Slot, call: impl FnOnce() -> T) -> T {
    let asynchronous = asynchronous(slot);
    if asynchronous == 0 {
        return call();
    }
    let before = sys::mask_signals(BLOCK, asynchronous);
    let result = call();
    if before & asynchronous == 0 {
        sys::mask_signals(UNBLOCK, asynchronous);
    }
    result
}

/// The same with both signals that carry samples: for a system call that `SIGTRAP` interrupts, too, because it runs in the midst of its wait what the
/// kernel does elsewhere on the way back to the program. Samples that fall due are taken right after.
pub fn shielded<T>(call: impl FnOnce() -> T) -> T {
    let before = sys::mask_signals(BLOCK, BITS);
    let result = call();
    sys::mask_signals(UNBLOCK, BITS & !before);
    result
}

/// A copy of a signal set without the signals that carry samples, for calls that take pending signals: samples must not be
/// among them.
pub fn without_ours(slot: &Slot, set: *const u64, copy: &mut [u64; 16]) -> *const u64 {
    awaited(set);
    let Some(signals) = signals_in(set) else { return set };
    copy[0] = signals & !carriers(slot);
    copy.as_ptr()
}

/// A copy of a signal set that an asynchronous signal of samples belongs to, for calls that change the mask while they wait; see
/// [`undisturbed`].
pub fn with_ours(slot: &'static Slot, set: *const u64, copy: &mut [u64; 16]) -> *const u64 {
    let Some(asked) = signals_in(set) else { return set };
    // It is to come in the wait, and at no other time.
    if mask_of(slot.masked.load(Relaxed)) & !asked & bit(SIGURG) != 0 {
        urgent::take_here(Some(slot));
    }
    let ours = asynchronous(slot) | shield(slot);
    if ours == 0 {
        return set;
    }
    copy[0] = asked | ours;
    copy.as_ptr()
}

/// `sigaction(2)` for every signal; for ours, what the program believes.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let function = real!(sigaction: fn(c_int, *const Action, *mut Action) -> c_int);
    // SAFETY: both are null or valid, by the contract of `sigaction`; they may be the same.
    unsafe {
        let fresh = new.as_ref().copied();
        if let Some(wanted) = belief(signal, fresh.map(|new| new.handler)) {
            change(wanted, fresh, old.as_mut());
            return 0;
        }
        let result =
            function.map_or(-1, |real| actions::of_others(signal, new, old, |new| real(signal, new, old)));
        tell_former(signal, old.as_mut().filter(|_| result == 0));
        result
    }
}

/// Has the program believe in `fresh`, and tells it what it has believed in.
fn change<A: Act>(wanted: &Wanted, fresh: Option<A>, old: Option<&mut A>) {
    if let Some(old) = old {
        wanted.tell(old);
    }
    if let Some(mut fresh) = fresh {
        wanted.set(*fresh.handler(), fresh.flags(), *fresh.mask());
    }
}

/// Corrects what the kernel has told of our handler.
pub fn tell_former<A: Act>(signal: i32, old: Option<&mut A>) {
    if let Some(old) = old
        && let Some(wanted) = former_belief(signal, *old.handler())
    {
        wanted.tell(old);
    }
}

/// `rt_sigaction` for one of our signals, by `syscall(2)`: what the program believes. `None` for other signals, and for arguments that the kernel refuses.
///
/// # Safety
/// Both must be null or point to the kernel's `struct sigaction`.
pub unsafe fn raw_action(
    signal: i64,
    new: *const sys::KernelAction,
    old: *mut sys::KernelAction,
    set_size: i64,
) -> Option<()> {
    if set_size != size_of::<u64>() as i64 || !actions::is_there(new) || !actions::is_there(old) {
        return None;
    }
    // SAFETY: the caller vouches for both; they may be the same.
    unsafe {
        let fresh = new.as_ref().copied();
        let wanted = belief(i32::try_from(signal).ok()?, fresh.map(|new| new.handler))?;
        change(wanted, fresh, old.as_mut());
    }
    Some(())
}

/// The functions like `signal(3)`, and with which flags each installs a handler.
macro_rules! signal {
    ($name:ident, $flags:expr) => {
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(number: c_int, handler: usize) -> usize {
            let function = real!($name: fn(c_int, usize) -> usize);
            install_by_number(number, handler, $flags, |handler| {
                // SAFETY: passes the arguments on.
                function.map_or(SIG_ERR, |real| unsafe { real(number, handler) })
            })
        }
    };
}

// The semantics of BSD, which glibc has.
signal!(signal, SA_RESTART);
signal!(bsd_signal, SA_RESTART);
signal!(ssignal, SA_RESTART);
// Those of System V.
signal!(sysv_signal, SA_RESETHAND | SA_NODEFER);
signal!(__sysv_signal, SA_RESETHAND | SA_NODEFER);
signal!(sigset, 0);

/// `call` installs a handler, which it is passed, by such a function.
fn install_by_number(number: c_int, handler: usize, flags: u64, call: impl Fn(usize) -> usize) -> usize {
    let wanted = if handler == SIG_HOLD { None } else { belief(number, Some(handler)) };
    let Some(wanted) = wanted else {
        if sys::is_own() && (1..=64).contains(&number) {
            altstack::forget(i64::from(number));
        }
        let believed = |old, registered| {
            let of_urg = former_belief(number, old).map(|wanted| wanted.handler.load(Relaxed));
            of_urg.unwrap_or_else(|| {
                deferral::believed(number, old, registered).map_or(old, |(handler, _)| handler)
            })
        };
        let registered = deferral::register(number, handler, false, false);
        let Some(registered) = registered else {
            let old = call(handler);
            return believed(old, None);
        };
        registered.tells(false);
        let old = call(deferral::entrance());
        if old == SIG_ERR {
            registered.refuse();
            return old;
        }
        if tls::hands_back() {
            // The program was let go meanwhile.
            call(handler);
            return believed(old, Some(&registered));
        }
        let informs = sys::inform(i64::from(number), deferral::entrance());
        registered.tells(informs);
        return believed(old, Some(&registered));
    };
    let old = wanted.handler.load(Relaxed);
    wanted.set(handler, flags, if flags & SA_NODEFER == 0 { bit(number) } else { 0 });
    old
}

/// Common part of the two mask functions.
///
/// # Safety
/// As for `pthread_sigmask`; `real` must be one of the two.
unsafe fn mask(
    real: Option<unsafe extern "C" fn(c_int, *const u64, *mut u64) -> c_int>,
    how: c_int,
    set: *const u64,
    old: *mut u64,
) -> c_int {
    const ENOSYS: c_int = 38;
    let Some(real) = real else { return ENOSYS };
    let Some(slot) = own_slot() else {
        // SAFETY: passes the arguments on.
        return unsafe { real(how, set, old) };
    };
    // Both before anything else: handlers that run meanwhile change nothing for good, and a thread whose samples come by another signal meanwhile has
    // in the kernel what was in the first.
    let was = slot.masked.load(Relaxed);
    let (ours, shield) = (carriers(slot), shield(slot));
    let mut copy = [0_u64; 16];
    // SAFETY: `set` is null or a signal set of 128 bytes, as is `old`.
    unsafe {
        let mut asked = 0;
        let mut passed = set;
        if !set.is_null() {
            copy.copy_from_slice(core::slice::from_raw_parts(set, 16));
            asked = own_bits(copy[0] & ours);
            if i64::from(how) == UNBLOCK {
                copy[0] &= !shield;
            } else {
                copy[0] = copy[0] & !ours | shield;
            }
            passed = copy.as_ptr();
        }
        let result = real(how, passed, old);
        if result != 0 {
            return result;
        }
        deferral::end_entering(slot);
        if let Some(old) = old.as_mut() {
            *old = (*old & !(ours | shield)) | mask_of(was);
        }
        if !set.is_null() {
            let is = match i64::from(how) {
                BLOCK => was | asked,
                UNBLOCK => was & !asked,
                _ => asked,
            };
            slot.masked.store(is, Relaxed);
            let left = ours & !carriers(slot);
            if left != 0 {
                // SIGURG was left to the program meanwhile.
                sys::mask_signals(if mask_of(is) & left == 0 { UNBLOCK } else { BLOCK }, left);
            }
            slot.masked.store(is & own_bits(carriers(slot)), Relaxed);
            for (index, signal) in OURS.iter().enumerate().filter(|(index, _)| is & (1 << index) == 0) {
                if let Some(info) = take_held(slot, index) {
                    alone(slot, *signal, || sys::raise_with(*signal, &info));
                }
            }
        }
        result
    }
}

/// Which of our signals a handler on a small alternate stack has blocked ([`altstack`]). Once the thread has left it, they are unblocked.
fn shield(slot: &Slot) -> u64 {
    if !altstack::are_small() {
        return 0;
    }
    let blocked = sys::mask_signals(BLOCK, 0) & carriers(slot);
    if blocked == 0 || altstack::is_on_one() {
        return blocked;
    }
    sys::mask_signals(UNBLOCK, blocked);
    0
}

/// A thread begins, on a stack of its own: it may have been created by a handler that has our signals blocked.
pub fn unshield() {
    if altstack::are_small() {
        sys::mask_signals(UNBLOCK, BITS);
    }
}

/// `pthread_sigmask(3)`.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const u64, old: *mut u64) -> c_int {
    // SAFETY: passes the arguments on.
    unsafe { mask(real!(pthread_sigmask: fn(c_int, *const u64, *mut u64) -> c_int), how, set, old) }
}

/// `sigprocmask(2)`.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn sigprocmask(how: c_int, set: *const u64, old: *mut u64) -> c_int {
    // SAFETY: passes the arguments on.
    unsafe { mask(real!(sigprocmask: fn(c_int, *const u64, *mut u64) -> c_int), how, set, old) }
}

/// `sigpending(2)`: what is held here is pending to the program.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn sigpending(set: *mut u64) -> c_int {
    let function = real!(sigpending: fn(*mut u64) -> c_int);
    // SAFETY: passes the argument on, which is a valid signal set if the call succeeds.
    unsafe {
        let result = function.map_or(-1, |real| real(set));
        if result == 0
            && let Some(slot) = tls::slot()
        {
            *set = (*set & !carriers(slot)) | mask_of(slot.held.load(Relaxed));
        }
        result
    }
}
