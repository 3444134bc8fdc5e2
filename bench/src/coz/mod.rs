//! Coz, asked the same questions as our profiler.
//!
//! It comes from `$PATH`. What differs from a plain `coz run`, and why:
//!
//! * **The programs are built a second time** ([`build`]), with strict DWARF 4, the GNU linker and frame
//!   pointers: what its releases read.
//! * **A region is a line.** Coz tries lines, not functions. The work of a target's region is one macro,
//!   so nearly all of its samples are on one line: the one with the most samples among the lines of the
//!   function ([`source`]) in a short run that is free to choose. Only the program's own source is in
//!   scope, so what the region calls elsewhere counts for the line that called it.
//! * **One run per speedup**, at `--fixed-speedup`, and one at zero, in random order. Free to choose, it
//!   gives half of its experiments (of half a second) to zero and divides the rest among twenty
//!   speedups; a few seconds would answer nothing. It gets more time per answer than we do.
//! * The prediction is the one its viewer draws: 1 − p_s/p_0 with p = Σ duration / Σ visits over the
//!   experiments, where Coz has taken the delays out of the duration. The interval, which its viewer
//!   does not have, is a bootstrap over experiments.
//!
//! A search for the best region ([`Coz::search`]) is free to choose, and judged as its viewer does
//! ([`Profile::best`]).

mod build;
mod profile;
mod source;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::native::limit;
use crate::peer::on_path;
use crate::profiler::{Prediction, Profiler, Question};
use crate::program;
use crate::subject::Subject;

pub use self::build::build_targets;
pub use self::profile::Profile;

#[derive(Debug)]
pub struct Coz {
    command: PathBuf,
    /// Where its profiles go.
    folder: TempDir,
    /// Where samples were found, by target.
    surveys: RefCell<HashMap<String, Profile>>,
}

/// How long it looks for the line with the most samples.
const SURVEY: f64 = 1.5;

impl Coz {
    /// The one on `$PATH`.
    pub fn find() -> Result<Self> {
        let command = on_path("coz").context(
            "coz is not on PATH; install it (Debian: coz-profiler), put its folder on PATH, or leave --peer out",
        )?;
        Ok(Self {
            command,
            folder: tempfile::tempdir().context("making a folder for Coz's profiles")?,
            surveys: RefCell::default(),
        })
    }

    /// Builds the targets and the mosaic as it needs them.
    pub fn build(&self) -> Result<()> {
        build::build().context("building the targets for Coz")
    }

    /// One run that is free to choose lines and speedups.
    pub fn search(&self, target: &dyn Subject, seconds: f64) -> Result<Profile> {
        self.run(target, seconds, &[])
    }

    /// The target's region that `line` (`PATH:LINE`) is part of.
    pub fn region_at(&self, target: &dyn Subject, line: &str) -> Result<Option<String>> {
        let number = line.rsplit_once(':').and_then(|(_, number)| number.parse::<u32>().ok());
        let Some(number) = number else { return Ok(None) };
        for region in target.regions() {
            if source::lines_of(target, region)?.contains(&number) {
                return Ok(Some(region.to_owned()));
            }
        }
        Ok(None)
    }

    fn run(&self, target: &dyn Subject, seconds: f64, options: &[String]) -> Result<Profile> {
        let output = self.folder.path().join("profile.coz");
        // Coz adds to what is there.
        match fs::remove_file(&output) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", output.display()));
            }
            _ => {}
        }
        let mut line = program::command_line(target, &[format!("seconds={seconds}")])?;
        line[0] = build::path(target)?.into_os_string();
        program::output_within(
            Command::new(&self.command)
                .arg("run")
                .arg("--output")
                .arg(&output)
                .args(["--source-scope", &format!("%/{}", source::file_name(target))])
                .args(options)
                .arg("---")
                .args(line),
            limit(seconds),
        )?;
        let text = fs::read_to_string(&output)
            .with_context(|| format!("Coz wrote no profile to {}", output.display()))?;
        Ok(Profile::parse(&text))
    }

    /// The line that stands for the region.
    fn line(&self, question: &Question) -> Result<String> {
        let target = question.target;
        let file = source::file_name(target);
        let lines = source::lines_of(target, question.region)?;
        if lines.start() == lines.end() {
            return Ok(format!("{file}:{}", lines.start()));
        }
        if !self.surveys.borrow().contains_key(target.name()) {
            let survey = self.run(target, SURVEY, &[])?;
            self.surveys.borrow_mut().insert(target.name().to_owned(), survey);
        }
        let surveys = self.surveys.borrow();
        let line =
            surveys.get(target.name()).and_then(|survey| survey.busiest_line(&file, &lines)).with_context(
                || format!("Coz has no samples in lines {} to {} of {file}", lines.start(), lines.end()),
            )?;
        Ok(format!("{file}:{line}"))
    }
}

impl Profiler for Coz {
    fn name(&self) -> &'static str {
        "coz"
    }

    fn predict(&self, question: &Question) -> Result<Vec<Prediction>> {
        let line = self.line(question)?;
        let mut speedups: Vec<u32> = [0].into_iter().chain(question.speedups.iter().copied()).collect();
        fastrand::shuffle(&mut speedups);
        let mut profile = Profile::default();
        for speedup in speedups {
            let options =
                ["--fixed-line".to_owned(), line.clone(), "--fixed-speedup".to_owned(), speedup.to_string()];
            profile.add(self.run(question.target, question.seconds, &options)?);
        }
        Ok(question
            .speedups
            .iter()
            .filter_map(|speedup| profile.prediction(*speedup, question.point()))
            .collect())
    }
}
