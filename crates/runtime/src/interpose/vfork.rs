//! `vfork(2)`: the calling thread waits until its child has executed another program or has ended. The child has its memory, and its stack, meanwhile.
//!
//! The call returns twice on one stack, so no function can stand around it: the address to return to is kept in a register, as in the C library.

use crate::real::real;
use crate::{signals, stretch, wait};
use core::ffi::{c_int, c_long};

#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn vfork() {
    core::arch::naked_asm!(
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        // What the child calls is put where this address is now.
        "pop rdi",
        "mov eax, 58",
        "syscall",
        "push rdi",
        "test rax, rax",
        "jz 2f",
        "sub rsp, 8",
        "mov rdi, rax",
        "call {after}",
        "add rsp, 8",
        // With a shadow stack, `ret` is for one of the two only: `rdsspq rcx`, which does nothing without one, and `incsspq rcx`.
        "2:",
        "xor ecx, ecx",
        ".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc9",
        "test rcx, rcx",
        "jz 3f",
        "mov ecx, 1",
        ".byte 0xf3, 0x48, 0x0f, 0xae, 0xe9",
        "pop rdi",
        "jmp rdi",
        "3:",
        "ret",
        before = sym before,
        after = sym after,
    )
}

extern "C" fn before() {
    if let Some(slot) = signals::own_slot() {
        stretch::cross(slot, stretch::Call { function: vfork as *const () as usize, subject: 0 });
        wait::before_vfork(slot);
    }
}

/// In the parent. `result` is the kernel's; returns the C library's.
extern "C" fn after(result: c_long) -> c_int {
    if let Some(slot) = signals::own_slot() {
        wait::after_vfork(slot);
    }
    if result >= 0 {
        return result as c_int;
    }
    if let Some(place) = real!(__errno_location: fn() -> *mut c_int) {
        // SAFETY: the C library's place for the calling thread's `errno`.
        unsafe { *place() = -result as c_int };
    }
    -1
}
