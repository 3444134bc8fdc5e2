//! Starting a program as if we were not there.

use crate::cpu::field_of;
use crate::{clock, signals, tracee};
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
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
pub fn spawn(command: Command, descriptor: Option<BorrowedFd<'_>>) -> io::Result<Child> {
    start(command, descriptor, false)
}

/// The same for a program that `prepare` does something with before its first instruction: its process is stopped meanwhile. Where the kernel refuses that, the program
/// runs without.
///
/// # Errors
/// Those of `fork` and `execve`.
pub fn spawn_stopped(command: Command, prepare: impl FnOnce(u32)) -> io::Result<Child> {
    let child = start(command, None, true)?;
    if is_traced_by_us(child.id()) && tracee::wait_for_program(child.id()).is_ok() {
        prepare(child.id());
        // It has ended, if this fails.
        let _ = tracee::detach(child.id());
    }
    Ok(child)
}

fn is_traced_by_us(child: u32) -> bool {
    let tracer = field_of(&format!("/proc/{child}/status"), "TracerPid:");
    tracer.and_then(|number| number.parse().ok()) == Some(std::process::id())
}

/// A descriptor that this process was started with.
///
/// # Errors
/// There is none of that number.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: only borrowed for the copy.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    descriptor.try_clone_to_owned()
}

fn start(mut command: Command, descriptor: Option<BorrowedFd<'_>>, is_traced: bool) -> io::Result<Child> {
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
        if is_traced {
            tracee::be_traced();
        }
        Ok(())
    };
    // SAFETY: runs in the forked child, where only async-signal-safe calls are allowed: it makes system
    // calls and touches no lock and no allocator. (`sigaction` and the mask functions are on the list.)
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}
