//! The callchain of the interrupted code, innermost first, along the frame pointers.
//!
//! The context of the signal has the user-mode instruction even when the sample hit the kernel: time in
//! a system call belongs to the frame that made it, and no privilege is needed to know that frame.
//!
//! Memory is only read between the interrupted stack pointer and the top of the thread's stack, which
//! is mapped; on any other stack (coroutines, an alternate signal stack) the chain is the one
//! instruction. A function without a frame pointer, as in most C libraries, would hide its caller: the
//! words above the stack pointer are searched for the first return address into code in scope.

use crate::attach::shared;
use core::sync::atomic::Ordering::Relaxed;
use wire::{Address, MAX_FRAMES, ring::Sample, slot::Slot};

/// Registers that the walk starts from.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    pub instruction: usize,
    pub stack: usize,
    pub frame: usize,
}

/// How many words above the stack pointer are searched for a hidden caller.
const SEARCHED: usize = 48;

/// Fills in the callchain. Called from the signal handler.
pub fn walk(slot: &Slot, registers: Registers, sample: &mut Sample) {
    push(sample, registers.instruction);
    let low = slot.stack_low.load(Relaxed);
    let high = slot.stack_high.load(Relaxed);
    if registers.stack < low || registers.stack >= high {
        return;
    }
    let readable = |at: usize| at.is_multiple_of(8) && at >= registers.stack && at < high - 8;
    let read = |at: usize| {
        // SAFETY: only called for `readable` addresses: aligned, above the stack pointer, on our stack.
        unsafe { (at as *const usize).read_volatile() }
    };
    let mut frame = registers.frame;
    let code = &shared().code;
    if code.is_outside(Address(registers.instruction as u64)) {
        let end = if readable(frame) { frame } else { high - 16 };
        let mut at = registers.stack & !7;
        for _ in 0..SEARCHED {
            if at >= end || !readable(at) {
                break;
            }
            let word = read(at);
            if !code.is_outside(Address(word as u64)) {
                push(sample, word - 1);
                break;
            }
            at += 8;
        }
    }
    while sample.depth < MAX_FRAMES && readable(frame) {
        let (caller, return_address) = (read(frame), read(frame + 8));
        if return_address < 4096 {
            break;
        }
        // A return address points behind the call, possibly into the next line or function.
        push(sample, return_address - 1);
        if caller <= frame {
            break;
        }
        frame = caller;
    }
}

fn push(sample: &mut Sample, address: usize) {
    if sample.depth < MAX_FRAMES {
        sample.frames[sample.depth] = Address(address as u64);
        sample.depth += 1;
    }
}
