//! JSON, for programs. `docs/json.md` documents every field for readers; the structures below
//! are the same list in the same order.
//!
//! Speedups and gains are fractions (0.25), times are nanoseconds, and what is not known is `null`:
//! never NaN, never infinity. Names are exactly what the program called things, so escape them before
//! showing them. `version` changes when a field changes its meaning or goes away, not when one is added.

mod answer;
mod brief;
mod comparison;
mod explain;
mod stacks;
mod summary;

pub use brief::{LONGEST as LONGEST_BRIEF, render as render_brief};
pub use comparison::render as render_comparison;
pub(crate) use comparison::render_for_page as render_comparison_for_page;

use profile::{
    Arrivals, Audited, BlockRow, Candidate, Covered, CpuLimit, Dot, Doubt, Doubts, Drift, Era, Estimate,
    Exit, GoTime, Image, LeftOut, LeftOutReason, Mark, PointEstimate, PointSummary, Profile, Program,
    ProgramTime, Quantile, QuantileGain, RegionEstimate, RunDrift, RunSegment, Segment, Session, SessionId,
    Speedup, ThreadGroup, Warning, Window,
};
use serde::Serialize;
use stacks::OfStacks;

use answer::OfAnswer;

pub use explain::render as render_explanation;

/// The version of the format.
pub const VERSION: u32 = 1;

/// The profile as one JSON object, indented, with a newline at its end.
///
/// Characters that could deceive a reader of the text in a terminal (bidirectional and other
/// invisible controls) are written as `\u` escapes.
pub fn render(profile: &Profile) -> String {
    let warnings = profile.warnings();
    text_of(&Report::new(profile, &warnings))
}

/// What the page draws: a summary for its first look, and the parts that it reads when the user looks at them.
pub(crate) struct InParts {
    pub summary: String,
    /// The list of regions, where it is too long to be read before the first look.
    pub regions: Option<String>,
    /// Regions, baselines, then the stacks: each is named by its position where the summary leaves it out.
    pub parts: Vec<String>,
}

/// The page's data in one piece and on one line: for a page that is told of every change.
pub fn render_whole(profile: &Profile) -> String {
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        report: Report<'a>,
        baselines: Vec<OfBaselines<'a>>,
    }
    let warnings = profile.warnings();
    let report = with_blocks(profile, &warnings);
    let live = profile.points.iter().filter(|point| !point.idle);
    line_of(&Whole { report, baselines: live.map(|point| OfBaselines::new(profile, point)).collect() })
}

/// The page's data in parts, each on one line, with the blocks behind every estimate and the baselines over time.
pub(crate) fn render_in_parts(profile: &Profile) -> InParts {
    let warnings = profile.warnings();
    let report = with_blocks(profile, &warnings);
    let live = || profile.points.iter().filter(|point| !point.idle);
    let regions = report.regions.iter().map(line_of);
    let baselines = live().map(|point| line_of(&OfBaselines::new(profile, point)));
    let stacks = report.stacks.iter().map(line_of);
    let parts = regions.chain(baselines).chain(stacks).collect();
    let mut summary = summary::Report::new(&report, live());
    let regions = summary.take_many_regions().map(|regions| line_of(&regions));
    InParts { summary: line_of(&summary), regions, parts }
}

fn with_blocks<'a>(profile: &'a Profile, warnings: &'a [(SessionId, Warning)]) -> Report<'a> {
    let mut report = Report::new(profile, warnings);
    let mut blocks = profile.blocks_by_region();
    for (region, estimate) in report.regions.iter_mut().zip(&profile.regions) {
        // A curve is that of the whole run, so its dots are, too.
        let phase = estimate.phase;
        let of_region = blocks.remove(&estimate.region).unwrap_or_default();
        for (point, rows) in region.points.iter_mut().zip(of_region) {
            point.dots = Some(rows.iter().filter_map(|row| dot(row, phase)).collect());
        }
    }
    report
}

