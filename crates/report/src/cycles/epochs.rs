//! The epochs of a database.

use super::grid::{self, Cells, Set};
use super::quantity::{count, percent, span};
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use profile::printable;
use serde::Serialize;

/// All epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Epochs {
    /// The folder of the database.
    pub database: String,
    /// Oldest first.
    pub epochs: Vec<EpochRow>,
}

/// One epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EpochRow {
    /// Its number.
    pub epoch: i64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The machine.
    pub machine: String,
    /// When it began, in seconds since 1970.
    pub started: i64,
    /// When it ended, in seconds since 1970; `null` while it runs, or if the collector was killed.
    pub ended: Option<i64>,
    /// When, for people.
    #[serde(skip)]
    pub time: String,
    /// What was sampled.
    pub events: Vec<String>,
    /// How it was sampled.
    pub sampler: String,
    /// How often for each second and CPU.
    pub rate_hz: f64,
    /// With stacks or without.
    pub mode: String,
    /// Whose code was sampled.
    pub scope: String,
    /// Samples of all events that were kept.
    pub samples: u64,
    /// Samples of all events that were not kept.
    pub lost: u64,
    /// CPU time that the first event's samples stand for.
    pub covered_ns: u64,
}

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
