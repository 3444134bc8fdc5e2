//! Which functions are padded, and by how much.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::image::Function;
use super::run::{Built, Patch};

/// A function that runs, in the program as it is.
#[derive(Clone, Debug)]
pub struct Called {
    pub function: Function,
    /// Calls for each visit of the progress point.
    pub per_visit: f64,
    /// Calls a second.
    pub per_second: f64,
}

/// A function with its pad.
#[derive(Clone, Debug)]
pub struct Padded {
    pub called: Called,
    /// In each call.
    pub iterations: u64,
    /// The time of one call's pad, in nanoseconds.
    pub nanos: f64,
}

/// How the program runs without a pad.
#[derive(Debug)]
pub struct Plain {
    /// Visits of the progress point a second.
    pub rate: f64,
    /// Of one iteration, in picoseconds.
    pub picos: u64,
    /// Those that were called, the most frequent first.
    pub called: Vec<Called>,
}

/// Calls a second of the functions that are padded: few enough for a call of the pad to be no cost, often enough to happen in each window.
pub const CALLS: std::ops::RangeInclusive<f64> = 100.0..=100_000.0;

/// The part of the run time that a pad takes, if all of it adds to the run time.
const SHARE: std::ops::Range<f64> = 0.05..0.40;

impl Plain {
    /// Counting takes time, in each function as often as it is called; so calls are counted for each visit, and visits in a run that does not count.
    pub fn of(built: &Built, seconds: f64) -> Result<Self> {
        let shared = built.shared()?;
        let mut running = built.start(Patch::None, &shared)?;
        running.measure(seconds / 4.0)?;
        let began = Instant::now();
        let (visits, _) = running.measure(seconds)?;
        let rate = as_number(visits) / began.elapsed().as_secs_f64();
        let picos = shared.picos()?;
        drop(running);

        let mut running = built.start(Patch::CountAll, &shared)?;
        running.measure(seconds / 4.0)?;
        let calls = || -> Result<Vec<u64>> {
            built.functions.iter().map(|function| shared.calls_at(function.offset)).collect()
        };
        let before = calls()?;
        let (visits, _) = running.measure(seconds)?;
        let after = calls()?;
        drop(running);
        let mut called: Vec<Called> = built
            .functions
            .iter()
            .zip(before.iter().zip(&after))
            .filter(|(_, (before, after))| after > before)
            .map(|(function, (before, after))| {
                let per_visit = as_number(after - before) / as_number(visits);
                Called { function: function.clone(), per_visit, per_second: per_visit * rate }
            })
            .collect();
        called.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
        Ok(Self { rate, picos, called })
    }

    /// So many at random that are not called like one of `known`, each with a pad of random length; fewer if there are not so many.
    pub fn choose(&self, built: &Built, known: &[String], wanted: usize) -> Result<Vec<Padded>> {
        let mut eligible: Vec<&Called> = self
            .called
            .iter()
            .filter(|called| CALLS.contains(&called.per_second) && called.function != built.point)
            .filter(|called| !known.contains(&called.function.name))
            .collect();
        ensure!(
            !eligible.is_empty(),
            "no other function of {} is called between {} and {} times a second",
            built.program.name,
            CALLS.start(),
            CALLS.end()
        );
        fastrand::shuffle(&mut eligible);
        Ok(eligible.into_iter().take(wanted).map(|called| self.padded(called)).collect())
    }

    /// The one that is called `name`.
    pub fn padded_by_name(&self, built: &Built, name: &str) -> Result<Padded> {
        let function = built.functions.called(name)?;
        let called = self.called.iter().find(|called| called.function == *function);
        ensure!(*function != built.point, "'{name}' is the progress point, which cannot be padded as well");
        Ok(self.padded(
            called.with_context(|| format!("'{name}' was not called (--list shows those that are)"))?,
        ))
    }

    fn padded(&self, called: &Called) -> Padded {
        let share = SHARE.start + fastrand::f64() * (SHARE.end - SHARE.start);
        let nanos = share / (1.0 - share) / called.per_second * 1e9;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let iterations = (nanos * 1000.0 / as_number(self.picos)).round().max(1.0) as u64;
        Padded { called: called.clone(), iterations, nanos: as_number(iterations * self.picos) / 1000.0 }
    }
}

#[expect(clippy::cast_precision_loss)]
pub fn as_number(count: u64) -> f64 {
    count as f64
}
