//! What was measured, as lines and as numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::open::Connections;
use crate::interval::{count, mean, median};
use crate::machine::Watch;
use crate::profiler::Prediction;
use crate::report::Verdict;
use crate::truth::row::{Row, Summary};

/// Our name among the profilers of a [`Row`].
pub const WHATIF: &str = "whatif";

/// What gains if a pad is shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    #[default]
    Throughput,
    Latency,
}

/// Requests that came at times of their own, with the whole pad.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// So many a second.
    pub rate: f64,
    pub connections: Connections,
    /// CPU time of the server for each second.
    pub busy: f64,
    /// From the begin of a request to its end.
    pub latency_nanos: f64,
    /// The share of what came that was answered.
    pub kept_up: f64,
}

/// A padded function of a program, at one speedup of the pad.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PaddedRow {
    /// The target is the program, the region the padded function.
    #[serde(flatten)]
    pub row: Row,
    #[serde(default)]
    pub of: Measure,
    /// Where requests came in an open loop: the part that they are of the program's best rate, in per cent.
    #[serde(default)]
    pub load: Option<u32>,
    /// Where requests came in an open loop: what they were.
    #[serde(default)]
    pub open: Option<Open>,
    /// What the profiler took requests for: `open`, `closed`, `mixed` or `undecided`.
    #[serde(default)]
    pub clock: Option<String>,
    /// Of the function, without a pad.
    pub calls_per_second: f64,
    /// Of each call.
    pub pad_nanos: f64,
    /// CPU time of the pad for each second of the run.
    pub pad_share: f64,
    /// How quick the program is while it is profiled, as a share of what it is natively: where it is much less, the pad is a smaller part of the run
    /// that is profiled.
    #[serde(default)]
    pub profiled_rate: Option<f64>,
    /// Why the report does not trust its answer, if it says so.
    #[serde(default)]
    pub untrusted: Option<String>,
}

/// Everything that an invocation measured, as in `--json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    pub rows: Vec<PaddedRow>,
    pub machine: Watch,
    pub totals: Option<Totals>,
    /// Totals for each kind of rows, by what they are about, if there is an open loop.
    #[serde(default)]
    pub totals_of: BTreeMap<String, Totals>,
}

/// How right the answers are; errors in points, of all rows. No answer is judged like the answer "nothing".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    pub functions: usize,
    pub rows: usize,
    pub answered: usize,
    pub mean: f64,
    pub median: f64,
    pub percentile_95: f64,
    pub worst: f64,
    /// Answers with a 95 % interval, and those of them that agree with the truth, both errors counted.
    pub intervals: usize,
    pub covered: usize,
    /// Rows whose verdict contradicts the truth, and rows that the report does not trust.
    pub contradicted: usize,
    pub untrusted: usize,
}

impl PaddedRow {
    fn answer(&self) -> Option<&Prediction> {
        self.row.predictions.get(WHATIF)?.as_ref()
    }

    fn error(&self) -> f64 {
        self.row.error(WHATIF).abs()
    }

    /// The profiler says that the pad matters, or that it does not, and the opposite is true beyond doubt.
    fn is_contradicted(&self) -> bool {
        /// Gains of less are no contradiction to "no effect", nor losses to "helps".
        const SLACK: f64 = 0.01;
        let truth = self.row.truth;
        // In an open loop no code changes throughput as long as the server keeps up, so what is next to nothing is nothing.
        let nothing =
            self.open.is_some() && self.of == Measure::Throughput && truth.estimate.abs() < 2.0 * SLACK;
        match self.answer().and_then(|answer| answer.verdict) {
            _ if self.untrusted.is_some() => false,
            Some(Verdict::Helps | Verdict::Hurts) if nothing => true,
            Some(Verdict::Helps) => truth.high < SLACK,
            Some(Verdict::NoEffect) => truth.low > 2.0 * SLACK,
            Some(Verdict::Hurts) => truth.low > -SLACK,
            _ => false,
        }
    }

