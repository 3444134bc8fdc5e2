//! Threads: what each of a run's threads did while no experiment delayed it.

use crate::units::Nanos;

/// A thread of a run, over all windows without a speedup in which it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Its thread ID. Zero: all threads of the run that are not kept one by one.
    pub tid: u32,
    /// Its name, as the kernel has it; empty where it was not read in time.
    pub name: String,
    /// The outermost of the program's own functions on its stacks; empty where that is not known, or changes.
    pub function: String,
    /// The length of the windows in which it was looked at.
    pub watched: Nanos,
    /// Its CPU time in them.
    pub running: Nanos,
    /// How long it wanted a CPU that others had.
    pub runnable: Nanos,
    /// How long it waited for other threads of the program.
    pub for_threads: Nanos,
    /// How long it waited for something outside the program, or for a time.
    pub external: Nanos,
}

impl Thread {
    /// Whether it is the first thread of its process.
    pub fn is_main(&self) -> bool {
        self.tid != 0 && self.tid == self.pid
    }
}