/// Speedup, gain, session, block, and why it is left out.
type OfBlockDot = (f64, Option<f64>, i64, i64, Option<&'static str>);

/// What one block says by itself, as a gain of the whole run; `None` for one without a treated window. `phase`: the share of the run in which
/// the region runs.
fn dot(row: &BlockRow, phase: f64) -> Option<OfBlockDot> {
    let (speedup, _) = row.treated?;
    let left_out = row.left_out.map(LeftOutReason::name);
    let gain = row.gain().map(|gain| gain * phase).and_then(finite);
    Some((speedup.fraction(), gain, row.session.get(), row.block, left_out))
}

#[derive(Serialize)]
struct OfBaselines<'a> {
    point: &'a str,
    kind: &'static str,
    /// Session, start, elapsed time, visits, and visits per second of effective time.
    windows: Vec<(i64, u64, u64, u64, Option<f64>)>,
}

impl<'a> OfBaselines<'a> {
    fn new(profile: &Profile, point: &'a PointSummary) -> Self {
        let window = |window: &Window| {
            let (time, visits) = window.progress(point.target.counted());
            let rate = finite(visits as f64 / time * 1e9);
            (window.session.get(), window.start.get(), window.elapsed.get(), visits, rate)
        };
        let windows = profile.baselines(point).into_iter().map(window).collect();
        OfBaselines { point: &point.name, kind: point.target.kind(), windows }
    }
}

impl<'a> Report<'a> {
    fn new(profile: &'a Profile, warnings: &'a [(SessionId, Warning)]) -> Self {
        Report {
            version: VERSION,
            sentence: profile.sentence(),
            answer: OfAnswer::new(profile),
            sessions: profile.rows.sessions.iter().map(OfSession::new).collect(),
            points: profile.points.iter().map(OfPoint::new).collect(),
            production: profile.production().map(OfProduction::new),
            programs: profile.programs().into_iter().map(OfProgramTime::new).collect(),
            threads: profile.threads().into_iter().map(OfThreads::new).collect(),
            overhead: profile.overhead().map(OfOverhead::new),
            cpu_limit: profile.cpu_limit().map(OfCpuLimit::new),
            go: profile.go_time().map(OfGo::new),
            regions: profile.regions.iter().map(|region| OfRegion::new(profile, region)).collect(),
            candidates: profile
                .candidates
                .iter()
                .map(|candidate| OfCandidate::new(profile, candidate))
                .collect(),
            stacks: OfStacks::new(profile),
            drift: profile.drift.iter().map(|drift| OfDrift::new(profile, drift)).collect(),
            run_drift: profile.run_drift.iter().map(|drift| OfRunDrift::new(profile, drift)).collect(),
            left_out: OfLeftOut::new(&profile.left_out),
            doubts: OfDoubts::new(&profile.doubts),
            warnings: warnings.iter().map(|(id, warning)| OfWarning::new(id.get(), warning)).collect(),
        }
    }
}

/// Indented, with a newline at its end.
pub(crate) fn text_of(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("strings and numbers always serialize");
    text.push('\n');
    escaped(&text)
}

/// On one line.
pub(crate) fn line_of(value: &impl Serialize) -> String {
    escaped(&serde_json::to_string(value).expect("strings and numbers always serialize"))
}

/// Only strings hold anything beyond ASCII, so an escape is right wherever such a character stands.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let mut buffer = [0; 4];
        let shown: &str = c.encode_utf8(&mut buffer);
        if c == '\n' || matches!(profile::printable(shown), std::borrow::Cow::Borrowed(_)) {
            safe.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    safe
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    sentence: String,
    answer: OfAnswer,
    sessions: Vec<OfSession<'a>>,
    points: Vec<OfPoint<'a>>,
    production: Option<OfProduction>,
    programs: Vec<OfProgramTime<'a>>,
    threads: Vec<OfThreads>,
    overhead: Option<OfOverhead>,
    cpu_limit: Option<OfCpuLimit>,
    go: Option<OfGo>,
    regions: Vec<OfRegion<'a>>,
    candidates: Vec<OfCandidate<'a>>,
    stacks: Option<OfStacks<'a>>,
    drift: Vec<OfDrift<'a>>,
    run_drift: Vec<OfRunDrift<'a>>,
    left_out: OfLeftOut,
    doubts: OfDoubts,
    warnings: Vec<OfWarning<'a>>,
}

