//! How wrong the predictions are, over all programs and by kind.

use std::collections::BTreeMap;

use super::piece::Piece;
use crate::calibration::coverage::{PROFILER, Share};
use crate::interval::{count, mean, median};
use crate::profiler::Prediction;
use crate::report::Verdict;
use crate::truth::row::{Row, Summary};

/// A region whose gain is surely less is no help, as a share of the period.
const NO_HELP: f64 = 0.02;
/// A region whose gain at 100 % is surely more has an effect.
const EFFECT: f64 = 0.1;
/// An answer that is further off is bad, in points.
pub const BAD: f64 = 10.0;

/// One region of one program: the rows of one run.
#[derive(Debug)]
pub struct Run<'a> {
    pub target: &'a str,
    pub region: &'a str,
    pub rows: Vec<&'a Row>,
}

impl Run<'_> {
    fn answer(&self) -> Option<&Prediction> {
        self.rows.iter().find_map(|row| row.predictions.get(PROFILER)?.as_ref())
    }

    /// The largest error at any speedup, in points.
    pub fn worst(&self) -> f64 {
        self.rows.iter().map(|row| row.error(PROFILER).abs()).fold(0.0, f64::max)
    }

    /// The profiler says itself that the numbers are not to be trusted.
    pub fn is_flagged(&self) -> bool {
        self.answer().is_some_and(|answer| answer.trusted == Some(false))
    }

    /// The verdict that a user reads, if there is any.
    pub fn verdict(&self) -> Option<Verdict> {
        let verdict = self.answer()?.verdict?;
        let says = matches!(verdict, Verdict::Helps | Verdict::Hurts | Verdict::NoEffect);
        (says && !self.is_flagged()).then_some(verdict)
    }

    /// It is said to help or to hurt, but only probably.
    pub fn is_probable(&self) -> bool {
        let verdict = self.answer().and_then(|answer| answer.verdict);
        matches!(verdict, Some(Verdict::ProbablyHelps | Verdict::ProbablyHurts)) && !self.is_flagged()
    }

    /// The verdict, or what is probable, is surely wrong, by the truth at the largest speedup.
    pub fn is_contradicted(&self) -> bool {
        let Some(row) = self.rows.iter().max_by_key(|row| row.speedup) else { return false };
        let probable = self.answer().and_then(|answer| answer.verdict).filter(|_| self.is_probable());
        match self.verdict().or(probable) {
            Some(Verdict::Helps | Verdict::ProbablyHelps) => row.truth.high <= NO_HELP,
            Some(Verdict::Hurts | Verdict::ProbablyHurts) => row.truth.low > 0.0,
            Some(Verdict::NoEffect) => row.speedup == 100 && row.truth.low > EFFECT,
            _ => false,
        }
    }
}

/// The runs that `rows` are of.
pub fn runs(rows: &[Row]) -> Vec<Run<'_>> {
    let mut runs: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        runs.entry((&row.target, &row.region)).or_default().push(row);
    }
    runs.into_iter().map(|((target, region), rows)| Run { target, region, rows }).collect()
}

/// Errors of some rows, in points: mean, median, 95th percentile and worst.
pub fn errors(rows: &[&Row], profiler: &str) -> Option<String> {
    let mut errors: Vec<f64> = rows
        .iter()
        .filter(|row| row.predictions.contains_key(profiler))
        .map(|row| row.error(profiler).abs())
        .collect();
    let mean = mean(&errors)?;
    errors.sort_by(f64::total_cmp);
    Some(format!(
        "mean {mean:>4.1}, median {:>4.1}, 95th percentile {:>4.1}, worst {:>4.1}",
        median(&errors),
        quantile(&errors, 0.95),
        errors.last().copied().unwrap_or(0.0)
    ))
}

/// The smallest of `sorted` that so large a share does not exceed.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (count(sorted.len()) * share - 1e-9).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// What there is to say about everything.
pub fn lines(rows: &[Row], profilers: &[String]) -> Vec<String> {
    let all: Vec<&Row> = rows.iter().collect();
    let mut lines = Vec::new();
    for profiler in profilers {
        let (Some(errors), Some(summary)) = (errors(&all, profiler), Summary::of(&all, profiler)) else {
            continue;
        };
        let covered = Share { some: summary.covered, of: summary.intervals };
        lines.push(format!(
            "{profiler}: errors in points: {errors}; {} of {} answered",
            summary.answered, summary.rows
        ));
        let sure: Vec<f64> = all.iter().map(|row| row.sure_error(profiler)).collect();
        lines.extend(
            mean(&sure).map(|mean| format!("{profiler}: outside the truth's own intervals: mean {mean:.1}")),
        );
        lines.push(format!("{profiler}: intervals that agree with the truth: {}", covered.text()));
    }
    let runs: Vec<Run> = runs(rows).into_iter().filter(|run| asked(run)).collect();
    if runs.is_empty() {
        return lines;
    }
    let share = |some: &dyn Fn(&Run) -> bool| {
        Share { some: runs.iter().filter(|run| some(run)).count(), of: runs.len() }.text()
    };
    lines.push(format!(
        "regions whose verdict contradicts the truth: {}",
        share(&|run| run.is_contradicted() && !run.is_probable())
    ));
    let probable: Vec<&Run> = runs.iter().filter(|run| run.is_probable()).collect();
    let wrong =
        Share { some: probable.iter().filter(|run| run.is_contradicted()).count(), of: probable.len() };
    lines.push(format!("regions that only probably help or hurt, contradicted: {}", wrong.text()));
    lines.push(format!("regions without a verdict: {}", share(&|run| run.verdict().is_none())));
    if runs.iter().any(|run| run.answer().is_some_and(|answer| answer.trusted.is_some())) {
        let trusted: Vec<&Row> =
            runs.iter().filter(|run| !run.is_flagged()).flat_map(|run| run.rows.iter().copied()).collect();
        lines.push(format!("regions said not to be trusted: {}", share(&|run| run.is_flagged())));
        lines.extend(errors(&trusted, PROFILER).map(|errors| format!("without those: {errors}")));
        let bad: Vec<&Run> = runs.iter().filter(|run| run.worst() > BAD).collect();
        let flagged = Share { some: bad.iter().filter(|run| run.is_flagged()).count(), of: bad.len() };
        lines
            .push(format!("of regions more than {BAD:.0} points off, not to be trusted: {}", flagged.text()));
    } else {
        lines.push(format!("regions more than {BAD:.0} points off: {}", share(&|run| run.worst() > BAD)));
    }
    lines
}

