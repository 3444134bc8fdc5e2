//! Rows: runs of Coz as a recording of ours.

use std::collections::BTreeMap;

use super::blocks::{in_blocks, is_baseline, nearest};
use super::run::{Damage, Experiment, Run};
use crate::caveat::Caveat;
use crate::model::{
    Books, Exit, Image, InFlight, Point, PointId, PointKind, Region, RegionId, RegionKind, RegionSamples,
    Rows, SampleTotals, Session, SessionEnd, SessionId, SessionStart, Visits, Warning, Window, WindowFlags,
};
use crate::units::{Epoch, Nanos, Speedup, VisitNanos};

/// What is profiled is not in a profile of Coz.
pub(crate) const UNKNOWN_PROGRAM: &str = "unknown program";

/// The CPU time between two samples, in every version of Coz.
const PERIOD: Nanos = Nanos::from_millis(1);
/// How long it waits after each experiment.
const COOL_OFF: Nanos = Nanos::from_millis(10);
/// The share by which a baseline may be shorter than another experiment of the same length.
const SLACK: f64 = 0.01;

/// The recording that `runs` amount to. `name` is what their file is called.
pub(super) fn of(runs: &[Run], damage: Damage, name: &str) -> Rows {
    let mut names = Names::default();
    let mut rows = Rows::default();
    for (nth, run) in (0..).zip(runs) {
        let session = SessionId::new(i64::from(nth) + 1);
        let lengths = lengths(&run.experiments);
        let in_blocks = in_blocks(&run.experiments);
        let mut now = Nanos::ZERO;
        let mut delayed = Nanos::ZERO;
        let mut sampled_until = Nanos::ZERO;
        for (at, experiment) in run.experiments.iter().enumerate() {
            let (elapsed, required) = times(experiment, lengths[at]);
            rows.windows.push(Window {
                session,
                block: in_blocks[at].block,
                index: in_blocks[at].index,
                region: names.region(&experiment.selected),
                speedup: Speedup::from_per_mille(experiment.per_mille).unwrap_or_default(),
                epoch: Epoch::new(at as u64 + 1),
                start: now,
                elapsed,
                required,
                visits: names.visits(experiment),
                in_flight: names.in_flight(experiment, elapsed),
                latencies: Vec::new(),
                region_samples: experiment.samples,
                region_weight: weight(experiment.samples),
                total_samples: 0,
                total_weight: Nanos::ZERO,
                books: Books::default(),
                audit: None,
                threads: 0,
                busy: None,
                flags: flags(experiment),
            });
            now = now + elapsed + COOL_OFF;
            delayed += required;
            if at + 1 == run.sampled_after {
                sampled_until = now;
            }
        }
        let length = run.length().map(Nanos::new);
        let in_lines: u64 = run.samples.values().fold(0, |sum, count| sum.saturating_add(*count));
        let count = run.all_samples.unwrap_or(0).max(in_lines);
        rows.samples.extend(run.samples.iter().map(|(location, &count)| RegionSamples {
            session,
            region: names.region(location),
            count,
            weight: weight(count),
        }));
        let until = length.unwrap_or(sampled_until);
        rows.sessions.push(Session {
            id: session,
            start: start(run, nth, name),
            end: Some(SessionEnd { duration: length.unwrap_or(now), exit: Exit::Unknown, stopped: false }),
            samples: SampleTotals { until, delayed, count, weight: weight(count), lost: 0, timed: 0 },
            images: Vec::new(),
            arrivals: Vec::new(),
            programs: Vec::new(),
            threads: Vec::new(),
            overhead: Vec::new(),
        });
    }
    rows.regions = names.regions.into_iter().map(|(location, id)| (id, region(&location))).collect();
    rows.points = names.points.into_iter().map(|(point, id)| (id, point)).collect();
    rows.warnings = warnings(damage).into_iter().map(|warning| (SessionId::new(1), warning)).collect();
    rows
}

fn weight(samples: u64) -> Nanos {
    Nanos::new(samples.saturating_mul(PERIOD.get()))
}

/// How long each experiment was meant to take: as long as the nearest baseline of any line, or twice or four
/// times as long where that is less than was seen. Coz doubles and halves the length of experiments, and writes none.
fn lengths(experiments: &[Experiment]) -> Vec<u64> {
    let baselines: Vec<usize> = (0..experiments.len()).filter(|at| is_baseline(&experiments[*at])).collect();
    let length = |(at, experiment): (usize, &Experiment)| {
        let seen = experiment.effective_ns.max(0) as u64;
        let Some(near) = nearest(&baselines, at) else { return seen };
        let mut length = experiments[near].effective_ns as u64;
        while (length as f64) < seen as f64 * (1.0 - SLACK) {
            length = length.saturating_mul(2);
        }
        length
    };
    experiments.iter().enumerate().map(length).collect()
}

/// The elapsed time of an experiment, and the delay in it, neither of which is written: only their difference is.
fn times(experiment: &Experiment, length: u64) -> (Nanos, Nanos) {
    let effective = experiment.effective_ns;
    if effective <= 0 {
        // More delay than time, however much that was.
        return (Nanos::new(length), Nanos::new(length.saturating_add(effective.unsigned_abs())));
    }
    let effective = effective as u64;
    // Each sample in the line inserts this much at most.
    let most = weight(experiment.samples).get() as f64 * f64::from(experiment.per_mille) / 1000.0;
    let required = length.saturating_sub(effective).min(most as u64);
    (Nanos::new(effective.saturating_add(required)), Nanos::new(required))
}

fn flags(experiment: &Experiment) -> WindowFlags {
    let cut = if experiment.cut { WindowFlags::CUT } else { WindowFlags::NONE };
    let unmatched = experiment.latencies.values().any(|latency| latency.in_flight < 0.0);
    if unmatched { cut.with(WindowFlags::UNMATCHED) } else { cut }
}

