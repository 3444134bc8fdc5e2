//! What the kernel has saved of an interrupted thread: its registers.
//!
//! Reads them, for the callchain ([`callchain`](crate::callchain)) and to tell whether the thread gets anywhere
//! ([`spin`](crate::spin)). The mask is changed where a handler of the program's has to wait
//! ([`deferral`](crate::deferral)), and the result of a system call that goes on in the handler ([`Context::go_on_with_call`]).

use crate::callchain::Registers;
use crate::sys;

/// `ucontext_t`: flags, link, stack (3 words), general registers, vector registers, reserved words, blocked signals.
#[repr(C)]
pub struct Context {
    head: [usize; 5],
    registers: [usize; 23],
    vectors: *const [[u64; 2]; 32],
    reserved: [usize; 8],
    mask: u64,
}

impl Context {
    const RBP: usize = 10;
    const RDX: usize = 12;
    const RAX: usize = 13;
    const RCX: usize = 14;
    const RSP: usize = 15;
    const RIP: usize = 16;
    /// Where `xmm0` lies behind `vectors` (the layout of FXSAVE), in units of 16 bytes.
    const XMM: usize = 10;
    const XMM_REGISTERS: usize = 16;
    /// Where the kernel says how much it has saved behind `vectors`, in units of 16 bytes.
    const SAVED: usize = 29;

    /// A thread at `instruction`, with `value` in a register.
    #[cfg(test)]
    pub fn at(instruction: usize, value: usize) -> Self {
        let mut registers = [0; 23];
        registers[Self::RIP] = instruction;
        registers[0] = value;
        Self { head: [0; 5], registers, vectors: core::ptr::null(), reserved: [0; 8], mask: 0 }
    }

    /// The same with its stack pointer there.
    #[cfg(test)]
    pub fn with_stack(mut self, pointer: usize) -> Self {
        self.registers[Self::RSP] = pointer;
        self
    }

    /// The interrupted stack pointer.
    pub fn stack(&self) -> usize {
        self.registers[Self::RSP]
    }

    /// The interrupted instruction.
    pub fn instruction(&self) -> usize {
        self.registers[Self::RIP]
    }

    /// The third argument of a function at whose first instruction the thread is.
    pub fn third_argument(&self) -> usize {
        self.registers[Self::RDX]
    }

    /// The signals that the thread has blocked when it goes on.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Sets them.
    pub fn set_mask(&mut self, mask: u64) {
        self.mask = mask;
    }

    /// Where the other stack for signal handlers begins that the thread has, and how large it is: zero if it has none.
    pub fn other_stack(&self) -> (usize, usize) {
        (self.head[2], self.head[4])
    }

    /// How many bytes of the stack the kernel has taken to save all this, and skipped.
    pub fn size_on_stack(&self) -> usize {
        /// `FP_XSTATE_MAGIC1`: more is saved than FXSAVE does, and how much follows.
        const MORE: u32 = 0x4650_5853;
        /// Below the interrupted stack pointer are 128 bytes that may be in use, and what is saved is aligned.
        const SKIPPED: usize = 256;
        /// Behind `ucontext_t` there is a `siginfo_t`.
        const PLAIN: usize = 1024;
        // SAFETY: null, or the 512 bytes that the kernel saved on the signal stack.
        let Some(vectors) = (unsafe { self.vectors.as_ref() }) else { return PLAIN };
        let saved = vectors[Self::SAVED][0];
        let length = if saved as u32 == MORE { (saved >> 32) as usize } else { size_of_val(vectors) };
        core::ptr::from_ref(vectors).addr() + length + SKIPPED - core::ptr::from_ref(self).addr()
    }

    /// Whether the sample hit the kernel in a system call, which leaves its return address in `rcx`.
    pub fn in_system_call(&self) -> bool {
        self.registers[Self::RCX] == self.instruction()
    }

    /// At the end of a handler of ours: a thread that was stopped in a wait with a time limit, by a tracer or by `SIGSTOP`, and came here when it was about to go on with it
    /// (restart_syscall(2)). When the handler returns the kernel forgets what that was, and the wait would fail with `EINTR`: so it goes on here, as if the handler had
    /// returned. Returns whether there was such a wait.
    pub fn go_on_with_call(&mut self) -> bool {
        const RESTART: usize = 219;
        const INSTRUCTION: [u8; 2] = [0x0f, 0x05];
        let is_call =
            self.registers[Self::RAX] == RESTART && sys::read_all(self.instruction()) == Some(INSTRUCTION);
        if is_call {
            sys::restore_mask(self.mask);
            self.registers[Self::RAX] = sys::restart() as usize;
            self.registers[Self::RIP] += INSTRUCTION.len();
        }
        is_call
    }

    /// Where the walk along the stack begins.
    pub fn registers(&self) -> Registers {
        Registers { instruction: self.instruction(), stack: self.stack(), frame: self.registers[Self::RBP] }
    }

    /// A hash of all registers that code computes with (the general ones and `xmm0` to `xmm15`).
    pub fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let general = self.registers[..Self::RIP].iter().fold(1, |hash, word| mix(hash, *word as u64));
        // SAFETY: null, or the 512 bytes that the kernel saved on the signal stack.
        let vectors = unsafe { self.vectors.as_ref() };
        vectors.map_or(general, |vectors| {
            vectors[Self::XMM..][..Self::XMM_REGISTERS]
                .iter()
                .flatten()
                .fold(general, |hash, word| mix(hash, *word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_is_about_to_go_on_goes_on() {
        const EINTR: i64 = -4;
        const CODE: [u8; 3] = [0x0f, 0x05, 0xc3];
        let start = CODE.as_ptr().addr();
        let at = |instruction, result| {
            let mut context = Context::at(instruction, 0);
            context.registers[Context::RAX] = result;
            context
        };
        for (instruction, result) in [(start, 218), (start + 1, 219), (8, 218)] {
            assert!(!at(instruction, result).go_on_with_call());
        }
        let mut call = at(start, 219);
        assert!(call.go_on_with_call());
        // There is none here to go on with.
        assert_eq!((call.registers[Context::RAX] as i64, call.instruction()), (EINTR, start + 2));
    }
}
