//! Drift: a program whose speed changes while it is measured.
//!
//! Baseline windows are the program as it is, so their rates (visits per effective time), in the order of
//! time, tell whether it stayed what it was: a cache that fills up, a phase that ends, a machine that slows
//! down. What was measured before a change says nothing about afterwards, so a session is cut into
//! *segments* of one rate, and no estimate compares windows of different segments.
//!
//! # How
//!
//! Binary segmentation: the windows are split where the cumulative sum of *v − ρ·e* (ρ the rate of all) is
//! furthest from zero, measured by its deviation if nothing changed (CUSUM; Page, *Continuous Inspection
//! Schemes*, 1954), and each part is looked at again. A split counts if hardly any order of the same
//! windows has one as clear: a permutation test, which needs no distribution, and to which a maximum over
//! all places is no more than another number. The *j*-th test in a session has the level *α / j(j + 1)*:
//! these add up to α, so that the chance of seeing any change where there is none is at most 1 % for each
//! session and point. Changes below 10 % are then taken back: they would cost more than they explain.
//!
//! Windows are exchangeable only if nothing but a change connects them; a rate that wanders is cut into
//! segments too, which is what should happen to it.
//!
//! Where a program was run again and again, the same is done with whole runs: a machine that was busy, a file that grew, a
//! new version of something that the program asks.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::estimate::{Estimate, EstimateOptions, LeftOutReason, Target, ratio_interval};
use crate::model::{Session, SessionId, Window};
use crate::units::Nanos;

/// The chance of seeing a change in a session where there is none.
const LEVEL: f64 = 0.01;
/// The fewest windows that have a rate of their own.
const LEAST_WINDOWS: usize = 5;
/// A smaller change of the rate is none.
const LEAST_CHANGE: f64 = 0.1;
/// The most splits that are tried: the levels beyond would need more permutations than is worth it.
const TESTS: u32 = 8;

/// How fast one session made progress over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The session.
    pub session: SessionId,
    /// What was counted: visits of the point, or of the end of a latency pair.
    pub target: Target,
    /// At least one, in the order of time.
    pub segments: Vec<Segment>,
}

/// A stretch of a session in which the rate did not change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// The beginning of its first baseline window, since the start of the session.
    pub start: Nanos,
    /// The end of its last baseline window, since the start of the session.
    pub end: Nanos,
    /// How many baseline windows it has.
    pub windows: usize,
    /// Visits per second of effective time, without speedups.
    pub rate: Estimate,
}

/// How fast one run after the other made progress.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDrift {
    /// What was counted.
    pub target: Target,
    /// At least one, in the order of time.
    pub segments: Vec<RunSegment>,
}

/// Runs that follow each other, and made progress at the same rate.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSegment {
    /// The runs that have a baseline, in the order of time; at least one.
    pub sessions: Vec<SessionId>,
    /// Visits per second of effective time, without speedups.
    pub rate: Estimate,
}

impl RunDrift {
    /// Whether the rate changed.
    pub fn changed(&self) -> bool {
        self.segments.len() > 1
    }

    /// The segment of a run; the first for one without a baseline.
    pub(crate) fn segment_of(&self, session: SessionId) -> usize {
        let later = self.segments.iter().skip(1).position(|segment| segment.sessions.contains(&session));
        later.map_or(0, |nth| nth + 1)
    }
}

/// The change from one rate to another, relative to the first: −0.3 is a fall by 30 %. Infinite where there was no
/// progress before.
pub fn change(before: &Estimate, after: &Estimate) -> f64 {
    after.value / before.value - 1.0
}

impl Segment {
    fn new(windows: &[&Window], target: Target) -> Segment {
        let terms: Vec<Term> = windows.iter().map(|window| term(target, window)).collect();
        let rate = rate(&terms);
        let (first, last) = (windows[0], windows[windows.len() - 1]);
        Segment { start: first.start, end: last.end(), windows: windows.len(), rate }
    }
}

impl Drift {
    /// Whether the rate changed.
    pub fn changed(&self) -> bool {
        self.segments.len() > 1
    }

    /// The segment that a baseline window which begins at `start` belongs to.
    pub fn segment_at(&self, start: Nanos) -> usize {
        self.segments.partition_point(|segment| segment.start <= start).saturating_sub(1)
    }

    /// Whether a window that begins at `start` lies between two segments, so that it is unknown which of them
    /// it belongs to.
    pub(crate) fn between(&self, start: Nanos) -> bool {
        self.segments.windows(2).any(|pair| pair[0].end <= start && start < pair[1].start)
    }
}

