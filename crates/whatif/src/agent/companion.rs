//! Companion: another command of ours that runs as long as the agent does: the collector, and the sender. One that ends is started again, later each time.

use super::back_off::BackOff;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What says to a companion that it ends when the process of this number has ended.
const PARENT: &str = "WHATIF_ENDS_WITH";
/// How long is waited before one is started again; and at most.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// One that has run for so long went well.
const LONG: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Debug)]
pub struct Companion {
    /// What it is called, for people.
    pub name: &'static str,
    arguments: Vec<String>,
    /// It is started when this is there.
    needs: Option<PathBuf>,
    child: Option<(Child, Instant)>,
    back_off: BackOff,
    begin: Instant,
    /// How often it has ended, and how it did the last time.
    pub ends: u32,
    pub error: Option<String>,
}

impl Companion {
    pub fn new(name: &'static str, arguments: Vec<String>, needs: Option<PathBuf>) -> Self {
        let back_off = BackOff::new(FIRST, LONGEST);
        Self { name, arguments, needs, child: None, back_off, begin: Instant::now(), ends: 0, error: None }
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Starts it if it does not run, unless that was tried just now; what is to be said.
    pub fn step(&mut self) -> Option<String> {
        let now = self.begin.elapsed();
        let Some((child, begun)) = &mut self.child else {
            let may_start = self.needs.as_ref().is_none_or(|path| path.exists());
            if may_start && self.back_off.left(now).is_none() {
                match self.start() {
                    Ok(child) => self.child = Some((child, Instant::now())),
                    Err(error) => return Some(self.failed(now, error.to_string())),
                }
            }
            return None;
        };
        if begun.elapsed() >= LONG && self.back_off.steps() > 0 {
            self.back_off = BackOff::new(FIRST, LONGEST);
            self.error = None;
        }
        let ended = match child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => format!("has ended with {status}"),
            Err(error) => error.to_string(),
        };
        self.child = None;
        self.ends += 1;
        Some(self.failed(now, ended))
    }

    fn failed(&mut self, now: Duration, why: String) -> String {
        let wait = self.back_off.fail(now);
        let text = format!("{} {why}; it is started again in {} s", self.name, wait.as_secs());
        self.error = Some(why);
        text
    }

    fn start(&self) -> std::io::Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("whatif").args(&self.arguments).env(PARENT, std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        if let Some((child, _)) = &self.child {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
    }

    /// Waits for its end, but not for longer than until then.
    pub fn wait_until(&mut self, until: Instant) {
        const MOMENT: Duration = Duration::from_millis(10);
        let Some((mut child, _)) = self.child.take() else { return };
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() >= until {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(MOMENT);
        }
    }
}

/// Has this process end when what has started it ends, if it is a companion. Called first of all.
pub fn ends_with_its_parent() {
    let Some(parent) = std::env::var(PARENT).ok().and_then(|number| number.parse::<i32>().ok()) else {
        return;
    };
    let is_there = || getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent);
    // It may have ended between the two.
    if set_parent_process_death_signal(Some(Signal::TERM)).is_err() || !is_there() {
        std::process::exit(0);
    }
}