    /// What it is about, where a function has rows of several kinds; else nothing.
    fn kind(&self) -> &'static str {
        match (self.load, self.of) {
            (None, _) => "",
            (Some(_), Measure::Throughput) => "throughput",
            (Some(_), Measure::Latency) => "latency",
        }
    }

    pub fn line(&self) -> String {
        let verdict = match self.answer().and_then(|answer| answer.verdict) {
            Some(Verdict::Helps) => "helps",
            Some(Verdict::NoEffect) => "no effect",
            Some(Verdict::Hurts) => "hurts",
            Some(Verdict::NotEnoughData) => "not enough data",
            Some(Verdict::ProbablyHelps) => "probably helps",
            Some(Verdict::ProbablyHurts) => "probably hurts",
            Some(Verdict::Idle) => "idle",
            Some(Verdict::NotTrusted | Verdict::Other) | None => "",
        };
        let wrong = if self.is_contradicted() { ", which is WRONG" } else { "" };
        let untrusted =
            self.untrusted.as_ref().map_or(String::new(), |reason| format!("   not trusted: {reason}"));
        // An interval that the truth is not in, with the truth's own doubt, is marked.
        let outside = if Summary::of(&[&self.row], WHATIF).is_some_and(|one| one.covered < one.intervals) {
            " *"
        } else {
            ""
        };
        let rate = self
            .profiled_rate
            .map_or(String::new(), |rate| format!(", profiled at {:.0} % of its rate", rate * 100.0));
        let kind = self.kind();
        let open = self.open.map_or(String::new(), |open| open.words());
        let clock =
            self.clock.as_ref().map_or(String::new(), |clock| format!(", arrivals taken for {clock}"));
        format!(
            "{}   {kind}{}pad {:.1} us, {:.0} calls/s, {:.0} %{rate}{open}{clock}{outside}   {verdict}{wrong}{untrusted}",
            self.row.line(&[WHATIF.to_owned()]),
            if kind.is_empty() { "" } else { ": " },
            self.pad_nanos / 1000.0,
            self.calls_per_second,
            self.pad_share * 100.0
        )
    }
}

impl Open {
    fn words(self) -> String {
        /// Of what came: less is more than chance and what is under way.
        const KEPT_UP: f64 = 0.98;
        let behind = if self.kept_up < KEPT_UP {
            format!(", of which it answered {:.0} %", self.kept_up * 100.0)
        } else {
            String::new()
        };
        let from = match self.connections {
            Connections::Pool => "from a pool",
            Connections::Users => "from users",
        };
        format!(
            ", {:.0} requests/s {from}{behind}, {:.0} us each, CPU {:.0} %",
            self.rate,
            self.latency_nanos / 1000.0,
            self.busy * 100.0
        )
    }
}

impl Totals {
    /// Nothing of nothing.
    pub fn of(rows: &[&PaddedRow]) -> Option<Self> {
        let plain: Vec<&Row> = rows.iter().map(|row| &row.row).collect();
        let summary = Summary::of(&plain, WHATIF)?;
        let mut errors: Vec<f64> = rows.iter().map(|row| row.error()).collect();
        errors.sort_by(f64::total_cmp);
        let mut functions: Vec<_> = plain.iter().map(|row| (&row.target, &row.region)).collect();
        functions.sort();
        functions.dedup();
        Some(Self {
            functions: functions.len(),
            rows: rows.len(),
            answered: summary.answered,
            mean: mean(&errors)?,
            median: median(&errors),
            percentile_95: percentile(&errors, 0.95),
            worst: summary.worst_error,
            intervals: summary.intervals,
            covered: summary.covered,
            contradicted: rows.iter().filter(|row| row.is_contradicted()).count(),
            untrusted: rows.iter().filter(|row| row.untrusted.is_some()).count(),
        })
    }

