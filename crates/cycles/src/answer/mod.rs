//! What the tools answer: the tables, lists and graphs that `report` draws and writes as JSON.

mod conditions;
mod heat;
mod history;
mod stacks;

pub use conditions::{ConditionVerdict, Conditions, Judged, JudgedRow};
pub use heat::{Heat, HeatRow, OwnTime};
pub use history::{History, HistoryRow};
pub use stacks::{CodeKind, CodePosition, Flame, FlameBox, ImageName, Line, Name, StackNode, Stacks};

use crate::verdict::{DifferenceVerdict, VariationVerdict};
use profile::{Mark, Verdict};
use serde::{Serialize, Serializer};

/// What was asked, and the books of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heading {
    /// The folder of the database.
    pub database: String,
    /// What was sampled.
    pub event: String,
    /// Names of the machines.
    pub machines: Vec<String>,
    /// CPUs of all machines together.
    pub cpus: u32,
    /// Start of the span that samples are from, in seconds since 1970.
    pub since: Option<i64>,
    /// End of the span, in seconds since 1970.
    pub until: Option<i64>,
    /// The span for people.
    #[serde(skip)]
    pub time: String,
    /// What else was asked for: `process nginx*`.
    pub selection: Vec<String>,
    /// What became of the samples of all processes in that time.
    pub books: Books,
    /// Samples that were taken for each second of a CPU.
    pub rate: f64,
    /// Samples that were asked for, for each second of a CPU.
    pub asked_rate: f64,
    /// Samples that the answer is about.
    pub samples: u64,
    /// Time that one sample stands for, in nanoseconds: CPU time, or waiting time where the event is `off-cpu`; `null` where it is no clock.
    pub nanos_per_sample: Option<f64>,
    /// How many samples were found at a time, on average over samples; 1 where each was taken by itself. Intervals are wider by its root.
    pub samples_at_a_time: f64,
    /// Whether samples of idle CPUs are part of the answer.
    pub with_idle: bool,
    /// What to bear in mind.
    pub warnings: Vec<Note>,
}

/// `expected = stored + unknown + lost`, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Books {
    /// How many samples the clock called for.
    pub expected: u64,
    /// Samples with a known image.
    pub stored: u64,
    /// Samples without.
    pub unknown: u64,
    /// Samples that were not kept.
    pub lost: u64,
    /// Samples of idle CPUs, which are among the stored.
    pub idle: u64,
    /// Time that they stand for: CPU time, or waiting time where the event is `off-cpu`.
    pub covered_ns: u64,
    /// CPU time of the collector.
    pub own_cpu_ns: u64,
    /// CPU time of the kernel for the collector.
    pub kernel_cpu_ns: u64,
}

/// A doubt, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Which: short and stable.
    pub code: String,
    /// What was seen.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// A share of the samples, 0 to 1 (or a difference of two), with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The share.
    pub value: f64,
    /// The lower end of its interval.
    pub lo: f64,
    /// The upper end of its interval.
    pub hi: f64,
}

impl Share {
    /// Half of the interval, the longer half if they differ.
    pub fn half(&self) -> f64 {
        (self.hi - self.value).max(self.value - self.lo)
    }
}

/// What a causal recording says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Worth {
    /// Gain per speedup.
    pub slope: f64,
    /// Where its 95 % interval begins.
    pub lo: Option<f64>,
    /// Where its 95 % interval ends.
    pub hi: Option<f64>,
    /// What it comes to; in JSON by its name.
    #[serde(serialize_with = "verdict_name")]
    pub verdict: Verdict,
    /// The progress point that becomes faster.
    pub point: String,
    /// The line that was tried, where the function itself was not.
    pub line: Option<String>,
    /// The recording.
    pub recording: String,
    /// Whether it is of another build of the image.
    pub other_build: bool,
}

