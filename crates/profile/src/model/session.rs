//! Sessions: one run of one program under `whatif`.

use super::{Arrivals, Image, OverheadPair, Program, Thread};
use crate::units::Nanos;

storage::id! {
    /// Which session of the recording.
    SessionId
}

/// One run of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its key in the recording.
    pub id: SessionId,
    /// What was known when it began.
    pub start: SessionStart,
    /// How it ended; `None` while it runs, and forever if the controller was killed.
    pub end: Option<SessionEnd>,
    /// All samples so far.
    pub samples: SampleTotals,
    /// The images that regions were found in, as this run mapped them.
    pub images: Vec<Image>,
    /// What came from outside, as far as is known so far.
    pub arrivals: Vec<Arrivals>,
    /// What its processes executed, as far as is known so far; nothing in recordings of earlier versions.
    pub programs: Vec<Program>,
    /// What its threads did while nothing delayed them, as far as is known so far; nothing in recordings of earlier versions.
    pub threads: Vec<Thread>,
    /// What sampling was seen to cost so far; nothing in recordings of earlier versions.
    pub overhead: Vec<OverheadPair>,
}

/// What is known when a session begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStart {
    /// When, in nanoseconds since 1970-01-01 UTC.
    pub started: Nanos,
    /// The program's path.
    pub program: String,
    /// Its arguments, without the program.
    pub arguments: Vec<String>,
    /// Its working directory.
    pub directory: String,
    /// The machine's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// How many CPUs the program could use.
    pub cpus: u32,
    /// The seed of the experiments' random choices.
    pub seed: u64,
    /// All options, as a JSON text.
    pub options: String,
    /// The version of `whatif`.
    pub version: String,
    /// What took the samples: `perf task-clock`, `cpu timer`.
    pub sampler: String,
    /// The CPU time between two samples.
    pub sample_period: Nanos,
    /// Whether time in the kernel is sampled.
    pub kernel_time: bool,
    /// Which of several runs of the same command this is, from 0.
    pub repeat: u32,
    /// The user named the regions.
    pub fixed_regions: bool,
    /// The user named the speedups.
    pub fixed_speedups: bool,
}

impl SessionStart {
    /// How many CPUs the machine has; `cpus` are those on which the program may run. `None` in recordings of earlier versions.
    pub fn machine_cpus(&self) -> Option<u32> {
        let options: serde_json::Value = serde_json::from_str(&self.options).ok()?;
        u32::try_from(options["machine_cpus"].as_u64()?).ok()
    }

    /// The program's file name.
    pub fn program_name(&self) -> &str {
        self.program.rsplit('/').next().unwrap_or(&self.program)
    }

    /// What tells this run from any other, in whatever recording it is.
    pub fn run(&self) -> (Nanos, &str, u64) {
        (self.started, &self.host, self.seed)
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    /// From start to end, inserted delays included.
    pub duration: Nanos,
    /// How the program ended.
    pub exit: Exit,
    /// Whether whatif had asked it to end.
    pub stopped: bool,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The session ended and the program went on (detached), or its end was not seen.
    Unknown,
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

/// Samples of a whole session, or of a session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleTotals {
    /// The session time up to which samples are counted; shares and the phase correction use it
    /// instead of the duration, so that they are right for a run that was killed.
    pub until: Nanos,
    /// How much delay experiments have inserted until then, in windows and before them.
    pub delayed: Nanos,
    /// How many.
    pub count: u64,
    /// The CPU time they stand for.
    pub weight: Nanos,
    /// How many the kernel lost.
    pub lost: u64,
    /// How many a timer took because threads ran too shortly at a time for an event, or because there was none; zero in recordings before layout 17.
    pub timed: u64,
}
