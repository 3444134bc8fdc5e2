//! Ranking: all regions of a recording, judged and put in order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::audit::{self, Audited};
use crate::cpu_limit::CpuLimit;
use crate::discovery;
use crate::drift::{self, Drift, RunDrift};
use crate::estimate::{
    self, About, EstimateOptions, LeftOutReason, LeftOutWindows, PointEstimate, Quantile, Reading, Target,
    Unsteady, Verdict,
};
use crate::load::Load;
use crate::model::{
    Arrivals, Point, PointId, PointKind, Region, RegionId, Rows, Served, Session, SessionId, Warning, Window,
    WindowFlags,
};
use crate::production;
use crate::units::{Nanos, Speedup};

/// Fewer different speedups than this do not show a curve, unless the user asked for exactly those.
const ENOUGH_SPEEDUPS: usize = 5;

/// A recording and everything that was estimated from it.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The rows it was made of.
    pub rows: Rows,
    /// Every region with enough data for a curve. The order is that of their best verdict on
    /// throughput, then on latency; [`Profile::ranked`] gives the order for one target.
    pub regions: Vec<RegionEstimate>,
    /// What can become faster, throughput first, by name.
    pub points: Vec<PointSummary>,
    /// How fast each session made progress over time, one for each of `points` that is not idle and each
    /// session with a baseline.
    pub drift: Vec<Drift>,
    /// How the speed changed from run to run, for each of `points` that is not idle and has baselines.
    pub run_drift: Vec<RunDrift>,
    /// Pieces of code that were sampled and have no estimate, by their share.
    pub candidates: Vec<Candidate>,
    /// What no estimate uses.
    pub left_out: LeftOut,
    /// Doubts about windows, counted.
    pub doubts: Doubts,
    /// How everything was estimated.
    pub options: EstimateOptions,
    /// The file that the rows were read from, as it can be named in a command.
    pub recording: Option<PathBuf>,
    /// Whether the regions are in more than one program or library, so that these have to be told.
    pub has_programs: bool,
}

/// Windows that were recorded with doubts, which do not keep them from being used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// All windows that were recorded.
    pub windows: usize,
    /// Others used more than 10 % of the machine ([`WindowFlags::BUSY`]).
    pub busy: usize,
    /// More of something had ended than begun ([`WindowFlags::UNMATCHED`]).
    pub unmatched: usize,
    /// The clock of arrivals was not known yet, and was found out later in the session to be what they had been treated by: not in doubt any more.
    pub settled: usize,
}

/// The share of windows during which others may have used the machine.
const BUSY: f64 = 0.25;

impl Doubts {
    /// In which share of the windows others used the machine, if that is more than a few of them.
    pub(crate) fn others(&self) -> Option<f64> {
        let busy = self.busy as f64 / self.windows.max(1) as f64;
        (busy > BUSY).then_some(busy)
    }

    fn of(windows: &[Window], settled: usize) -> Doubts {
        let count = |flag| windows.iter().filter(|window| window.flags.has(flag)).count();
        Doubts {
            windows: windows.len(),
            busy: count(WindowFlags::BUSY),
            unmatched: count(WindowFlags::UNMATCHED),
            settled,
        }
    }
}

/// What is known about one region.
#[derive(Clone, Debug)]
pub struct RegionEstimate {
    /// The region.
    pub region: RegionId,
    /// Samples in it over the whole run.
    pub samples: u64,
    /// The share of those samples in all CPU time, 0 to 1; `None` without samples.
    pub share: Option<f64>,
    /// Its share of the program's samples in production; `None` where it is unknown.
    pub production: Option<f64>,
    /// Its share of the time in which threads that serve arrivals are busy: see [`Load::share_of`].
    pub share_of_busy: Option<f64>,
    /// How many windows were used.
    pub windows: usize,
    /// The share of the run in which it runs; gains are already scaled by it.
    pub phase: f64,
    /// Whether the rules of virtual time did what they should have done; `None` where that was not recorded.
    pub audit: Option<Audited>,
    /// One for each of [`Profile::points`], in that order.
    pub points: Vec<PointEstimate>,
}