fn asked(run: &Run) -> bool {
    run.rows.iter().any(|row| row.predictions.contains_key(PROFILER))
}

/// Errors by kind, the worst first. A program counts for each of its kinds.
pub fn by_kind(pieces: &[Piece], rows: &[Row], profiler: &str) -> Vec<String> {
    let mut kinds: BTreeMap<&str, (usize, Vec<&Row>)> = BTreeMap::new();
    for piece in pieces {
        let of_piece: Vec<&Row> = rows.iter().filter(|row| row.target == piece.name).collect();
        for kind in &piece.kinds {
            let (programs, of_kind) = kinds.entry(kind).or_default();
            *programs += 1;
            of_kind.extend(&of_piece);
        }
    }
    let mut lines: Vec<(f64, String)> = kinds
        .into_iter()
        .filter_map(|(kind, (programs, rows))| {
            let summary = Summary::of(&rows, profiler)?;
            let covered = Share { some: summary.covered, of: summary.intervals };
            let errors = errors(&rows, profiler)?;
            let line = format!("{kind:<22} {programs:>3} programs: {errors}; agree {}", covered.text());
            Some((summary.mean_error, line))
        })
        .collect();
    lines.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    lines.into_iter().map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;

    fn row(
        target: &str,
        speedup: u32,
        truth: f64,
        gain: f64,
        verdict: Verdict,
        trusted: Option<bool>,
    ) -> Row {
        let prediction = Prediction {
            speedup,
            gain,
            low: Some(gain - 0.03),
            high: Some(gain + 0.03),
            windows: 9,
            baseline_windows: 9,
            unbalanced: None,
            left_out: None,
            method_error: None,
            verdict: Some(verdict),
            trusted,
        };
        Row {
            target: target.to_owned(),
            region: "R0".to_owned(),
            speedup,
            truth: Interval::around(truth, 0.015),
            predictions: [(PROFILER.to_owned(), Some(prediction))].into(),
            disturbed: false,
        }
    }

    #[test]
    fn verdicts_are_wrong_only_where_the_truth_is_sure() {
        for (truth, verdict, trusted, wrong) in [
            (0.0, Verdict::Helps, None, true),
            (0.01, Verdict::Helps, None, false),
            (0.3, Verdict::Helps, None, false),
            (0.3, Verdict::NoEffect, None, true),
            (0.3, Verdict::NoEffect, Some(false), false),
            (0.11, Verdict::NoEffect, None, false),
            (0.02, Verdict::Hurts, None, true),
            (0.0, Verdict::Hurts, None, false),
            (0.3, Verdict::NotEnoughData, None, false),
            (0.0, Verdict::ProbablyHelps, None, true),
            (0.3, Verdict::ProbablyHelps, None, false),
            (0.0, Verdict::ProbablyHelps, Some(false), false),
            (0.02, Verdict::ProbablyHurts, None, true),
        ] {
            let rows = [row("seed=1", 100, truth, 0.0, verdict, trusted)];
            assert_eq!(runs(&rows)[0].is_contradicted(), wrong, "{truth} {verdict:?} {trusted:?}");
        }
    }

    #[test]
    fn errors_are_counted_with_and_without_what_is_flagged() {
        let rows = [
            row("seed=1", 50, 0.2, 0.21, Verdict::Helps, Some(true)),
            row("seed=1", 100, 0.4, 0.43, Verdict::Helps, Some(true)),
            row("seed=2", 50, 0.2, 0.0, Verdict::NoEffect, Some(false)),
            row("seed=2", 100, 0.4, 0.0, Verdict::NoEffect, Some(false)),
        ];
        let text = lines(&rows, &[PROFILER.to_owned()]).join("\n");
        for expected in [
            "mean 16.0, median 11.5, 95th percentile 40.0, worst 40.0; 4 of 4 answered",
            "without those: mean  2.0",
            "more than 10 points off, not to be trusted: 100.0 %",
            "contradicts the truth:   0.0 %",
        ] {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
    }

    #[test]
    fn the_worst_kind_comes_first() {
        let rows = [
            row("seed=3", 50, 0.2, 0.21, Verdict::Helps, None),
            row("seed=4", 50, 0.2, 0.5, Verdict::Helps, None),
        ];
        let mut pieces = [Piece::of_seed(3, 1), Piece::of_seed(4, 1)];
        pieces[0].kinds = vec!["good".to_owned(), "both".to_owned()];
        pieces[1].kinds = vec!["bad".to_owned(), "both".to_owned()];
        let lines = by_kind(&pieces, &rows, PROFILER);
        let first: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(first, ["bad", "both", "good"]);
    }
}