/// Which samples `production_share` is of.
#[derive(Clone, Copy, Serialize)]
struct OfProduction {
    since_unix_s: i64,
    until_unix_s: i64,
    hosts: u32,
}

impl OfProduction {
    fn new(covered: Covered) -> Self {
        let Covered { since, until, hosts } = covered;
        OfProduction { since_unix_s: since.0, until_unix_s: until.0, hosts }
    }
}

#[derive(Serialize)]
struct OfProgramTime<'a> {
    name: &'a str,
    title: String,
    obstacle: Option<&'a str>,
    processes: u64,
    samples: u64,
    cpu_ns: u64,
    share: f64,
}

impl<'a> OfProgramTime<'a> {
    fn new(of_program: ProgramTime<'a>) -> Self {
        let title = of_program.title();
        let ProgramTime { name, obstacle, processes, samples, cpu, share } = of_program;
        OfProgramTime { name, title, obstacle, processes, samples, cpu_ns: cpu.get(), share }
    }
}

/// What Go's runtime took.
#[derive(Clone, Copy, Serialize)]
struct OfGo {
    collector_share: f64,
    runtime_share: f64,
}

impl OfGo {
    fn new(GoTime { collector, runtime }: GoTime) -> Self {
        OfGo { collector_share: collector, runtime_share: runtime }
    }
}

#[derive(Serialize)]
struct OfProgram<'a> {
    path: &'a str,
    obstacle: Option<&'a str>,
    processes: u64,
    samples: u64,
    cpu_ns: u64,
}

impl<'a> OfProgram<'a> {
    fn new(program: &'a Program) -> Self {
        let Program { path, obstacle, processes, samples, cpu } = program;
        let (obstacle, cpu_ns) = (obstacle.as_deref(), cpu.get());
        OfProgram { path, obstacle, processes: *processes, samples: *samples, cpu_ns }
    }
}

#[derive(Serialize)]
struct OfSession<'a> {
    id: i64,
    started_unix_ns: u64,
    program: &'a str,
    arguments: &'a [String],
    directory: &'a str,
    host: &'a str,
    kernel: &'a str,
    cpus: u32,
    /// A text: 64 bits do not fit into the numbers of every reader of JSON.
    seed: String,
    options: serde_json::Value,
    whatif_version: &'a str,
    sampler: &'a str,
    sample_period_ns: u64,
    kernel_time: bool,
    repeat: u32,
    fixed_regions: bool,
    fixed_speedups: bool,
    finished: bool,
    duration_ns: Option<u64>,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    stopped: bool,
    samples: u64,
    sample_weight_ns: u64,
    lost_samples: u64,
    timed_samples: u64,
    images: Vec<OfImage<'a>>,
    arrivals: Vec<OfArrivals>,
    programs: Vec<OfProgram<'a>>,
}

/// Threads that do the same work.
#[derive(Serialize)]
struct OfThreads {
    name: String,
    title: String,
    count: usize,
    watched_ns: u64,
    running: f64,
    runnable: f64,
    for_threads: f64,
    external: f64,
}

impl OfThreads {
    fn new(group: ThreadGroup) -> Self {
        OfThreads {
            title: group.title(),
            name: group.name,
            count: group.count,
            watched_ns: group.watched.get(),
            running: group.running,
            runnable: group.runnable,
            for_threads: group.for_threads,
            external: group.external,
        }
    }
}

/// What sampling took of the program's speed.
#[derive(Clone, Copy, Serialize)]
struct OfOverhead {
    lost: f64,
    lost_lo: f64,
    lost_hi: f64,
}

impl OfOverhead {
    fn new(lost: Estimate) -> Self {
        OfOverhead { lost: lost.value, lost_lo: lost.lo, lost_hi: lost.hi }
    }
}

#[derive(Serialize)]
struct OfCpuLimit {
    cpus: f64,
    used_up: f64,
}

impl OfCpuLimit {
    fn new(limit: CpuLimit) -> Self {
        OfCpuLimit { cpus: limit.cpus, used_up: limit.used_up }
    }
}

#[derive(Serialize)]
struct OfArrivals {
    kind: &'static str,
    port: u16,
    clock: &'static str,
    slope: Option<f64>,
    slope_se: Option<f64>,
    count: u64,
}