fn start(run: &Run, nth: u32, name: &str) -> SessionStart {
    SessionStart {
        started: Nanos::new(run.startup.unwrap_or(0)),
        program: UNKNOWN_PROGRAM.into(),
        options: serde_json::json!({ "imported_from": "coz", "file": name }).to_string(),
        version: format!("{} (import from Coz)", env!("CARGO_PKG_VERSION")),
        sampler: "Coz".into(),
        sample_period: PERIOD,
        repeat: nth,
        ..SessionStart::default()
    }
}

fn warnings(damage: Damage) -> Vec<Warning> {
    let Damage { lines, first, .. } = damage;
    let damaged = (lines > 0).then_some(Caveat::DamagedLines { lines, first });
    [Caveat::FromCoz].into_iter().chain(damaged).map(Warning::from).collect()
}

/// Keys, in the order in which things were first seen.
#[derive(Default)]
struct Names {
    regions: BTreeMap<String, RegionId>,
    points: Vec<(Point, PointId)>,
}

impl Names {
    fn region(&mut self, location: &str) -> RegionId {
        if let Some(&known) = self.regions.get(location) {
            return known;
        }
        let new = RegionId::new(self.regions.len() as i64 + 1);
        self.regions.insert(location.to_owned(), new);
        new
    }

    fn point(&mut self, name: &str, kind: PointKind) -> PointId {
        let is_it = |(point, _): &&(Point, PointId)| point.name == name && point.kind == kind;
        if let Some((_, known)) = self.points.iter().find(is_it) {
            return *known;
        }
        let new = PointId::new(self.points.len() as i64 + 1);
        self.points.push((Point { name: name.to_owned(), kind }, new));
        new
    }

    fn visits(&mut self, experiment: &Experiment) -> Vec<Visits> {
        let mut visits = Vec::new();
        let mut visited = |point, count| visits.push(Visits { point, count, span: None });
        for (name, &count) in &experiment.visits {
            visited(self.point(name, PointKind::Throughput), count);
        }
        for (name, latency) in &experiment.latencies {
            visited(self.point(name, PointKind::Begin), latency.arrivals);
            visited(self.point(name, PointKind::End), latency.departures);
        }
        visits
    }

    /// As much all the time as at the end. Where more had ended than begun, it is unknown how much.
    fn in_flight(&mut self, experiment: &Experiment, elapsed: Nanos) -> Vec<InFlight> {
        let known = experiment.latencies.iter().filter(|(_, latency)| latency.in_flight >= 0.0);
        known
            .map(|(name, latency)| InFlight {
                begin: self.point(name, PointKind::Begin),
                integral: VisitNanos::new((latency.in_flight * elapsed.get() as f64) as i64),
            })
            .collect()
    }
}

/// What Coz calls `FILE:LINE`. Exports of ours put the name of a function in front of it, or have nothing else.
fn region(location: &str) -> Region {
    let (place, line) = match location.rsplit_once(':') {
        Some((place, line)) => (place, line.parse::<u32>().ok()),
        None => (location, None),
    };
    let of = |kind, name: &str, file: Option<&str>| Region {
        kind,
        inclusive: false,
        name: name.to_owned(),
        function: (kind == RegionKind::Function).then(|| name.to_owned()),
        file: file.map(str::to_owned),
        line: file.and(line),
        image: Image { path: "unknown image".into(), build_id: None },
    };
    if line.is_none() {
        return of(RegionKind::Function, location, None);
    }
    match place.find(" /") {
        Some(end) if end > 0 => of(RegionKind::Function, &place[..end], Some(&place[end + 1..])),
        _ => {
            let base = location.rsplit('/').next().unwrap_or(location);
            of(RegionKind::Line, base, Some(place))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        use RegionKind::{Function, Line};
        for (location, kind, name, file, line) in [
            ("hash.c:88", Line, "hash.c:88", Some("hash.c"), Some(88)),
            ("/src/a b/hash.c:88", Line, "hash.c:88", Some("/src/a b/hash.c"), Some(88)),
            ("ns::work /src/hash.c:80", Function, "ns::work", Some("/src/hash.c"), Some(80)),
            ("ns::work", Function, "ns::work", None, None),
            ("C:\\x.c:8", Line, "C:\\x.c:8", Some("C:\\x.c"), Some(8)),
        ] {
            let region = region(location);
            assert_eq!((region.kind, &*region.name), (kind, name), "{location}");
            assert_eq!((region.file.as_deref(), region.line), (file, line), "{location}");
        }
    }

    #[test]
    fn what_was_inserted_is_what_is_missing() {
        let experiment = |per_mille, effective_ns, samples| {
            Experiment::new("a.c:1".into(), per_mille, effective_ns, samples)
        };
        let millis = |millis: i64| millis * 1_000_000;
        let experiments = [
            experiment(0, millis(100), 0),
            experiment(500, millis(60), 1000),
            experiment(500, millis(60), 20),
            experiment(1000, millis(-4), 1000),
            experiment(500, millis(180), 1000),
            experiment(500, millis(101), 0),
        ];
        let lengths = lengths(&experiments);
        assert_eq!(
            lengths.iter().map(|ns| ns / 1_000_000).collect::<Vec<_>>(),
            [100, 100, 100, 100, 200, 100]
        );
        let times: Vec<(u64, u64)> = (experiments.iter().zip(&lengths))
            .map(|(experiment, length)| times(experiment, *length))
            .map(|(elapsed, required)| (elapsed.get() / 1_000_000, required.get() / 1_000_000))
            .collect();
        assert_eq!(times, [(100, 0), (100, 40), (70, 10), (100, 104), (200, 20), (101, 0)]);
    }
}
