//! System calls of programs that make them by themselves, without a C library (Go): by their numbers, to the function that stands for each.
//!
//! The controller has the `syscall` instructions of such a program lead to [`_whatif_system_call`]. There may be too little room on the stack that they are made on, so each thread
//! has one of ours, at a word that nothing else uses. What is made while that is in use (by a handler of a signal, which interrupts a wait) goes straight to the kernel.
//!
//! A program in Go with C code makes system calls by itself, too, and has a C library besides, whose functions lead to ours as well. Which calls come from here is known by the stack
//! ([`is_here`](crate::call_stack::is_here)): what they go on to is the system call itself, and not the library's function, which has an `errno` and may be where a thread is cancelled.

use super::table::Ptr;
use super::{connect, descriptors, futex, table, timers};
use crate::call_stack::{END, END_WITH_C, SIZE, STACK, STACK_WITH_C};
use crate::{epoll, signals};
use core::ffi::c_int;

/// What is reached from a `syscall` instruction with all registers as for the kernel, and the address to go on at in `rcx`; leaves all as the kernel does.
macro_rules! system_call {
    ($stack:expr, $end:expr) => {
        core::arch::naked_asm!(
            "mov r11, qword ptr fs:[{stack}]",
            "cmp r11, 1",
            "je 5f",
            "jb 4f",
            "2:",
            "mov qword ptr fs:[{stack}], 1",
            "mov qword ptr fs:[{end}], r11",
            "mov qword ptr [r11 - 8], rsp",
            "lea rsp, [r11 - 8]",
            "push rcx",
            "push r11",
            "push rdx",
            "push rsi",
            "push rdi",
            "push r8",
            "push r9",
            "push r10",
            "sub rsp, 256",
            "movups [rsp], xmm0",
            "movups [rsp + 16], xmm1",
            "movups [rsp + 32], xmm2",
            "movups [rsp + 48], xmm3",
            "movups [rsp + 64], xmm4",
            "movups [rsp + 80], xmm5",
            "movups [rsp + 96], xmm6",
            "movups [rsp + 112], xmm7",
            "movups [rsp + 128], xmm8",
            "movups [rsp + 144], xmm9",
            "movups [rsp + 160], xmm10",
            "movups [rsp + 176], xmm11",
            "movups [rsp + 192], xmm12",
            "movups [rsp + 208], xmm13",
            "movups [rsp + 224], xmm14",
            "movups [rsp + 240], xmm15",
            "push r9",
            "push r8",
            "push r10",
            "push rdx",
            "push rsi",
            "push rdi",
            "push rax",
            "mov rdi, rsp",
            "call {by_number}",
            "add rsp, 56",
            "movups xmm0, [rsp]",
            "movups xmm1, [rsp + 16]",
            "movups xmm2, [rsp + 32]",
            "movups xmm3, [rsp + 48]",
            "movups xmm4, [rsp + 64]",
            "movups xmm5, [rsp + 80]",
            "movups xmm6, [rsp + 96]",
            "movups xmm7, [rsp + 112]",
            "movups xmm8, [rsp + 128]",
            "movups xmm9, [rsp + 144]",
            "movups xmm10, [rsp + 160]",
            "movups xmm11, [rsp + 176]",
            "movups xmm12, [rsp + 192]",
            "movups xmm13, [rsp + 208]",
            "movups xmm14, [rsp + 224]",
            "movups xmm15, [rsp + 240]",
            "add rsp, 256",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rdi",
            "pop rsi",
            "pop rdx",
            "pop r11",
            "pop rcx",
            // Before others may use it.
            "mov rsp, [rsp]",
            "mov qword ptr fs:[{stack}], r11",
            "jmp rcx",
            // The thread's first call: it gets a stack.
            "4:",
            "push rcx",
            "push rax",
            "push rdi",
            "push rsi",
            "push rdx",
            "push r10",
            "push r8",
            "push r9",
            "mov eax, 9",
            "xor edi, edi",
            "mov esi, {size}",
            "mov edx, 3",
            "mov r10d, 0x22",
            "mov r8, -1",
            "xor r9d, r9d",
            "syscall",
            "lea r11, [rax + {size}]",
            "cmp rax, -4096",
            "pop r9",
            "pop r8",
            "pop r10",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "pop rax",
            "pop rcx",
            "jbe 2b",
            "5:",
            "push rcx",
            "syscall",
            "ret",
            stack = const $stack,
            size = const SIZE,
            end = const $end,
            by_number = sym by_number,
        )
    };
}

/// See [`system_call`].
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_system_call() {
    system_call!(STACK, END)
}

/// See [`system_call`]: the same in a program with glibc.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_system_call_with_c() {
    system_call!(STACK_WITH_C, END_WITH_C)
}

/// `syscall` of a program that has no such function: returns what the kernel does.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn _whatif_plain_call() {
    core::arch::naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, qword ptr [rsp + 8]",
        "syscall",
        "ret",
    )
}

/// Does what the function of the C library does that makes this call; returns what the kernel does.
///
/// # Safety
/// The program's own system call.
unsafe extern "C" fn by_number(words: &[i64; 7]) -> i64 {
    let [number, a, b, c, d, e, f] = *words;
    let at = |word: i64| -> Ptr { core::ptr::with_exposed_provenance_mut(word as usize) };
    let (fd, size) = (a as c_int, c as usize);
    // SAFETY: the caller vouches for the arguments, of which the functions demand what the kernel does.
    unsafe {
        match number {
            0 => timers::read(fd, at(b), size) as i64,
            1 => table::write(fd, at(b), size) as i64,
            // A child that has this thread's memory until it executes a program has descriptors of its own.
            3 if signals::own_slot().is_some() => descriptors::close(fd).into(),
            7 => table::poll(at(a), b as usize, c as c_int).into(),
            17 => table::pread64(fd, at(b), size, d) as i64,
            18 => table::pwrite64(fd, at(b), size, d) as i64,
            19 => table::readv(fd, at(b), c as c_int) as i64,
            20 => table::writev(fd, at(b), c as c_int) as i64,
            24 => table::sched_yield().into(),
            35 => table::nanosleep(at(a), at(b)).into(),
            42 => connect::connect(fd, at(b), c as u32).into(),
            43 => connect::accept(fd, at(b), at(c)).into(),
            44 => table::sendto(fd, at(b), size, d as c_int, at(e), f as u32) as i64,
            45 => table::recvfrom(fd, at(b), size, d as c_int, at(e), at(f)) as i64,
            46 => table::sendmsg(fd, at(b), c as c_int) as i64,
            47 => table::recvmsg(fd, at(b), c as c_int) as i64,
            61 => table::wait4(fd, at(b), c as c_int, at(d)).into(),
            62 => table::kill(fd, b as c_int).into(),
            74 => table::fsync(fd).into(),
            75 => table::fdatasync(fd).into(),
            232 => table::epoll_wait(fd, at(b), c as c_int, d as c_int).into(),
            233 => epoll::epoll_ctl(fd, b as c_int, c as c_int, at(d)).into(),
            234 => table::tgkill(fd, b as c_int, c as c_int).into(),
            // The C library's function does not say how large the mask is.
            281 if e == 0 => table::epoll_pwait(fd, at(b), c as c_int, d as c_int, at(e).cast()).into(),
            288 => connect::accept4(fd, at(b), at(c), d as c_int).into(),
            _ => futex::syscall(number, a, b, c, d, e, f),
        }
    }
}
