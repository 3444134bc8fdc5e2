//! A check, one run of it, and what the run measured.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::Result;
use serde::Serialize;
use targets::Target;

use crate::accept::checks::accuracy;
use crate::accept::plan::{Plan, RunOutcome};
use crate::machine::Machine;
use crate::mosaic::piece::Piece;
use crate::profiler::Whatif;

/// Something that is measured, and judged by several runs.
#[derive(Clone, Debug)]
pub struct Check {
    /// `group::what_holds`.
    pub name: Cow<'static, str>,
    /// How long a run takes, roughly.
    pub seconds: u32,
    /// How it is judged.
    pub plan: Plan,
    /// One run.
    pub body: Body,
}

/// One run of a check.
#[derive(Clone, Debug)]
pub enum Body {
    /// A function that measures.
    Function(fn(&mut Run) -> Result<()>),
    /// The predictions about a target against the truth.
    Target(&'static Target),
    /// The predictions about a random program against the truth.
    Mosaic(u64),
}

impl Check {
    /// A check that is judged by how many runs fail; a run takes `seconds`, roughly.
    pub const fn of_runs(name: &'static str, seconds: u32, run: fn(&mut Run) -> Result<()>) -> Self {
        Self { name: Cow::Borrowed(name), seconds, plan: Plan::Runs, body: Body::Function(run) }
    }

    /// A check of the mean of the first value that each run measures, whose interval must not lie outside of `allowed`.
    pub const fn of_magnitude(
        name: &'static str,
        seconds: u32,
        allowed: RangeInclusive<f64>,
        run: fn(&mut Run) -> Result<()>,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            seconds,
            plan: Plan::Magnitude { allowed },
            body: Body::Function(run),
        }
    }
}

/// What a run has measured, beside what is allowed.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// What it is, with its unit.
    pub what: String,
    /// The value.
    pub value: f64,
    /// The least that is allowed; none if there is no least.
    pub least: Option<f64>,
    /// The most that is allowed; none if there is no most.
    pub most: Option<f64>,
}

impl Measurement {
    fn is_allowed(&self) -> bool {
        self.least.is_none_or(|least| self.value >= least) && self.most.is_none_or(|most| self.value <= most)
    }

    /// What was measured, beside what is allowed.
    pub fn sentence(&self) -> String {
        let Self { what, value, least, most } = self;
        let allowed = match (least, most) {
            (Some(least), Some(most)) => format!("{least:.3} to {most:.3}"),
            (Some(least), None) => format!("at least {least:.3}"),
            (None, Some(most)) => format!("at most {most:.3}"),
            (None, None) => "anything".to_owned(),
        };
        let mark = if self.is_allowed() { ' ' } else { '!' };
        format!("{mark} {what}: {value:.3} (allowed: {allowed})")
    }
}

/// One run of a check.
#[derive(Debug)]
pub struct Run<'a> {
    /// The profiler that is judged.
    pub whatif: &'a Whatif,
    /// The machine, which may be busy.
    pub machine: &'a Machine,
    /// Another one in each run.
    pub seed: u64,
    measurements: Vec<Measurement>,
    failures: Vec<String>,
    inconclusive: Option<String>,
}

/// A run that has ended.
#[derive(Clone, Debug, Serialize)]
pub struct Ended {
    /// How it ended.
    pub outcome: RunOutcome,
    /// All that it measured.
    pub measurements: Vec<Measurement>,
    /// Why it failed, or tells nothing.
    pub reasons: Vec<String>,
}

/// A value without an upper bound, for [`Run::measured`].
pub const UNBOUNDED: f64 = f64::INFINITY;

impl<'a> Run<'a> {
    /// Runs a check once. What panics has failed.
    pub fn of(check: &Check, whatif: &'a Whatif, machine: &'a Machine, seed: u64) -> Ended {
        let mut run = Self {
            whatif,
            machine,
            seed,
            measurements: Vec::new(),
            failures: Vec::new(),
            inconclusive: None,
        };
        match catch_unwind(AssertUnwindSafe(|| run.make(&check.body))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => run.failures.push(format!("{error:#}")),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
                run.failures.push(text.to_owned());
            }
        }
        run.ended()
    }

    fn make(&mut self, body: &Body) -> Result<()> {
        match body {
            Body::Function(run) => run(self),
            Body::Target(target) => accuracy::predictions(self, *target),
            Body::Mosaic(seed) => accuracy::predictions(self, &Piece::of_seed(*seed, 2)),
        }
    }

    /// Notes a value, which fails the run outside of what is allowed. Either bound may be infinite ([`UNBOUNDED`]).
    pub fn measured(&mut self, what: impl Into<String>, value: f64, allowed: RangeInclusive<f64>) {
        let bound = |bound: f64| bound.is_finite().then_some(bound);
        let (least, most) = (bound(*allowed.start()), bound(*allowed.end()));
        self.measurements.push(Measurement { what: what.into(), value, least, most });
    }

    /// Notes a count, which fails the run outside of what is allowed.
    #[expect(clippy::cast_precision_loss, reason = "counts are printed and compared, not added up")]
    pub fn counted(&mut self, what: impl Into<String>, count: u64, allowed: RangeInclusive<u64>) {
        let most = if *allowed.end() == u64::MAX { UNBOUNDED } else { *allowed.end() as f64 };
        self.measured(what, count as f64, *allowed.start() as f64..=most);
    }

    /// Notes that something holds, or fails the run.
    pub fn holds(&mut self, what: impl Into<String>, holds: bool) {
        if !holds {
            self.failures.push(format!("does not hold: {}", what.into()));
        }
    }

    /// The run tells nothing, whatever was measured: there is no answer, or the machine lacks something.
    pub fn inconclusive(&mut self, why: impl Into<String>) {
        self.inconclusive.get_or_insert(why.into());
    }

    fn ended(self) -> Ended {
        let mut reasons = self.failures;
        reasons.extend(self.measurements.iter().filter(|one| !one.is_allowed()).map(Measurement::sentence));
        let outcome = match (&self.inconclusive, reasons.is_empty()) {
            (Some(_), _) => RunOutcome::Inconclusive,
            (None, true) => RunOutcome::Passed,
            (None, false) => RunOutcome::Failed,
        };
        reasons.splice(..0, self.inconclusive);
        Ended { outcome, measurements: self.measurements, reasons }
    }
}
