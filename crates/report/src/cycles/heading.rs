//! What every answer has above and below it: what was asked; how many samples there should be, and what became of them.

use super::quantity::{count, percent, span};
use crate::terminal::Style;
use crate::terminal::columns::wrap;
use crate::terminal::paint::{Colour, paint};
use cycles::{Books, Heading, OFF_CPU};
use profile::printable;

/// What was asked, for a line above the answer.
pub(super) fn title(heading: &Heading) -> String {
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
    printable(&title).into_owned()
}

/// Appends that line.
pub(super) fn draw_title(heading: &Heading, out: &mut String, style: Style) {
    lines(out, style, Colour::Bold, "", &title(heading));
}

/// Appends what belongs below the answer: how many samples there are, in a line that begins with `lead`, and the warnings.
pub(super) fn draw_below(heading: &Heading, lead: &str, out: &mut String, style: Style) {
    lines(out, style, Colour::Plain, "  ", &format!("{lead}{}", account(heading)));
    for note in &heading.warnings {
        lines(out, style, Colour::Yellow, "! ", &printable(&note.message));
        lines(out, style, Colour::Plain, "  ", &printable(&note.advice));
    }
}

/// Before the number of samples that all shares above it are of.
pub(super) const WHOLE: &str = "100 % = ";

/// What the column of times is called.
pub(super) fn time_of(heading: &Heading) -> &'static str {
    if heading.event == OFF_CPU { "waiting" } else { "CPU time" }
}

/// What the time is called in other tools' formats.
pub(super) fn kind_of_time(heading: &Heading) -> &'static str {
    if heading.event == OFF_CPU { "off-cpu" } else { "cpu" }
}

/// The samples that the answer is about, and what became of all that were expected.
fn account(heading: &Heading) -> String {
    let Books { expected, unknown, lost, idle, .. } = heading.books;
    let of = |part: u64| percent(if expected > 0 { part as f64 / expected as f64 } else { 0.0 });
    let each = match heading.nanos_per_sample {
        Some(each) if heading.event == OFF_CPU => {
            format!(", each of {} of waiting", span(each.round() as u64))
        }
        _ => String::new(),
    };
    let idle = match (idle, heading.with_idle) {
        (0, _) => String::new(),
        (_, true) => format!("idle {}, ", of(idle)),
        (_, false) => format!("idle {} left out, ", of(idle)),
    };
    format!("{} samples{each}; {idle}lost {}, unknown {}", count(heading.samples), of(lost), of(unknown))
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
