//! Coexisting with the program's own use of signals.
//!
//! Our handler stays installed for both signals that carry samples, whatever the program does; what the
//! program *believes* to have installed is kept here and is what `sigaction` tells it. Both are never
//! blocked in the kernel (samples would be late), and the program's mask is answered from
//! [`Slot::masked`]. A signal of these numbers that is not a sample is the program's: it goes to the
//! program's handler, or waits here while the program has it masked.
//!
//! Of all other signals only the handlers are changed: see [`deferral`].

use crate::actions::{self, Action, SA_SIGINFO};
use crate::altstack::{self, SA_ONSTACK, Size, Stack};
use crate::context::Context;
use crate::deferral::{self, alone};
use crate::real::real;
use crate::sampler::{SIGTRAP, SIGURG};
use crate::{sys, tls};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use wire::slot::Slot;

const SA_RESTORER: u64 = 0x0400_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
/// Of `sigset` alone: the signal is to be blocked.
const SIG_HOLD: usize = 2;
const SIG_ERR: usize = usize::MAX;

/// The signals that carry samples, in the order of the bits of [`Slot::masked`].
const OURS: [i32; 2] = [SIGURG, SIGTRAP];

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// SIGKILL and SIGSTOP: no mask of the kernel's has them.
const UNBLOCKABLE: u64 = bit(9) | bit(19);

/// Both signals as a mask.
const BITS: u64 = bit(SIGURG) | bit(SIGTRAP);

const BLOCK: i64 = 0;
const UNBLOCK: i64 = 1;
const SETMASK: i64 = 2;

/// The action that the program has asked for. Fields one by one: programs change actions from one
/// thread, at start-up; a reader of a half-changed action sees what it would see natively.
struct Wanted {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

impl Wanted {
    const fn new() -> Self {
        Self { handler: AtomicUsize::new(SIG_DFL), flags: AtomicU64::new(0), mask: AtomicU64::new(0) }
    }
}

static WANTED: [Wanted; 2] = [const { Wanted::new() }; 2];

/// Zero when this process must not use `SIGTRAP`.
static TRAPS: AtomicU32 = AtomicU32::new(0);

/// Which of our signals this is.
fn ours(signal: i32) -> Option<usize> {
    OURS.iter().position(|own| *own == signal)
}

/// Whether samples may come by this signal.
pub fn is_ours(signal: i64) -> bool {
    i32::try_from(signal).is_ok_and(|signal| ours(signal).is_some())
}

/// The bits of [`OURS`] that are in a mask.
fn own_bits(mask: u64) -> u32 {
    OURS.iter().enumerate().fold(0, |bits, (i, signal)| bits | (u32::from(mask & bit(*signal) != 0) << i))
}

/// The mask of those bits.
fn mask_of(bits: u32) -> u64 {
    OURS.iter()
        .enumerate()
        .fold(0, |mask, (i, signal)| mask | if bits & (1 << i) != 0 { bit(*signal) } else { 0 })
}

core::arch::global_asm!(
    // rt_sigreturn, called when the handler returns. The unwinder knows the frame by these very bytes.
    ".type whatif_restore, @function",
    "nop",
    "whatif_restore:",
    "mov rax, 15",
    "syscall",
);

unsafe extern "C" {
    fn whatif_restore();
}

/// Installs the handler of samples; what was there before is the program's wish (it may have been set
/// to ignored by the parent). Returns the calling thread's [`Slot::masked`], for the parent may also have
/// blocked them.
pub fn install(handler: usize) -> u32 {
    let action = sys::KernelAction {
        handler,
        flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART,
        restorer: whatif_restore as *const () as usize,
        mask: BITS,
    };
    deferral::samples_at(handler);
    for (signal, wanted) in OURS.iter().zip(&WANTED) {
        // SAFETY: the handler is `sampling::handler`, which lives as long as the process.
        if let Some(old) = unsafe { sys::sigaction(i64::from(*signal), Some(&action)) } {
            wanted.handler.store(old.handler, Relaxed);
            wanted.flags.store(old.flags & !SA_RESTORER, Relaxed);
            wanted.mask.store(old.mask, Relaxed);
        }
    }
    // Constructors of the program's libraries may have run before.
    for signal in (1..=64).filter(|signal| ours(*signal).is_none()) {
        actions::take_over(signal);
    }
    // SAFETY: a `stack_t` of our own.
    unsafe { expect_stack(&altstack::current()) };
    let mask = sys::mask_signals(UNBLOCK, BITS);
    // A debugger would be told of every SIGTRAP, and stop.
    TRAPS.store(u32::from(!sys::is_traced()), Relaxed);
    own_bits(mask)
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
        OURS.iter().for_each(|signal| stay_on_threads_stack(i64::from(*signal)));
    }
}

