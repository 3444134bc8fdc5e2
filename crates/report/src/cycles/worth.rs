//! What code is worth, beside what it costs.

use super::heading::lines;
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::Worth;
use profile::{Mark, Verdict, printable};

/// What a column of it means.
pub(super) const LEGEND: &str = "worth: the slope of the causal profile, gain per speedup, with its 95 % interval. ● helps, ○ is hot but \
                                 does not matter, · has no effect, ▼ hurts, ? is not settled; ≈ is of another build.";

/// `● 0.45 ±0.05`
pub(super) fn brief(worth: &Worth, mark: Option<Mark>) -> String {
    let sign = match (mark, worth.verdict) {
        (Some(Mark::HotButDoesNotMatter), _) => '○',
        (_, Verdict::Helps) => '●',
        (_, Verdict::Hurts) => '▼',
        (_, Verdict::NoEffect) => '·',
        _ => '?',
    };
    let slope = format!("{:.2}", worth.slope).replace("-0.00", "0.00").replace('-', "−");
    let interval = match (worth.lo, worth.hi) {
        (Some(lo), Some(hi)) => format!(" ±{:.2}", (hi - worth.slope).max(worth.slope - lo)),
        _ => String::new(),
    };
    let about = if worth.other_build { "≈" } else { "" };
    format!("{sign} {about}{slope}{interval}")
}

/// The same as a line of its own.
pub(super) fn draw(worth: &Worth, out: &mut String, style: Style) {
    let of_line = worth.line.as_ref().map_or_else(String::new, |line| format!(", best line {line}"));
    let build = if worth.other_build { ", of another build" } else { "" };
    let text = format!(
        "worth {}: gain of {} per speedup{of_line}, from {}{build}",
        brief(worth, None),
        worth.point,
        worth.recording
    );
    let colour = match worth.verdict {
        Verdict::Helps => Colour::Green,
        Verdict::Hurts => Colour::Red,
        _ => Colour::Plain,
    };
    lines(out, style, colour, "", &printable(&text));
}
