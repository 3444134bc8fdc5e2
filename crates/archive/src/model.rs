//! The nouns of a continuous profile.

use std::collections::BTreeMap;
use std::sync::Arc;

use storage::{Nanos, UnixSeconds, integer};

storage::id! {
    /// A file (or a piece of the kernel, or generated code) that samples fall into.
    ImageId
}
storage::id! {
    /// Who ran: see `Label`.
    LabelId
}
storage::id! {
    /// What was sampled.
    EventId
}
storage::id! {
    /// A machine.
    MachineId
}
storage::id! {
    /// A span of time in which the collector ran with one configuration.
    EpochId
}

/// A position in an image: for files the offset in the file; for `[kernel]` the distance from `_text`; for code that
/// was generated while the program ran a number that its name was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageKind {
    /// A file.
    File,
    /// The kernel, or one of its modules.
    Kernel,
    /// Code that a program generated while it ran, with names of its own.
    Generated,
    /// Memory of no file and without a name; the kernel's pages in every process.
    Memory,
    /// Nothing was running.
    Idle,
    /// The address lay in no mapping that is known.
    Unknown,
}

/// Path of the image of generated code (of kind [`ImageKind::Memory`]) whose list was too long for the collector, or could not be read.
pub const LIST_GIVEN_UP: &str = "[generated: list given up]";
/// Path of the image of code (of kind [`ImageKind::Unknown`]) of a user whose processes map more than the collector follows.
pub const TOO_MUCH_MAPPED: &str = "[unknown: too much mapped]";
/// Path of the image that stands for callers (of kind [`ImageKind::Memory`]) where a user's stacks were too many.
pub const TOO_MANY_STACKS: &str = "[callers: too many stacks]";
/// Instead of all frames: the thread waits, and has not run since it could be told where.
pub const NOT_ENDED: &str = "[wait has not ended]";
/// Instead of callers: there are more frames than are taken.
pub const CUT_DEEP: &str = "[truncated: too deep]";
/// Instead of callers: less of the stack was copied.
pub const CUT_SHORT: &str = "[truncated: stack larger than its copy]";
/// Instead of callers: neither frame pointers nor an unwind table that has been read leads to them.
pub const CUT_UNKNOWN: &str = "[truncated: no unwind table at hand]";

/// Whether this is the path of what stands for frames that are missing.
#[must_use]
pub fn is_mark(path: &str) -> bool {
    [TOO_MANY_STACKS, CUT_DEEP, CUT_SHORT, CUT_UNKNOWN, NOT_ENDED].contains(&path)
}

/// A file that samples fall into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeImage {
    /// Path in its own mount namespace, or a name in brackets: `[kernel]`, `[vdso]`, `[idle]`, `[unknown]`.
    pub path: String,
    /// In hexadecimal digits; empty where there is none.
    pub build_id: String,
    /// What it is.
    pub kind: ImageKind,
}

/// Who ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label {
    /// Name of the process (of its first thread).
    pub process: String,
    /// Path of its cgroup, or nothing.
    pub cgroup: String,
    /// Name of the thread; nothing where it is not known.
    pub thread: String,
    /// Number of the process; zero where it is not kept, as of short processes.
    pub pid: u32,
    /// Its command line, or nothing.
    pub command: String,
    /// What its user calls it, by name.
    pub user_labels: BTreeMap<String, String>,
}

/// The most bytes that a value of a user's label may have.
pub const LONGEST_LABEL: usize = 128;
/// The most bytes that its name may have.
pub const LONGEST_LABEL_NAME: usize = 32;

/// Whether a user's label may be called so: small letters, digits, `_`, `.` and `-`.
#[must_use]
pub fn is_label_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST_LABEL_NAME && name.bytes().all(is_allowed)
}

/// Whether it may have this value: any text of one line that can be seen.
#[must_use]
pub fn is_label_value(value: &str) -> bool {
    !value.is_empty() && value.len() <= LONGEST_LABEL && storage::printable(value) == value
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MachineInfo {
    /// What tells it from all others: `/etc/machine-id`, or its host name.
    pub key: String,
    /// Its host name.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// CPUs that were sampled.
    pub cpus: u32,
}

/// How the collector was set up; another setting begins another epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// `machine`, or `own processes`.
    pub scope: String,
    /// `stacks` or `pc`.
    pub mode: String,
    /// Name of each event, in the order they were asked for: `cpu-clock`, `cycles`.
    pub events: Vec<String>,
    /// What takes the samples, and the reason why nothing better does.
    pub sampler: String,
    /// Samples per second and CPU that were asked for.
    pub rate_hz: f64,
    /// Length of a time bucket.
    pub resolution: Nanos,
    /// The version of `whatif`.
    pub version: String,
    /// What its user calls it, by name: `region` is `eu-1`.
    pub labels: BTreeMap<String, String>,
}

