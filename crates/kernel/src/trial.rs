//! Trying what the kernel allows, so that users do not find out in the middle of a run.

use crate::event::{Attributes, Where, open};
use std::io;

/// Whose time samples may be taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// The program's and what the kernel does for it.
    UserAndKernel,
    /// The program's only.
    User,
}

/// What perf lets this process sample of itself: an event on its CPU time is opened and closed again.
///
/// # Errors
/// The kernel's error for the lesser one of the two.
pub fn sampling() -> io::Result<Sampled> {
    let ourselves = Where::Thread(0);
    match open(&Attributes::task_clock(true), ourselves) {
        Ok(_) => Ok(Sampled::UserAndKernel),
        Err(_) => open(&Attributes::task_clock(false), ourselves).map(|_| Sampled::User),
    }
}

/// Whether system calls can be counted.
///
/// # Errors
/// `NotFound` where tracefs is not mounted, `PermissionDenied` where it may not be read, otherwise the kernel's error.
pub fn tracepoints() -> io::Result<()> {
    crate::visits::Counter::system_call(std::process::id(), "getppid").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_found_out_again_and_again() {
        let first = sampling();
        for _ in 0..100 {
            assert_eq!(sampling().ok(), first.as_ref().ok().copied());
        }
    }
}