/// Has the handler of samples run on threads' own stacks.
fn stay_on_threads_stack(signal: i64) {
    // SAFETY: nothing is changed.
    let now = unsafe { sys::sigaction(signal, None) };
    let is_ours = |now: &sys::KernelAction| now.restorer == whatif_restore as *const () as usize;
    if let Some(now) = now.filter(|now| is_ours(now) && now.flags & SA_ONSTACK != 0) {
        // SAFETY: the same handler as before.
        unsafe { sys::sigaction(signal, Some(&sys::KernelAction { flags: now.flags & !SA_ONSTACK, ..now })) };
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

/// Whether samples may come as `SIGTRAP`.
pub fn may_trap() -> bool {
    TRAPS.load(Relaxed) != 0
}

/// For forked children.
pub fn no_more_traps() {
    TRAPS.store(0, Relaxed);
}

/// Hands a signal that was not a sample to the program.
///
/// # Safety
/// The arguments must be those of the interrupted handler.
pub unsafe fn deliver(slot: Option<&Slot>, signal: i32, info: *mut [u64; 16], context: *mut Context) {
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
        // SAFETY: the kernel passed a siginfo of 16 words.
        for (word, kept) in unsafe { &*info }.iter().zip(&slot.held_info[index]) {
            kept.store(*word, Relaxed);
        }
        slot.held.fetch_or(1 << index, Relaxed);
        return;
    }
    if let Some(slot) = slot.filter(|slot| deferral::is_midway(slot)) {
        // SAFETY: the kernel passed a siginfo and an ucontext.
        if unsafe { deferral::defers(slot, signal, &*info, &mut *context) } {
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
    let before = sys::mask_signals(BLOCK, wanted.mask.load(Relaxed) & !BITS);
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

/// Runs `call` with `SIGURG` blocked if that is what carries this thread's samples: for system calls that
/// fail with `EINTR` after any handler has run, `SA_RESTART` or not. A sample that falls due is taken
/// right after.
#[inline]
pub fn undisturbed<T>(slot: &Slot, call: impl FnOnce() -> T) -> T {
    if slot.asynchronous.load(Relaxed) == 0 {
        return call();
    }
    let before = sys::mask_signals(BLOCK, bit(SIGURG));
    let result = call();
    if before & bit(SIGURG) == 0 {
        sys::mask_signals(UNBLOCK, bit(SIGURG));
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

/// A copy of a signal set without our signals, for calls that take pending signals: samples must not be
/// among them.
///
/// # Safety
/// `set` must be null or point to a signal set (the kernel's 8 bytes of it are read).
pub unsafe fn without_ours(set: *const u64, copy: &mut [u64; 16]) -> *const u64 {
    if set.is_null() {
        return set;
    }
    // SAFETY: the caller vouches for the set.
    copy[0] = unsafe { *set } & !BITS;
    copy.as_ptr()
}

/// A copy of a signal set that `SIGURG` belongs to, for calls that change the mask while they wait; see
/// [`undisturbed`].
///
/// # Safety
/// `set` must be null or point to a signal set (the kernel's 8 bytes of it are read).
pub unsafe fn with_ours(slot: &Slot, set: *const u64, copy: &mut [u64; 16]) -> *const u64 {
    let asynchronous = if slot.asynchronous.load(Relaxed) == 0 { 0 } else { bit(SIGURG) };
    let ours = asynchronous | shield();
    if set.is_null() || ours == 0 {
        return set;
    }
    // SAFETY: the caller vouches for the set.
    copy[0] = unsafe { *set } | ours;
    copy.as_ptr()
}

/// `sigaction(2)` for every signal; for ours, what the program believes.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let function = real!(sigaction: fn(c_int, *const Action, *mut Action) -> c_int);
    // A `vfork`ed child has actions of its own, and its parent's memory.
    let own = ours(signal).filter(|_| crate::memory::attached().is_some() && sys::is_own());
    let Some(wanted) = own.map(|index| &WANTED[index]) else {
        // SAFETY: passes the arguments on.
        return function.map_or(-1, |real| unsafe {
            actions::of_others(signal, new, old, |new| real(signal, new, old))
        });
    };
    // SAFETY: both are null or valid, by the contract of `sigaction`; they may be the same.
    unsafe {
        let fresh = new.as_ref().map(|new| (new.handler, new.flags, new.mask[0]));
        if let Some(old) = old.as_mut() {
            old.handler = wanted.handler.load(Relaxed);
            old.flags = wanted.flags.load(Relaxed) as u32 as c_int;
            old.mask = [0; 16];
            old.mask[0] = wanted.mask.load(Relaxed);
            old.restorer = 0;
        }
        if let Some((handler, flags, mask)) = fresh {
            wanted.handler.store(handler, Relaxed);
            wanted.flags.store(u64::from(flags as u32), Relaxed);
            wanted.mask.store(mask & !UNBLOCKABLE, Relaxed);
        }
    }
    0
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
    crate::memory::attached()?;
    let wanted = &WANTED[ours(i32::try_from(signal).ok()?)?];
    if set_size != size_of::<u64>() as i64
        || !sys::is_own()
        || !actions::is_there(new)
        || !actions::is_there(old)
    {
        return None;
    }
    // SAFETY: the caller vouches for both; they may be the same.
    unsafe {
        let fresh = new.as_ref().copied();
        if let Some(old) = old.as_mut() {
            *old = sys::KernelAction {
                handler: wanted.handler.load(Relaxed),
                flags: wanted.flags.load(Relaxed),
                restorer: 0,
                mask: wanted.mask.load(Relaxed),
            };
        }
        if let Some(fresh) = fresh {
            wanted.handler.store(fresh.handler, Relaxed);
            wanted.flags.store(fresh.flags & !SA_RESTORER, Relaxed);
            wanted.mask.store(fresh.mask & !UNBLOCKABLE, Relaxed);
        }
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
fn install_by_number(number: c_int, handler: usize, flags: u64, call: impl FnOnce(usize) -> usize) -> usize {
    let is_own = sys::is_own();
    let own = ours(number).filter(|_| crate::memory::attached().is_some() && handler != SIG_HOLD && is_own);
    if is_own && own.is_none() && (1..=64).contains(&number) {
        altstack::forget(i64::from(number));
    }
    let Some(wanted) = own.map(|index| &WANTED[index]) else {
        let registered = deferral::register(number, handler, false);
        let Some(registered) = registered else {
            let old = call(handler);
            return deferral::believed(number, old, None).map_or(old, |(handler, _)| handler);
        };
        registered.tells(false);
        let old = call(deferral::entrance());
        if old == SIG_ERR {
            registered.refuse();
            return old;
        }
        let informs = sys::inform(i64::from(number), deferral::entrance());
        registered.tells(informs);
        return deferral::believed(number, old, Some(&registered)).map_or(old, |(handler, _)| handler);
    };
    let old = wanted.handler.swap(handler, Relaxed);
    wanted.flags.store(flags, Relaxed);
    wanted.mask.store(if flags & SA_NODEFER == 0 { bit(number) } else { 0 }, Relaxed);
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
    // A `vfork`ed child has a mask of its own, and its parent's slot.
    let Some(slot) = tls::slot().filter(|slot| slot.tid.load(Relaxed) == sys::gettid()) else {
        // SAFETY: passes the arguments on.
        return unsafe { real(how, set, old) };
    };
    let shield = shield();
    let mut copy = [0_u64; 16];
    // SAFETY: `set` is null or a signal set of 128 bytes, as is `old`.
    unsafe {
        let mut asked = 0;
        let mut passed = set;
        if !set.is_null() {
            copy.copy_from_slice(core::slice::from_raw_parts(set, 16));
            asked = own_bits(copy[0]);
            if i64::from(how) == UNBLOCK {
                copy[0] &= !shield;
            } else {
                copy[0] = copy[0] & !BITS | shield;
            }
            passed = copy.as_ptr();
        }
        let result = real(how, passed, old);
        if result != 0 {
            return result;
        }
        deferral::end_entering(slot);
        let was = slot.masked.load(Relaxed);
        if let Some(old) = old.as_mut() {
            *old = (*old & !BITS) | mask_of(was);
        }
        if !set.is_null() {
            let is = match i64::from(how) {
                BLOCK => was | asked,
                UNBLOCK => was & !asked,
                _ => asked,
            };
            slot.masked.store(is, Relaxed);
            let due = slot.held.fetch_and(is, Relaxed) & !is;
            for (index, signal) in OURS.iter().enumerate().filter(|(index, _)| due & (1 << index) != 0) {
                let info = core::array::from_fn(|i| slot.held_info[index][i].load(Relaxed));
                alone(slot, *signal, || sys::raise_with(*signal, &info));
            }
        }
        result
    }
}

/// Which of our signals a handler on a small alternate stack has blocked ([`altstack`]). Once the thread has left it, they are unblocked.
fn shield() -> u64 {
    if !altstack::are_small() {
        return 0;
    }
    let blocked = sys::mask_signals(BLOCK, 0) & BITS;
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
            *set = (*set & !BITS) | mask_of(slot.held.load(Relaxed));
        }
        result
    }
}
