//! The selected region: is a thread in it?
//!
//! Asks the experiment about a callchain; which code the region is, the controller has chosen.

use crate::callchain::{self, Registers};
use crate::memory::shared;
use wire::ring::Sample;
use wire::slot::Slot;
use wire::{Address, Epoch, Nanos};

/// Whether the selected region has called the function of ours that asks. Called from interposed functions.
pub fn has_called(slot: &Slot, epoch: Epoch) -> bool {
    let (instruction, stack, frame): (usize, usize, usize);
    // SAFETY: reads registers. What they point to is only read within the thread's stack.
    unsafe {
        core::arch::asm!(
            "lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
            out(reg) instruction, out(reg) stack, out(reg) frame,
            options(nomem, nostack, preserves_flags),
        );
    }
    let mut sample = Sample::new(Nanos::ZERO, Nanos::ZERO);
    callchain::walk(slot, Registers { instruction, stack, frame }, &mut sample);
    owns(sample.callchain(), epoch)
}

/// Whether a sample with this callchain belongs to the selected region. Called from the signal handler.
pub fn owns(callchain: &[Address], epoch: Epoch) -> bool {
    let memory = shared();
    memory.experiments.of(epoch).owns(&memory.code, callchain)
}
