//! The comparison of two recordings as JSON, documented in `docs/json.md` like the report.

use profile::{
    Change, Comparison, Estimate, PointChange, PointEstimate, PointHeadline, PointLevel, Profile, Region,
    RegionChange, RegionSide, SlopeChange, Target,
};
use serde::Serialize;

use super::{OfImage, OfSession, VERSION, finite, line_of, text_of};

/// The comparison as one JSON object, indented, with a newline at its end.
pub fn render(comparison: &Comparison<'_>) -> String {
    text_of(&Report::new(comparison))
}

/// The comparison as one JSON object on one line.
pub(crate) fn render_for_page(comparison: &Comparison<'_>) -> String {
    line_of(&Report::new(comparison))
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    sentence: String,
    point: Option<usize>,
    before: OfRecording<'a>,
    after: OfRecording<'a>,
    points: Vec<OfPointChange<'a>>,
    regions: Vec<OfRegionChange<'a>>,
    warnings: Vec<OfDoubt<'a>>,
}

impl<'a> Report<'a> {
    fn new(comparison: &'a Comparison<'a>) -> Self {
        Report {
            version: VERSION,
            sentence: comparison.sentence(),
            point: comparison.first_point(),
            before: OfRecording::new(comparison.before),
            after: OfRecording::new(comparison.after),
            points: (0..comparison.points.len()).map(|nth| OfPointChange::new(comparison, nth)).collect(),
            regions: comparison
                .regions
                .iter()
                .map(|region| OfRegionChange::new(comparison, region))
                .collect(),
            warnings: comparison
                .warnings
                .iter()
                .map(|w| OfDoubt { code: &w.code, message: &w.message, advice: &w.advice })
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct OfRecording<'a> {
    measured: Option<String>,
    sessions: Vec<OfSession<'a>>,
}

impl<'a> OfRecording<'a> {
    fn new(profile: &'a Profile) -> Self {
        OfRecording {
            measured: profile.measured(),
            sessions: profile.rows.sessions.iter().map(OfSession::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfPointChange<'a> {
    name: &'a str,
    kind: &'static str,
    headline: String,
    brings: Option<String>,
    rest: String,
    change: &'static str,
    before: Option<OfLevel>,
    after: Option<OfLevel>,
    gain: Option<f64>,
    gain_se: Option<f64>,
    gain_lo: Option<f64>,
    gain_hi: Option<f64>,
    throughput_factor: Option<f64>,
}

impl<'a> OfPointChange<'a> {
    fn new(comparison: &'a Comparison<'a>, nth: usize) -> Self {
        let point = &comparison.points[nth];
        let PointHeadline { headline, brings, rest } = comparison.headline(nth);
        let summary = point.summary();
        let gain = |part: fn(&Estimate) -> f64| point.gain.as_ref().and_then(|gain| finite(part(gain)));
        OfPointChange {
            name: &summary.name,
            kind: summary.target.kind(),
            headline,
            brings,
            rest,
            change: match (point.before, point.after, point.sign()) {
                (Some(_), None, _) => Change::OnlyBefore.name(),
                (None, ..) => Change::OnlyAfter.name(),
                (.., None) => Change::CannotTell.name(),
                (.., Some(sign)) => {
                    if sign > 0.0 {
                        "better"
                    } else {
                        "worse"
                    }
                }
            },
            before: point.before.map(OfLevel::new),
            after: point.after.map(OfLevel::new),
            gain: gain(|g| g.value),
            gain_se: gain(|g| g.se),
            gain_lo: gain(|g| g.lo),
            gain_hi: gain(|g| g.hi),
            throughput_factor: gain(|g| g.value)
                .filter(|gain| *gain < 1.0 && !matches!(summary.target, Target::Latency { .. }))
                .map(|gain| 1.0 / (1.0 - gain)),
        }
    }
}

#[derive(Serialize)]
struct OfLevel {
    period_ns: Option<f64>,
    baselines: usize,
    runs: usize,
}

impl OfLevel {
    fn new(level: PointLevel<'_>) -> Self {
        OfLevel { period_ns: level.period_ns.and_then(finite), baselines: level.blocks, runs: level.runs }
    }
}

#[derive(Serialize)]
struct OfRegionChange<'a> {
    kind: &'static str,
    inclusive: bool,
    before: Option<OfSide<'a>>,
    after: Option<OfSide<'a>>,
    points: Vec<OfSlopeChange<'a>>,
}

impl<'a> OfRegionChange<'a> {
    fn new(comparison: &'a Comparison<'a>, change: &'a RegionChange<'a>) -> Self {
        let Region { kind, inclusive, .. } = change.region();
        let points = comparison.points.iter().zip(&change.points);
        OfRegionChange {
            kind: kind.name(),
            inclusive: *inclusive,
            before: change.before.map(OfSide::new),
            after: change.after.map(OfSide::new),
            points: points.map(|(point, slope)| OfSlopeChange::new(point, slope)).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfSide<'a> {
    name: &'a str,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    image: OfImage<'a>,
    program: Option<&'a str>,
    windows: usize,
}

impl<'a> OfSide<'a> {
    fn new(RegionSide { region, program, estimate }: RegionSide<'a>) -> Self {
        OfSide {
            name: &region.name,
            function: region.function.as_deref(),
            file: region.file.as_deref(),
            line: region.line,
            image: OfImage { path: &region.image.path, build_id: region.image.build_id.as_deref() },
            program,
            windows: estimate.map_or(0, |estimate| estimate.windows),
        }
    }
}

#[derive(Serialize)]
struct OfSlopeChange<'a> {
    point: &'a str,
    kind: &'static str,
    change: &'static str,
    before: Option<OfSlope>,
    after: Option<OfSlope>,
    difference: Option<f64>,
    difference_se: Option<f64>,
    difference_lo: Option<f64>,
    difference_hi: Option<f64>,
}

impl<'a> OfSlopeChange<'a> {
    fn new(point: &'a PointChange<'a>, slope: &'a SlopeChange<'a>) -> Self {
        let summary = point.summary();
        let apart = |part: fn(&Estimate) -> f64| slope.difference.as_ref().and_then(|d| finite(part(d)));
        OfSlopeChange {
            point: &summary.name,
            kind: summary.target.kind(),
            change: slope.change.name(),
            before: slope.before.map(OfSlope::new),
            after: slope.after.map(OfSlope::new),
            difference: apart(|d| d.value),
            difference_se: apart(|d| d.se),
            difference_lo: apart(|d| d.lo),
            difference_hi: apart(|d| d.hi),
        }
    }
}

#[derive(Serialize)]
struct OfSlope {
    verdict: &'static str,
    blocks: usize,
    slope: Option<f64>,
    slope_se: Option<f64>,
    slope_lo: Option<f64>,
    slope_hi: Option<f64>,
}

impl OfSlope {
    fn new(estimate: &PointEstimate) -> Self {
        let slope = |part: fn(&Estimate) -> f64| estimate.slope.as_ref().and_then(|s| finite(part(s)));
        OfSlope {
            verdict: estimate.verdict.name(),
            blocks: estimate.blocks,
            slope: slope(|s| s.value),
            slope_se: slope(|s| s.se),
            slope_lo: slope(|s| s.lo),
            slope_hi: slope(|s| s.hi),
        }
    }
}

#[derive(Serialize)]
struct OfDoubt<'a> {
    code: &'a str,
    message: &'a str,
    advice: &'a str,
}
