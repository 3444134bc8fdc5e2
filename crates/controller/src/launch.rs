//! Starting the program, staying out of its way while it runs, and ending as it ended.
//!
//! sample → delay → **experiment** → record → profile → report
//!
//! # What it does
//!
//! [`check`] finds the program as a shell would and says what stands in the way of profiling it. [`spawn`]
//! starts it with the runtime preloaded. [`Child`] is waited for, and so is the [`Target`], where another program is profiled that the
//! child has started; what goes on after it is a [`Tree`]. [`finish`] hands its end on.
//!
//! # What it does not do
//!
//! Talk to the runtime, or print.
//!
//! # Constraints
//!
//! `whatif run -- program` must look to all other processes like `program`: the same terminal, the same process
//! group, the same signals, the same end. What is different is in the environment, and the runtime takes
//! that out again before the program's first instruction.

mod child;
mod error;
mod executable;
mod forward;
mod preload;
mod target;
#[cfg(test)]
mod tests;
mod tree;

pub use child::{Child, Exit, wait_for_the_program};
pub use error::LaunchError;
pub use executable::{Executable, check, check_as_executed};
pub use forward::{asked_to_end, descends, stay, wait_until_asked_to_end};
pub use preload::first as first_of_preload;
pub use target::Target;
pub use tree::Tree;

use kernel::SharedMapping;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What the program is started with.
#[derive(Clone, Copy, Debug)]
pub enum With<'a> {
    /// The memory that it shares with us: it is profiled. And where to ask what becomes of what it executes, if it is to ask.
    Memory(&'a SharedMapping, Option<&'a str>),
    /// The value of our variable, which says where to ask: it is followed.
    Socket(&'a str),
}

/// Starts the program with `runtime` (from [`embedded::unpack`](crate::embedded::unpack)) preloaded.
///
/// From here on this process does not react to the terminal's signals until the program has ended.
///
/// # Errors
/// When the kernel refuses to start it, or us to watch it.
pub fn spawn(
    executable: &Executable,
    arguments: &[OsString],
    runtime: &Path,
    with: With<'_>,
) -> Result<Child, LaunchError> {
    let (variable, descriptor) = match with {
        With::Memory(shared, asks) => {
            (format!("{}{}", shared.fd().as_raw_fd(), asks.unwrap_or_default()), Some(shared.fd()))
        }
        With::Socket(variable) => (variable.to_owned(), None),
    };
    let mut command = Command::new(executable.command());
    command
        .arg0(executable.name())
        .args(executable.leading_arguments())
        .args(arguments)
        .env("LD_PRELOAD", preload::of(executable, runtime))
        .env(wire::REGION_VARIABLE, variable);

    // Handled before there is a program: a signal may come as soon as there is one, in any of our threads.
    let signals = forward::handle().map_err(LaunchError::Watch)?;
    // Between `fork` and `exec` the program has copies of our handlers, so it must not get a signal there. The
    // threads that watch it need none either.
    let _blocked = kernel::signals::AllBlocked::new();
    let process = kernel::child::spawn(command, descriptor)
        .map_err(|error| LaunchError::Start { path: executable.command().into(), error })?;
    let child = match Child::watch(process) {
        Ok(child) => child,
        Err(error) => return Err(unwatched(error, child::wait_for_the_program)),
    };
    match forward::begin(signals, &child) {
        Ok(()) => Ok(child),
        Err(error) => Err(unwatched(error, || Some(child.wait()))),
    }
}

/// A program that has begun ends as it would have: its end is ours. Returns only if that cannot be known.
fn unwatched(error: std::io::Error, wait: impl FnOnce() -> Option<Exit>) -> LaunchError {
    let error = LaunchError::Watch(error);
    kernel::say!("whatif: {error}\nThe program runs unprofiled.");
    match wait() {
        Some(exit) => finish(exit),
        None => error,
    }
}

/// Ends this process as the program ended: with its code, or by its signal.
pub fn finish(exit: Exit) -> ! {
    match exit {
        Exit::Code(code) => std::process::exit(code),
        Exit::Signal(signal) => kernel::signals::die_by(signal),
    }
}