/// The most expensive, by image, function, line, who ran, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Top {
    /// What was asked.
    pub heading: Heading,
    /// `function`, `unit,thread` or `unit,function`: who ran comes first.
    pub by: String,
    /// Whether the first are those with the most in all that they call, rather than in themselves.
    pub by_total: bool,
    /// The most expensive, first first.
    pub rows: Vec<Row>,
    /// How many are not among them.
    pub more: usize,
    /// Code that is worth something according to a recording, but costs so little that it is not among them.
    pub not_hot: Vec<Row>,
    /// The recordings that know what code is worth.
    pub recordings: Vec<String>,
}

/// What one of them costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Who ran, by what was asked for; not there where only code was.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub groups: Vec<(String, String)>,
    /// Its name; where no code was asked for, that of who ran.
    pub name: String,
    /// The image it is in; empty where it is none's.
    pub image: String,
    /// The build ID of the image, or nothing.
    pub build_id: String,
    /// Samples in it.
    pub samples: u64,
    /// The share of all samples that are in it.
    pub share: Share,
    /// The time its samples stand for, likewise; `null` where the event is no clock.
    pub cpu_ns: Option<u64>,
    /// Samples in it and in what it calls; `null` where it is not known.
    pub total: Option<u64>,
    /// Their share.
    pub total_share: Option<f64>,
    /// What making it faster is worth.
    pub worth: Option<Worth>,
    /// What to think of both.
    #[serde(serialize_with = "mark_name")]
    pub mark: Option<Mark>,
}

// `serialize_with` passes references.
fn as_map<S: Serializer>(pairs: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

fn mark_name<S: Serializer>(mark: &Option<Mark>, to: S) -> Result<S::Ok, S::Error> {
    mark.map(Mark::name).serialize(to)
}

/// Two selections and what is different.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Difference {
    /// What it was.
    pub a: Side,
    /// What it became.
    pub b: Side,
    /// `function` or `image`
    pub by: String,
    /// `share` (of the samples) or `second` (CPU time for each second and CPU)
    pub per: String,
    /// The most certain difference first.
    pub changes: Vec<Change>,
    /// How many are not among them.
    pub more: usize,
    /// What became of `--fail-if`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
}

/// One of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// As it was typed.
    pub asked: String,
    /// What it is.
    pub heading: Heading,
    /// How many spans of time the intervals are from; 0 where they are from counts alone.
    pub spans: usize,
    /// The length of each, in seconds.
    pub span_s: i64,
}

/// What is different for one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// What it was.
    pub a: Share,
    /// What it became.
    pub b: Share,
    /// The difference between the two.
    pub difference: Share,
    /// How much of the difference is certain; 0 if none is.
    pub certain: f64,
    /// What to think of the difference; `certain` says it in exports.
    #[serde(skip)]
    pub verdict: DifferenceVerdict,
    /// What making it faster is worth.
    pub worth: Option<Worth>,
}

/// The statistics of each function across parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Variation {
    /// What was asked.
    pub heading: Heading,
    /// `hour`
    pub across: String,
    /// `function` or `image`
    pub by: String,
    /// The parts.
    pub parts: Vec<Part>,
    /// Parts that have too few samples to be among them.
    pub left_out: usize,
    /// Those that vary most first.
    pub rows: Vec<Varying>,
    /// How many are not among them.
    pub more: usize,
}

/// A part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its samples.
    pub samples: u64,
}

/// How one of them varies. Shares are 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Varying {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Samples in all parts.
    pub samples: u64,
    /// The smallest share in any part.
    pub min: f64,
    /// The largest share in any part.
    pub max: f64,
    /// The mean of the shares, each part counting the same.
    pub mean: f64,
    /// The standard deviation of the shares.
    pub deviation: f64,
    /// `(max − min) ÷ mean`
    pub range: f64,
    /// How much of the deviation chance alone would make, from the counts.
    pub by_chance: f64,
    /// What to think of the deviation; exports have the numbers.
    #[serde(skip)]
    pub verdict: VariationVerdict,
    /// The part with the largest share.
    pub most_in: String,
    /// What making it faster is worth.
    pub worth: Option<Worth>,
}

/// A function wherever it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Listing {
    /// What was asked.
    pub heading: Heading,
    /// The function.
    pub function: String,
    /// Its sources: one for each image and file that it is in.
    pub sources: Vec<Source>,
}

