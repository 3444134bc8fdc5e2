//! The epochs of a database.

use super::grid::{self, Cells, Set};
use super::quantity::{count, percent, span};
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::{EpochRow, Epochs};
use profile::printable;

impl Answer for Epochs {
    const KIND: &'static str = "epochs";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        let columns = [
            ("epoch", Set::Right),
            ("name", Set::Gives),
            ("time", Set::Left),
            ("machine", Set::Gives),
            ("samples", Set::Right),
            ("lost", Set::Right),
            ("CPU time", Set::Right),
            ("how", Set::Gives),
        ];
        let cells = |row: &EpochRow| {
            let expected = row.samples + row.lost;
            let cells = vec![
                row.epoch.to_string(),
                printable(row.name.as_deref().unwrap_or_default()).into_owned(),
                row.time.clone(),
                printable(&row.machine).into_owned(),
                count(row.samples),
                if expected == 0 { String::new() } else { percent(row.lost as f64 / expected as f64) },
                span(row.covered_ns),
                printable(&format!(
                    "{} at {} Hz, {}, {}",
                    row.events.join("+"),
                    row.rate_hz,
                    row.mode,
                    row.scope
                ))
                .into_owned(),
            ];
            Cells(cells, Colour::Plain)
        };
        grid::draw(&mut out, style, &columns, &self.epochs.iter().map(cells).collect::<Vec<_>>());
        out
    }
}
