//! Goroutines: Go's scheduler makes one ready and executes it without any system call.
//!
//! The controller has the functions that do so lead to [`_whatif_scheduler`] where they begin. Their thread has paid before another one may go on with what it
//! makes ready (rule 4), and before it goes on with another goroutine; and what a goroutine is about to do is known by what it was made ready for.

use crate::call_stack::{STACK, STACK_WITH_C};
use crate::{delay, stretch, tls};
use wire::late::SCHEDULER;

/// What is reached from where one of [`SCHEDULER`] begins, which goes on at the address in `r12`; its number is in `r13`. Leaves all other registers but `r11` as they were: `xmm15` is
/// zero in functions of Go, and the other vector registers have none of their arguments.
macro_rules! scheduler {
    ($stack:expr) => {
        core::arch::naked_asm!(
            "mov r11, qword ptr fs:[{stack}]",
            "cmp r11, 1",
            // It has no stack yet, or is on it.
            "jbe 2f",
            "mov qword ptr fs:[{stack}], 1",
            "mov qword ptr [r11 - 8], rsp",
            "lea rsp, [r11 - 8]",
            "push r11",
            "push rax",
            "push rcx",
            "push rdx",
            "push rsi",
            "push rdi",
            "push r8",
            "push r9",
            "push r10",
            "mov edi, r13d",
            "mov rsi, rax",
            "call {schedules}",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rdi",
            "pop rsi",
            "pop rdx",
            "pop rcx",
            "pop rax",
            "pop r11",
            "xorps xmm15, xmm15",
            "mov rsp, [rsp]",
            "mov qword ptr fs:[{stack}], r11",
            "2:",
            "jmp r12",
            stack = const $stack,
            schedules = sym schedules,
        )
    };
}

/// See [`scheduler`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_scheduler() {
    scheduler!(STACK)
}

/// See [`scheduler`]: the same in a program with glibc.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_scheduler_with_c() {
    scheduler!(STACK_WITH_C)
}

/// The scheduler is about to do what [`SCHEDULER`] has at `nth`, with a goroutine.
extern "C" fn schedules(nth: u32, goroutine: usize) {
    let Some(slot) = tls::slot() else { return };
    // One that makes another ready goes on.
    let next = if SCHEDULER[nth as usize % SCHEDULER.len()].goes_on { tls::goroutine() } else { goroutine };
    stretch::cross(slot, stretch::Call { function: FIRST + nth as usize, subject: next });
    delay::pay(slot);
}

/// What stands for the functions, which have other addresses in each program.
const FIRST: usize = 0x100;
