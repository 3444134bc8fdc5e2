//! What came of the searches in one target, and of all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::search::Answer;
use super::times::quantile;
use crate::interval::Interval;
use crate::machine::Watch;
use crate::native::Truth;

/// The best region of a target by the truth at 50 %.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    pub region: String,
    /// As a share of the period.
    pub gain: Interval,
    /// How much more that is than the second best region gains.
    pub lead: f64,
}

/// How far the gain may be from the truth.
pub const NEAR: f64 = 0.03;
/// How far the best region must be ahead.
const CLEAR: f64 = 0.1;

impl Winner {
    /// Nothing if none is clearly the best.
    pub fn of(truths: &[Truth]) -> Option<Self> {
        let mut truths: Vec<&Truth> = truths.iter().collect();
        truths.sort_by(|a, b| b.gain.estimate.total_cmp(&a.gain.estimate));
        let (best, second) = (truths.first()?, truths.get(1)?);
        let lead = best.gain.estimate - second.gain.estimate;
        (lead > CLEAR).then(|| Self { region: best.region.clone(), gain: best.gain, lead })
    }

    /// Whether the answer is the right region, with the gain that it has.
    pub fn is(&self, answer: &Answer) -> bool {
        let near = |gain: f64| (gain - self.gain.estimate).abs() <= NEAR;
        self.is_first_in(answer) && answer.gain.is_some_and(near)
    }

    /// Whether the right region is ranked first.
    pub fn is_first_in(&self, answer: &Answer) -> bool {
        answer.first.as_ref() == Some(&self.region)
    }
}

/// What came of one search. Times are in seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub seed: usize,
    /// When the answer was right and stayed right; nothing if it never did.
    pub right_after: Option<f64>,
    /// When the region was right and stayed right, whatever its reported gain; nothing if it never was.
    pub ranked_after: Option<f64>,
    pub ended_after: f64,
    /// Whether it ended because it was sure; nothing where there is no such thing.
    pub sure: Option<bool>,
    /// The answer at the end.
    pub first: Option<String>,
    pub gain: Option<f64>,
    pub named: Option<String>,
    /// Others used more of the machine than they may, and there was no time for a repeat.
    pub disturbed: bool,
}

/// One profiler's searches in one target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub target: String,
    pub profiler: String,
    pub winner: Winner,
    pub outcomes: Vec<Outcome>,
    /// Searches that failed: nothing came of them, ever.
    pub failed: usize,
}

/// What several searches say. Times are in seconds, and nothing where so many never had the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub runs: usize,
    pub right: usize,
    pub median: Option<f64>,
    pub ninetieth: Option<f64>,
    /// When the right region was ranked first for good: the median, and the 90th percentile.
    pub ranked_median: Option<f64>,
    pub ranked_ninetieth: Option<f64>,
    /// Runs whose sentence names the right region.
    pub named_right: usize,
    /// Runs that ended because they were sure, the median time until then, and those that were wrong.
    pub sure: usize,
    pub sure_median: Option<f64>,
    pub sure_and_wrong: usize,
}

/// Everything that was measured, as in `--json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Results {
    pub rows: Vec<Row>,
    /// Over all targets, by profiler.
    pub summaries: BTreeMap<String, Summary>,
    pub machine: Watch,
}

impl Summary {
    pub fn of(rows: &[&Row]) -> Self {
        let outcomes: Vec<(&Row, &Outcome)> =
            rows.iter().flat_map(|row| row.outcomes.iter().map(move |outcome| (*row, outcome))).collect();
        let failed: usize = rows.iter().map(|row| row.failed).sum();
        let times = |after: fn(&Outcome) -> Option<f64>| -> Vec<Option<f64>> {
            let times = outcomes.iter().map(|(_, outcome)| after(outcome));
            times.chain(std::iter::repeat_n(None, failed)).collect()
        };
        let ranked = times(|outcome| outcome.ranked_after);
        let times = times(|outcome| outcome.right_after);
        let sure: Vec<_> = outcomes.iter().filter(|(_, outcome)| outcome.sure == Some(true)).collect();
        let sure_times: Vec<_> = sure.iter().map(|(_, outcome)| Some(outcome.ended_after)).collect();
        Self {
            runs: times.len(),
            right: times.iter().flatten().count(),
            median: quantile(&times, 0.5),
            ninetieth: quantile(&times, 0.9),
            ranked_median: quantile(&ranked, 0.5),
            ranked_ninetieth: quantile(&ranked, 0.9),
            named_right: outcomes
                .iter()
                .filter(|(row, outcome)| outcome.named.as_ref() == Some(&row.winner.region))
                .count(),
            sure: sure.len(),
            sure_median: quantile(&sure_times, 0.5),
            // Right at the end is what `right_after` requires.
            sure_and_wrong: sure.iter().filter(|(_, outcome)| outcome.right_after.is_none()).count(),
        }
    }

