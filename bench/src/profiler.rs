//! The profilers measured, as a user would start them.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use targets::Target;

use crate::native::limit;
use crate::program;
use crate::report::{Report, Verdict};
use crate::subject::Subject;

/// What to predict: the gain of a target if one of its regions were faster by each speedup.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub target: &'a dyn Subject,
    pub region: &'a str,
    /// In per cent.
    pub speedups: &'a [u32],
    /// How long the program runs.
    pub seconds: f64,
}

/// One answer: the gain predicted at one speedup, as a share of the period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// In per cent.
    pub speedup: u32,
    pub gain: f64,
    /// The 95 % interval, where there is one.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Measurements at this speedup, and at none.
    pub windows: u64,
    pub baseline_windows: u64,
    /// Measurements at any speedup that were left out because delays did not add up, and for any
    /// other reason; none where the profiler does not say.
    pub unbalanced: Option<u64>,
    pub left_out: Option<u64>,
    /// The part of the interval's standard error that is not noise, where the profiler tells it apart.
    #[serde(default)]
    pub method_error: Option<f64>,
    /// What it makes of the region, over all speedups.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Whether it trusts its own numbers, where it says so.
    #[serde(default)]
    pub trusted: Option<bool>,
}

/// Anything that predicts gains.
pub trait Profiler {
    fn name(&self) -> &'static str;

    /// The answers it has; a speedup that it says nothing about is left out.
    fn predict(&self, question: &Question) -> Result<Vec<Prediction>>;
}

/// How much of the profiler is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The runtime is attached, but neither samples nor delays.
    StartOnly,
    /// Samples, and windows at speedup 0 only.
    NoDelays,
    /// Experiments.
    Full,
}

/// Our own.
#[derive(Debug)]
pub struct Whatif {
    path: PathBuf,
    /// Where recordings go.
    folder: tempfile::TempDir,
    /// Of every `whatif run`.
    options: Vec<String>,
}

impl Whatif {
    /// The command at `given`, or the one that cargo builds from this workspace.
    pub fn find(given: Option<&Path>) -> Result<Self> {
        let path = match given {
            Some(path) => path.to_path_buf(),
            None => build()?,
        };
        ensure!(
            path.is_file(),
            "{} is not there; name the whatif command with --whatif PATH",
            path.display()
        );
        let folder = tempfile::tempdir().context("making a folder for recordings")?;
        Ok(Self { path, folder, options: Vec::new() })
    }

    /// The command itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The profiler with further options of `whatif run`.
    pub fn with_options(self, options: &[String]) -> Self {
        Self { options: options.to_vec(), ..self }
    }

    /// The same command with these options of `whatif run`, and a folder of its own.
    pub fn clone_with(&self, options: &[&str]) -> Result<Self> {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        Ok(Self::find(Some(&self.path))?.with_options(&options))
    }

    /// `command_line` under the profiler.
    pub fn run<I: AsRef<OsStr>>(&self, mode: Mode, command_line: &[I]) -> Command {
        self.run_with(&[], mode, command_line)
    }

    /// `command_line` under the profiler, with `options` of `whatif run`.
    pub fn run_with<I: AsRef<OsStr>>(&self, options: &[&str], mode: Mode, command_line: &[I]) -> Command {
        let mut command = self.recording();
        command.args(options);
        match mode {
            Mode::StartOnly => command.arg("--start-only"),
            Mode::NoDelays => command.arg("--no-delays"),
            Mode::Full => &mut command,
        };
        command.arg("--").args(command_line);
        command
    }

    /// The profiler attached to a process, with `options` of `whatif attach`.
    pub fn attach(&self, options: &[&str], pid: u32) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("attach").arg("-o").arg(self.file()).args(options).arg(pid.to_string());
        command
    }

    fn recording(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("run").arg("-o").arg(self.file()).args(&self.options);
        command
    }

    /// The last recording.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("bench.db")
    }

    /// Removes the last recording: a recording is added to one that is there.
    pub fn forget(&self) -> Result<()> {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let file = self.folder.path().join(format!("bench.db{suffix}"));
            if file.exists() {
                std::fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
            }
        }
        Ok(())
    }
}

impl Whatif {
    /// Predicts with `options` of `whatif run` in addition.
    pub fn predict_with(&self, options: &[String], question: &Question) -> Result<Vec<Prediction>> {
        self.forget()?;
        let speedups: Vec<_> = question.speedups.iter().map(u32::to_string).collect();
        let line = program::command_line(question.target, &[format!("seconds={}", question.seconds)])?;
        program::output_within(
            self.recording()
                .args(["--quiet", "--region", question.region, "--speedup", &speedups.join(",")])
                .args(question.target.options())
                .args(options)
                .arg("--")
                .args(line),
            limit(question.seconds),
        )?;
        Ok(self.report(&self.file())?.answers(question))
    }

    /// Searches without being told where: `whatif run --until-sure`, for at most `most` seconds.
    pub fn search(&self, target: &Target, precision: &str, most: f64, seed: usize) -> Result<()> {
        self.forget()?;
        // The program shall not be what ends it.
        let line = program::command_line(target, &[format!("seconds={}", most + 10.0)])?;
        program::output_within(
            self.recording()
                .args(["--quiet", "--until-sure", "--precision", precision])
                .args(["--duration", &most.to_string(), "--seed", &seed.to_string()])
                .args(target.options())
                .arg("--")
                .args(line),
            limit(most),
        )?;
        Ok(())
    }

    /// What it makes of a recording.
    pub fn report(&self, recording: &Path) -> Result<Report> {
        self.report_as(recording)
    }

    /// What it makes of a recording, as far as `T` has fields for it.
    pub fn report_as<T: DeserializeOwned>(&self, recording: &Path) -> Result<T> {
        let output = program::output(Command::new(&self.path).arg("report").arg(recording).arg("--json"))?;
        serde_json::from_slice(&output.stdout)
            .context("`whatif report --json` is not what bench expects (see bench/src/report.rs)")
    }

    /// Whether `whatif run` knows `option` (which may be hidden).
    pub fn knows(&self, option: &[&str]) -> Result<bool> {
        self.forget()?;
        let output = self
            .recording()
            .args(option)
            .args(["--", "true"])
            .output()
            .with_context(|| format!("starting {}", self.path.display()))?;
        // What clap says, and exits with.
        Ok(output.status.code() != Some(2))
    }
}

impl Profiler for Whatif {
    fn name(&self) -> &'static str {
        "whatif"
    }

    fn predict(&self, question: &Question) -> Result<Vec<Prediction>> {
        self.predict_with(&[], question)
    }
}

impl<P: Profiler> Profiler for &P {
    fn name(&self) -> &'static str {
        (*self).name()
    }

    fn predict(&self, question: &Question) -> Result<Vec<Prediction>> {
        (*self).predict(question)
    }
}

impl Question<'_> {
    pub fn point(&self) -> &str {
        self.target.point()
    }
}

fn build() -> Result<PathBuf> {
    let here = env::current_exe().context("finding this program")?;
    let profile = here.parent().context("this program has no folder")?;
    let target = profile.parent().context("this program is not where cargo puts programs")?;
    program::output(
        Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["build", "--release", "--package", "whatif", "--target-dir"])
            .arg(target),
    )?;
    Ok(target.join("release/whatif"))
}
