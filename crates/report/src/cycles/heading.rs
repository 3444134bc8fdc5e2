//! The heading of every answer: what was asked, how many samples there should be, and what became of them.

use super::quantity::{count, percent, span};
use crate::terminal::Style;
use crate::terminal::columns::wrap;
use crate::terminal::paint::{Colour, paint};
use cycles::{Books, Heading, OFF_CPU};
use profile::printable;

/// Appends the heading and its warnings, and an empty line.
pub(super) fn draw(heading: &Heading, out: &mut String, style: Style) {
    let cpus = if heading.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", heading.cpus) };
    let machines = match heading.machines.as_slice() {
        [one] => format!("{one} ({cpus})"),
        [one, other] => format!("{one} and {other} ({cpus})"),
        many => format!("{} machines ({cpus})", many.len()),
    };
    let mut title = format!("{} on {machines}, {}", heading.event, heading.time);
    for part in &heading.selection {
        title.push_str(&format!(", {part}"));
    }
    lines(out, style, Colour::Bold, "", &printable(&title));
    lines(out, style, Colour::Plain, "  ", &account(heading));
    for note in &heading.warnings {
        lines(out, style, Colour::Yellow, "! ", &printable(&note.message));
        lines(out, style, Colour::Plain, "  ", &printable(&note.advice));
    }
    out.push('\n');
}

/// What the column of times is called.
pub(super) fn time_of(heading: &Heading) -> &'static str {
    if heading.event == OFF_CPU { "waiting" } else { "CPU time" }
}

/// What the time is called in other tools' formats.
pub(super) fn kind_of_time(heading: &Heading) -> &'static str {
    if heading.event == OFF_CPU { "off-cpu" } else { "cpu" }
}

/// The books in words.
fn account(heading: &Heading) -> String {
    let Books { expected, stored, unknown, lost, idle, covered_ns, .. } = heading.books;
    let of = |part: u64| if expected > 0 { part as f64 / expected as f64 } else { 0.0 };
    let taken = stored + unknown;
    let balance = format!(
        "{} = stored {} + unknown {} ({}) + lost {} ({})",
        count(expected),
        count(stored),
        count(unknown),
        percent(of(unknown)),
        count(lost),
        percent(of(lost))
    );
    if heading.event == OFF_CPU {
        return format!(
            "samples of time that threads wait, {} each: {balance}, {} of waiting; {} samples here",
            span(heading.nanos_per_sample.unwrap_or(0.0).round() as u64),
            span(covered_ns),
            count(heading.samples)
        );
    }
    let idle_share = if taken > 0 { idle as f64 / taken as f64 } else { 0.0 };
    let idle = match (idle, heading.with_idle) {
        (0, _) => String::new(),
        (_, true) => format!(", {} of them idle", percent(idle_share)),
        (_, false) => format!(", {} of them idle and left out", percent(idle_share)),
    };
    format!(
        "expected {balance}{idle}; {:.1} a second and CPU in {} of CPU time; {} samples here",
        heading.rate,
        span(covered_ns),
        count(heading.samples)
    )
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
