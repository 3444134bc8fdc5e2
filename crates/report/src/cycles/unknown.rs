//! Samples without names, why they have none, and how to fix it.

use super::grid::{self, Cells, Set};
use super::heading::{self, WHOLE, lines};
use super::quantity::{count, percent};
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::{Unknown, UnknownRow};
use profile::printable;

impl Answer for Unknown {
    const KIND: &'static str = "unknown";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        heading::draw_title(&self.heading, &mut out, style);
        let of = |samples: u64| percent(samples as f64 / self.heading.samples.max(1) as f64);
        let title = match self.samples {
            0 => "Everything has a name.".to_owned(),
            n => format!("{} samples ({}) have no name:", count(n), of(n)),
        };
        lines(&mut out, style, Colour::Bold, "", &title);
        let columns = [
            ("share", Set::Right),
            ("samples", Set::Right),
            ("image", Set::Gives),
            ("processes", Set::Gives),
        ];
        let cells = |row: &UnknownRow| {
            let cells = vec![
                of(row.samples),
                count(row.samples),
                printable(&row.image).into_owned(),
                printable(&row.processes.join(", ")).into_owned(),
            ];
            Cells(cells, Colour::Plain)
        };
        if !self.rows.is_empty() {
            grid::draw(&mut out, style, &columns, &self.rows.iter().map(cells).collect::<Vec<_>>());
        }
        heading::draw_below(&self.heading, WHOLE, &mut out, style);
        let mut said: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !said.contains(&row.code.as_str()) {
                said.push(&row.code);
                let images: Vec<&str> = self
                    .rows
                    .iter()
                    .filter(|other| other.code == row.code)
                    .map(|other| super::top::short(&other.image))
                    .collect();
                let shown = images[..images.len().min(5)].join(", ");
                let more =
                    if images.len() > 5 { format!(" and {} more", images.len() - 5) } else { String::new() };
                out.push('\n');
                lines(
                    &mut out,
                    style,
                    Colour::Yellow,
                    "! ",
                    &printable(&format!("{shown}{more}: {}", row.why)),
                );
                lines(&mut out, style, Colour::Plain, "  ", &printable(&row.advice));
            }
        }
        out
    }
}
