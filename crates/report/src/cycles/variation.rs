//! How much shares vary between parts: epochs, machines, hours, days, processes.

use super::grid::{self, Cells, Set};
use super::heading::{Heading, lines};
use super::quantity::{count, percent};
use super::worth::{self, Worth};
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use profile::printable;
use serde::Serialize;

/// The statistics of each function across parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Variation {
    /// What was asked.
    pub heading: Heading,
    /// `hour`
    pub across: String,
    /// `function` or `image`
    pub by: String,
    /// The parts.
    pub parts: Vec<Part>,
    /// Parts that have too few samples to be among them.
    pub left_out: usize,
    /// Those that vary most first.
    pub rows: Vec<Varying>,
    /// How many are not among them.
    pub more: usize,
}

/// A part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its samples.
    pub samples: u64,
}

/// How one of them varies. Shares are 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Varying {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Samples in all parts.
    pub samples: u64,
    /// The smallest share in any part.
    pub min: f64,
    /// The largest share in any part.
    pub max: f64,
    /// The mean of the shares, each part counting the same.
    pub mean: f64,
    /// The standard deviation of the shares.
    pub deviation: f64,
    /// `(max − min) ÷ mean`
    pub range: f64,
    /// How much of the deviation chance alone would make, from the counts.
    pub by_chance: f64,
    /// The part with the largest share.
    pub most_in: String,
    /// What making it faster is worth.
    pub worth: Option<Worth>,
}

impl Answer for Variation {
    const KIND: &'static str = "stats";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        self.heading.draw(&mut out, style);
        let columns = [
            ("range", Set::Right),
            ("mean", Set::Right),
            ("std dev", Set::Right),
            ("chance", Set::Right),
            ("min", Set::Right),
            ("max", Set::Right),
            ("samples", Set::Right),
            ("worth", Set::Left),
            (self.by.as_str(), Set::Gives),
            ("image", Set::Gives),
            ("max in", Set::Gives),
        ];
        let cells = |row: &Varying| {
            let cells = vec![
                format!("{:.0} %", row.range * 100.0),
                percent(row.mean),
                percent(row.deviation),
                percent(row.by_chance),
                percent(row.min),
                percent(row.max),
                count(row.samples),
                row.worth.as_ref().map_or_else(String::new, |worth| worth.brief(None)),
                printable(&row.name).into_owned(),
                printable(super::top::short(&row.image)).into_owned(),
                printable(&row.most_in).into_owned(),
            ];
            Cells(cells, if row.deviation > 2.0 * row.by_chance { Colour::Yellow } else { Colour::Plain })
        };
        grid::draw(&mut out, style, &columns, &self.rows.iter().map(cells).collect::<Vec<_>>());
        if self.more > 0 {
            let more = format!("… and {} more: --top {}", self.more, self.rows.len() + self.more);
            lines(&mut out, style, Colour::Dim, "  ", &more);
        }
        let left_out = match self.left_out {
            0 => String::new(),
            n => format!("; {n} with too few samples are left out"),
        };
        let text = format!(
            "Shares in {} parts ({}){left_out}. range: (max − min) ÷ mean; chance: the standard deviation that samples of this number \
             would have by chance alone. Sorted by the deviation beyond chance.",
            self.parts.len(),
            self.across
        );
        lines(&mut out, style, Colour::Dim, "  ", &text);
        if self.rows.iter().any(|row| row.worth.is_some()) {
            lines(&mut out, style, Colour::Dim, "  ", worth::LEGEND);
        }
        out
    }
}
