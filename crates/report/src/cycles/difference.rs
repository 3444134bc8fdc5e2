//! What is different between two selections.

use super::grid::{self, Cells, Set};
use super::heading::{Heading, lines};
use super::quantity::{Share, count, percent, plus_minus, signed};
use super::worth::{self, Worth};
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use profile::printable;
use serde::Serialize;

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
    /// What making it faster is worth.
    pub worth: Option<Worth>,
}

impl Answer for Difference {
    const KIND: &'static str = "diff";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        for (side, name) in [(&self.a, "A"), (&self.b, "B")] {
            lines(&mut out, style, Colour::Bold, "", &printable(&format!("{name}: {}", side.asked)));
            side.heading.draw(&mut out, style);
        }
        let columns = [
            ("A", Set::Right),
            ("B", Set::Right),
            ("B − A", Set::Right),
            ("95 %", Set::Left),
            ("worth", Set::Left),
            (self.by.as_str(), Set::Gives),
            ("image", Set::Gives),
        ];
        let cells = |change: &Change| {
            let colour = match change.certain {
                certain if certain > 0.0 => Colour::Red,
                certain if certain < 0.0 => Colour::Green,
                _ => Colour::Plain,
            };
            let mark = if change.certain == 0.0 { " ?" } else { "" };
            let cells = vec![
                percent(change.a.value),
                percent(change.b.value),
                signed(change.difference.value),
                format!("{}{mark}", plus_minus(change.difference.half())),
                change.worth.as_ref().map_or_else(String::new, |worth| worth.brief(None)),
                printable(&change.name).into_owned(),
                printable(super::top::short(&change.image)).into_owned(),
            ];
            Cells(cells, colour)
        };
        grid::draw(&mut out, style, &columns, &self.changes.iter().map(cells).collect::<Vec<_>>());
        if self.more > 0 {
            let more = format!("… and {} more: --top {}", self.more, self.changes.len() + self.more);
            lines(&mut out, style, Colour::Dim, "  ", &more);
        }
        let what = match self.per.as_str() {
            "second" => "Per cent of one CPU, for each CPU of the machine.",
            _ => "Per cent of the samples of each side.",
        };
        let basis = |side: &Side, name: &str| match side.spans {
            0 => format!(
                "{name}: from counts alone (too few spans of time to see how much they vary), so they may be too narrow"
            ),
            n => format!("{name}: from how much {} spans of {} s vary", count(n as u64), side.span_s),
        };
        let text = format!(
            "{what} Sorted by the part of the difference that is certain; ? is not. Intervals of {}; of {}.",
            basis(&self.a, "A"),
            basis(&self.b, "B")
        );
        lines(&mut out, style, Colour::Dim, "  ", &text);
        if self.changes.iter().any(|change| change.worth.is_some()) {
            lines(&mut out, style, Colour::Dim, "  ", worth::LEGEND);
        }
        out
    }
}
