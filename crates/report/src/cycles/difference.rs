//! What is different between two selections.

use super::grid::{self, Cells, Set};
use super::heading::{self, WHOLE, lines};
use super::quantity::{count, percent, plus_minus, signed};
use super::worth;
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::{Change, Difference, DifferenceVerdict, Side};
use profile::printable;

impl Answer for Difference {
    const KIND: &'static str = "diff";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        for (side, name) in [(&self.a, "A"), (&self.b, "B")] {
            let title = format!("{name}: {}: {}", printable(&side.asked), heading::title(&side.heading));
            lines(&mut out, style, Colour::Bold, "", &title);
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
            let (colour, mark) = match change.verdict {
                DifferenceVerdict::Changed if change.difference.value > 0.0 => (Colour::Red, ""),
                DifferenceVerdict::Changed => (Colour::Green, ""),
                DifferenceVerdict::CannotTell => (Colour::Plain, " ?"),
            };
            let cells = vec![
                percent(change.a.value),
                percent(change.b.value),
                signed(change.difference.value),
                format!("{}{mark}", plus_minus(change.difference.half())),
                change.worth.as_ref().map_or_else(String::new, |worth| worth::brief(worth, None)),
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
        let (whole, what) = match self.per.as_str() {
            "second" => ("", "Per cent of one CPU, for each CPU of the machine."),
            _ => (WHOLE, "Per cent of the samples of each side."),
        };
        for (side, name) in [(&self.a, "A"), (&self.b, "B")] {
            heading::draw_below(&side.heading, &format!("{name}: {whole}"), &mut out, style);
        }
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
        if let Some(conditions) = &self.conditions {
            out.push('\n');
            out.push_str(&conditions.draw(style));
        }
        out
    }
}
