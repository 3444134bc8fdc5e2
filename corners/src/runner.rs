//! One corner, alone and under a sampler, and whether both are the same.

use crate::compile;
use crate::ended::{Ended, run};
use crate::sampler::Sampler;
use crate::table::{Corner, Ends, Program};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A run that takes so long hangs.
const HANG: Duration = Duration::from_secs(100);
/// Statuses of the profiler's own, in place of the program's 0: what an answer lacks (README.md, "When there is no answer").
const OWN: std::ops::RangeInclusive<i32> = 94..=101;
/// The status of a program that this machine cannot run.
const SKIPPED: i32 = 77;

/// What a corner does alone.
#[derive(Debug)]
pub enum Native {
    /// It ran as the table says.
    Ran(Ended),
    /// Not on this machine, because of this.
    Skipped(String),
    /// It ended otherwise than the table says, so there is nothing to compare with.
    Unexpected(Ended),
}

/// What the profiler made of it.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing.
    Same,
    /// Something else, and this is how it differs.
    Differs(String),
}

/// Runs corners: the `whatif` command, and a folder with the programs.
#[derive(Debug)]
pub struct Runner {
    whatif: PathBuf,
    folder: PathBuf,
}

impl Runner {
    /// Compiles all programs into `folder`.
    ///
    /// # Errors
    ///
    /// When there is no C compiler, or it fails; the message names the command.
    pub fn new(whatif: &Path, folder: &Path) -> io::Result<Self> {
        compile::all(folder)?;
        Ok(Self { whatif: whatif.canonicalize()?, folder: folder.canonicalize()? })
    }

    /// Runs it alone.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn native(&self, corner: &Corner) -> io::Result<Native> {
        let ended = self.run(corner, &[])?;
        if ended.code() == Some(SKIPPED) {
            let why = ended.stdout.lines().find_map(|line| line.strip_prefix("skipped: "));
            return Ok(Native::Skipped(why.unwrap_or("the program does not say why").to_owned()));
        }
        let expected = match corner.ends {
            Ends::Done => ended.code() == Some(0) && ended.stdout.ends_with("done\n"),
            Ends::With(code) => ended.code() == Some(code),
            Ends::By(signal) => ended.signal() == Some(signal),
        };
        Ok(if expected { Native::Ran(ended) } else { Native::Unexpected(ended) })
    }

    /// Runs it under delays and a sampler, and compares that with what it does alone.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn profiled(
        &self,
        corner: &Corner,
        sampler: Sampler,
        seed: u64,
        native: &Ended,
    ) -> io::Result<Outcome> {
        let seed = seed.to_string();
        let mut words = vec!["run", "-q", "-o", "recording.db", "--seed", &seed, "--sampler", sampler.name()];
        words.extend(corner.options);
        words.push("--");
        let profiled = self.run(corner, &words)?;
        let same_end = native.signal() == profiled.signal()
            && match (native.code(), profiled.code()) {
                (Some(0), Some(code)) => code == 0 || OWN.contains(&code),
                (native, profiled) => native == profiled,
            };
        if same_end && native.stdout == profiled.stdout {
            return Ok(Outcome::Same);
        }
        Ok(Outcome::Differs(difference(native, &profiled)))
    }

    /// Runs it, under `whatif` with these words before the program if there are any.
    fn run(&self, corner: &Corner, words: &[&str]) -> io::Result<Ended> {
        let folder = tempfile::tempdir()?;
        let profiler = (!words.is_empty()).then_some(self.whatif.as_os_str());
        let words = profiler.into_iter().chain(words.iter().map(|word| word.as_ref()));
        let mut line = Vec::new();
        match corner.program {
            Program::Own(name) => {
                line.extend(words.map(ToOwned::to_owned));
                line.push(self.folder.join(name).into_os_string());
                line.extend(corner.arguments.iter().map(Into::into));
            }
            // Scripts start the profiler themselves.
            Program::Script(name) => {
                line.extend(["sh".into(), compile::own_sources().join(name).into_os_string()]);
                line.extend(words.map(ToOwned::to_owned));
            }
        }
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", self.folder.join("cache"))
            .env("LC_ALL", "C")
            .env_remove("LD_PRELOAD")
            .env_remove("LD_LIBRARY_PATH");
        let mut ended = run(command, HANG)?;
        // It is another folder in each run.
        ended.stdout = ended.stdout.replace(&*folder.path().to_string_lossy(), ".");
        Ok(ended)
    }
}

/// The first lines that differ, and how both ended.
fn difference(native: &Ended, profiled: &Ended) -> String {
    let mut text = format!("ended {} alone, {} under whatif", end(native), end(profiled));
    let mut lines = (native.stdout.lines(), profiled.stdout.lines());
    loop {
        match (lines.0.next(), lines.1.next()) {
            (None, None) => break,
            (alone, under) if alone == under => {}
            (alone, under) => {
                let said = |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("'{line}'"));
                text += &format!("; printed {} alone, {} under whatif", said(alone), said(under));
                break;
            }
        }
    }
    if let Some(line) = profiled.stderr.lines().last() {
        text += &format!("; said '{line}'");
    }
    text + &format!("; {}", profiled.command)
}

fn end(ended: &Ended) -> String {
    match (ended.code(), ended.signal()) {
        (Some(code), _) => format!("with {code}"),
        (_, Some(signal)) => format!("by signal {signal}"),
        _ => "not at all".to_owned(),
    }
}