/// The baselines that tell about a target, by session and time. `shortest`: see [`shortest`](crate::estimate::shortest).
pub(crate) fn baselines(windows: &[Window], shortest: Nanos) -> Vec<&Window> {
    let counts = |window: &&Window| {
        window.speedup.is_zero() && LeftOutReason::of(window).is_none() && window.elapsed >= shortest
    };
    let mut baselines: Vec<&Window> = windows.iter().filter(counts).collect();
    baselines.sort_by_key(|window| (window.session, window.start));
    baselines
}

/// The drift of one target in each session, as far as baseline windows tell.
pub(crate) fn of(
    target: Target,
    windows: &[Window],
    shortest: Nanos,
    options: &EstimateOptions,
) -> Vec<Drift> {
    let baselines = baselines(windows, shortest);
    let sessions = baselines.chunk_by(|a, b| a.session == b.session);
    sessions.map(|baselines| of_session(target, baselines, options)).collect()
}

/// The drift of one target from run to run; `None` without baselines.
pub(crate) fn of_runs(
    target: Target,
    sessions: &[Session],
    windows: &[Window],
    shortest: Nanos,
    options: &EstimateOptions,
) -> Option<RunDrift> {
    let baselines = baselines(windows, shortest);
    let of_session = baselines.chunk_by(|a, b| a.session == b.session);
    let started: BTreeMap<SessionId, Nanos> =
        sessions.iter().map(|session| (session.id, session.start.started)).collect();
    let mut runs: Vec<(SessionId, Term)> = of_session
        .map(|windows| {
            let terms: Vec<Term> = windows.iter().map(|window| term(target, window)).collect();
            (windows[0].session, sum(&terms))
        })
        .collect();
    runs.sort_by_key(|(session, _)| (started.get(session), *session));
    let terms: Vec<Term> = runs.iter().map(|(_, term)| *term).collect();
    let stream = (target.counted().get() as u64).rotate_left(48);
    let mut rng = fastrand::Rng::with_seed(options.seed ^ stream);
    let splits = without_small_changes(&terms, splits(&terms, &mut rng));
    let segment = |part: Range<usize>| RunSegment {
        sessions: runs[part.clone()].iter().map(|(session, _)| *session).collect(),
        rate: rate(&terms[part]),
    };
    let segments: Vec<RunSegment> =
        parts(&splits, terms.len()).filter(|part| !part.is_empty()).map(segment).collect();
    (!segments.is_empty()).then_some(RunDrift { target, segments })
}

fn of_session(target: Target, baselines: &[&Window], options: &EstimateOptions) -> Drift {
    let session = baselines[0].session;
    let terms: Vec<Term> = baselines.iter().map(|window| term(target, window)).collect();
    let stream = (session.get() as u64).rotate_left(16) ^ (target.counted().get() as u64).rotate_left(48);
    let mut rng = fastrand::Rng::with_seed(options.seed ^ stream);
    let splits = without_small_changes(&terms, splits(&terms, &mut rng));
    let segments = parts(&splits, terms.len()).map(|part| Segment::new(&baselines[part], target));
    Drift { session, target, segments: segments.collect() }
}

/// Visits, and the effective time that they took.
type Term = (f64, f64);

fn term(target: Target, window: &Window) -> Term {
    let (time, visits) = window.progress(target.counted());
    (visits as f64, time)
}

/// Visits per second.
fn rate(terms: &[Term]) -> Estimate {
    ratio_interval(terms).scaled(1e9)
}

fn sum(terms: &[Term]) -> Term {
    terms.iter().fold((0.0, 0.0), |(v, e), (dv, de)| (v + dv, e + de))
}

/// Where the rate changes, ascending: the index of the first window of each new segment.
fn splits(terms: &[Term], rng: &mut fastrand::Rng) -> Vec<usize> {
    let mut found = Vec::new();
    let mut open = VecDeque::new();
    open.push_back(0..terms.len());
    let mut tests = 0;
    while let Some(part) = open.pop_front() {
        let Some(best) = clearest(&terms[part.clone()]) else { continue };
        tests += 1;
        if tests > TESTS {
            break;
        }
        if is_significant(&terms[part.clone()], best.clarity, tests, rng) {
            let at = part.start + best.at;
            found.push(at);
            open.extend([part.start..at, at..part.end]);
        }
    }
    found.sort_unstable();
    found
}

