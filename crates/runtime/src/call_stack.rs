//! The stack on which a thread of a program in Go makes its system calls: there may be too little room on that of a goroutine. See `interpose/by_number.rs`.

use core::arch::asm;

/// Where a thread has the end of our stack, from its thread pointer: zero before it has one, one while it is in use. In `m.tls`, behind the word for its slot.
pub const STACK: usize = 16;
/// The same in a program with glibc: in the padding of `tcbhead_t`, before the word for its slot.
pub const STACK_WITH_C: usize = 0x2b0;
/// Where a thread has that end, also while the stack is in use.
pub const END: usize = 24;
/// The same in a program with glibc.
pub const END_WITH_C: usize = 0x2a8;
/// How large it is, in bytes.
pub const SIZE: usize = 64 << 10;

/// Whether the calling thread of a program in Go with C code is on that stack. Only in such programs.
pub fn is_here() -> bool {
    let here = 0_u8;
    end_with_c().wrapping_sub((&raw const here).addr()) < SIZE
}

/// The calling thread's end of it, in such a program; zero if it has none.
fn end_with_c() -> usize {
    let end: usize;
    // SAFETY: reads a word that glibc has for nothing.
    unsafe {
        asm!("mov {end}, qword ptr fs:[{place}]", end = out(reg) end, place = const END_WITH_C, options(nostack, readonly));
    }
    end
}

/// Where it begins, if the calling thread has one, which makes no such calls any more. Only in such programs.
pub fn take_away() -> Option<usize> {
    let end = end_with_c();
    // SAFETY: the thread's own words; nothing is on the stack.
    unsafe {
        asm!("mov qword ptr fs:[{place}], {zero}", place = const STACK_WITH_C, zero = in(reg) 0_usize, options(nostack));
        asm!("mov qword ptr fs:[{place}], {zero}", place = const END_WITH_C, zero = in(reg) 0_usize, options(nostack));
    }
    end.checked_sub(SIZE)
}
