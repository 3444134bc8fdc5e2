//! Which functions are padded, and by how much.

use std::ops::{Range, RangeInclusive};

use anyhow::{Context, Result, bail, ensure};

use super::image::Function;
use super::run::{Built, Patch, Setup};

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

/// Which functions get a pad, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pads {
    /// A share of the run time.
    OfRun,
    /// So long that a request takes its time: what it costs to note when it begins and ends is little beside it.
    OfRequests,
}

/// Calls a second of the functions that are padded: few enough for a call of the pad to be no cost, often enough to happen in each window.
const CALLS: RangeInclusive<f64> = 100.0..=100_000.0;

/// The part of the run time that a pad takes, if all of it adds to the run time.
const SHARE: Range<f64> = 0.05..0.40;

/// Calls for each request: not so rarely that few requests have all of the pad.
const CALLS_PER_REQUEST: RangeInclusive<f64> = 0.3..=20.0;

/// What a request takes altogether, in nanoseconds. (A breakpoint costs some thousand.)
const REQUEST: Range<f64> = 100_000.0..300_000.0;

impl Pads {
    /// Whether a function is called neither too often nor too rarely.
    pub fn suit(self, called: &Called) -> bool {
        match self {
            Self::OfRun => CALLS.contains(&called.per_second),
            Self::OfRequests => CALLS_PER_REQUEST.contains(&called.per_visit),
        }
    }

    /// What suits.
    fn rule(self) -> String {
        match self {
            Self::OfRun => format!("between {} and {} times a second", CALLS.start(), CALLS.end()),
            Self::OfRequests => {
                format!(
                    "between {} and {} times a request",
                    CALLS_PER_REQUEST.start(),
                    CALLS_PER_REQUEST.end()
                )
            }
        }
    }

    /// The time of one call's pad, in nanoseconds, where the program has `rate` visits a second without one. `random` is below 1.
    fn nanos(self, called: &Called, rate: f64, random: f64) -> f64 {
        let draw = |range: Range<f64>| range.start + random * (range.end - range.start);
        match self {
            Self::OfRun => {
                let share = draw(SHARE);
                share / (1.0 - share) / called.per_second * 1e9
            }
            Self::OfRequests => {
                let plain = 1e9 / rate;
                // Where a request takes long anyway, the pad is a part of it that can be seen.
                (draw(REQUEST) - plain).max(plain / 4.0) / called.per_visit
            }
        }
    }
}

impl Plain {
    /// Counting takes time, in each function as often as it is called; so calls are counted for each visit, and visits in a run that does not count.
    pub fn of(built: &Built, seconds: f64) -> Result<Self> {
        let shared = built.shared()?;
        let mut running = built.start(Setup::closed(Patch::None), &shared)?;
        running.measure(seconds / 4.0)?;
        let rate = running.measure(seconds)?.rate();
        let picos = shared.picos()?;
        drop(running);

        let mut running = built.start(Setup::closed(Patch::CountAll), &shared)?;
        running.measure(seconds / 4.0)?;
        let calls = || -> Result<Vec<u64>> {
            built.functions.iter().map(|function| shared.calls_at(function.offset)).collect()
        };
        let before = calls()?;
        let visits = running.measure(seconds)?.visits;
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
    pub fn choose(&self, built: &Built, pads: Pads, known: &[String], wanted: usize) -> Result<Vec<Padded>> {
        let mut eligible: Vec<&Called> = self
            .called
            .iter()
            .filter(|called| pads.suit(called) && use_of(built, pads, &called.function).is_none())
            .filter(|called| !known.contains(&called.function.name))
            .collect();
        ensure!(
            !eligible.is_empty(),
            "no other function of {} is called {}",
            built.program.name,
            pads.rule()
        );
        fastrand::shuffle(&mut eligible);
        Ok(eligible.into_iter().take(wanted).map(|called| self.padded(pads, called)).collect())
    }

    /// The one that is called `name`.
    pub fn padded_by_name(&self, built: &Built, pads: Pads, name: &str) -> Result<Padded> {
        let function = built.functions.called(name)?;
        let called = self.called.iter().find(|called| called.function == *function);
        if let Some(role) = use_of(built, pads, function) {
            bail!("'{name}' is {role}, which cannot be padded as well");
        }
        Ok(self.padded(
            pads,
            called.with_context(|| format!("'{name}' was not called (--list shows those that are)"))?,
        ))
    }

    fn padded(&self, pads: Pads, called: &Called) -> Padded {
        let nanos = pads.nanos(called, self.rate, fastrand::f64());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let iterations = (nanos * 1000.0 / as_number(self.picos)).round().max(1.0) as u64;
        Padded { called: called.clone(), iterations, nanos: as_number(iterations * self.picos) / 1000.0 }
    }
}

/// What the entry of `function` is needed for.
fn use_of(built: &Built, pads: Pads, function: &Function) -> Option<&'static str> {
    let timed = built.latency.as_ref().filter(|_| pads == Pads::OfRequests);
    match timed {
        _ if *function == built.point => Some("the progress point"),
        Some((begin, _)) if function == begin => Some("the begin of a request"),
        Some((_, end)) if function == end => Some("the end of a request"),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss)]
pub fn as_number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(per_visit: f64, rate: f64) -> Called {
        let function = Function { name: "f".to_owned(), offset: 0 };
        Called { function, per_visit, per_second: per_visit * rate }
    }

    #[test]
    fn a_pad_of_a_run_is_a_share_of_it() {
        // Ten thousand calls a second, and a pad of 5 % to 40 % of what comes out.
        for (random, micros) in [(0.0, 5.263), (1.0, 66.667)] {
            let nanos = Pads::OfRun.nanos(&called(2.0, 5000.0), 5000.0, random);
            assert!((nanos / 1000.0 - micros).abs() < 0.01, "{nanos}");
        }
    }

    #[test]
    fn a_request_takes_its_time() {
        for (per_visit, rate, random, micros) in
            [(1.0, 50_000.0, 0.0, 80.0), (2.0, 50_000.0, 1.0, 140.0), (0.5, 2000.0, 0.0, 250.0)]
        {
            let nanos = Pads::OfRequests.nanos(&called(per_visit, rate), rate, random);
            assert!((nanos / 1000.0 - micros).abs() < 0.01, "{per_visit} {rate}: {nanos}");
        }
        for (per_visit, suits) in [(0.29, false), (0.3, true), (20.0, true), (21.0, false)] {
            assert_eq!(Pads::OfRequests.suit(&called(per_visit, 1000.0)), suits, "{per_visit}");
        }
    }
}
