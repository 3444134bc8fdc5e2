//! The callchain of the interrupted code, innermost first, along the frame pointers.
//!
//! The context of the signal has the user-mode instruction even when the sample hit the kernel: time in
//! a system call belongs to the frame that made it, and no privilege is needed to know that frame.
//!
//! Memory is only read between the interrupted stack pointer and the top of the thread's stack, which
//! is mapped; on any other stack (coroutines, an alternate signal stack) the chain is the one
//! instruction. A function without a frame pointer would hide its caller. In scope that is a leaf, whose
//! return address is on top of the stack; it is believed if it lies behind a call to where we are. Out of
//! scope, as in most C libraries, the words above the stack pointer are searched for the first return
//! address into code in scope.

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
    } else if readable(registers.stack) {
        let top = read(registers.stack);
        let known = readable(frame) && read(frame + 8) == top;
        if !known && !code.is_outside(Address(top as u64)) && is_behind_call(top, registers.instruction) {
            push(sample, top - 1);
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

/// Whether the instruction before `return_address`, which lies in mapped code, is a direct call of a
/// function whose code `instruction` may be part of.
fn is_behind_call(return_address: usize, instruction: usize) -> bool {
    const CALL: u8 = 0xe8;
    const LONGEST_LEAF: usize = 16 * 1024;
    let at = (return_address - 5) as *const u8;
    // SAFETY: the caller has found the address in the code of an image, whose first page holds headers or
    // start-up code: the five bytes before it are mapped and readable.
    let (opcode, distance) = unsafe { (at.read_volatile(), at.add(1).cast::<i32>().read_unaligned()) };
    let target = return_address.wrapping_add_signed(distance as isize);
    opcode == CALL && instruction.wrapping_sub(target) < LONGEST_LEAF
}

fn push(sample: &mut Sample, address: usize) {
    if sample.depth < MAX_FRAMES {
        sample.frames[sample.depth] = Address(address as u64);
        sample.depth += 1;
    }
}
