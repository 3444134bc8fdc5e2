//! The callchain of the interrupted code, innermost first: by the tables that the controller makes of `.eh_frame`, and
//! along the frame pointers where there is none yet.
//!
//! The context of the signal has the user-mode instruction even when the sample hit the kernel: time in
//! a system call belongs to the frame that made it, and no privilege is needed to know that frame.
//!
//! Memory is only read between the interrupted stack pointer and the top of the thread's stack, which
//! is mapped; on any other stack (coroutines, an alternate signal stack) the chain is the one
//! instruction. Without a table, a function without a frame pointer would hide its caller. In scope that is a leaf, whose
//! return address is on top of the stack; it is believed if it lies behind a call to where we are. Out of
//! scope, as in most C libraries, the words above the stack pointer are searched for the first return
//! address into code in scope.

use crate::maps::{self, known_address, shared_address};
use crate::memory::shared;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use wire::unwind::{Caller, UnwindRule};
use wire::{MAX_FRAMES, ring::Sample, slot::Slot};

/// Registers that the walk starts from.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    pub instruction: usize,
    pub stack: usize,
    pub frame: usize,
}

/// How many words above the stack pointer are searched for a hidden caller.
const SEARCHED: usize = 48;

/// One frame of the walk.
#[derive(Clone, Copy)]
struct Frame {
    /// Inside the function: for callers, a byte of the call.
    instruction: usize,
    stack: usize,
    pointer: usize,
}

/// Memory that may be read.
#[derive(Clone, Copy)]
struct Stack {
    low: usize,
    high: usize,
}

impl Stack {
    fn read(self, at: usize) -> Option<usize> {
        let readable = at.is_multiple_of(8) && at >= self.low && at < self.high;
        // SAFETY: aligned, above the stack pointer, and a word below the top of our stack at most.
        readable.then(|| unsafe { (at as *const usize).read_volatile() })
    }
}

/// Fills in the callchain. Called from the signal handler.
pub fn walk(slot: &Slot, registers: Registers, sample: &mut Sample) {
    maps::keep_up(sample.time);
    push(sample, registers.instruction);
    let low = slot.stack_low.load(Relaxed);
    let high = slot.stack_high.load(Relaxed);
    if registers.stack < low || registers.stack >= high {
        return;
    }
    let stack = Stack { low: registers.stack, high: high - 8 };
    let unwind = &shared().unwind;
    let mut caller = unwind.caller(shared_address(registers.instruction));
    if caller == Caller::Unknown {
        guess_hidden_caller(registers, stack, sample);
    }
    let Registers { instruction, stack: pointer, frame } = registers;
    let mut at = Frame { instruction, stack: pointer, pointer: frame };
    loop {
        let next = match caller {
            Caller::By(rule) => by_rule(rule, at, stack),
            Caller::Nobody => None,
            Caller::Unknown => by_frame_pointer(at, stack),
        };
        let Some(next) = next.filter(|next| next.stack > at.stack) else { return };
        if sample.depth == MAX_FRAMES {
            sample.cut = true;
            return;
        }
        push(sample, next.instruction);
        at = next;
        caller = unwind.caller(shared_address(at.instruction));
    }
}

/// A return address points behind the call, possibly into the next line or function.
fn frame(return_address: usize, stack: usize, pointer: usize) -> Option<Frame> {
    const FIRST_PAGE: usize = 4096;
    (return_address >= FIRST_PAGE).then(|| Frame { instruction: return_address - 1, stack, pointer })
}

fn by_rule(rule: UnwindRule, at: Frame, stack: Stack) -> Option<Frame> {
    let from = if rule.from_frame_pointer { at.pointer } else { at.stack };
    let end = from.checked_add(rule.offset as usize)?;
    let saved = |below: u64| stack.read(end.checked_sub(below as usize)?);
    let pointer = match rule.saved {
        Some(below) => saved(below)?,
        None => at.pointer,
    };
    frame(saved(8)?, end, pointer)
}

fn by_frame_pointer(at: Frame, stack: Stack) -> Option<Frame> {
    if at.pointer < at.stack {
        return None;
    }
    let (pointer, return_address) = (stack.read(at.pointer)?, stack.read(at.pointer + 8)?);
    frame(return_address, at.pointer + 16, pointer)
}

/// Where nothing is known of the innermost function: the caller that it would hide if it had no frame pointer.
fn guess_hidden_caller(registers: Registers, stack: Stack, sample: &mut Sample) {
    let (code, frame) = (&shared().code, registers.frame);
    if code.is_outside(shared_address(registers.instruction)) {
        let end = stack.read(frame).map_or(stack.high, |_| frame);
        let first = registers.stack & !7;
        for at in (first..end).step_by(8).take(SEARCHED) {
            let Some(word) = stack.read(at) else { continue };
            if !code.is_outside(known_address(word)) {
                push(sample, word - 1);
                break;
            }
        }
    } else if let Some(top) = stack.read(registers.stack) {
        let known = stack.read(frame).is_some() && stack.read(frame + 8) == Some(top);
        if !known && !code.is_outside(known_address(top)) && is_behind_call(top, registers.instruction) {
            push(sample, top - 1);
        }
    }
}

/// Whether the instruction before `return_address` is a direct call of a function whose code `instruction` may be part of. Any number may look like a return
/// address: that of an image's first byte, or of code that was there and is mapped no more.
fn is_behind_call(return_address: usize, instruction: usize) -> bool {
    const CALL: u8 = 0xe8;
    const LONGEST_LEAF: usize = 16 * 1024;
    let Some([opcode, distance @ ..]) = sys::read_all::<5>(return_address.wrapping_sub(5)) else {
        return false;
    };
    let target = return_address.wrapping_add_signed(i32::from_le_bytes(distance) as isize);
    opcode == CALL && instruction.wrapping_sub(target) < LONGEST_LEAF
}

fn push(sample: &mut Sample, address: usize) {
    if sample.depth < MAX_FRAMES {
        sample.frames[sample.depth] = shared_address(address);
        sample.depth += 1;
    }
}
