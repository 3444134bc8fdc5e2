//! A process of a soak: how it is started, and what the kernel says of it.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long a program may take to start another.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to end.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Asked to end when dropped, as a run passes on to its program; killed if it does not.
pub struct Process(Child);

impl Process {
    pub fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(command.stdin(Stdio::null()).spawn().with_context(|| format!("starting {command:?}"))?))
    }

    /// On a terminal of its own, which takes whatever is written to it.
    pub fn on_terminal(command: &mut Command) -> Result<Self> {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&terminal)?;
        unlockpt(&terminal)?;
        let name = ptsname(&terminal, Vec::new())?.into_string()?;
        let screen = || fs::File::options().read(true).write(true).open(&name);
        command.stdin(screen()?).stdout(screen()?).stderr(screen()?).env("TERM", "xterm-256color");
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut terminal = fs::File::from(terminal);
        std::thread::spawn(move || {
            let mut text = [0; 4096];
            while terminal.read(&mut text).is_ok_and(|read| read > 0) {}
        });
        Ok(Self(child))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.0.stderr.take()
    }

    /// The child of it that runs this program.
    pub fn child(&self, program: &Path) -> Result<u32> {
        let begin = Instant::now();
        let program = program.canonicalize()?;
        while begin.elapsed() < PATIENCE {
            for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
                // One may have ended meanwhile.
                let children = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
                let runs =
                    |pid: &&str| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
                if let Some(pid) = children.split_whitespace().find(runs) {
                    return Ok(pid.parse()?);
                }
            }
            sleep(Duration::from_millis(10));
        }
        bail!("{} was not started", program.display())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let begin = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begin.elapsed() < LAST_WORDS {
            sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the kernel says of a process.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Resident, in bytes: its own memory and that of files.
    memory: u64,
    descriptors: u64,
    threads: u64,
}

impl Reading {
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let number = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let line = line.with_context(|| format!("no {name} in the status of {pid}"))?;
            Ok(line.trim().trim_end_matches(" kB").parse()?)
        };
        ensure!(!status.contains("State:\tZ"), "it is a zombie");
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
        Ok(Self { memory: 1024 * number("VmRSS:")?, descriptors, threads: number("Threads:")? })
    }

    /// In megabytes, and numbers.
    #[expect(clippy::cast_precision_loss)]
    pub fn all(&self) -> [f64; 3] {
        [megabytes(self.memory), self.descriptors as f64, self.threads as f64]
    }
}

#[expect(clippy::cast_precision_loss)]
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
