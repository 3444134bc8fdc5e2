//! What costs most, and what it is worth.

use super::grid::{self, Cells, Set};
use super::heading::{Heading, lines};
use super::quantity::{Share, count, percent, plus_minus, span};
use super::worth::{self, Worth};
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
    /// Samples in it.
    pub samples: u64,
    /// The share of these samples in all samples.
    pub share: Share,
    /// CPU time that these samples stand for; `null` where the event is no clock.
    pub cpu_ns: Option<u64>,
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
            ("best line", Set::Gives),
        ];
        // With what it is worth there is no room for two ways to say what it costs.
        let has_worth = self.rows.iter().chain(&self.not_hot).any(|row| row.worth.is_some());
        let with_samples = style.width >= 100 || !has_worth;
        let cells = |row: &Row| cells(row, with_samples);
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
            lines(&mut out, style, Colour::Dim, "  ", worth::LEGEND);
            let text = "best line: where only lines were tried, whose slopes are added up.";
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

fn cells(row: &Row, with_samples: bool) -> Cells {
    let colour = match (&row.worth, row.mark) {
        (Some(worth), _) if worth.verdict == "helps" => Colour::Green,
        (Some(worth), _) if worth.verdict == "hurts" => Colour::Red,
        (_, Some(Mark::HotButDoesNotMatter)) => Colour::Dim,
        _ => Colour::Plain,
    };
    let line = row.worth.as_ref().and_then(|worth| worth.line.as_deref()).unwrap_or_default();
    let cells = vec![
        percent(row.share.value),
        plus_minus(row.share.half()),
        row.total_share.map_or_else(String::new, percent),
        if with_samples { count(row.samples) } else { String::new() },
        row.cpu_ns.map_or_else(String::new, span),
        row.worth.as_ref().map_or_else(String::new, |worth| worth.brief(row.mark)),
        printable(&row.name).into_owned(),
        printable(short(&row.image)).into_owned(),
        printable(line).into_owned(),
    ];
    Cells(cells, colour)
}

/// The last part of a path.
pub(super) fn short(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, name)) if !path.starts_with('[') && !name.is_empty() => name,
        _ => path,
    }
}
