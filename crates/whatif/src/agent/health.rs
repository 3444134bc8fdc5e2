//! Health: a command that says by its exit status whether a service is well, run again and again.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A command that takes longer has failed.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Time between the end of one and the begin of the next.
const REST: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct Health {
    command: String,
    timeout: Duration,
    running: Option<(Child, Instant)>,
    ended: Option<Instant>,
    /// Whether it has succeeded since [`begin`](Self::begin).
    is_known: bool,
}

impl Health {
    pub fn new(command: String) -> Self {
        Self { command, timeout: TIMEOUT, running: None, ended: None, is_known: false }
    }

    pub fn command(&self) -> &str {
        &self.command
    }

    /// A session is about to begin: what was before says nothing.
    pub fn begin(&mut self) {
        self.end();
        (self.ended, self.is_known) = (None, false);
    }

    /// Whether the service was well when it was last asked.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Begins the command if it is time, and looks whether it has ended; why the service is not well. Waits for nothing.
    pub fn step(&mut self) -> Option<String> {
        let now = Instant::now();
        let Some((child, begun)) = &mut self.running else {
            if self.ended.is_none_or(|ended| now.duration_since(ended) >= REST) {
                match self.start() {
                    Ok(child) => self.running = Some((child, now)),
                    Err(error) => {
                        self.ended = Some(now);
                        return Some(format!("'{}' cannot be started: {error}", self.command));
                    }
                }
            }
            return None;
        };
        let is_late = now.duration_since(*begun) >= self.timeout;
        let status = match exit_of(child) {
            Ok(None) if !is_late => return None,
            Ok(None) => Err(format!("takes longer than {} s", self.timeout.as_secs_f64())),
            Ok(Some(status)) => Ok(status),
            Err(error) => Err(error.to_string()),
        };
        self.end();
        self.ended = Some(now);
        match status {
            Ok(status) if status.success() => {
                self.is_known = true;
                None
            }
            Ok(status) => Some(format!("'{}' ends with {status}", self.command)),
            Err(why) => Some(format!("'{}' {why}", self.command)),
        }
    }

    /// Ends the command if it runs, with all that it has started in its group.
    pub fn end(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            let group = Pid::from_child(&child);
            // Also where the shell has ended: what it has left behind is in its group, and until it is waited for no other group has its number.
            let _ = kill_process_group(group, Signal::KILL);
            // It may be in a call that nothing ends, such as one to a file server that is away.
            let waits = move || drop(child.wait());
            let _ = std::thread::Builder::new().name("health".into()).spawn(waits);
        }
    }

    fn start(&self) -> io::Result<Child> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &self.command]).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    }
}

/// How a command has ended, if it has; it is not waited for, so that its number stays its own.
fn exit_of(child: &Child) -> io::Result<Option<ExitStatus>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let ended = waitid(WaitId::Pid(Pid::from_child(child)), options)?;
    Ok(ended.map(|status| {
        let raw = status.exit_status().map(|code| code << 8).or(status.terminating_signal());
        ExitStatus::from_raw(raw.unwrap_or(0))
    }))
}

impl Drop for Health {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the first answer is.
    fn answer(health: &mut Health) -> Result<(), String> {
        loop {
            match health.step() {
                Some(why) => return Err(why),
                None if health.is_known() => return Ok(()),
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn the_exit_status_counts_and_so_does_the_time() {
        assert_eq!(answer(&mut Health::new("true".into())), Ok(()));
        let failed = answer(&mut Health::new("exit 3".into())).unwrap_err();
        assert!(failed.contains("'exit 3' ends with exit status: 3"), "{failed}");
        let mut slow = Health::new("sleep 1000".into());
        slow.timeout = Duration::from_millis(50);
        let late = answer(&mut slow).unwrap_err();
        assert!(late.contains("takes longer than 0.05 s"), "{late}");
        // What a command has started ends with it, whether it has been waited for or not.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("number");
        let command = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}", file.display());
        assert_eq!(answer(&mut Health::new(command)), Ok(()));
        let number = std::fs::read_to_string(file).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", number.trim()));
        while state().is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
        // What it said before is forgotten.
        let mut health = Health::new("true".into());
        answer(&mut health).unwrap();
        health.begin();
        assert!(!health.is_known());
    }
}