/// A piece of a source file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Source {
    /// The image.
    pub image: String,
    /// The image's build ID, or nothing.
    pub build_id: String,
    /// The source file, as the debug information spells it; empty where there is none.
    pub file: String,
    /// Why there is no text, or why it may be that of other code.
    pub doubt: Option<String>,
    /// Samples of the function itself here, without what was inlined into it.
    pub samples: u64,
    /// Samples of the function and of what it calls.
    pub total: u64,
    /// What making the function faster is worth.
    pub worth: Option<Worth>,
    /// Lines, ascending.
    pub lines: Vec<SourceLine>,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// Its number; zero for code of no line.
    pub line: u32,
    /// Samples in it.
    pub samples: u64,
    /// Samples in it and in what it calls.
    pub total: u64,
    /// What is written there; `null` where it is unknown.
    pub text: Option<String>,
}

/// A function wherever it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Annotation {
    /// What was asked.
    pub heading: Heading,
    /// The function.
    pub function: String,
    /// Its code: a piece for each place it is at.
    pub code: Vec<Code>,
    /// Whether long stretches without samples are drawn, too.
    pub all: bool,
}

/// A piece of code.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Code {
    /// The image.
    pub image: String,
    /// The image's build ID, or nothing.
    pub build_id: String,
    /// The function's full name.
    pub name: String,
    /// Samples of the function itself in this image, wherever it was inlined and without what was inlined into it.
    pub own: u64,
    /// Samples in the instructions, with what is inlined there.
    pub samples: u64,
    /// What making the function faster is worth.
    pub worth: Option<Worth>,
    /// Its instructions, ascending; none where they cannot be read.
    pub instructions: Vec<Instruction>,
    /// Why there are none.
    pub doubt: Option<String>,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Instruction {
    /// Its address, as the file states it.
    pub address: u64,
    /// Samples in it.
    pub samples: u64,
    /// In assembler.
    pub text: String,
    /// The function that it is of, if that was inlined.
    pub inlined: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line in the source file.
    pub line: Option<u32>,
    /// What is written on that line.
    pub source: Option<String>,
}

/// What has no name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Unknown {
    /// What was asked.
    pub heading: Heading,
    /// Samples without a name, in all.
    pub samples: u64,
    /// The most first.
    pub rows: Vec<UnknownRow>,
}

/// Samples of one image without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnknownRow {
    /// The image.
    pub image: String,
    /// Its build ID, or nothing.
    pub build_id: String,
    /// Samples.
    pub samples: u64,
    /// The processes that ran it, the busiest first.
    pub processes: Vec<String>,
    /// Why there is no name: short and stable.
    pub code: String,
    /// Why there is no name, for people.
    pub why: String,
    /// How to fix it.
    pub advice: String,
}

/// All epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Epochs {
    /// The folder of the database.
    pub database: String,
    /// Oldest first.
    pub epochs: Vec<EpochRow>,
}

/// One epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EpochRow {
    /// Its number.
    pub epoch: i64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The machine.
    pub machine: String,
    /// When it began, in seconds since 1970.
    pub started: i64,
    /// When it ended, in seconds since 1970; `null` while it runs, or if the collector was killed.
    pub ended: Option<i64>,
    /// When, for people.
    #[serde(skip)]
    pub time: String,
    /// What was sampled.
    pub events: Vec<String>,
    /// How it was sampled.
    pub sampler: String,
    /// How often for each second and CPU.
    pub rate_hz: f64,
    /// With stacks or without.
    pub mode: String,
    /// Whose code was sampled.
    pub scope: String,
    /// Samples of all events that were kept.
    pub samples: u64,
    /// Samples of all events that were not kept.
    pub lost: u64,
    /// CPU time that the first event's samples stand for.
    pub covered_ns: u64,
}

// `serialize_with` passes references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn verdict_name<S: Serializer>(verdict: &Verdict, to: S) -> Result<S::Ok, S::Error> {
    verdict.name().serialize(to)
}
