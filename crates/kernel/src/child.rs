//! Starting a program as if we were not there.

use crate::{clock, signals};
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts `command`, once. The child keeps `descriptor`, if there is one, under its number, and has the signal dispositions,
/// the signal mask and the timer slack that this process was itself started with. Other children do not get the descriptor.
///
/// Hold [`signals::AllBlocked`] around the call if this process handles signals: one that arrives between
/// `fork` and `exec` then waits and meets the child's dispositions, and not a copy of our handlers.
///
/// # Errors
/// Those of `fork` and `execve`.
pub fn spawn(mut command: Command, descriptor: Option<BorrowedFd<'_>>) -> io::Result<Child> {
    let number = descriptor.map(|descriptor| descriptor.as_raw_fd());
    let prepare = move || {
        if let Some(number) = number {
            // SAFETY: the descriptor is borrowed until `spawn` returns, and the closure goes with the
            // command before that.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        clock::restore_inherited_slack();
        signals::restore_inherited();
        Ok(())
    };
    // SAFETY: runs in the forked child, where only async-signal-safe calls are allowed: it makes system
    // calls and touches no lock and no allocator. (`sigaction` and the mask functions are on the list.)
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}
