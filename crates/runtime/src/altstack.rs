//! Small alternate stacks of the program's: no sample is to land on one.
//!
//! A sample is a signal: the kernel writes a frame of some kilobytes onto the stack that the thread is on, and our handler needs room, too. An alternate stack that
//! the program has made for a handler of its own may have none, and what lies beneath it would be overwritten. So once there is such a stack, the
//! program's handlers on alternate stacks have our signals blocked: samples are taken when they return. Where not even a sample alone has room, our
//! handler stays on the thread's own stack as well. In programs whose alternate stacks are all large, nothing is changed.

use crate::sampler::{SIGTRAP, SIGURG};
use crate::sys;
use core::arch::x86_64::__cpuid_count;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

pub const SA_ONSTACK: u64 = 0x0800_0000;
const SS_ONSTACK: c_int = 1;

/// What our handler takes besides its frame.
const HANDLER: usize = 4096;
/// A handler that has so much room does not use nearly all of it.
const LARGE: usize = 1 << 17;

/// The signals that carry samples, as masks.
const OURS: [u64; 2] = [1 << (SIGURG - 1), 1 << (SIGTRAP - 1)];

/// Whether there has been a stack without room for a sample on top of a handler: not, or handlers are being shielded, or all are.
static SHIELDED: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const BEGUN: u32 = 1;
const ALL: u32 = 2;

/// The signals to whose masks each of [`OURS`] was added here.
static ADDED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// `stack_t`.
#[repr(C)]
pub struct Stack {
    low: usize,
    flags: c_int,
    size: usize,
}

/// How much room a stack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// For a handler of the program's that may need some room itself, a sample on top of it, and a handler that waits for the end of that.
    Large,
    /// For a sample alone.
    Small,
    /// For none.
    Tiny,
}

/// The size of the alternate stack that a thread is about to have.
pub fn size(stack: &Stack) -> Size {
    const SS_DISABLE: c_int = 2;
    if stack.flags & SS_DISABLE != 0 || stack.size >= LARGE {
        return Size::Large;
    }
    classify(stack.size, frame())
}

fn classify(size: usize, frame: usize) -> Size {
    match size {
        LARGE.. => Size::Large,
        _ if size >= frame + HANDLER => Size::Small,
        _ => Size::Tiny,
    }
}

/// What the kernel writes for a signal, at most: the registers that the processor can save as it is set up, `ucontext_t`, `siginfo_t`, and what aligns them.
fn frame() -> usize {
    const SAVED_REGISTERS: u32 = 0xd;
    const OTHER: usize = 1280;
    __cpuid_count(SAVED_REGISTERS, 0).ebx as usize + OTHER
}

/// Whether the thread is on an alternate stack.
pub fn is_on_one() -> bool {
    current().flags & SS_ONSTACK != 0
}

/// The alternate stack that the thread has.
pub fn current() -> Stack {
    let [low, flags, size] = sys::alternate_stack();
    Stack { low: low as usize, flags: flags as u32 as c_int, size: size as usize }
}

/// Whether handlers on alternate stacks have our signals blocked.
pub fn are_small() -> bool {
    SHIELDED.load(SeqCst) != NONE
}

/// Before a thread has its first small stack: shields all handlers that are installed. A thread that finds another one at it does the same and does not
/// wait: it must have no such stack before all are shielded.
pub fn shield_all() {
    const SIGNALS: i64 = 64;
    if SHIELDED.fetch_max(BEGUN, SeqCst) != ALL {
        (1..=SIGNALS).for_each(shield);
        SHIELDED.store(ALL, SeqCst);
    }
}

/// Shields the handler of a signal, if it runs on alternate stacks.
pub fn shield(signal: i64) {
    /// SIG_DFL and SIG_IGN.
    const NO_HANDLERS: core::ops::RangeInclusive<usize> = 0..=1;
    // SAFETY: nothing is changed.
    let Some(now) = (unsafe { sys::sigaction(signal, None) }) else { return };
    let is_other = [SIGURG, SIGTRAP].iter().all(|own| i64::from(*own) != signal);
    if is_other && now.flags & SA_ONSTACK != 0 && !NO_HANDLERS.contains(&now.handler) {
        let mask = with_ours(signal, now.mask);
        // SAFETY: the same handler as before.
        unsafe { sys::sigaction(signal, Some(&sys::KernelAction { mask, ..now })) };
    }
}

/// The mask of a signal's handler that is to have ours blocked as well.
pub fn with_ours(signal: i64, mask: u64) -> u64 {
    let this = 1 << (signal - 1);
    for (own, added) in OURS.iter().zip(&ADDED) {
        if mask & own == 0 {
            added.fetch_or(this, SeqCst);
        }
    }
    mask | OURS[0] | OURS[1]
}

/// The program has installed a handler with a mask of its own; says what was [`added`] to the one before.
pub fn forget(signal: i64) -> u64 {
    let before = added(signal);
    ADDED.iter().for_each(|added| _ = added.fetch_and(!(1 << (signal - 1)), SeqCst));
    before
}

/// What [`with_ours`] has added to the mask of a signal's handler.
pub fn added(signal: i64) -> u64 {
    if !(1..=64).contains(&signal) {
        return 0; // there is no such signal
    }
    let this = 1 << (signal - 1);
    OURS.iter()
        .zip(&ADDED)
        .fold(0, |mask, (own, added)| mask | if added.load(SeqCst) & this == 0 { 0 } else { *own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_room_on_top_of_a_handler_or_not() {
        // AVX-512.
        let frame = 2696 + 1280;
        assert_eq!(classify(128 << 10, frame), Size::Large);
        assert_eq!(classify(32 << 10, frame), Size::Small);
        assert_eq!(classify(9 << 10, frame), Size::Small);
        assert_eq!(classify(7472, frame), Size::Tiny);
        assert!((1024..64 << 10).contains(&super::frame()));
    }

    #[test]
    fn a_thread_that_finds_another_one_at_it_has_all_handlers_shielded_too() {
        const SIGNAL: i64 = 41;
        extern "C" fn handler(_: c_int) {}
        let handler = handler as extern "C" fn(c_int) as usize;
        // SAFETY: the structure may be all zeros; the signal is not sent.
        let action = unsafe {
            let before = sys::sigaction(SIGNAL, None).unwrap();
            sys::KernelAction { handler, flags: before.flags | SA_ONSTACK, mask: 0, ..before }
        };
        SHIELDED.store(BEGUN, SeqCst);
        // SAFETY: nobody sends the signal.
        let now = unsafe {
            sys::sigaction(SIGNAL, Some(&action));
            shield_all();
            sys::sigaction(SIGNAL, None).unwrap()
        };
        assert_eq!(now.mask, OURS[0] | OURS[1]);
        assert_eq!((added(SIGNAL), SHIELDED.load(SeqCst)), (now.mask, ALL));
        forget(SIGNAL);
    }

    #[test]
    fn what_the_program_blocks_itself_was_not_added() {
        let mask = with_ours(40, OURS[1] | 8);
        assert_eq!(mask, OURS[0] | OURS[1] | 8);
        assert_eq!((added(40), added(39)), (OURS[0], 0));
        assert_eq!((forget(40), added(40)), (OURS[0], 0));
    }
}
