//! What code is worth, beside what it costs.

use super::heading::lines;
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use profile::{Mark, printable};
use serde::Serialize;

/// What a column of it means.
pub(super) const LEGEND: &str = "worth: the slope of the causal profile, gain per speedup, with its 95 % interval. ● helps, ○ is hot but \
                                 does not matter, · has no effect, ▼ hurts, ? is not settled; ≈ is of another build.";

/// What a causal recording says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Worth {
    /// Gain per speedup.
    pub slope: f64,
    /// The lower end of its interval.
    pub lo: Option<f64>,
    /// The upper end of its interval.
    pub hi: Option<f64>,
    /// `helps`, `no-effect`, `hurts`, `not-enough-data`
    pub verdict: String,
    /// The progress point that becomes faster.
    pub point: String,
    /// The line that was tried, where the function itself was not.
    pub line: Option<String>,
    /// The recording.
    pub recording: String,
    /// Whether it is of another build of the image.
    pub other_build: bool,
}

impl Worth {
    /// `● 0.45 ±0.05`
    pub(super) fn brief(&self, mark: Option<Mark>) -> String {
        let sign = match (mark, self.verdict.as_str()) {
            (Some(Mark::HotButDoesNotMatter), _) => '○',
            (_, "helps") => '●',
            (_, "hurts") => '▼',
            (_, "no-effect") => '·',
            _ => '?',
        };
        let slope = format!("{:.2}", self.slope).replace("-0.00", "0.00").replace('-', "−");
        let interval = match (self.lo, self.hi) {
            (Some(lo), Some(hi)) => format!(" ±{:.2}", (hi - self.slope).max(self.slope - lo)),
            _ => String::new(),
        };
        let about = if self.other_build { "≈" } else { "" };
        format!("{sign} {about}{slope}{interval}")
    }

    /// Appends the worth as a line of its own.
    pub(super) fn draw(&self, out: &mut String, style: Style) {
        let of_line = self.line.as_ref().map_or_else(String::new, |line| format!(", best line {line}"));
        let build = if self.other_build { ", of another build" } else { "" };
        let text = format!(
            "worth {}: gain of {} per speedup{of_line}, from {}{build}",
            self.brief(None),
            self.point,
            self.recording
        );
        let colour = match self.verdict.as_str() {
            "helps" => Colour::Green,
            "hurts" => Colour::Red,
            _ => Colour::Plain,
        };
        lines(out, style, colour, "", &printable(&text));
    }
}
