//! Programs: what the processes of a run executed, and how much CPU time they took.

use crate::units::Nanos;

/// A program that processes of a run have executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its file, without links; empty for processes of which it is not known.
    pub path: String,
    /// Why it could not be followed; `None` for what was profiled.
    pub obstacle: Option<String>,
    /// The processes that ran it, as far as they were seen; forked ones count.
    pub processes: u64,
    /// The samples in them; zero where it was not followed.
    pub samples: u64,
    /// The CPU time that these samples stand for. Where it was not followed: what the kernel counted while it was looked at, which is at
    /// least so much.
    pub cpu: Nanos,
}

impl Program {
    /// Its file name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}
