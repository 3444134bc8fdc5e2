//! The sampling plan of a check, which is fixed before anything is measured.
//!
//! Three runs without a failure accept a check; otherwise nine more follow, and four failures of the twelve reject it. A check whose runs
//! fail 2 % of the time is rejected 5 times in 100,000; one that fails half of its runs is found in 83 of 100 trials, one that fails
//! 80 % of them in 99 of 100 (a double sampling plan; Schilling and Neubauer, "Acceptance Sampling in Quality Control", chapter 6).
//!
//! A magnitude is judged by the interval of its mean over five runs: where that lies outside of what is allowed, five further runs follow,
//! and where theirs lies outside as well, the check is rejected.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::interval::Interval;

/// Conclusive runs of the first stage, all of which must pass for the check to end there.
const FIRST_RUNS: u32 = 3;
/// Conclusive runs of both stages.
const ALL_RUNS: u32 = 12;
/// As many failures reject.
const REJECTING_FAILURES: u32 = 4;
/// As many runs that tell nothing end the check without a verdict.
const MAX_INCONCLUSIVE: u32 = 6;

/// Conclusive runs of each of the two stages in which a magnitude is judged.
const RUNS_OF_MAGNITUDE: usize = 5;

/// How a check is judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// By how many runs fail.
    Runs,
    /// By the mean of the first value that each run measures.
    Magnitude {
        /// What the mean may be.
        allowed: RangeInclusive<f64>,
    },
}

/// How one run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// What was measured is as it must be.
    Passed,
    /// Something that was measured is not as it must be.
    Failed,
    /// No answer, a busy machine, or a machine that lacks what the check needs.
    Inconclusive,
}

/// What a check comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// There is no evidence against it.
    Accepted,
    /// There is.
    Rejected,
    /// Too many runs were inconclusive.
    Inconclusive,
}

/// Runs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Runs that passed.
    pub passed: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Runs that told nothing.
    pub inconclusive: u32,
}

impl Tally {
    /// Counts a run.
    pub fn add(&mut self, outcome: RunOutcome) {
        match outcome {
            RunOutcome::Passed => self.passed += 1,
            RunOutcome::Failed => self.failed += 1,
            RunOutcome::Inconclusive => self.inconclusive += 1,
        }
    }

    /// The verdict, if no further run can change it.
    pub fn verdict(self) -> Option<Verdict> {
        let conclusive = self.passed + self.failed;
        if self.failed >= REJECTING_FAILURES {
            return Some(Verdict::Rejected);
        }
        let can_still_be_rejected = self.failed > 0
            && conclusive < ALL_RUNS
            && self.failed + (ALL_RUNS - conclusive) >= REJECTING_FAILURES;
        if conclusive >= FIRST_RUNS && !can_still_be_rejected {
            return Some(Verdict::Accepted);
        }
        (self.inconclusive >= MAX_INCONCLUSIVE).then_some(Verdict::Inconclusive)
    }
}

/// The values of a magnitude so far, in the order in which they were measured.
#[derive(Clone, Debug, Default)]
pub struct Magnitudes {
    values: Vec<f64>,
    inconclusive: u32,
}

impl Magnitudes {
    /// Adds a run: its value, or nothing if it told none.
    pub fn add(&mut self, value: Option<f64>) {
        match value {
            Some(value) => self.values.push(value),
            None => self.inconclusive += 1,
        }
    }

    /// The verdict, if no further run is needed.
    pub fn verdict(&self, allowed: &RangeInclusive<f64>) -> Option<Verdict> {
        let is_outside = |values: &[f64]| {
            let interval = Interval::of_mean(values);
            interval.high < *allowed.start() || interval.low > *allowed.end()
        };
        let mut stages = self.values.chunks(RUNS_OF_MAGNITUDE);
        for stage in 1..=2 {
            match stages.next() {
                Some(values) if values.len() == RUNS_OF_MAGNITUDE => match (is_outside(values), stage) {
                    (false, _) => return Some(Verdict::Accepted),
                    (true, 1) => {}
                    (true, _) => return Some(Verdict::Rejected),
                },
                _ => break,
            }
        }
        (self.inconclusive >= MAX_INCONCLUSIVE).then_some(Verdict::Inconclusive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict on a check whose conclusive runs end as `runs` says.
    fn verdict(runs: impl IntoIterator<Item = bool>) -> Verdict {
        let mut tally = Tally::default();
        for passed in runs {
            tally.add(if passed { RunOutcome::Passed } else { RunOutcome::Failed });
            if let Some(verdict) = tally.verdict() {
                return verdict;
            }
        }
        panic!("no verdict after {tally:?}");
    }

    #[test]
    fn three_passes_accept() {
        assert_eq!(verdict([true; 3]), Verdict::Accepted);
    }

    #[test]
    fn four_failures_of_twelve_reject() {
        assert_eq!(verdict([false; 4]), Verdict::Rejected);
        let late = [true, true, false, true, true, true, true, true, false, false, false];
        assert_eq!(verdict(late), Verdict::Rejected);
        let three = [false, false, false, true, true, true, true, true, true, true, true, true];
        assert_eq!(verdict(three), Verdict::Accepted);
    }

    #[test]
    fn inconclusive_runs_end_without_verdict() {
        let mut tally = Tally { passed: 2, failed: 0, inconclusive: 5 };
        assert_eq!(tally.verdict(), None);
        tally.add(RunOutcome::Inconclusive);
        assert_eq!(tally.verdict(), Some(Verdict::Inconclusive));
    }

    /// The chance that a check is rejected whose runs fail with probability `failing`, by all ways through the plan.
    fn chance_of_rejection(tally: Tally, failing: f64) -> f64 {
        match tally.verdict() {
            Some(verdict) => f64::from(u8::from(verdict == Verdict::Rejected)),
            None => {
                let after = |outcome| {
                    let mut next = tally;
                    next.add(outcome);
                    chance_of_rejection(next, failing)
                };
                failing * after(RunOutcome::Failed) + (1.0 - failing) * after(RunOutcome::Passed)
            }
        }
    }

    #[test]
    fn a_magnitude_is_rejected_when_both_intervals_lie_outside() {
        let verdict = |values: &[f64]| {
            let mut magnitudes = Magnitudes::default();
            values.iter().for_each(|value| magnitudes.add(Some(*value)));
            magnitudes.verdict(&(0.0..=1.0))
        };
        let (inside, outside) = ([0.4, 0.6, 1.2, 0.5, 0.9], [2.0, 2.1, 1.9, 2.2, 2.0]);
        assert_eq!(verdict(&inside), Some(Verdict::Accepted));
        assert_eq!(verdict(&outside), None);
        assert_eq!(verdict(&[outside, outside].concat()), Some(Verdict::Rejected));
        assert_eq!(verdict(&[outside, inside].concat()), Some(Verdict::Accepted));
        // The mean lies outside, the interval reaches inside: that is no evidence.
        assert_eq!(verdict(&[0.1, 3.0, 1.5, 2.5, 0.4]), Some(Verdict::Accepted));
    }

    #[test]
    fn the_plan_has_the_stated_errors() {
        for (failing, low, high) in [(0.02, 1e-5, 1e-4), (0.5, 0.82, 0.84), (0.8, 0.985, 0.999)] {
            let chance = chance_of_rejection(Tally::default(), failing);
            assert!((low..high).contains(&chance), "{failing}: {chance}");
        }
    }
}
