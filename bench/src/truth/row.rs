//! What was measured, and how wrong the predictions are.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::interval::{Interval, mean};
use crate::machine::Watch;
use crate::profiler::Prediction;

/// One region of one target at one speedup. Gains are shares of the period: 1 − p_s/p_0.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub target: String,
    pub region: String,
    /// In per cent.
    pub speedup: u32,
    pub truth: Interval,
    /// Of every profiler that was asked; one without an answer has none.
    pub predictions: BTreeMap<String, Option<Prediction>>,
    /// Others used more of the machine than they may, and there was no time for a repeat.
    pub disturbed: bool,
}

/// Everything that an invocation measured, as in `--json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// The profilers that were asked.
    pub profilers: Vec<String>,
    pub rows: Vec<Row>,
    pub machine: Watch,
    /// The share of the machine that others used meanwhile.
    pub busy: f64,
    /// Over all rows, by profiler.
    pub summaries: BTreeMap<String, Summary>,
}

/// How right a profiler is over several rows. Errors are in points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub rows: usize,
    pub answered: usize,
    pub mean_error: f64,
    pub worst_error: f64,
    /// Answers that have a 95 % interval.
    pub intervals: usize,
    /// Those that contain the truth, whose own uncertainty is taken into account.
    pub covered: usize,
    /// Those that contain the best estimate of the truth.
    pub covered_plainly: usize,
}

impl Row {
    fn answer(&self, profiler: &str) -> Option<&Prediction> {
        self.predictions.get(profiler)?.as_ref()
    }

    /// Prediction minus truth, in points. No answer is judged like the answer "nothing".
    pub fn error(&self, profiler: &str) -> f64 {
        let gain = self.answer(profiler).map_or(0.0, |answer| answer.gain);
        (gain - self.truth.estimate) * 100.0
    }

    /// How far the prediction lies outside the interval of the truth, in points: the part of the error that the truth's own doubt
    /// does not explain.
    pub fn sure_error(&self, profiler: &str) -> f64 {
        let gain = self.answer(profiler).map_or(0.0, |answer| answer.gain);
        (gain - self.truth.high).max(self.truth.low - gain).max(0.0) * 100.0
    }

    /// The row as a line; the numbers are in per cent.
    pub fn line(&self, profilers: &[String]) -> String {
        let truth = self.truth.scaled(100.0);
        let mut line = format!(
            "{:<20} {:<4} {:>3} %   {:>6.1} [{:>5.1}, {:>5.1}]",
            self.target, self.region, self.speedup, truth.estimate, truth.low, truth.high
        );
        for name in profilers {
            // Writing to a String does not fail.
            let _ = match self.answer(name) {
                Some(answer) => {
                    let end =
                        |end: Option<f64>| end.map_or("?".to_owned(), |end| format!("{:.1}", end * 100.0));
                    write!(
                        line,
                        "   {name} {:>6.1} [{:>5}, {:>5}]  {:>+6.1}  {:>3} windows{}",
                        answer.gain * 100.0,
                        end(answer.low),
                        end(answer.high),
                        self.error(name),
                        answer.windows,
                        doubts(answer)
                    )
                }
                None => write!(line, "   {name} has no answer"),
            };
        }
        if self.disturbed {
            line.push_str("   (disturbed)");
        }
        line
    }
}

/// What was left out, if anything was.
fn doubts(answer: &Prediction) -> String {
    let unbalanced = answer.unbalanced.filter(|count| *count > 0);
    let others = answer.left_out.filter(|count| *count > 0);
    match (unbalanced, others) {
        (None, None) => String::new(),
        (Some(count), None) => format!(" (unbalanced: {count})"),
        (None, Some(count)) => format!(" (left out: {count})"),
        (Some(unbalanced), Some(others)) => format!(" (unbalanced: {unbalanced}, left out: {others})"),
    }
}

impl Summary {
    /// Over those of `rows` for which `profiler` was asked; nothing of none.
    pub fn of(rows: &[&Row], profiler: &str) -> Option<Self> {
        let rows: Vec<&&Row> = rows.iter().filter(|row| row.predictions.contains_key(profiler)).collect();
        let errors: Vec<f64> = rows.iter().map(|row| row.error(profiler).abs()).collect();
        let mean_error = mean(&errors)?;
        let (mut answered, mut intervals, mut covered, mut covered_plainly) = (0, 0, 0, 0);
        for row in &rows {
            let Some(answer) = row.answer(profiler) else { continue };
            answered += 1;
            let (Some(low), Some(high)) = (answer.low, answer.high) else { continue };
            intervals += 1;
            covered_plainly += usize::from((low..=high).contains(&row.truth.estimate));
            let allowed = ((high - low) / 2.0).hypot(row.truth.half_width());
            covered += usize::from((answer.gain - row.truth.estimate).abs() <= allowed);
        }
        Some(Self {
            rows: rows.len(),
            answered,
            mean_error,
            worst_error: errors.iter().copied().fold(0.0, f64::max),
            intervals,
            covered,
            covered_plainly,
        })
    }

    pub fn line(&self, of: &str, profiler: &str) -> String {
        let per_cent = |part: usize| (part * 100 + self.intervals / 2) / self.intervals.max(1);
        format!(
            "{of:<20} {profiler}: mean error {:.1} points, worst {:.1}; {} of {} answered; \
             intervals cover the truth {} % ({} of {}; its estimate alone {} %)",
            self.mean_error,
            self.worst_error,
            self.answered,
            self.rows,
            per_cent(self.covered),
            self.covered,
            self.intervals,
            per_cent(self.covered_plainly),
        )
    }
}

