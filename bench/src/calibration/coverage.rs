//! How often intervals hold the truth, and how sure one can be of that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::interval::{Interval, count};
use crate::profiler::Prediction;
use crate::report::Verdict;
use crate::truth::row::{Row, Summary};

/// The name under which our profiler's predictions are kept.
pub const PROFILER: &str = "whatif";

/// A region has no effect if the gain at 100 % is smaller than this share of the period.
pub const NOTHING: f64 = 0.02;

/// Some of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub some: usize,
    pub of: usize,
}

/// How often the intervals of some cells hold the truth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    pub cells: usize,
    /// The truth, whose own uncertainty is taken into account.
    pub truth: Share,
    /// The best estimate of the truth.
    pub estimate: Share,
}

/// How often the profiler reports an effect of regions that have none, counted in runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FalseAlarms {
    pub regions: usize,
    pub runs: usize,
    pub helps: usize,
    pub hurts: usize,
}

impl Share {
    /// The share, with Wilson's 95 % interval (E. B. Wilson, "Probable inference, the law of succession, and
    /// statistical inference", JASA 22, 1927), which holds near 0 and 1 as well. Nothing of nothing.
    pub fn interval(self) -> Option<Interval> {
        const Z: f64 = 1.959_964;
        if self.of == 0 {
            return None;
        }
        let (n, share) = (count(self.of), count(self.some) / count(self.of));
        let shrink = 1.0 + Z * Z / n;
        let middle = (share + Z * Z / (2.0 * n)) / shrink;
        let half_width = Z / shrink * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let low = if self.some == 0 { 0.0 } else { middle - half_width };
        let high = if self.some == self.of { 1.0 } else { middle + half_width };
        Some(Interval { estimate: share, low, high })
    }

    /// In per cent, with the interval and the counts.
    pub fn text(self) -> String {
        let Some(share) = self.interval().map(|share| share.scaled(100.0)) else { return "none".to_owned() };
        format!(
            "{:>5.1} % [{:>5.1}, {:>5.1}] ({} of {})",
            share.estimate, share.low, share.high, self.some, self.of
        )
    }
}

impl Coverage {
    /// Of those of `rows` that were answered with an interval; nothing of none.
    pub fn of(rows: &[&Row]) -> Option<Self> {
        let summary = Summary::of(rows, PROFILER)?;
        let share = |some| Share { some, of: summary.intervals };
        Some(Self {
            cells: summary.rows,
            truth: share(summary.covered),
            estimate: share(summary.covered_plainly),
        })
    }

    pub fn line(&self, of: &str) -> String {
        format!(
            "{of:<20} {:>4} cells: {}; the truth's estimate alone {}",
            self.cells,
            self.truth.text(),
            self.estimate.text()
        )
    }
}

/// Coverage by speedup in per cent.
pub fn by_speedup(rows: &[Row]) -> BTreeMap<u32, Coverage> {
    let mut groups: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(row.speedup).or_default().push(row);
    }
    groups.into_iter().filter_map(|(speedup, rows)| Some((speedup, Coverage::of(&rows)?))).collect()
}

impl FalseAlarms {
    /// A run has one verdict for its region; it is counted once, at the row for 100 %.
    pub fn of(rows: &[Row]) -> Self {
        let mut alarms = Self::default();
        let mut regions: Vec<(&str, &str)> = Vec::new();
        for row in rows.iter().filter(|row| row.speedup == 100 && row.truth.estimate.abs() < NOTHING) {
            if !regions.contains(&(&row.target, &row.region)) {
                regions.push((&row.target, &row.region));
            }
            alarms.runs += 1;
            let verdict = row.predictions.get(PROFILER).and_then(Option::as_ref);
            match verdict.and_then(|answer: &Prediction| answer.verdict) {
                Some(Verdict::Helps) => alarms.helps += 1,
                Some(Verdict::Hurts) => alarms.hurts += 1,
                _ => {}
            }
        }
        alarms.regions = regions.len();
        alarms
    }

    pub fn line(&self) -> String {
        let share = |some| Share { some, of: self.runs }.text();
        format!(
            "{} regions that have no effect (less than {:.0} points at 100 %), {} runs: said to help {}, to hurt {}",
            self.regions,
            NOTHING * 100.0,
            self.runs,
            share(self.helps),
            share(self.hurts)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(region: &str, speedup: u32, truth: f64, answer: Option<(f64, Verdict)>) -> Row {
        let prediction = answer.map(|(gain, verdict)| Prediction {
            speedup,
            gain,
            low: Some(gain - 0.02),
            high: Some(gain + 0.02),
            windows: 9,
            baseline_windows: 10,
            unbalanced: None,
            left_out: None,
            method_error: None,
            verdict: Some(verdict),
            trusted: None,
        });
        Row {
            target: "mutex".to_owned(),
            region: region.to_owned(),
            speedup,
            truth: Interval::around(truth, 0.02),
            predictions: [(PROFILER.to_owned(), prediction)].into(),
            disturbed: false,
        }
    }

    #[test]
    fn shares_are_as_in_tables() {
        // Wilson's interval as R's `prop.test(…, correct = FALSE)` prints it.
        for (some, of, low, high) in
            [(5, 10, 0.2366, 0.7634), (95, 100, 0.8882, 0.9785), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0)]
        {
            let interval = Share { some, of }.interval().unwrap();
            assert!((interval.low - low).abs() < 5e-4, "{some} of {of}: {interval:?}");
            assert!((interval.high - high).abs() < 5e-4, "{some} of {of}: {interval:?}");
        }
        assert_eq!(Share::default().interval(), None);
        assert_eq!(Share::default().text(), "none");
    }

    #[test]
    fn coverage_is_counted_by_speedup() {
        let rows = [
            row("A", 50, 0.3, Some((0.3, Verdict::Helps))),
            // Only the truth's own doubt reaches it.
            row("A", 50, 0.3, Some((0.325, Verdict::Helps))),
            row("A", 50, 0.3, None),
            row("A", 100, 0.6, Some((0.7, Verdict::Helps))),
        ];
        let by_speedup = by_speedup(&rows);
        let at = |speedup| by_speedup[&speedup];
        assert_eq!(at(50).cells, 3);
        assert_eq!(at(50).truth, Share { some: 2, of: 2 });
        assert_eq!(at(50).estimate, Share { some: 1, of: 2 });
        assert_eq!(at(100).truth, Share { some: 0, of: 1 });
        assert_eq!(Coverage::of(&[]), None);
    }

    #[test]
    fn only_regions_without_an_effect_can_be_false_alarms() {
        let rows = [
            row("B", 100, 0.01, Some((0.1, Verdict::Helps))),
            row("B", 50, 0.01, Some((0.1, Verdict::Helps))),
            row("B", 100, 0.01, Some((0.0, Verdict::NoEffect))),
            row("C", 100, -0.01, Some((-0.1, Verdict::Hurts))),
            row("C", 100, -0.01, None),
            row("A", 100, 0.6, Some((0.7, Verdict::Helps))),
        ];
        let expected = FalseAlarms { regions: 2, runs: 4, helps: 1, hurts: 1 };
        assert_eq!(FalseAlarms::of(&rows), expected);
    }
}