    pub fn line(&self, of: &str, profiler: &str) -> String {
        let mut line = format!(
            "{of:<20} {profiler:<6} median {}, 90 % {} (first {}, {}); right in the end {} of {}; sentence right {}",
            time(self.median),
            time(self.ninetieth),
            time(self.ranked_median),
            time(self.ranked_ninetieth),
            self.right,
            self.runs,
            self.named_right
        );
        if self.sure > 0 {
            line += &format!(
                "; sure {} (median {}), and wrong {}",
                self.sure,
                time(self.sure_median),
                self.sure_and_wrong
            );
        }
        line
    }
}

fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| " never".to_owned(), |seconds| format!("{seconds:>4.1} s"))
}

impl Row {
    /// Whether every search names the right region.
    pub fn is_always_right(&self) -> bool {
        self.failed == 0
            && self.outcomes.iter().all(|outcome| outcome.named.as_ref() == Some(&self.winner.region))
    }

    /// The row as a line; the numbers are times and counts of runs.
    pub fn line(&self) -> String {
        let regions: BTreeSet<&str> =
            self.outcomes.iter().map(|outcome| outcome.named.as_deref().unwrap_or("none")).collect();
        let regions: Vec<&str> = regions.into_iter().collect();
        let mut line = Summary::of(&[self]).line(&self.target, &self.profiler);
        line += &format!("; {} named: {}", regions.len(), regions.join(", "));
        let disturbed = self.outcomes.iter().filter(|outcome| outcome.disturbed).count();
        if disturbed > 0 {
            line += &format!("   (disturbed: {disturbed})");
        }
        line
    }
}

impl Results {
    /// Brings the derived numbers up to date.
    pub fn summarise(&mut self, machine: Watch) {
        self.machine = machine;
        let mut rows: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            rows.entry(&row.profiler).or_default().push(row);
        }
        self.summaries =
            rows.iter().map(|(profiler, rows)| ((*profiler).to_owned(), Summary::of(rows))).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(region: &'static str, gain: f64) -> Truth {
        Truth { region: region.to_owned(), speedup: 50, gain: Interval::around(gain, 0.01) }
    }

    fn answer(first: &str, gain: f64) -> Answer {
        Answer { first: Some(first.to_owned()), gain: Some(gain), named: Some(first.to_owned()) }
    }

    #[test]
    fn a_winner_is_far_ahead() {
        let winner = Winner::of(&[truth("A", 0.1), truth("B", 0.4), truth("C", -0.2)]).unwrap();
        assert_eq!(winner.region, "B");
        assert!((winner.lead - 0.3).abs() < 1e-9);
        assert_eq!(Winner::of(&[truth("A", 0.2), truth("B", 0.29)]), None);
        assert_eq!(Winner::of(&[truth("A", 0.2)]), None, "ahead of what?");
        for (answer, right) in [
            (answer("B", 0.42), true),
            (answer("B", 0.38), true),
            (answer("B", 0.44), false),
            (answer("A", 0.4), false),
            (Answer { gain: None, ..answer("B", 0.0) }, false),
            (Answer::default(), false),
        ] {
            assert_eq!(winner.is(&answer), right, "{answer:?}");
        }
    }

    #[test]
    fn outcomes_add_up() {
        let outcome = |seed, right_after, sure, named: &str| Outcome {
            seed,
            right_after,
            ranked_after: Some(1.0),
            ended_after: 9.0,
            sure: Some(sure),
            first: None,
            gain: None,
            named: (!named.is_empty()).then(|| named.to_owned()),
            disturbed: seed == 2,
        };
        let row = Row {
            target: "mutex".to_owned(),
            profiler: "whatif".to_owned(),
            winner: Winner::of(&[truth("A", 0.4), truth("B", 0.0)]).unwrap(),
            outcomes: vec![
                outcome(1, Some(3.0), true, "A"),
                outcome(2, None, true, "A"),
                outcome(3, Some(5.0), false, ""),
            ],
            failed: 1,
        };
        let summary = Summary::of(&[&row]);
        assert_eq!((summary.runs, summary.right, summary.named_right), (4, 2, 2));
        assert_eq!((summary.median, summary.ninetieth), (Some(5.0), None));
        assert_eq!((summary.sure, summary.sure_and_wrong), (2, 1));
        assert_eq!(
            row.line(),
            "mutex                whatif median  5.0 s, 90 %  never (first  1.0 s,  never); right in the end 2 of 4; sentence right 2; \
             sure 2 (median  9.0 s), and wrong 1; 2 named: A, none   (disturbed: 1)"
        );
    }
}