impl Results {
    pub fn new(profilers: Vec<String>) -> Self {
        Self { profilers, ..Self::default() }
    }

    /// Adds what another invocation measured.
    pub fn add(&mut self, other: Self) {
        for profiler in other.profilers {
            if !self.profilers.contains(&profiler) {
                self.profilers.push(profiler);
            }
        }
        self.rows.extend(other.rows);
        self.summarise(self.machine.and(other.machine));
    }

    /// Brings the derived numbers up to date.
    pub fn summarise(&mut self, machine: Watch) {
        self.machine = machine;
        self.busy = machine.busy();
        let rows: Vec<&Row> = self.rows.iter().collect();
        self.summaries = self
            .profilers
            .iter()
            .filter_map(|profiler| Some((profiler.clone(), Summary::of(&rows, profiler)?)))
            .collect();
    }

    /// The lines that sum up `target`.
    pub fn of_target(&self, target: &str) -> Vec<String> {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.target == target).collect();
        let line = |profiler: &String| Some(Summary::of(&rows, profiler)?.line(target, profiler));
        self.profilers.iter().filter_map(line).collect()
    }

    /// The lines that sum up everything.
    pub fn of_all(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.summaries.iter().map(|(profiler, summary)| summary.line("all", profiler)).collect();
        for profiler in &self.profilers {
            let mut rows: Vec<&Row> =
                self.rows.iter().filter(|row| row.predictions.contains_key(profiler)).collect();
            rows.sort_by(|a, b| b.error(profiler).abs().total_cmp(&a.error(profiler).abs()));
            let worst: Vec<String> = rows
                .iter()
                .take(5)
                .map(|row| {
                    format!("{} {} {} % ({:+.1})", row.target, row.region, row.speedup, row.error(profiler))
                })
                .collect();
            lines.push(format!("{:<20} {profiler} is worst at: {}", "", worst.join(", ")));
        }
        lines.push(format!("{:<20} {}", "", self.machine.sentence()));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(truth: Interval, gain: Option<(f64, f64)>) -> Row {
        let prediction = gain.map(|(gain, half_width)| Prediction {
            speedup: 50,
            gain,
            low: Some(gain - half_width),
            high: Some(gain + half_width),
            windows: 9,
            baseline_windows: 10,
            unbalanced: Some(1),
            left_out: Some(0),
            method_error: None,
            verdict: None,
            trusted: None,
        });
        Row {
            target: "mutex".to_owned(),
            region: "A".to_owned(),
            speedup: 50,
            truth,
            predictions: [("whatif".to_owned(), prediction)].into(),
            disturbed: false,
        }
    }

    #[test]
    fn coverage_takes_the_truths_own_doubt_into_account() {
        let truth = Interval::around(0.5, 0.03);
        for (gain, half_width, covered, plainly) in
            [(0.5, 0.01, 1, 1), (0.545, 0.04, 1, 0), (0.56, 0.04, 0, 0), (0.54, 0.05, 1, 1)]
        {
            let row = row(truth, Some((gain, half_width)));
            let summary = Summary::of(&[&row], "whatif").unwrap();
            assert_eq!(
                (summary.covered, summary.covered_plainly),
                (covered, plainly),
                "{gain} ± {half_width}"
            );
        }
    }

    #[test]
    fn only_what_lies_outside_the_truths_interval_is_surely_an_error() {
        let truth = Interval { estimate: 0.5, low: 0.3, high: 0.55 };
        for (gain, expected) in [(0.1, 20.0), (0.35, 0.0), (0.55, 0.0), (0.6, 5.0)] {
            let error = row(truth, Some((gain, 0.1))).sure_error("whatif");
            assert!((error - expected).abs() < 1e-9, "{gain}: {error}");
        }
        assert!((row(truth, None).sure_error("whatif") - 30.0).abs() < 1e-9);
    }

    #[test]
    fn no_answer_counts_as_the_answer_nothing() {
        let rows = [row(Interval::around(0.5, 0.0), None), row(Interval::around(0.5, 0.0), Some((0.4, 0.1)))];
        let summary = Summary::of(&rows.iter().collect::<Vec<_>>(), "whatif").unwrap();
        assert_eq!((summary.rows, summary.answered, summary.intervals), (2, 1, 1));
        assert!((summary.mean_error - 30.0).abs() < 1e-9, "{summary:?}");
        assert!((summary.worst_error - 50.0).abs() < 1e-9, "{summary:?}");
        assert_eq!(Summary::of(&[], "whatif"), None);
        assert_eq!(Summary::of(&[&rows[0]], "coz"), None, "never asked");
    }

    #[test]
    fn results_survive_json_and_add_up() {
        let mut results = Results::new(vec!["whatif".to_owned()]);
        results.rows.push(row(Interval::around(0.5, 0.1), Some((0.4, 0.1))));
        results.summarise(Watch::default());
        let text = serde_json::to_string(&results).unwrap();
        let again: Results = serde_json::from_str(&text).unwrap();
        results.add(again);
        assert_eq!(results.summaries["whatif"].rows, 2);
    }

    #[test]
    fn a_line_says_it_all() {
        let profilers = ["whatif".to_owned(), "coz".to_owned()];
        assert_eq!(
            row(Interval::around(0.5, 0.03), Some((0.4, 0.1))).line(&profilers),
            "mutex                A     50 %     50.0 [ 47.0,  53.0]   whatif   40.0 [ 30.0,  50.0]   -10.0    \
             9 windows (unbalanced: 1)   coz has no answer"
        );
    }
}
