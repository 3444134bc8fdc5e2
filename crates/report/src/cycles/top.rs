//! What costs most, and what it is worth.

use super::grid::{self, Cells, Set};
use super::heading::{Heading, lines};
use super::quantity::{Share, count, percent, plus_minus, span};
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use profile::{Mark, printable};
use serde::{Serialize, Serializer};

/// The most expensive, by image, function, line, process or cgroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Top {
    /// What was asked.
    pub heading: Heading,
    /// `function`
    pub by: String,
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
    /// Its name.
    pub name: String,
    /// The image it is in; empty where it is none's.
    pub image: String,
    /// The build ID of the image, or nothing.
    pub build_id: String,
    /// Samples in it,
    pub samples: u64,
    /// their share of all samples,
    pub share: Share,
    /// and the CPU time they stand for.
    pub cpu_ns: u64,
    /// Samples in it and in what it calls; `null` where it is not known.
    pub total: Option<u64>,
    /// Their share.
    pub total_share: Option<f64>,
    /// What making it faster is worth.
    pub worth: Option<Worth>,
    /// What to think of both.
    #[serde(serialize_with = "by_name")]
    pub mark: Option<Mark>,
}

/// What a causal recording says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Worth {
    /// Gain per speedup,
    pub slope: f64,
    /// and its interval.
    pub lo: Option<f64>,
    /// Its end.
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

fn by_name<S: Serializer>(mark: &Option<Mark>, to: S) -> Result<S::Ok, S::Error> {
    mark.map(Mark::name).serialize(to)
}

impl Answer for Top {
    const KIND: &'static str = "top";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        self.heading.draw(&mut out, style);
        let columns = [
            ("self", Set::Right),
            ("95 %", Set::Left),
            ("total", Set::Right),
            ("samples", Set::Right),
            ("CPU time", Set::Right),
            ("worth", Set::Left),
            (self.by.as_str(), Set::Gives),
            ("image", Set::Gives),
        ];
        let rows: Vec<Cells> = self.rows.iter().map(cells).collect();
        grid::draw(&mut out, style, &columns, &rows);
        if self.more > 0 {
            let more = format!("… and {} more: --top {}", self.more, self.rows.len() + self.more);
            lines(&mut out, style, Colour::Dim, "  ", &more);
        }
        if !self.not_hot.is_empty() {
            out.push('\n');
            lines(&mut out, style, Colour::Bold, "", "These matter, but are not hot");
            let rows: Vec<Cells> = self.not_hot.iter().map(cells).collect();
            grid::draw(&mut out, style, &columns, &rows);
        }
        if !self.recordings.is_empty() {
            out.push('\n');
            let text = "worth: the slope of the causal profile, gain per speedup, with its 95 % interval; ○ is hot but does not \
                        matter, ● matters, ≈ is of another build.";
            lines(&mut out, style, Colour::Dim, "  ", text);
            lines(
                &mut out,
                style,
                Colour::Dim,
                "  ",
                &printable(&format!("From {}", self.recordings.join(", "))),
            );
        }
        out
    }
}

fn cells(row: &Row) -> Cells {
    let colour = match (&row.worth, row.mark) {
        (Some(worth), _) if worth.verdict == "helps" => Colour::Green,
        (Some(worth), _) if worth.verdict == "hurts" => Colour::Red,
        (_, Some(Mark::HotButDoesNotMatter)) => Colour::Dim,
        _ => Colour::Plain,
    };
    let cells = vec![
        percent(row.share.value),
        plus_minus(row.share.half()),
        row.total_share.map_or_else(String::new, percent),
        count(row.samples),
        span(row.cpu_ns),
        row.worth.as_ref().map_or_else(String::new, |worth| worth.text(row.mark)),
        printable(&row.name).into_owned(),
        printable(short(&row.image)).into_owned(),
    ];
    Cells(cells, colour)
}

impl Worth {
    /// `● 0.45 (0.40 … 0.50)`
    pub(super) fn text(&self, mark: Option<Mark>) -> String {
        let sign = match (mark, self.verdict.as_str()) {
            (Some(Mark::HotButDoesNotMatter), _) => "○ ",
            (_, "helps") => "● ",
            _ => "  ",
        };
        let number = |n: f64| format!("{n:.2}").replace("-0.00", "0.00").replace('-', "−");
        let interval = match (self.lo, self.hi) {
            (Some(lo), Some(hi)) => format!(" ({} … {})", number(lo), number(hi)),
            _ => String::new(),
        };
        let verdict = match self.verdict.as_str() {
            "no-effect" => " no effect",
            "hurts" => " hurts",
            "not-enough-data" => " unsettled",
            _ => "",
        };
        let line = self.line.as_deref().map_or_else(String::new, |line| format!(" {}", printable(line)));
        let about = if self.other_build { "≈" } else { "" };
        format!("{sign}{about}{}{interval}{verdict}{line}", number(self.slope))
    }
}

/// The last part of a path.
pub(super) fn short(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, name)) if !path.starts_with('[') && !name.is_empty() => name,
        _ => path,
    }
}