    pub fn line(&self, of: &str) -> String {
        format!(
            "{of:<20} {:>3} functions, {:>3} answers of {:>3}: error mean {:.1}, median {:.1}, 95th percentile {:.1}, worst {:.1} points; \
             {:.0} % of {} intervals agree with the truth; wrong verdicts {}, not trusted {}",
            self.functions,
            self.answered,
            self.rows,
            self.mean,
            self.median,
            self.percentile_95,
            self.worst,
            100.0 * count(self.covered) / count(self.intervals.max(1)),
            self.intervals,
            self.contradicted,
            self.untrusted
        )
    }
}

/// The smallest of `sorted` that so much of it does not exceed.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rank = (part * count(sorted.len())).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

impl Results {
    /// Adds what another invocation measured.
    pub fn add(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.machine = self.machine.and(other.machine);
        self.summarise();
    }

    /// Brings the derived numbers up to date.
    pub fn summarise(&mut self) {
        self.totals = Totals::of(&self.rows.iter().collect::<Vec<_>>());
        let kinds = self.kinds().into_iter().filter(|kind| !kind.is_empty());
        self.totals_of = kinds
            .filter_map(|kind| {
                let rows: Vec<&PaddedRow> = self.rows.iter().filter(|row| row.kind() == kind).collect();
                Some((kind.to_owned(), Totals::of(&rows)?))
            })
            .collect();
    }

    /// Those that there are.
    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<&str> = self.rows.iter().map(PaddedRow::kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// For each kind of rows a line for each program, then all of them at each speedup and at any.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.kinds().into_iter().flat_map(|kind| self.lines_of(kind)).collect();
        lines.push(self.machine.sentence());
        lines
    }