impl Setting {
    /// Where the time bucket begins that a moment lies in.
    pub fn bucket(&self, at: UnixSeconds) -> UnixSeconds {
        let length = whole_seconds(self.resolution);
        UnixSeconds(at.0 - at.0.rem_euclid(length))
    }
}

/// An epoch of the collector: a span of time with one setting. (`wire::Epoch` and `profile::Epoch` are another thing, the number of a window.)
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorEpoch {
    /// Its key.
    pub id: EpochId,
    /// On which machine.
    pub machine: MachineId,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// How samples were taken.
    pub setting: Setting,
    /// When it began.
    pub started: UnixSeconds,
    /// When it ended; `None` while it runs, and forever if the collector was killed.
    pub ended: Option<UnixSeconds>,
}

/// At least one second.
pub(super) fn whole_seconds(span: Nanos) -> i64 {
    integer(span.get().div_ceil(1_000_000_000)).max(1)
}

/// A frame of the stacks of one batch or tree: which code, called from which frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Index of the caller's node, or [`Node::NONE`]; always less than the node's own index.
    pub parent: u32,
    /// The image that the code is in.
    pub image: ImageId,
    /// The position of the code in the image: the sampled instruction at the end of a stack, elsewhere the return address less one.
    pub offset: Offset,
}

impl Node {
    /// The parent of the outermost frames.
    pub const NONE: u32 = u32::MAX;
}

/// A number of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Count {
    /// Begin of the time bucket.
    pub time: UnixSeconds,
    /// Who ran.
    pub label: LabelId,
    /// What was sampled.
    pub event: EventId,
    /// Index of the node of the sampled instruction.
    pub node: u32,
    /// How many samples.
    pub count: u32,
}

/// What the collector has counted between two flushes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Frames; parents before their children.
    pub nodes: Vec<Node>,
    /// Samples, in any order; no two alike but in `count`.
    pub counts: Vec<Count>,
    /// What became of the samples.
    pub books: Vec<Books>,
}

/// What became of the samples of one event in one flush interval, on all CPUs together:
/// `expected = stored + unknown + lost`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Books {
    /// The event.
    pub event: EventId,
    /// Begin of the interval.
    pub start: UnixSeconds,
    /// Length of the interval.
    pub length: Nanos,
    /// How many samples the clock (or counter) of the events called for.
    pub expected: u64,
    /// Samples with a known image; those of idle CPUs are among them.
    pub stored: u64,
    /// Samples without: they are stored too, under the image `[unknown]`.
    pub unknown: u64,
    /// Samples that were not taken, or that the kernel or the collector had no room for.
    pub lost: u64,
    /// Samples of idle CPUs.
    pub idle: u64,
    /// CPU time that the samples stand for: for how long the event counted, on all CPUs together. That is `cpus × length` for a
    /// clock of the whole machine, and less for an event that takes turns, or that counts only while certain processes run.
    pub covered: Nanos,
    /// CPU time that the collector used for it.
    pub own_cpu: Nanos,
    /// CPU time that the kernel used for taking the samples, estimated from what one interruption costs here.
    pub kernel_cpu: Nanos,
    /// Memory the collector had resident at the end, in bytes.
    pub resident: u64,
    /// Of an event whose samples are found several at a time (waits), the sum of the squares of how many: what is known of them is known from fewer
    /// observations. Zero: each was taken by itself.
    pub squares: u64,
}

impl Books {
    /// The end of the interval.
    pub fn end(&self) -> UnixSeconds {
        UnixSeconds(self.start.0 + (self.length.get() / 1_000_000_000) as i64)
    }
}

/// The frames that one position in an image stands for, innermost inlined function first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Demangled.
    pub function: Arc<str>,
    /// Source file, or nothing.
    pub file: Arc<str>,
    /// Line in it, or zero.
    pub line: u32,
}