/// What is known about one progress point or latency pair.
#[derive(Clone, Debug)]
pub struct PointSummary {
    /// What can become faster.
    pub target: Target,
    /// Its name.
    pub name: String,
    /// Whether it is the program's end, which each run comes to once.
    pub whole: bool,
    /// Visits in all windows together.
    pub visits: u64,
    /// Visits per second without speedups; `None` where there was no such time.
    pub rate: Option<f64>,
    /// The mean time from begin to end without speedups, for a latency pair.
    pub latency: Option<Nanos>,
    /// How long the slow ones take without speedups, for a latency pair of which single pieces of work are known.
    pub quantiles: Vec<Quantile>,
    /// Windows in which it was not in a steady state, for a latency pair.
    pub unsteady: Option<Unsteady>,
    /// Whether most windows saw no visit at all.
    pub idle: bool,
    /// Windows shorter than this were made for points that are visited more often, and say nothing about this one.
    pub shortest: Nanos,
}

/// A region that was sampled, and of which too little is known for an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The region.
    pub region: RegionId,
    /// Samples in it over the whole run.
    pub samples: u64,
    /// The share of those samples in all CPU time, 0 to 1; `None` without samples.
    pub share: Option<f64>,
    /// How many experiments there were on it.
    pub experiments: usize,
    /// At how many speedups it was tried.
    pub speedups: usize,
}

/// What no estimate uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Regions without a single baseline window that counts.
    pub without_baseline: usize,
    /// Regions with fewer than five different speedups.
    pub few_speedups: usize,
    /// Windows.
    pub windows: LeftOutWindows,
}

impl Profile {
    /// Estimates everything that `rows` can tell.
    pub fn new(mut rows: Rows, options: &EstimateOptions) -> Profile {
        let settled = forget_doubts(&mut rows);
        let points = summaries(&rows);
        let live = || points.iter().filter(|point| !point.idle);
        let drift: Vec<Drift> = live()
            .flat_map(|point| drift::of(point.target, &rows.windows, point.shortest, options))
            .collect();
        let of_runs = |point: &PointSummary| {
            drift::of_runs(point.target, &rows.sessions, &rows.windows, point.shortest, options)
        };
        let run_drift: Vec<RunDrift> = live().filter_map(of_runs).collect();
        let (experiments, windows) = estimate::experiments(&rows.windows);
        let mut left_out = LeftOut { windows, ..LeftOut::default() };
        let is_fixed = |s: &&Session| s.start.fixed_regions || s.start.fixed_speedups;
        let fixed: BTreeSet<_> = rows.sessions.iter().filter(is_fixed).map(|session| session.id).collect();
        let treated = estimate::TreatedSums::of(&rows.windows);
        let period =
            rows.sessions.iter().map(|session| session.start.sample_period).max().unwrap_or_default();
        let served = rows.served();
        let mut regions = Vec::new();
        for of_region in &experiments {
            if !of_region.has_baseline() {
                left_out.without_baseline += 1;
                continue;
            }
            let tried = of_region.speedups().len() - 1; // the first is the baseline
            // What the user has asked for needs no more than that.
            let asked = options.fixed || of_region.sessions().iter().any(|session| fixed.contains(session));
            if tried < if asked { 1 } else { ENOUGH_SPEEDUPS } {
                left_out.few_speedups += 1;
                continue;
            }
            let phase = if options.phase_correction {
                estimate::phase_of(of_region, &rows, &treated)
            } else {
                estimate::Phase::ALWAYS
            };
            let (samples, share) = share(&rows, of_region.region);
            regions.push(RegionEstimate {
                region: of_region.region,
                samples,
                share,
                production: production::share(&rows, of_region.region),
                share_of_busy: Load::share_of(&rows.windows, of_region.region),
                windows: of_region.windows(),
                phase: phase.factor,
                audit: audit::of(rows.windows.iter(), of_region.region, period),
                points: points
                    .iter()
                    .map(|point| {
                        let about = point.about(&drift, &run_drift, served);
                        estimate::estimate(of_region, about, &phase, options)
                    })
                    .collect(),
            });
        }
        discovery::check(&mut regions);
        let is_changed = rows.warned(Warning::SLOW_BESIDE_POINT).next().is_some();
        let is_held_up = CpuLimit::of(&rows.windows).is_some_and(CpuLimit::is_felt);
        regions.iter_mut().for_each(|region| region.distrust(is_changed, is_held_up));
        regions.sort_by(|a, b| a.best().total_cmp(b.best()).then(a.region.cmp(&b.region)));
        let doubts = Doubts::of(&rows.windows, settled);
        let candidates = candidates(&rows, &regions);
        let programs: BTreeSet<&str> = rows.regions.values().filter_map(Region::program).collect();
        let has_programs = programs.len() > 1;
        Profile {
            rows,
            regions,
            points,
            drift,
            run_drift,
            candidates,
            left_out,
            doubts,
            options: options.clone(),
            recording: None,
            has_programs,
        }
    }