/// A place to split at, and how clear it is.
struct Split {
    at: usize,
    clarity: f64,
}

/// The place at which the rates before and after differ most; `None` if there are too few windows to split.
fn clearest(terms: &[Term]) -> Option<Split> {
    let (visits, time) = sum(terms);
    let rate = visits / time;
    let (mut excess, mut before) = (0.0, 0.0);
    let mut best: Option<Split> = None;
    for (index, (v, e)) in terms.iter().enumerate() {
        excess += v - rate * e;
        before += e;
        let at = index + 1;
        if at < LEAST_WINDOWS || at + LEAST_WINDOWS > terms.len() {
            continue;
        }
        let clarity = excess * excess * time / (before * (time - before));
        if best.as_ref().is_none_or(|best| clarity > best.clarity) {
            best = Some(Split { at, clarity });
        }
    }
    best
}

/// Whether chance alone hardly ever makes a split that is so clear; the `nth` test of a session, from 1.
fn is_significant(terms: &[Term], clarity: f64, nth: u32, rng: &mut fastrand::Rng) -> bool {
    let level = LEVEL / f64::from(nth * (nth + 1));
    let permutations = (2.0 / level).ceil();
    // (1 + as clear) / (1 + permutations) is the p-value.
    let most = (level * (permutations + 1.0)) as u32 - 1;
    let mut shuffled = terms.to_vec();
    let mut as_clear = 0;
    for _ in 0..permutations as u32 {
        rng.shuffle(&mut shuffled);
        // Equal but for rounding is as clear.
        as_clear += u32::from(clearest(&shuffled).is_some_and(|best| best.clarity >= clarity * (1.0 - 1e-9)));
        if as_clear > most {
            return false;
        }
    }
    true
}

/// `splits` without those between rates that differ too little, the smallest change first.
fn without_small_changes(terms: &[Term], mut splits: Vec<usize>) -> Vec<usize> {
    loop {
        let rates: Vec<f64> = parts(&splits, terms.len())
            .map(|part| sum(&terms[part]))
            .map(|(visits, time)| visits / time)
            .collect();
        let changes = rates.windows(2).map(|pair| (pair[1] - pair[0]).abs() / pair[0]);
        match changes.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)) {
            Some((index, change)) if change < LEAST_CHANGE => splits.remove(index),
            _ => return splits,
        };
    }
}