impl OfArrivals {
    fn new(arrivals: &Arrivals) -> Self {
        let (slope, slope_se) = arrivals.slope.unzip();
        OfArrivals {
            kind: arrivals.kind.name(),
            port: arrivals.port,
            clock: arrivals.clock.name(),
            slope: slope.and_then(finite),
            slope_se: slope_se.and_then(finite),
            count: arrivals.count,
        }
    }
}

#[derive(Serialize)]
struct OfImage<'a> {
    path: &'a str,
    build_id: Option<&'a str>,
}

impl<'a> OfImage<'a> {
    fn new(image: &'a Image) -> Self {
        OfImage { path: &image.path, build_id: image.build_id.as_deref() }
    }
}

impl<'a> OfSession<'a> {
    fn new(session: &'a Session) -> Self {
        let start = &session.start;
        let exit = session.end.map(|end| end.exit);
        OfSession {
            id: session.id.get(),
            started_unix_ns: start.started.get(),
            program: &start.program,
            arguments: &start.arguments,
            directory: &start.directory,
            host: &start.host,
            kernel: &start.kernel,
            cpus: start.cpus,
            seed: start.seed.to_string(),
            options: serde_json::from_str(&start.options)
                .unwrap_or_else(|_| serde_json::Value::String(start.options.clone())),
            whatif_version: &start.version,
            sampler: &start.sampler,
            sample_period_ns: start.sample_period.get(),
            kernel_time: start.kernel_time,
            repeat: start.repeat,
            fixed_regions: start.fixed_regions,
            fixed_speedups: start.fixed_speedups,
            finished: session.end.is_some(),
            duration_ns: session.end.map(|end| end.duration.get()),
            exit_code: match exit {
                Some(Exit::Code(code)) => Some(code),
                _ => None,
            },
            exit_signal: match exit {
                Some(Exit::Signal(signal)) => Some(signal),
                _ => None,
            },
            stopped: session.end.is_some_and(|end| end.stopped),
            samples: session.samples.count,
            sample_weight_ns: session.samples.weight.get(),
            lost_samples: session.samples.lost,
            timed_samples: session.samples.timed,
            images: session.images.iter().map(OfImage::new).collect(),
            arrivals: session.arrivals.iter().map(OfArrivals::new).collect(),
            programs: session.programs.iter().map(OfProgram::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfPoint<'a> {
    name: &'a str,
    kind: &'static str,
    visits: u64,
    rate_per_s: Option<f64>,
    latency_ns: Option<u64>,
    quantiles: Vec<OfQuantile>,
    unsteady: Option<OfUnsteady>,
    idle: bool,
}

#[derive(Serialize)]
struct OfQuantile {
    share: f64,
    latency_ns: f64,
    lo_ns: Option<f64>,
    hi_ns: Option<f64>,
}

impl OfQuantile {
    fn new(quantile: &Quantile) -> Self {
        let Quantile { share, time } = *quantile;
        OfQuantile { share, latency_ns: time.value, lo_ns: finite(time.lo), hi_ns: finite(time.hi) }
    }
}

#[derive(Serialize)]
struct OfUnsteady {
    windows: usize,
    growing: usize,
    shrinking: usize,
}

impl<'a> OfPoint<'a> {
    fn new(point: &'a PointSummary) -> Self {
        OfPoint {
            name: &point.name,
            kind: point.target.kind(),
            visits: point.visits,
            rate_per_s: point.rate.and_then(finite),
            latency_ns: point.latency.map(|latency| latency.get()),
            quantiles: point.quantiles.iter().map(OfQuantile::new).collect(),
            unsteady: point.unsteady.map(|unsteady| OfUnsteady {
                windows: unsteady.windows,
                growing: unsteady.growing,
                shrinking: unsteady.shrinking,
            }),
            idle: point.idle,
        }
    }
}

#[derive(Serialize)]
struct OfRegion<'a> {
    kind: &'static str,
    name: &'a str,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    inclusive: bool,
    image: OfImage<'a>,
    program: Option<&'a str>,
    samples: u64,
    share: Option<f64>,
    production_share: Option<f64>,
    share_of_busy: Option<f64>,
    mark: Option<&'static str>,
    windows: usize,
    phase: f64,
    verdict: &'static str,
    audit: Option<OfAudit>,
    points: Vec<OfEstimate<'a>>,
    snippet: Option<OfSnippet<'a>>,
}

#[derive(Serialize)]
struct OfCandidate<'a> {
    kind: &'static str,
    name: &'a str,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    program: Option<&'a str>,
    samples: u64,
    share: Option<f64>,
    experiments: usize,
    tried: usize,
}

impl<'a> OfCandidate<'a> {
    fn new(profile: &'a Profile, candidate: &Candidate) -> Self {
        let region = &profile.rows.regions[&candidate.region];
        OfCandidate {
            kind: region.kind.name(),
            name: &region.name,
            function: region.function.as_deref(),
            file: region.file.as_deref(),
            line: region.line,
            program: profile.program(region),
            samples: candidate.samples,
            share: candidate.share.and_then(finite),
            experiments: candidate.experiments,
            tried: candidate.speedups,
        }
    }
}

#[derive(Serialize)]
struct OfAudit {
    trusted: bool,
    reason: Option<String>,
    advice: Option<&'static str>,
    doubts: Vec<&'static str>,
}

impl OfAudit {
    fn new(audit: &Audited) -> Self {
        OfAudit {
            trusted: audit.is_trusted(),
            reason: audit.doubt().map(|doubt| doubt.to_string()),
            advice: audit.doubt().map(Doubt::advice),
            doubts: audit.doubts.iter().map(|doubt| doubt.name()).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfSnippet<'a> {
    first_line: u32,
    text: &'a str,
}

impl<'a> OfRegion<'a> {
    fn new(profile: &'a Profile, estimate: &'a RegionEstimate) -> Self {
        let region = profile.region(estimate);
        let points = profile.points.iter().zip(&estimate.points);
        let snippet = profile.rows.snippets.get(&estimate.region);
        OfRegion {
            kind: region.kind.name(),
            name: &region.name,
            function: region.function.as_deref(),
            file: region.file.as_deref(),
            line: region.line,
            inclusive: region.inclusive,
            image: OfImage::new(&region.image),
            program: profile.program(region),
            samples: estimate.samples,
            share: estimate.share.and_then(finite),
            production_share: estimate.production.and_then(finite),
            share_of_busy: estimate.share_of_busy.and_then(finite),
            mark: estimate.mark().map(Mark::name),
            windows: estimate.windows,
            phase: estimate.phase,
            verdict: estimate.verdict().name(),
            audit: estimate.audit.as_ref().map(OfAudit::new),
            points: points.map(|(point, estimate)| OfEstimate::new(point, estimate)).collect(),
            snippet: snippet.map(|s| OfSnippet { first_line: s.first_line, text: &s.text }),
        }
    }
}

#[derive(Serialize)]
struct OfEstimate<'a> {
    point: &'a str,
    kind: &'static str,
    verdict: &'static str,
    probable: bool,
    blocks: usize,
    disturbed_blocks: usize,
    more_blocks: Option<u32>,
    slope: Option<f64>,
    slope_se: Option<f64>,
    slope_lo: Option<f64>,
    slope_hi: Option<f64>,
    method_error: f64,
    handover_error: f64,
    slice_error: f64,
    waking_error: f64,
    in_sections: f64,
    clock_error: f64,
    crowding_shift: f64,
    limit_shift: f64,
    crowding_below: f64,
    crowding_above: f64,
    latency_error: f64,
    executing: f64,
    chance: Option<f64>,
    less_time: Option<f64>,
    less_time_lo: Option<f64>,
    less_time_hi: Option<f64>,
    effect: Option<f64>,
    effect_lo: Option<f64>,
    effect_hi: Option<f64>,
    max_gain: Option<f64>,
    max_gain_lo: Option<f64>,
    max_gain_hi: Option<f64>,
    bend: Option<f64>,
    bend_lo: Option<f64>,
    bend_hi: Option<f64>,
    pairing: f64,
    kept_apart: bool,
    eras: Vec<OfEra>,
    eras_differ: bool,
    speedups: Vec<OfSpeedup>,
    quantiles: Vec<OfQuantileGain>,
    /// For the page only.
    #[serde(skip_serializing_if = "Option::is_none")]
    dots: Option<Vec<OfBlockDot>>,
}

impl<'a> OfEstimate<'a> {
    fn new(point: &'a PointSummary, estimate: &PointEstimate) -> Self {
        let slope = |part| number(&estimate.slope, part);
        let effect = |part| number(&estimate.effect, part);
        let most = |part| number(&estimate.most, part);
        let bend = |part| number(&estimate.bend, part);
        OfEstimate {
            point: &point.name,
            kind: point.target.kind(),
            verdict: estimate.verdict.name(),
            probable: estimate.is_probable,
            blocks: estimate.blocks,
            disturbed_blocks: estimate.disturbed,
            more_blocks: estimate.more_blocks,
            slope: slope(|s| s.value),
            slope_se: slope(|s| s.se),
            slope_lo: slope(|s| s.lo),
            slope_hi: slope(|s| s.hi),
            method_error: estimate.method_error,
            handover_error: estimate.handover_error,
            slice_error: estimate.slice_error,
            waking_error: estimate.waking_error,
            in_sections: estimate.in_sections,
            clock_error: estimate.clock_error(),
            crowding_shift: estimate.crowding_shift,
            limit_shift: estimate.limit_shift,
            crowding_below: estimate.crowding.below,
            crowding_above: estimate.crowding.above,
            latency_error: estimate.latency_error,
            executing: estimate.executing,
            chance: estimate.chance.and_then(finite),
            less_time: effect(|e| e.value),
            less_time_lo: effect(|e| e.lo),
            less_time_hi: effect(|e| e.hi),
            effect: effect(|e| e.value),
            effect_lo: effect(|e| e.lo),
            effect_hi: effect(|e| e.hi),
            max_gain: most(|m| m.value),
            max_gain_lo: most(|m| m.lo),
            max_gain_hi: most(|m| m.hi),
            bend: bend(|b| b.value),
            bend_lo: bend(|b| b.lo),
            bend_hi: bend(|b| b.hi),
            pairing: estimate.pairing,
            kept_apart: estimate.kept_apart,
            eras: estimate.eras.iter().map(OfEra::new).collect(),
            eras_differ: estimate.eras_differ,
            speedups: estimate.curve.iter().map(OfSpeedup::new).collect(),
            quantiles: estimate.quantiles.iter().map(OfQuantileGain::new).collect(),
            dots: None,
        }
    }
}

#[derive(Serialize)]
struct OfQuantileGain {
    share: f64,
    effect: Option<f64>,
    effect_lo: Option<f64>,
    effect_hi: Option<f64>,
    speedups: Vec<OfQuantileAt>,
}

#[derive(Serialize)]
struct OfQuantileAt {
    speedup: f64,
    gain: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
}

impl OfQuantileGain {
    fn new(of_quantile: &QuantileGain) -> Self {
        let at = |(speedup, gain): &(Speedup, Estimate)| OfQuantileAt {
            speedup: speedup.fraction(),
            gain: finite(gain.value),
            lo: finite(gain.lo),
            hi: finite(gain.hi),
        };
        OfQuantileGain {
            share: of_quantile.share,
            effect: finite(of_quantile.effect.value),
            effect_lo: finite(of_quantile.effect.lo),
            effect_hi: finite(of_quantile.effect.hi),
            speedups: of_quantile.curve.iter().map(at).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfEra {
    session: i64,
    segment: usize,
    blocks: usize,
    slope: Option<f64>,
    slope_lo: Option<f64>,
    slope_hi: Option<f64>,
}

impl OfEra {
    fn new(era: &Era) -> Self {
        OfEra {
            session: era.session.get(),
            segment: era.segment,
            blocks: era.blocks,
            slope: finite(era.slope.value),
            slope_lo: finite(era.slope.lo),
            slope_hi: finite(era.slope.hi),
        }
    }
}

#[derive(Serialize)]
struct OfSpeedup {
    speedup: f64,
    gain: Option<f64>,
    raw_gain: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
    windows: usize,
}

impl OfSpeedup {
    fn new(dot: &Dot) -> Self {
        OfSpeedup {
            speedup: dot.speedup.fraction(),
            gain: number(&dot.gain, |gain| gain.value),
            raw_gain: dot.raw.and_then(finite),
            lo: number(&dot.gain, |gain| gain.lo),
            hi: number(&dot.gain, |gain| gain.hi),
            windows: dot.windows,
        }
    }
}

#[derive(Serialize)]
struct OfDrift<'a> {
    session: i64,
    point: &'a str,
    kind: &'static str,
    segments: Vec<OfSegment>,
}

impl<'a> OfDrift<'a> {
    fn new(profile: &'a Profile, drift: &Drift) -> Self {
        let point = profile.point(drift.target);
        OfDrift {
            session: drift.session.get(),
            point: point.map_or("", |point| &point.name),
            kind: drift.target.kind(),
            segments: drift.segments.iter().map(OfSegment::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfSegment {
    start_ns: u64,
    end_ns: u64,
    windows: usize,
    rate_per_s: Option<f64>,
    rate_lo: Option<f64>,
    rate_hi: Option<f64>,
}

impl OfSegment {
    fn new(segment: &Segment) -> Self {
        OfSegment {
            start_ns: segment.start.get(),
            end_ns: segment.end.get(),
            windows: segment.windows,
            rate_per_s: finite(segment.rate.value),
            rate_lo: finite(segment.rate.lo),
            rate_hi: finite(segment.rate.hi),
        }
    }
}

#[derive(Serialize)]
struct OfRunDrift<'a> {
    point: &'a str,
    kind: &'static str,
    segments: Vec<OfRunSegment>,
}

impl<'a> OfRunDrift<'a> {
    fn new(profile: &'a Profile, drift: &RunDrift) -> Self {
        let point = profile.point(drift.target);
        OfRunDrift {
            point: point.map_or("", |point| &point.name),
            kind: drift.target.kind(),
            segments: drift.segments.iter().map(OfRunSegment::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfRunSegment {
    sessions: Vec<i64>,
    rate_per_s: Option<f64>,
    rate_lo: Option<f64>,
    rate_hi: Option<f64>,
}

impl OfRunSegment {
    fn new(segment: &RunSegment) -> Self {
        OfRunSegment {
            sessions: segment.sessions.iter().map(|session| session.get()).collect(),
            rate_per_s: finite(segment.rate.value),
            rate_lo: finite(segment.rate.lo),
            rate_hi: finite(segment.rate.hi),
        }
    }
}

#[derive(Serialize)]
struct OfDoubts {
    windows: usize,
    windows_busy: usize,
    windows_unmatched: usize,
    windows_settled: usize,
}

impl OfDoubts {
    fn new(doubts: &Doubts) -> Self {
        OfDoubts {
            windows: doubts.windows,
            windows_busy: doubts.busy,
            windows_unmatched: doubts.unmatched,
            windows_settled: doubts.settled,
        }
    }
}

#[derive(Serialize)]
struct OfLeftOut {
    regions_without_baseline: usize,
    regions_with_few_speedups: usize,
    windows_unbalanced: usize,
    windows_cut: usize,
    windows_overdrawn: usize,
    windows_unpaired: usize,
}

impl OfLeftOut {
    fn new(left_out: &LeftOut) -> Self {
        OfLeftOut {
            regions_without_baseline: left_out.without_baseline,
            regions_with_few_speedups: left_out.few_speedups,
            windows_unbalanced: left_out.windows.unbalanced,
            windows_cut: left_out.windows.cut,
            windows_overdrawn: left_out.windows.overdrawn,
            windows_unpaired: left_out.windows.unpaired,
        }
    }
}

#[derive(Serialize)]
struct OfWarning<'a> {
    session: i64,
    code: &'a str,
    message: &'a str,
    advice: &'a str,
}

impl<'a> OfWarning<'a> {
    fn new(session: i64, warning: &'a Warning) -> Self {
        OfWarning { session, code: &warning.code, message: &warning.message, advice: &warning.advice }
    }
}

fn number(estimate: &Option<Estimate>, part: fn(&Estimate) -> f64) -> Option<f64> {
    estimate.as_ref().and_then(|estimate| finite(part(estimate)))
}

fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}