    /// The same, of this file.
    #[must_use]
    pub fn read_from(self, recording: &Path) -> Profile {
        Profile { recording: Some(recording.to_owned()), ..self }
    }

    /// The baselines that say something about a point, by session and time.
    pub fn baselines(&self, point: &PointSummary) -> Vec<&Window> {
        drift::baselines(&self.rows.windows, point.shortest)
    }

    /// What is known of a target.
    pub fn point(&self, target: Target) -> Option<&PointSummary> {
        self.points.iter().find(|point| point.target == target)
    }

    /// The region behind an estimate.
    pub fn region(&self, estimate: &RegionEstimate) -> &Region {
        &self.rows.regions[&estimate.region]
    }

    /// The program or library that a region is in, where that has to be told: where regions are in more than one, and its name does not
    /// say so already (`nginx+0x54130`).
    pub fn program<'r>(&self, region: &'r Region) -> Option<&'r str> {
        let has_it =
            |program: &&str| region.name.strip_prefix(program).is_some_and(|rest| rest.starts_with("+0x"));
        region.program().filter(|program| self.has_programs && !has_it(program))
    }

    /// As reports show a region: [`Region::label`], and its [`program`](Self::program).
    pub fn label(&self, region: &Region) -> String {
        region.label_in(self.program(region))
    }

    /// The limit on CPU time; `None` where there was none in any run.
    pub fn cpu_limit(&self) -> Option<CpuLimit> {
        CpuLimit::of(&self.rows.windows)
    }

    /// The same, if it held the program up.
    pub(crate) fn felt_limit(&self) -> Option<CpuLimit> {
        self.cpu_limit().filter(|limit| limit.is_felt())
    }

    /// Why a latency cannot be predicted, if a limit held the program up.
    pub(crate) fn held_up_latency(&self, point: &PointSummary) -> Option<String> {
        let limit = self.felt_limit().filter(|_| matches!(point.target, Target::Latency { .. }))?;
        Some(limit.words() + ", which makes latencies longer by times that are not predicted")
    }

    /// The regions in the order of what they do to `target`, the most useful first: by the lower end of
    /// the slope's interval; those that hurt come last, by the upper end, the worst first among them.
    pub fn ranked(&self, target: Target) -> Vec<(&RegionEstimate, &PointEstimate)> {
        let of_target = |region: &RegionEstimate| region.points.iter().position(|p| p.target == target);
        let mut ranked: Vec<_> =
            self.regions.iter().filter_map(|r| Some((r, &r.points[of_target(r)?]))).collect();
        ranked.sort_by(|(_, a), (_, b)| a.rank().total_cmp(b.rank()));
        ranked
    }
}

impl PointSummary {
    fn about<'a>(&self, drifts: &'a [Drift], of_runs: &'a [RunDrift], served: Served) -> About<'a> {
        let Served { cpus, clients_are_here } = served;
        About { target: self.target, drifts, of_runs, shortest: self.shortest, cpus, clients_are_here }
    }

    /// What `profile`, whose point it is, knows of it.
    pub(crate) fn about_in<'a>(&self, profile: &'a Profile) -> About<'a> {
        self.about(&profile.drift, &profile.run_drift, profile.rows.served())
    }
}

