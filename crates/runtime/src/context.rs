//! What the kernel has saved of an interrupted thread: its registers.
//!
//! Reads them, for the callchain ([`callchain`](crate::callchain)) and to tell whether the thread gets anywhere
//! ([`spin`](crate::spin)); changes none of them.

use crate::callchain::Registers;

/// `ucontext_t`, as far as we need it: flags, link, stack (3 words), general registers.
#[repr(C)]
pub struct Context {
    head: [usize; 5],
    registers: [usize; 23],
    vectors: *const [[u64; 2]; 26],
}

impl Context {
    const RBP: usize = 10;
    const RCX: usize = 14;
    const RSP: usize = 15;
    const RIP: usize = 16;
    /// Where `xmm0` lies behind `vectors` (the layout of FXSAVE), in units of 16 bytes.
    const XMM: usize = 10;

    /// A thread at `instruction`, with `value` in a register.
    #[cfg(test)]
    pub fn at(instruction: usize, value: usize) -> Self {
        let mut registers = [0; 23];
        registers[Self::RIP] = instruction;
        registers[0] = value;
        Self { head: [0; 5], registers, vectors: core::ptr::null() }
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

    /// Whether the sample hit the kernel in a system call, which leaves its return address in `rcx`.
    pub fn in_system_call(&self) -> bool {
        self.registers[Self::RCX] == self.instruction()
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
            vectors[Self::XMM..].iter().flatten().fold(general, |hash, word| mix(hash, *word))
        })
    }
}