/// The stretches between `splits` of `len` windows.
fn parts(splits: &[usize], len: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = [0].into_iter().chain(splits.iter().copied());
    let ends = splits.iter().copied().chain([len]);
    starts.zip(ends).map(|(start, end)| start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::{normal, window};
    use crate::model::{PointId, Visits};
    use crate::units::Speedup;

    const POINT: PointId = PointId::new(1);

    /// Baseline windows of 100 ms, one for each mean number of visits, with noise of this deviation.
    fn baselines(means: &[f64], noise: f64, seed: u64) -> Vec<Window> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..)
            .zip(means)
            .map(|(block, mean)| {
                let count = (mean * (1.0 + noise * normal(&mut rng))).round() as u64;
                let visits = vec![Visits { point: POINT, count, span: None }];
                Window { visits, ..window(block, 0, Speedup::ZERO) }
            })
            .collect()
    }

    fn drift(windows: &[Window]) -> Drift {
        let drifts = of(Target::Throughput(POINT), windows, Nanos::ZERO, &EstimateOptions::default());
        assert_eq!(drifts.len(), 1);
        drifts.into_iter().next().unwrap()
    }

    fn levels(parts: &[(f64, usize)]) -> Vec<f64> {
        parts.iter().flat_map(|(mean, n)| std::iter::repeat_n(*mean, *n)).collect()
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        let windows = baselines(&levels(&[(1200.0, 20), (840.0, 20)]), 0.05, 1);
        let drift = drift(&windows);
        let [before, after] = drift.segments[..] else { panic!("{drift:?}") };
        assert_eq!((before.windows, after.windows), (20, 20));
        // Blocks begin every 200 ms.
        assert_eq!((before.start, before.end), (Nanos::ZERO, Nanos::from_millis(19 * 200 + 100)));
        assert_eq!(after.start, Nanos::from_millis(20 * 200));
        for (segment, truth) in [(before, 12_000.0), (after, 8_400.0)] {
            let rate = segment.rate;
            assert!(rate.lo <= truth && truth <= rate.hi && rate.half_width() < 0.04 * truth, "{rate:?}");
        }
        assert!((change(&before.rate, &after.rate) + 0.3).abs() < 0.03);
    }

    #[test]
    fn several_changes_are_found() {
        for parts in [
            &[(1000.0, 20), (500.0, 20), (1000.0, 20)][..],
            &[(1000.0, 12), (1500.0, 12), (2200.0, 12), (400.0, 12)],
            &[(0.0, 10), (1000.0, 10)],
        ] {
            let drift = drift(&baselines(&levels(parts), 0.03, 5));
            let found: Vec<usize> = drift.segments.iter().map(|segment| segment.windows).collect();
            assert_eq!(found, parts.iter().map(|(_, n)| *n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn small_changes_and_short_ones_are_none() {
        // 5 % is as clear as can be, and still below 10 %.
        assert!(!drift(&baselines(&levels(&[(1000.0, 30), (950.0, 30)]), 0.001, 3)).changed());
        // Four windows are too few.
        assert!(!drift(&baselines(&levels(&[(1000.0, 5), (500.0, 4)]), 0.001, 3)).changed());
        let short = drift(&baselines(&levels(&[(1000.0, 40), (500.0, 4)]), 0.001, 3));
        assert!(short.segments.iter().all(|segment| segment.windows >= LEAST_WINDOWS), "{short:?}");
    }

    #[test]
    fn a_steady_program_hardly_ever_changes() {
        // 1 % of 300 are 3, within chance.
        let false_alarms = (0..300)
            .filter(|seed| {
                let terms: Vec<Term> = baselines(&[1000.0; 40], 0.3, *seed)
                    .iter()
                    .map(|w| term(Target::Throughput(POINT), w))
                    .collect();
                !splits(&terms, &mut fastrand::Rng::with_seed(*seed)).is_empty()
            })
            .count();
        assert!(false_alarms <= 8, "{false_alarms}");
    }

    #[test]
    fn sessions_and_windows_that_do_not_count_are_kept_apart() {
        let mut windows = baselines(&levels(&[(1000.0, 10), (400.0, 10)]), 0.03, 1);
        windows[10..].iter_mut().for_each(|window| window.session = SessionId::new(2));
        windows[3].flags = crate::model::WindowFlags::UNBALANCED;
        windows[3].visits.clear();
        let drifts = of(Target::Throughput(POINT), &windows, Nanos::ZERO, &EstimateOptions::default());
        assert_eq!(drifts.iter().map(|drift| drift.segments.len()).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(drifts[0].segments[0].windows, 9);
    }

    #[test]
    fn runs_that_became_slower_are_told_from_those_before() {
        let mut windows = baselines(&levels(&[(1000.0, 24), (700.0, 24)]), 0.03, 1);
        // Two windows per run: too few to see anything within one.
        for (nth, window) in windows.iter_mut().enumerate() {
            window.session = SessionId::new(nth as i64 / 2 + 1);
        }
        let target = Target::Throughput(POINT);
        let options = EstimateOptions::default();
        assert!(of(target, &windows, Nanos::ZERO, &options).iter().all(|drift| !drift.changed()));
        let drift = of_runs(target, &[], &windows, Nanos::ZERO, &options).unwrap();
        let runs: Vec<usize> = drift.segments.iter().map(|segment| segment.sessions.len()).collect();
        assert_eq!(runs, [12, 12]);
        assert!((change(&drift.segments[0].rate, &drift.segments[1].rate) + 0.3).abs() < 0.03);
        assert_eq!([12, 13, 99].map(|n| drift.segment_of(SessionId::new(n))), [0, 1, 0]);
        assert!(!of_runs(target, &[], &windows[..24], Nanos::ZERO, &options).unwrap().changed());
    }

    #[test]
    fn windows_belong_to_a_segment_or_lie_between_two() {
        let drift = drift(&baselines(&levels(&[(1000.0, 10), (400.0, 10)]), 0.01, 1));
        let at = |ms| Nanos::from_millis(ms);
        assert_eq!([0, 1800, 2000, 9000].map(|ms| drift.segment_at(at(ms))), [0, 0, 1, 1]);
        assert_eq!(
            [1800, 1900, 1999, 2000, 9000].map(|ms| drift.between(at(ms))),
            [false, true, true, false, false]
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_bits() {
        let windows = baselines(&levels(&[(1000.0, 12), (800.0, 12)]), 0.1, 1);
        assert_eq!(drift(&windows), drift(&windows));
    }
}
