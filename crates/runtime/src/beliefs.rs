//! The signals that carry samples: which they are, what the kernel has installed for them, and what the program believes that it has.
//!
//! [`signals`](crate::signals) answers the program with it, and [`urgent`](crate::urgent) gives one of them up.

use crate::actions::{Act, SA_SIGINFO};
use crate::altstack::SA_ONSTACK;
use crate::sampler::{self, SIGTRAP, SIGURG};
use crate::{deferral, sys};
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use wire::slot::Slot;

pub const SA_RESTORER: u64 = 0x0400_0000;
pub const SA_RESTART: u64 = 0x1000_0000;
pub const SIG_DFL: usize = 0;
pub const SIG_IGN: usize = 1;

/// Of `sigset` alone: the signal is to be blocked.
pub const SIG_HOLD: usize = 2;
pub const SIG_ERR: usize = usize::MAX;

/// The signals that carry samples, in the order of the bits of [`Slot::masked`].
pub const OURS: [i32; 2] = [SIGURG, SIGTRAP];
pub const URG: usize = 0;
pub const TRAP: usize = 1;

pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// SIGKILL and SIGSTOP: no mask of the kernel's has them.
pub const UNBLOCKABLE: u64 = bit(9) | bit(19);
pub const BLOCK: i64 = 0;
pub const UNBLOCK: i64 = 1;
pub const SETMASK: i64 = 2;

/// The action that the program has asked for. Fields one by one: programs change actions from one
/// thread, at start-up; a reader of a half-changed action sees what it would see natively.
pub struct Wanted {
    pub handler: AtomicUsize,
    pub flags: AtomicU64,
    pub mask: AtomicU64,
}

impl Wanted {
    pub const fn new() -> Self {
        Self { handler: AtomicUsize::new(SIG_DFL), flags: AtomicU64::new(0), mask: AtomicU64::new(0) }
    }

    pub fn set(&self, handler: usize, flags: u64, mask: u64) {
        self.handler.store(handler, Relaxed);
        self.flags.store(flags & !SA_RESTORER, Relaxed);
        self.mask.store(mask & !UNBLOCKABLE, Relaxed);
    }

    /// Tells the program.
    pub fn tell<A: Act>(&self, old: &mut A) {
        let (flags, mask) = (self.flags.load(Relaxed), self.mask.load(Relaxed));
        *old = A::new(self.handler.load(Relaxed), flags, mask);
    }
}

pub static WANTED: [Wanted; 2] = [const { Wanted::new() }; 2];

/// Zero when this process must not use `SIGTRAP`.
pub static TRAPS: AtomicU32 = AtomicU32::new(0);

/// Which of our signals this is.
pub fn ours(signal: i32) -> Option<usize> {
    OURS.iter().position(|own| *own == signal)
}

/// Whether samples may come by this signal.
pub fn is_ours(signal: i64) -> bool {
    i32::try_from(signal).is_ok_and(|signal| ours(signal).is_some())
}

/// The bits of [`OURS`] that are in a mask.
pub fn own_bits(mask: u64) -> u32 {
    OURS.iter().enumerate().fold(0, |bits, (i, signal)| bits | (u32::from(mask & bit(*signal) != 0) << i))
}

/// The mask of those bits.
pub fn mask_of(bits: u32) -> u64 {
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

/// Installs it for one of them; what was there before.
pub fn install_for(signal: i32) -> Option<sys::KernelAction> {
    let action = sys::KernelAction {
        handler: deferral::samples(),
        flags: SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART,
        restorer: whatif_restore as *const () as usize,
        mask: bit(SIGTRAP),
    };
    // SAFETY: the handler is `sampling::handler`, which lives as long as the process.
    unsafe { sys::sigaction(i64::from(signal), Some(&action)) }
}

/// Samples are to come by `SIGURG`: installs the handler for it. False if the program has one of its own.
pub fn take_over_urg() -> bool {
    let before = kernel_action(SIGURG);
    if before.is_some_and(|before| is_ours_now(&before)) {
        return true;
    }
    let Some(before) = install_for(SIGURG) else { return false };
    if is_real(before.handler) {
        if !is_ours_now(&before) {
            // SAFETY: what was there before.
            unsafe { sys::sigaction(i64::from(SIGURG), Some(&before)) };
            return false;
        }
    } else {
        WANTED[URG].set(before.handler, before.flags, before.mask);
    }
    true
}

pub fn kernel_action(signal: i32) -> Option<sys::KernelAction> {
    // SAFETY: nothing is changed.
    unsafe { sys::sigaction(i64::from(signal), None) }
}

/// Whether this is a handler, and not `SIG_DFL`, `SIG_IGN`, `SIG_HOLD` or `SIG_ERR`.
pub fn is_real(handler: usize) -> bool {
    !matches!(handler, SIG_DFL | SIG_IGN | SIG_HOLD | SIG_ERR)
}

/// Whether a signal has our handler. What stands there when that was taken away, as when the program was let go, has its restorer still.
pub fn is_ours_now(now: &sys::KernelAction) -> bool {
    now.restorer == whatif_restore as *const () as usize && is_real(now.handler)
}

/// Whether samples may come as `SIGTRAP`.
pub fn may_trap() -> bool {
    TRAPS.load(Relaxed) != 0
}

/// For forked children, which are likely to execute another program; one that takes SIGURG itself is not.
pub fn no_more_traps() {
    if !sampler::urg_is_taken() {
        TRAPS.store(0, Relaxed);
    }
}

/// `SIGURG` can carry samples no longer.
pub fn trap_again() {
    TRAPS.store(u32::from(!sys::is_traced()), SeqCst);
}

/// The handler of `SIGTRAP` is to have `SIGURG` blocked, as long as that carries samples. If it is the program's alone, its handler may have to run before: where both come at
/// the end of a wait that has `SIGURG` unblocked, it is blocked again when we return.
pub fn block_urg_at_traps(blocks: bool) {
    let now = kernel_action(SIGTRAP);
    let mask = bit(SIGTRAP) | if blocks { bit(SIGURG) } else { 0 };
    if let Some(now) = now.filter(|now| is_ours_now(now) && now.mask != mask) {
        // SAFETY: the same handler as before.
        unsafe { sys::sigaction(i64::from(SIGTRAP), Some(&sys::KernelAction { mask, ..now })) };
    }
}

/// A signal that is held, if there is one, is so no more: what came with it.
pub fn take_held(slot: &Slot, index: usize) -> Option<[u64; 16]> {
    if slot.held.load(SeqCst) & 1 << index == 0 {
        return None;
    }
    let info = core::array::from_fn(|i| slot.held_info[index][i].load(Relaxed));
    (slot.held.fetch_and(!(1 << index), SeqCst) & 1 << index != 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_handler_is_not_ours_though_it_has_our_restorer() {
        let restorer = whatif_restore as *const () as usize;
        let action = |handler| sys::KernelAction { handler, restorer, ..sys::KernelAction::default() };
        assert!(is_ours_now(&action(0x1000)));
        for nothing in [SIG_DFL, SIG_IGN] {
            assert!(!is_ours_now(&action(nothing)));
        }
        assert!(!is_ours_now(&sys::KernelAction { restorer: 0, ..action(0x1000) }));
    }
}
