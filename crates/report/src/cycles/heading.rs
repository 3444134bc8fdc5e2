//! The heading of every answer: what was asked, how many samples there should be, and what became of them.

use super::quantity::{count, percent, span};
use crate::terminal::Style;
use crate::terminal::columns::wrap;
use crate::terminal::paint::{Colour, paint};
use profile::printable;
use serde::Serialize;

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
    /// CPU time that one sample stands for, in nanoseconds; `null` where the event is no clock.
    pub nanos_per_sample: Option<f64>,
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
    /// CPU time that they stand for.
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

impl Heading {
    /// Appends the heading and its warnings, and an empty line.
    pub(super) fn draw(&self, out: &mut String, style: Style) {
        let cpus = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
        let machines = match self.machines.as_slice() {
            [one] => format!("{one} ({cpus})"),
            [one, other] => format!("{one} and {other} ({cpus})"),
            many => format!("{} machines ({cpus})", many.len()),
        };
        let mut title = format!("{} on {machines}, {}", self.event, self.time);
        for part in &self.selection {
            title.push_str(&format!(", {part}"));
        }
        lines(out, style, Colour::Bold, "", &printable(&title));
        lines(out, style, Colour::Plain, "  ", &self.account());
        for note in &self.warnings {
            lines(out, style, Colour::Yellow, "! ", &printable(&note.message));
            lines(out, style, Colour::Plain, "  ", &printable(&note.advice));
        }
        out.push('\n');
    }

    /// The books in words.
    fn account(&self) -> String {
        let Books { expected, stored, unknown, lost, idle, covered_ns, .. } = self.books;
        let of = |part: u64| if expected > 0 { part as f64 / expected as f64 } else { 0.0 };
        let taken = stored + unknown;
        let idle_share = if taken > 0 { idle as f64 / taken as f64 } else { 0.0 };
        let idle = match (idle, self.with_idle) {
            (0, _) => String::new(),
            (_, true) => format!(", {} of them idle", percent(idle_share)),
            (_, false) => format!(", {} of them idle and left out", percent(idle_share)),
        };
        format!(
            "expected {} = stored {} + unknown {} ({}) + lost {} ({}){idle}; {:.1} a second and CPU in {} of CPU time; \
             {} samples here",
            count(expected),
            count(stored),
            count(unknown),
            percent(of(unknown)),
            count(lost),
            percent(of(lost)),
            self.rate,
            span(covered_ns),
            count(self.samples)
        )
    }
}

/// Appends a paragraph, whose first line has a mark before it.
pub(super) fn lines(out: &mut String, style: Style, colour: Colour, mark: &str, text: &str) {
    for paragraph in text.split('\n') {
        for (nth, line) in wrap(paragraph, style.width.saturating_sub(mark.len())).iter().enumerate() {
            let mark = if nth == 0 { mark.to_owned() } else { " ".repeat(mark.len()) };
            out.push_str(&paint(style, colour, format!("{mark}{line}").trim_end()));
            out.push('\n');
        }
    }
}
