//! Pieces of programs that read registers and stacks of processes, and write them into the ring of their CPU.

use crate::bpf::{Code, Condition, Label, Map, Operation, Register};
use crate::stream::MOST_COPIED;

const PAGE: i32 = 4096;

// Functions of the kernel (bpf-helpers(7)).
pub(crate) const MAP_LOOKUP: i32 = 1;
pub(crate) const SMP_PROCESSOR_ID: i32 = 8;
pub(crate) const CURRENT_PID_TGID: i32 = 14;
pub(crate) const PERF_EVENT_OUTPUT: i32 = 25;
pub(crate) const PROBE_READ_USER: i32 = 112;
pub(crate) const CURRENT_TASK: i32 = 158;
pub(crate) const TASK_REGISTERS: i32 = 175;

// Where `struct pt_regs` has them.
pub(crate) const FRAME_POINTER: i16 = 32;
pub(crate) const INSTRUCTION: i16 = 128;
pub(crate) const CODE_SEGMENT: i16 = 136;
pub(crate) const STACK_POINTER: i16 = 152;

// On the program's own stack.
pub(crate) const KEY: i16 = -4;
pub(crate) const SAVED_INSTRUCTION: i16 = -16;
pub(crate) const SAVED_FRAME_POINTER: i16 = -24;
const COPIED: i16 = -32;
const LENGTH: i16 = -40;

/// The value in a map of what was put into [`KEY`], or zero.
pub(crate) fn look_up<'a>(code: &mut Code<'a>, map: &'a Map) {
    code.map(Register::R1, map);
    code.register(Operation::Set, Register::R2, Register::R10);
    code.number(Operation::Add, Register::R2, KEY.into());
    code.call(MAP_LOOKUP);
}

/// Takes what is needed of a process's registers; goes to `end` if it does not run 64-bit code.
pub(crate) fn registers(code: &mut Code<'_>, from: Register, end: Label) {
    const USER_64_BIT: i32 = 0x33;
    code.load(Register::R1, from, CODE_SEGMENT);
    code.jump_if(Register::R1, Condition::NotEqual, USER_64_BIT, end);
    for (place, saved) in [(INSTRUCTION, SAVED_INSTRUCTION), (FRAME_POINTER, SAVED_FRAME_POINTER)] {
        code.load(Register::R1, from, place);
        code.store(Register::R10, saved, Register::R1);
    }
    code.load(Register::R7, from, STACK_POINTER);
}

/// Copies what is wanted of the stack (register 8 bytes from register 7 on) page by page to `header` bytes behind register 9, up to the last page that
/// is there: a large buffer has pages that nothing was written to yet. How many bytes that are, and which pages (a bit for each) are not there and
/// full of zeros, is written to register 9 as two numbers of 32 bits.
pub(crate) fn copy_stack(code: &mut Code<'_>, header: i32) {
    let copied = code.label();
    code.number(Operation::Set, Register::R1, 0);
    code.store(Register::R9, 0, Register::R1);
    code.store(Register::R10, COPIED, Register::R1);
    for page in 0..=MOST_COPIED as i32 / PAGE {
        copy_page(code, header, page, copied);
    }
    code.here(copied);
}

/// Copies up to the end of a page of the stack, or as much as is wanted; goes to `copied` if that is all.
fn copy_page(code: &mut Code<'_>, header: i32, page: i32, copied: Label) {
    use Operation::{Add, And, Or, Set, Subtract};
    use Register::{R0, R1, R2, R3, R4, R7, R8, R9, R10};
    let (whole, missing, next) = (code.label(), code.label(), code.label());
    code.load(R1, R10, COPIED);
    code.jump_if_register(R1, Condition::AtLeast, R8, copied);
    code.jump_if(R1, Condition::Above, MOST_COPIED as i32 - PAGE, copied);
    // Up to the end of the page.
    code.register(Set, R3, R7);
    code.register(Add, R3, R1);
    code.register(Set, R4, R3);
    code.number(And, R4, PAGE - 1);
    code.number(Set, R2, PAGE);
    code.register(Subtract, R2, R4);
    // As much as is wanted.
    code.register(Set, R4, R8);
    code.register(Subtract, R4, R1);
    code.jump_if_register(R4, Condition::AtLeast, R2, whole);
    code.register(Set, R2, R4);
    code.here(whole);
    code.jump_if(R2, Condition::Above, PAGE, copied);
    code.store(R10, LENGTH, R2);
    code.register(Add, R1, R9);
    code.number(Add, R1, header);
    code.call(PROBE_READ_USER);
    code.load(R1, R10, COPIED);
    code.load(R2, R10, LENGTH);
    code.register(Add, R1, R2);
    code.store(R10, COPIED, R1);
    code.jump_if(R0, Condition::NotEqual, 0, missing);
    code.store_half(R9, 0, R1);
    code.jump(next);
    code.here(missing);
    code.load_half(R1, R9, 4);
    code.number(Or, R1, 1 << page);
    code.store_half(R9, 4, R1);
    code.here(next);
}

/// Writes register 5 bytes at register 9 into the ring of this CPU; register 6 is what the program was called with. Register 0 is less than zero
/// if there is no room.
pub(crate) fn output<'a>(code: &mut Code<'a>, outputs: &'a Map) {
    /// `BPF_F_CURRENT_CPU`
    const THIS_CPU: u64 = 0xffff_ffff;
    code.register(Operation::Set, Register::R1, Register::R6);
    code.map(Register::R2, outputs);
    code.wide(Register::R3, THIS_CPU);
    code.register(Operation::Set, Register::R4, Register::R9);
    code.call(PERF_EVENT_OUTPUT);
}
