//! How much shares vary between parts: epochs, machines, hours, days, processes.

use super::grid::{self, Cells, Set};
use super::heading::{self, lines};
use super::quantity::{count, percent};
use super::worth;
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::{Variation, VariationVerdict, Varying};
use profile::printable;

impl Answer for Variation {
    const KIND: &'static str = "stats";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        heading::draw_title(&self.heading, &mut out, style);
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
                row.worth.as_ref().map_or_else(String::new, |worth| worth::brief(worth, None)),
                printable(&row.name).into_owned(),
                printable(super::top::short(&row.image)).into_owned(),
                printable(&row.most_in).into_owned(),
            ];
            let colour = match row.verdict {
                VariationVerdict::Varies => Colour::Yellow,
                VariationVerdict::ByChance => Colour::Plain,
            };
            Cells(cells, colour)
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
        heading::draw_below(&self.heading, "", &mut out, style);
        out
    }
}
