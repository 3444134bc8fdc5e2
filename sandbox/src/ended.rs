//! Running processes to their ends.

use std::io::Write as _;
use std::ops::RangeInclusive;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A run that takes so long hangs.
pub const HANG: Duration = Duration::from_secs(100);

/// The exit statuses of `whatif` that mean *no answer*: the program itself succeeded, and this is what an answer lacks
/// (docs/using.md, "When there is no answer"). Whether a run has an answer depends on the machine, so a test whose subject is not the
/// answer takes all of them for success.
pub const NO_ANSWER: RangeInclusive<i32> = 94..=101;

/// How a process ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// What was run: to do the same by hand.
    pub command: String,
}

impl Ended {
    /// The exit status; none where a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Whether the program succeeded, with or without an answer ([`NO_ANSWER`]).
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code().is_some_and(|code| code == 0 || NO_ANSWER.contains(&code))
    }

    /// Checks that [it succeeded](Self::is_success).
    ///
    /// # Panics
    ///
    /// When it did not.
    #[track_caller]
    pub fn assert_success(self) -> Self {
        assert!(self.is_success(), "{self:#?}");
        self
    }

    /// Checks the exit status.
    ///
    /// # Panics
    ///
    /// When it is another one.
    #[track_caller]
    pub fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{self:#?}");
        self
    }
}

/// Runs a command to its end.
///
/// # Panics
///
/// When it cannot be started, or hangs.
#[track_caller]
pub fn run(command: Command) -> Ended {
    run_with(command, b"")
}

/// Runs a command to its end, with something on standard input.
///
/// # Panics
///
/// When it cannot be started, or hangs.
#[track_caller]
pub fn run_with(mut command: Command, input: &[u8]) -> Ended {
    let text = format!("{command:?}");
    // A group of its own, so that whatever hangs can be ended as a whole.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{text}: {error}"));
    let group = rustix::process::Pid::from_child(&child);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input); // a program need not read it
    });
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(HANG) {
        Ok(output) => {
            let output = output.unwrap();
            writer.join().unwrap();
            Ended {
                status: output.status,
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
                command: text,
            }
        }
        Err(_) => {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            panic!("{text} hangs (longer than {HANG:?})");
        }
    }
}
