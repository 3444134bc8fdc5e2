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
mod held;
mod preload;
mod target;
#[cfg(test)]
mod tests;
mod tree;

pub use child::{Child, Exit, wait_for_the_program};
pub use error::{LaunchError, Obstacle};
pub use executable::{Executable, Go, check, check_as_executed, check_to_start, is_go, is_marked, running};
pub use forward::{asked_to_end, descends, stay, wait_until_asked_to_end};
pub use held::Held;
pub use preload::first as first_of_preload;
pub use target::{Joined, Target};
pub use tree::Tree;

use kernel::SharedMapping;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd};
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

    begin(executable, || kernel::child::spawn(command, descriptor))
}

/// A program that is held, and what looks after it; or why it is not held.
pub type Begun<T> = anyhow::Result<(Held, T)>;

/// Starts a program that is held until the runtime has been put into it. `look_after` is called before it is held, and starts the process that lets the program go on, whatever becomes of
/// this one. None where the kernel does not allow that it is held; it goes on then, and also after an error.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_held<T>(
    executable: &Executable,
    arguments: &[OsString],
    look_after: impl FnOnce(&Held) -> anyhow::Result<T>,
) -> Result<(Child, Option<Begun<T>>), LaunchError> {
    let mut command = Command::new(executable.command());
    command.arg0(executable.name()).args(arguments);
    let mut begun = None;
    let place = executable.held_at();
    let child = begin(executable, || {
        kernel::child::spawn_stopped(command, |pid| {
            let hold = |place| {
                let held = Held::new(pid, place)?;
                let looked_after = look_after(&held)?;
                held.hold()?;
                Ok((held, looked_after))
            };
            begun = place.map(hold);
        })
    })?;
    Ok((child, begun))
}

fn begin(
    executable: &Executable,
    start: impl FnOnce() -> std::io::Result<std::process::Child>,
) -> Result<Child, LaunchError> {
    // Handled before there is a program: a signal may come as soon as there is one, in any of our threads.
    let signals = forward::handle().map_err(LaunchError::Watch)?;
    // Between `fork` and `exec` the program has copies of our handlers, so it must not get a signal there. The
    // threads that watch it need none either.
    let _blocked = kernel::signals::AllBlocked::new();
    let process = start().map_err(|error| LaunchError::Start { path: executable.command().into(), error })?;
    let child = match Child::watch(process) {
        Ok(child) => child,
        Err(error) => return Err(unwatched(error, child::wait_for_the_program)),
    };
    match forward::begin(signals, &child) {
        Ok(()) => Ok(child),
        Err(error) => Err(unwatched(error, || Some(child.wait()))),
    }
}

/// Starts a process of our own that looks after a program which has run before, by `command`.
///
/// # Errors
/// When the kernel refuses to start it, or us to watch it.
pub fn guard(
    command: Command,
) -> Result<(Child, Option<std::process::ChildStdin>, Option<std::process::ChildStdout>), LaunchError> {
    let signals = forward::handle().map_err(LaunchError::Watch)?;
    let guardian = guard_child(command, None)?;
    forward::begin(signals, &guardian.0).map_err(LaunchError::Watch)?;
    Ok(guardian)
}

/// The same for a program that is our child, to which signals are forwarded already; the guardian gets the memory that the program is to share.
///
/// # Errors
/// As [`guard`].
pub fn guard_child(
    command: Command,
    memory: Option<BorrowedFd<'_>>,
) -> Result<(Child, Option<std::process::ChildStdin>, Option<std::process::ChildStdout>), LaunchError> {
    let _blocked = kernel::signals::AllBlocked::new();
    let mut process = kernel::child::spawn(command, memory).map_err(LaunchError::Watch)?;
    let (input, output) = (process.stdin.take(), process.stdout.take());
    let child = Child::watch_guardian(process).map_err(LaunchError::Watch)?;
    Ok((child, input, output))
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