/// Where something stands: smaller is better.
#[derive(Clone, Copy)]
struct Rank(u8, f64);

impl Rank {
    fn total_cmp(self, other: Rank) -> std::cmp::Ordering {
        self.0.cmp(&other.0).then(self.1.total_cmp(&other.1))
    }
}

impl PointEstimate {
    /// Whether its effect excludes anything that could be so.
    pub(crate) fn says_something(&self) -> bool {
        self.effect.is_some_and(|effect| effect.says_something())
    }

    fn rank(&self) -> Rank {
        match (self.verdict, &self.slope) {
            (_, None) => Rank(3, 0.0),
            (Verdict::Helps, Some(slope)) => Rank(0, -slope.lo),
            (Verdict::Hurts, Some(slope)) => Rank(2, slope.hi),
            (_, Some(slope)) => Rank(1, -slope.lo),
        }
    }
}

impl RegionEstimate {
    /// Takes back all verdicts if the audit does not balance, or if the run changed what it measured; those on latencies also if a limit on CPU time held the program up.
    fn distrust(&mut self, is_changed: bool, is_held_up: bool) {
        let all = is_changed || self.audit.as_ref().is_some_and(|audit| !audit.is_trusted());
        let is_doubted =
            |point: &PointEstimate| all || is_held_up && matches!(point.target, Target::Latency { .. });
        for point in &mut self.points {
            if point.verdict != Verdict::Idle && is_doubted(point) {
                (point.verdict, point.more_blocks, point.is_probable) = (Verdict::NotTrusted, None, false);
            }
        }
    }

    /// The best rank of any point.
    fn best(&self) -> Rank {
        let ranks = self.points.iter().map(PointEstimate::rank);
        ranks.min_by(|a, b| a.total_cmp(*b)).unwrap_or(Rank(4, 0.0))
    }

    /// The verdict of its best point: what to show where there is room for one.
    pub fn verdict(&self) -> Verdict {
        let best = self.points.iter().min_by(|a, b| a.rank().total_cmp(b.rank()));
        best.map_or(Verdict::NotEnoughData, |point| point.verdict)
    }
}

/// Takes back what windows say of arrivals whose clock was not known yet, where it was found out later in the session that all of them wait for answers, or nothing has contradicted what
/// the user says.
/// Says how many windows had said something.
fn forget_doubts(rows: &mut Rows) -> usize {
    let sessions = rows.sessions.iter().filter(|session| Arrivals::were_treated_right(&session.arrivals));
    let closed: BTreeSet<SessionId> = sessions.map(|session| session.id).collect();
    let windows = rows.windows.iter_mut().filter(|window| closed.contains(&window.session));
    let doubtful = windows.filter_map(|window| window.audit.as_mut()).map(|audit| &mut audit.doubtful);
    doubtful.filter(|time| **time > Nanos::ZERO).map(|time| *time = Nanos::ZERO).count()
}

/// Throughput points and latency pairs, in the order in which they are shown.
fn summaries(rows: &Rows) -> Vec<PointSummary> {
    let mut targets: Vec<(u8, &str, Target)> = Vec::new();
    let begins: BTreeMap<&str, PointId> = rows
        .points
        .iter()
        .filter(|(_, point)| point.kind == PointKind::Begin)
        .map(|(id, point)| (point.name.as_str(), *id))
        .collect();
    for (&id, Point { name, kind }) in &rows.points {
        match kind {
            PointKind::Throughput => targets.push((0, name, Target::Throughput(id))),
            // A begin without an end, or the reverse, measures nothing.
            PointKind::End => {
                if let Some(&begin) = begins.get(name.as_str()) {
                    targets.push((1, name, Target::Latency { begin, end: id }));
                }
            }
            PointKind::Begin => {}
        }
    }
    targets.sort_unstable();
    targets.into_iter().map(|(_, name, target)| summary(rows, name, target)).collect()
}