    fn lines_of(&self, kind: &str) -> Vec<String> {
        let of = |name: &str, belongs: &dyn Fn(&PaddedRow) -> bool| {
            let rows = self.rows.iter().filter(|row| row.kind() == kind && belongs(row));
            Totals::of(&rows.collect::<Vec<_>>())
                .map(|totals| totals.line(format!("{name} {kind}").trim_end()))
        };
        let mut programs: Vec<&str> = self.rows.iter().map(|row| row.row.target.as_str()).collect();
        programs.sort_unstable();
        programs.dedup();
        let mut speedups: Vec<u32> = self.rows.iter().map(|row| row.row.speedup).collect();
        speedups.sort_unstable();
        speedups.dedup();
        let mut lines: Vec<String> =
            programs.into_iter().filter_map(|name| of(name, &|row| row.row.target == name)).collect();
        let at = |speedup: u32| of(&format!("at {speedup} %"), &|row| row.row.speedup == speedup);
        lines.extend(speedups.into_iter().filter_map(at));
        lines.extend(of("all", &|_| true));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;

    fn row(region: &str, truth: f64, gain: f64, verdict: Verdict) -> PaddedRow {
        let prediction = Prediction {
            speedup: 100,
            gain,
            low: Some(gain - 0.02),
            high: Some(gain + 0.02),
            windows: 9,
            baseline_windows: 9,
            unbalanced: None,
            left_out: None,
            method_error: None,
            verdict: Some(verdict),
            trusted: None,
        };
        PaddedRow {
            row: Row {
                target: "lua".to_owned(),
                region: region.to_owned(),
                speedup: 100,
                truth: Interval::around(truth, 0.01),
                predictions: [(WHATIF.to_owned(), Some(prediction))].into(),
                disturbed: false,
            },
            of: Measure::Throughput,
            load: None,
            open: None,
            clock: None,
            calls_per_second: 1000.0,
            pad_nanos: 2000.0,
            pad_share: 0.1,
            profiled_rate: Some(0.9),
            untrusted: None,
        }
    }

    #[test]
    fn totals_are_over_all_rows() {
        let rows = [
            row("f", 0.2, 0.21, Verdict::Helps),
            row("f", 0.2, 0.3, Verdict::Helps),
            row("g", 0.2, 0.18, Verdict::Helps),
        ];
        let totals = Totals::of(&rows.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((totals.functions, totals.rows, totals.intervals, totals.covered), (2, 3, 3, 2));
        assert!((totals.median - 2.0).abs() < 1e-9 && (totals.worst - 10.0).abs() < 1e-9, "{totals:?}");
        assert!(
            (totals.percentile_95 - 10.0).abs() < 1e-9 && (totals.mean - 13.0 / 3.0).abs() < 1e-9,
            "{totals:?}"
        );
        assert_eq!(Totals::of(&[]), None);
    }

    #[test]
    fn a_verdict_is_wrong_where_the_opposite_is_true() {
        for (truth, verdict, wrong) in [
            (0.2, Verdict::NoEffect, true),
            (0.02, Verdict::NoEffect, false),
            (0.2, Verdict::Helps, false),
            (-0.1, Verdict::Helps, true),
            (0.1, Verdict::Hurts, true),
            (-0.1, Verdict::Hurts, false),
            (0.2, Verdict::NotEnoughData, false),
        ] {
            let mut row = row("f", truth, 0.0, verdict);
            assert_eq!(row.is_contradicted(), wrong, "{truth} {verdict:?}");
            row.untrusted = Some("it says so".to_owned());
            assert!(!row.is_contradicted(), "what is not trusted claims nothing");
        }
    }

    fn in_open_loop(of: Measure, mut row: PaddedRow) -> PaddedRow {
        row.open = Some(Open {
            rate: 2500.0,
            connections: Connections::Pool,
            busy: 0.55,
            latency_nanos: 123_000.0,
            kept_up: 1.0,
        });
        PaddedRow { of, load: Some(50), ..row }
    }

    #[test]
    fn nothing_helps_the_throughput_of_an_open_loop() {
        for (of, truth, verdict, wrong) in [
            (Measure::Throughput, 0.0, Verdict::Helps, true),
            (Measure::Throughput, 0.005, Verdict::Hurts, true),
            (Measure::Throughput, 0.005, Verdict::NoEffect, false),
            (Measure::Throughput, 0.1, Verdict::Helps, false),
            (Measure::Latency, 0.005, Verdict::Helps, false),
        ] {
            let row = in_open_loop(of, row("f", truth, 0.1, verdict));
            assert_eq!(row.is_contradicted(), wrong, "{of:?} {truth} {verdict:?}");
        }
    }

    #[test]
    fn kinds_are_summed_up_apart() {
        let rows = vec![
            in_open_loop(Measure::Throughput, row("f", 0.0, 0.01, Verdict::NoEffect)),
            in_open_loop(Measure::Latency, row("f", 0.2, 0.3, Verdict::Helps)),
        ];
        assert!(rows[1].line().contains("latency: pad 2.0 us"), "{}", rows[1].line());
        assert!(
            rows[1].line().contains("2500 requests/s from a pool, 123 us each, CPU 55 %"),
            "{}",
            rows[1].line()
        );
        let mut results = Results { rows, ..Results::default() };
        results.summarise();
        let worst: Vec<_> =
            results.totals_of.iter().map(|(kind, totals)| (&kind[..], totals.worst)).collect();
        assert!(
            matches!(worst[..], [("latency", far), ("throughput", near)] if far > 9.0 && near < 2.0),
            "{worst:?}"
        );
        let lines = results.lines();
        let starts = [
            "lua latency ",
            "at 100 % latency ",
            "all latency ",
            "lua throughput ",
            "at 100 % throughput ",
            "all throughput ",
        ];
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }

    #[test]
    fn results_survive_json() {
        let mut results = Results { rows: vec![row("f", 0.2, 0.2, Verdict::Helps)], ..Results::default() };
        results.summarise();
        let again: Results = serde_json::from_str(&serde_json::to_string(&results).unwrap()).unwrap();
        results.add(again);
        assert_eq!(results.totals.unwrap().rows, 2);
    }
}
