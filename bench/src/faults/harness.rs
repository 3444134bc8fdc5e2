//! Harness: the program that comes between a program and the kernel (`bench/c/faults.c`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::kinds::Fault;
use crate::calls;

/// How long anything may take to end.
const HANG: Duration = Duration::from_secs(60);
/// What it ends with when it is at fault itself.
const OWN_FAILURE: i32 = 125;

#[derive(Debug)]
pub struct Harness {
    program: PathBuf,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Harness {
    pub fn build() -> Result<Self> {
        Ok(Self { program: calls::build("faults")? })
    }

    /// How often a command makes each system call.
    pub fn count(&self, line: &Command, report: &Path) -> Result<(Ended, BTreeMap<String, usize>)> {
        let ended = self.run(&["count".into(), report.into()], line)?;
        let text = std::fs::read_to_string(report)?;
        let row = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        Ok((ended, text.lines().filter_map(row).collect()))
    }

    /// Comes between once. What was done is said in words, if the call was made so often.
    pub fn inject(
        &self,
        (call, fault, nth): (&str, Fault, usize),
        line: &Command,
        report: &Path,
    ) -> Result<(Ended, Option<String>)> {
        let mut words: Vec<OsString> = match fault {
            Fault::Error(error) => vec!["fail".into(), call.into(), error.into()],
            Fault::Cut => vec!["cut".into(), call.into()],
        };
        words.extend([nth.to_string().into(), report.into()]);
        let ended = self.run(&words, line)?;
        let done = std::fs::read_to_string(report)?;
        Ok((ended, Some(done.trim().to_owned()).filter(|done| !done.is_empty())))
    }

    /// Writes down what a command does to the files in a folder.
    pub fn log(&self, folder: &Path, line: &Command, report: &Path) -> Result<Ended> {
        self.run(&["log".into(), folder.into(), report.into()], line)
    }

    /// Stops an ext4 as if the power failed.
    pub fn power_off(&self, root: &Path) -> Result<()> {
        crate::program::output(Command::new(&self.program).arg("off").arg(root)).map(drop)
    }

    fn run(&self, words: &[OsString], line: &Command) -> Result<Ended> {
        let mut command = Command::new(&self.program);
        command.args(words).arg("--").arg(line.get_program()).args(line.get_args());
        command.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = limited(&mut command)?;
        ensure!(
            ended.status.code() != Some(OWN_FAILURE),
            "the harness itself failed: {}",
            ended.stderr.lines().next().unwrap_or_default()
        );
        Ok(ended)
    }
}

/// Runs a command that has to end in time, with everything that it has started.
pub fn limited(command: &mut Command) -> Result<Ended> {
    // Files, and not pipes: a program that is left running would keep a pipe open.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).process_group(0);
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let group = Pid::from_child(&child);
    let begin = Instant::now();
    let mut status = None;
    loop {
        status = status.or(child.try_wait()?);
        if status.is_some() && test_kill_process_group(group).is_err() {
            break;
        }
        if begin.elapsed() > HANG {
            let _ = kill_process_group(group, Signal::KILL);
            child.wait()?;
            let what = if status.is_some() { "something is left running" } else { "does not end" };
            bail!("{what}: {}", text(&mut stderr)?.trim());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = status.context("it has ended")?;
    Ok(Ended { status, stdout: text(&mut stdout)?, stderr: text(&mut stderr)? })
}

fn text(file: &mut File) -> Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