fn summary(rows: &Rows, name: &str, target: Target) -> PointSummary {
    let visits = |window: &Window| window.visits(target.counted());
    let baselines = || {
        rows.windows.iter().filter(|window| window.speedup.is_zero() && LeftOutReason::of(window).is_none())
    };
    let time: f64 = baselines().map(Window::effective_ns).sum();
    let visits_at_rest: u64 = baselines().map(visits).sum();
    let at_rest: Reading = baselines().map(|window| Reading::new(target, window)).sum();
    let latency = match target {
        Target::Latency { .. } => at_rest.period_ns().map(|period| Nanos::new(period as u64)),
        Target::Throughput(_) => None,
    };
    let quantiles = match target {
        Target::Latency { begin, end } => estimate::quantiles_at_rest(baselines(), (begin, end)),
        Target::Throughput(_) => Vec::new(),
    };
    let shortest = estimate::shortest(target, &rows.windows);
    let is_whole = |window: &Window| window.flags.has(WindowFlags::WHOLE);
    let long_enough = || rows.windows.iter().filter(|window| window.elapsed >= shortest);
    PointSummary {
        target,
        name: name.to_owned(),
        whole: name == Point::WHOLE && rows.windows.iter().any(is_whole),
        visits: rows.windows.iter().map(visits).sum(),
        rate: (time > 0.0).then(|| visits_at_rest as f64 / time * 1e9),
        latency,
        quantiles,
        unsteady: Unsteady::of(target, &rows.windows),
        idle: long_enough().filter(|w| visits(w) > 0).count() * 2 < long_enough().count(),
        shortest,
    }
}

/// The samples of a region, and their share of all CPU time in the sessions that saw it.
fn share(rows: &Rows, region: RegionId) -> (u64, Option<f64>) {
    let of_region = || rows.samples.iter().filter(|s| s.region == region);
    let sessions: BTreeSet<_> = of_region().map(|s| s.session).collect();
    let all: Nanos =
        rows.sessions.iter().filter(|s| sessions.contains(&s.id)).map(|s| s.samples.weight).sum();
    let weight: Nanos = of_region().map(|s| s.weight).sum();
    let share = (all > Nanos::ZERO).then(|| weight.get() as f64 / all.get() as f64);
    (of_region().map(|s| s.count).sum(), share)
}

/// The experiments on a region, and the speedups in them.
type Tried = (BTreeSet<(SessionId, i64)>, BTreeSet<Speedup>);

/// The regions that were sampled or tried, but for those that are estimated, by their share.
fn candidates(rows: &Rows, estimated: &[RegionEstimate]) -> Vec<Candidate> {
    let estimated: BTreeSet<RegionId> = estimated.iter().map(|region| region.region).collect();
    let all: BTreeMap<SessionId, Nanos> = rows.sessions.iter().map(|s| (s.id, s.samples.weight)).collect();
    let mut sums: BTreeMap<RegionId, (u64, Nanos, Nanos)> = BTreeMap::new();
    for samples in rows.samples.iter().filter(|samples| !estimated.contains(&samples.region)) {
        let (count, weight, of_sessions) = sums.entry(samples.region).or_default();
        *count += samples.count;
        *weight += samples.weight;
        *of_sessions += all.get(&samples.session).copied().unwrap_or_default();
    }
    let mut tried: BTreeMap<RegionId, Tried> = BTreeMap::new();
    for window in rows.windows.iter().filter(|window| !estimated.contains(&window.region)) {
        let (experiments, speedups) = tried.entry(window.region).or_default();
        if !window.speedup.is_zero() {
            experiments.insert((window.session, window.block));
            speedups.insert(window.speedup);
        }
        sums.entry(window.region).or_default();
    }
    let mut candidates: Vec<Candidate> = sums
        .into_iter()
        .map(|(region, (samples, weight, of_sessions))| Candidate {
            region,
            samples,
            share: (of_sessions > Nanos::ZERO).then(|| weight.get() as f64 / of_sessions.get() as f64),
            experiments: tried.get(&region).map_or(0, |(experiments, _)| experiments.len()),
            speedups: tried.get(&region).map_or(0, |(_, speedups)| speedups.len()),
        })
        .collect();
    let share = |candidate: &Candidate| candidate.share.unwrap_or(0.0);
    candidates.sort_by(|a, b| share(b).total_cmp(&share(a)));
    candidates
}
