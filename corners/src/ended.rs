//! Running a command to its end.

use std::io::{self, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// What it was.
    pub command: String,
    /// How it ended; `None` if it took more than its time, and was killed.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ended {
    /// The status that it ended with, if no signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status?.code()
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status?.signal()
    }
}

fn all(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // What cannot be read any more was not said.
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs it until it and all that has its output have ended, at most for `limit`.
pub fn run(mut command: Command, limit: Duration) -> io::Result<Ended> {
    let text = format!("{command:?}");
    // A group of its own, so that what hangs can be ended as a whole.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let group = rustix::process::Pid::from_child(&child);
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("the command has no output"));
    };
    let (sender, receiver) = mpsc::channel();
    let out = thread::spawn(move || all(stdout));
    let err = thread::spawn(move || all(stderr));
    let waiter = thread::spawn(move || {
        let status = child.wait();
        let said = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
        // The receiver may be gone.
        let _ = sender.send(());
        (status, said)
    });
    let in_time = receiver.recv_timeout(limit).is_ok();
    if !in_time {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        // A process that has left the group may still have the output.
        if receiver.recv_timeout(Duration::from_secs(5)).is_err() {
            return Ok(Ended { command: text, status: None, stdout: String::new(), stderr: String::new() });
        }
    }
    let (status, (stdout, stderr)) =
        waiter.join().map_err(|_| io::Error::other("the thread that waits for the command has panicked"))?;
    let status = status?;
    Ok(Ended { command: text, status: in_time.then_some(status), stdout, stderr })
}
