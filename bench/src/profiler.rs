//! The profilers measured, as a user would start them.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use targets::Target;

use crate::native::limit;
use crate::program;

/// What to predict: the gain of a target if one of its regions were faster by each speedup.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub target: &'a Target,
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
        Ok(Self { path, folder: tempfile::tempdir().context("making a folder for recordings")? })
    }

    /// `command_line` under the profiler.
    pub fn run<I: AsRef<OsStr>>(&self, mode: Mode, command_line: &[I]) -> Command {
        let mut command = self.recording();
        match mode {
            Mode::StartOnly => command.arg("--start-only"),
            Mode::NoDelays => command.arg("--no-delays"),
            Mode::Full => &mut command,
        };
        command.arg("--").args(command_line);
        command
    }

    fn recording(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("run").arg("-o").arg(self.file());
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
                .args(options)
                .arg("--")
                .args(line),
            limit(question.seconds),
        )?;
        let output = program::output(Command::new(&self.path).arg("report").arg(self.file()).arg("--json"))?;
        let report: Report = serde_json::from_slice(&output.stdout)
            .context("`whatif report --json` is not what bench expects (see bench/src/profiler.rs)")?;
        Ok(report.answers(question))
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

/// The part of `whatif report --json` that is needed here. Speedups and gains are fractions.
#[derive(Debug, Deserialize)]
struct Report {
    regions: Vec<Region>,
    left_out: Option<LeftOut>,
}

#[derive(Debug, Deserialize)]
struct Region {
    name: String,
    points: Vec<PointReport>,
}

#[derive(Debug, Deserialize)]
struct PointReport {
    point: String,
    speedups: Vec<Measured>,
}

#[derive(Debug, Deserialize)]
struct Measured {
    speedup: f64,
    gain: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
    windows: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct LeftOut {
    windows_unbalanced: u64,
    windows_cut: u64,
    windows_overdrawn: u64,
    windows_unpaired: u64,
}

impl Report {
    fn answers(&self, question: &Question) -> Vec<Prediction> {
        let measured: Vec<&Measured> = self
            .regions
            .iter()
            .filter(|region| is_called(&region.name, question.region))
            .flat_map(|region| &region.points)
            .filter(|point| point.point == question.point())
            .flat_map(|point| &point.speedups)
            .collect();
        let baseline_windows =
            measured.iter().filter(|one| one.speedup.abs() < 0.005).map(|one| one.windows).sum();
        let mut answers = Vec::new();
        for Measured { speedup, gain, lo, hi, windows } in measured {
            let speedup =
                question.speedups.iter().find(|asked| (f64::from(**asked) / 100.0 - speedup).abs() < 0.005);
            if let (Some(&speedup), Some(gain)) = (speedup, *gain) {
                answers.push(Prediction {
                    speedup,
                    gain,
                    low: *lo,
                    high: *hi,
                    windows: *windows,
                    baseline_windows,
                    unbalanced: self.left_out.map(|left_out| left_out.windows_unbalanced),
                    left_out: self.left_out.map(|left_out| {
                        left_out.windows_cut + left_out.windows_overdrawn + left_out.windows_unpaired
                    }),
                });
            }
        }
        answers
    }
}

impl Question<'_> {
    pub fn point(&self) -> &str {
        self.target.point
    }
}

/// Whether a reported name means `region`: the name may have a path before it and parameters after.
fn is_called(name: &str, region: &str) -> bool {
    let name = name.split_once('(').map_or(name, |(name, _)| name);
    name.rsplit("::").next() == Some(region)
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

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"regions": [
        {"kind": "function", "name": "mutex_rs::A", "file": "a.rs", "line": 7, "samples": 9,
         "points": [
            {"point": "round", "kind": "throughput", "slope": 1, "slope_lo": 0, "slope_hi": 2,
             "speedups": [
                {"speedup": 0, "gain": 0, "lo": -0.1, "hi": 0.1, "windows": 24},
                {"speedup": 0.25, "gain": 0.2, "lo": 0.1, "hi": null, "windows": 8},
                {"speedup": 0.5, "gain": null, "lo": null, "hi": null, "windows": 0},
                {"speedup": 0.35, "gain": 0.3, "lo": 0.1, "hi": 0.3, "windows": 8}]},
            {"point": "other", "speedups": [{"speedup": 0.25, "gain": 1, "lo": 1, "hi": 1, "windows": 1}]}]},
        {"name": "BA", "points": []}],
        "left_out": {"regions_without_baseline": 9, "windows_unbalanced": 3, "windows_cut": 1,
                     "windows_overdrawn": 0, "windows_unpaired": 2}}"#;

    #[test]
    fn answers_are_read_from_the_report() {
        let report: Report = serde_json::from_str(REPORT).unwrap();
        let target = targets::TARGETS.iter().find(|target| target.point == "round").unwrap();
        let answers = report.answers(&Question { target, region: "A", speedups: &[25, 50], seconds: 1.0 });
        let expected = Prediction {
            speedup: 25,
            gain: 0.2,
            low: Some(0.1),
            high: None,
            windows: 8,
            baseline_windows: 24,
            unbalanced: Some(3),
            left_out: Some(3),
        };
        assert_eq!(answers, [expected]);
    }

    #[test]
    fn regions_are_known_by_their_last_name() {
        for (name, expected) in [
            ("A", true),
            ("mutex_rs::A", true),
            ("A()", true),
            ("ns::A(int, std::string)", true),
            ("BA", false),
            ("A::B", false),
        ] {
            assert_eq!(is_called(name, "A"), expected, "{name}");
        }
    }
}
