//! One run of a command, and what it took.

use super::cli::Ab;
use anyhow::{Context as _, Result, bail, ensure};
use profile::{PointKind, Recording};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What one run took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Taken {
    /// A run that ended by itself.
    Whole {
        /// From its start to its end.
        time: Duration,
        cpu: Duration,
        /// The most resident memory, in bytes.
        memory: u64,
    },
    /// A run that was counted for a while: the mean time between two visits, in seconds.
    Counted { period: f64 },
}

/// Runs commands in one way.
pub struct Runner<'a> {
    args: &'a Ab,
    /// How long each run is counted; `None` where runs end by themselves.
    counted: Option<Duration>,
    /// Where recordings are that nobody else sees.
    folder: tempfile::TempDir,
}

impl<'a> Runner<'a> {
    pub fn new(args: &'a Ab) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder; check TMPDIR")?;
        Ok(Self { args, counted: args.counted(), folder })
    }

    pub fn run(&self, command: &[String]) -> Result<Taken> {
        match self.counted {
            None => self.whole(command),
            Some(time) => self.count(command, time),
        }
    }

    fn whole(&self, command: &[String]) -> Result<Taken> {
        let begin = Instant::now();
        let child = self.quiet(Command::new(&command[0]).args(&command[1..]), false).spawn();
        let child = child.with_context(|| {
            format!(
                "{} cannot be started; check the name, or give the way to it",
                controller::command(&command[..1])
            )
        })?;
        let (status, used) = kernel::usage::wait(child).context("the program's end was not seen")?;
        let time = begin.elapsed();
        ensure!(
            status.success(),
            "{} {}: only runs that succeed are compared; see what it says with --show-output, or wrap it: sh -c '…; true'",
            controller::command(command),
            how(status)
        );
        Ok(Taken::Whole { time, cpu: used.cpu, memory: used.memory })
    }

    /// Without experiments, and with nothing but the counting that both sides have.
    fn count(&self, command: &[String], time: Duration) -> Result<Taken> {
        let recording = self.folder.path().join("run.db");
        let mut whatif =
            Command::new(std::env::current_exe().context("cannot find whatif itself; is it installed?")?);
        whatif.args(["run", "--quiet", "--no-delays", "--then", "terminate"]);
        whatif.arg("--duration").arg(time.as_secs_f64().to_string()).arg("-o").arg(&recording);
        whatif.arg("--stop-signal").arg(&self.args.stop_signal);
        for binary in &self.args.binaries {
            whatif.arg("--binary").arg(binary);
        }
        if let Some(point) = &self.args.point {
            whatif.arg("-p").arg(point);
        }
        let status =
            self.quiet(whatif.arg("--").args(command), true).status().context("whatif cannot be started")?;
        let period = period(&recording);
        // The next run has a file of its own.
        let _ = std::fs::remove_file(&recording);
        ensure!(
            status.success(),
            "whatif run -- {} {}: only runs that succeed are compared",
            controller::command(command),
            how(status)
        );
        Ok(Taken::Counted { period: period? })
    }

    /// `errors`: whether what goes to standard error is shown all the same.
    fn quiet<'c>(&self, command: &'c mut Command, errors: bool) -> &'c mut Command {
        command.stdin(Stdio::null());
        if !self.args.show_output {
            command.stdout(Stdio::null());
            if !errors {
                command.stderr(Stdio::null());
            }
        } else {
            // Standard output is for the answer.
            command.stdout(std::io::stderr());
        }
        command
    }
}

fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => "was killed by a signal".to_owned(),
    }
}

/// The mean time between two visits to the first point of throughput, in seconds.
fn period(recording: &Path) -> Result<f64> {
    let rows = Recording::open(recording)?.rows()?;
    let point = rows.points.iter().find(|(_, point)| point.kind == PointKind::Throughput);
    let Some((id, point)) = point else {
        bail!(
            "no progress point was visited; name a place with -p, or leave --seconds out if the programs end by themselves"
        );
    };
    let visits = rows.windows.iter().flat_map(|window| &window.visits).filter(|visits| visits.point == *id);
    let visits: u64 = visits.map(|visits| visits.count).sum();
    ensure!(
        visits > 0,
        "{} was not visited; give it more time with --seconds",
        profile::printable(&point.name)
    );
    let elapsed: f64 = rows.windows.iter().map(|window| window.elapsed.as_secs_f64()).sum();
    Ok(elapsed / visits as f64)
}
