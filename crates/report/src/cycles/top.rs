//! What costs most, and what it is worth.

use super::grid::{self, Cells, Set};
use super::heading::{self, WHOLE, lines, time_of};
use super::quantity::{count, percent, plus_minus, span};
use super::worth;
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::{Row, Top};
use profile::{Mark, Verdict, printable};

impl Answer for Top {
    const KIND: &'static str = "top";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        heading::draw_title(&self.heading, &mut out, style);
        // Who ran, each in a column of its own, and code, if both were asked for.
        let by: Vec<&str> = self.by.split(',').collect();
        let mut columns = vec![
            ("self", Set::Right),
            ("95 %", Set::Left),
            ("total", Set::Right),
            ("samples", Set::Right),
            (time_of(&self.heading), Set::Right),
            ("worth", Set::Left),
        ];
        columns.extend(by.iter().map(|by| (*by, Set::Gives)));
        columns.extend([("image", Set::Gives), ("best line", Set::Gives)]);
        // With what it is worth there is no room for two ways to say what it costs.
        let has_worth = self.rows.iter().chain(&self.not_hot).any(|row| row.worth.is_some());
        let with_samples = style.width >= 100 || !has_worth;
        let each = self.heading.nanos_per_sample.unwrap_or(0.0);
        let cells = |row: &Row| {
            // The time of what they are ranked by.
            let total = row.total.filter(|_| self.by_total).zip(row.cpu_ns);
            let time = total.map(|(total, _)| (total as f64 * each).round() as u64).or(row.cpu_ns);
            cells(row, time, with_samples, by.len())
        };
        let rows: Vec<Cells> = self.rows.iter().map(cells).collect();
        grid::draw(&mut out, style, &columns, &rows);
        if self.more > 0 {
            let more = format!("… and {} more: --top {}", self.more, self.rows.len() + self.more);
            lines(&mut out, style, Colour::Dim, "  ", &more);
        }
        heading::draw_below(&self.heading, WHOLE, &mut out, style);
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

fn cells(row: &Row, time: Option<u64>, with_samples: bool, by: usize) -> Cells {
    let colour = match (&row.worth, row.mark) {
        (Some(worth), _) if worth.verdict == Verdict::Helps => Colour::Green,
        (Some(worth), _) if worth.verdict == Verdict::Hurts => Colour::Red,
        (_, Some(Mark::HotButDoesNotMatter)) => Colour::Dim,
        _ => Colour::Plain,
    };
    let line = row.worth.as_ref().and_then(|worth| worth.line.as_deref()).unwrap_or_default();
    let mut cells = vec![
        percent(row.share.value),
        plus_minus(row.share.half()),
        row.total_share.map_or_else(String::new, percent),
        if with_samples { count(row.samples) } else { String::new() },
        time.map_or_else(String::new, span),
        row.worth.as_ref().map_or_else(String::new, |worth| worth::brief(worth, row.mark)),
    ];
    cells.extend(row.groups.iter().map(|(_, text)| printable(text).into_owned()));
    if row.groups.len() < by {
        cells.push(printable(&row.name).into_owned());
    }
    cells.extend([printable(short(&row.image)).into_owned(), printable(line).into_owned()]);
    Cells(cells, colour)
}

/// The last part of a path.
pub(super) fn short(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, name)) if !path.starts_with('[') && !name.is_empty() => name,
        _ => path,
    }
}
