//! Probes that are guarded by a semaphore: it is counted up in the processes in which breakpoints watch them, and down when those are taken away, also in
//! what these processes have forked meanwhile. Where the kernel watches them by uprobes it does that itself, in all
//! processes of the machine that run the file.
//!
//! A controller that is killed leaves a semaphore as it is: until the process ends, it prepares what the probe would tell.

use kernel::semaphore::Semaphore;
use kernel::visits::{self, Means};
use std::collections::HashSet;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use wire::slot::Slot;
use wire::{Address, SharedMemory};

/// Whether guarded probes are watched by uprobes where those are to be had: breakpoints slow down the code beside them on this CPU, and probes are put into hot code. Otherwise a
/// breakpoint is better: a uprobe counts what others execute as well.
pub fn prefers_uprobes() -> bool {
    static PREFERS: OnceLock<bool> = OnceLock::new();
    *PREFERS.get_or_init(|| {
        visits::slowdown_beside().is_ok_and(|factor| factor > 1.0) && visits::cost(Means::Uprobe).is_ok()
    })
}

/// One that has been counted up, until this is dropped.
#[derive(Debug)]
pub struct Guard {
    memory: &'static SharedMemory,
    /// Which of the executed programs; zero for the first one.
    program: u32,
    address: Address,
    raised: Vec<Semaphore>,
    /// The processes in which it was, or could not be.
    looked_at: HashSet<u32>,
}

impl Guard {
    /// Counts it up in these processes of a program, of which the first one must be there.
    ///
    /// # Errors
    /// As for [`Semaphore::of`].
    pub fn raise(
        memory: &'static SharedMemory,
        program: u32,
        pids: &[u32],
        address: Address,
    ) -> io::Result<Self> {
        let mut guard = Self { memory, program, address, raised: Vec::new(), looked_at: HashSet::new() };
        for (nth, pid) in pids.iter().enumerate() {
            let raised = Semaphore::of(*pid, address).and_then(|semaphore| {
                semaphore.up()?;
                Ok(semaphore)
            });
            guard.looked_at.insert(*pid);
            match raised {
                Ok(semaphore) => guard.raised.push(semaphore),
                Err(error) if nth == 0 => return Err(error),
                Err(_) => {}
            }
        }
        Ok(guard)
    }

    /// Processes of the program that were not there when it was counted up.
    fn forked_since(&self) -> HashSet<u32> {
        let is_its = |slot: &&Slot| {
            slot.is_taken()
                && slot.tid.load(Ordering::Acquire) != 0
                && slot.generation.load(Ordering::Relaxed) == self.program
        };
        let slots = self.memory.slots.used().iter().filter(is_its);
        let pids = slots.map(|slot| slot.pid.load(Ordering::Relaxed));
        pids.filter(|pid| *pid != 0 && !self.looked_at.contains(pid)).collect()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(file) = self.raised.first().map(Semaphore::file) else { return };
        // Parents first: what they fork from now on is as it was.
        self.raised.iter().for_each(|semaphore| drop(semaphore.down()));
        loop {
            let forked = self.forked_since();
            if forked.is_empty() {
                return;
            }
            for pid in forked {
                self.looked_at.insert(pid);
                let theirs = Semaphore::of(pid, self.address).ok().filter(|theirs| theirs.file() == file);
                let _ = theirs.map(|semaphore| semaphore.down());
            }
        }
    }
}
