//! The report without what the page's first look can do without: the curves, the blocks, the sources.

use profile::PointSummary;
use serde::Serialize;

use super::{
    OfAnswer, OfCandidate, OfDoubts, OfDrift, OfEstimate, OfGo, OfImage, OfLeftOut, OfOverhead, OfPoint,
    OfProduction, OfProgramTime, OfRegion, OfRunDrift, OfSession, OfThreads, OfWarning,
};

/// So many regions are read at once. The first look needs none of them: what it says is in the answer.
const MANY_REGIONS: usize = 500;

#[derive(Serialize)]
pub(super) struct Report<'a> {
    version: u32,
    sentence: &'a str,
    answer: &'a OfAnswer,
    sessions: &'a [OfSession<'a>],
    points: &'a [OfPoint<'a>],
    production: Option<OfProduction>,
    programs: &'a [OfProgramTime<'a>],
    threads: &'a [OfThreads],
    overhead: Option<OfOverhead>,
    go: Option<OfGo>,
    regions: Vec<Region<'a>>,
    /// Whether the regions are in an element of their own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    regions_apart: bool,
    candidates: &'a [OfCandidate<'a>],
    drift: &'a [OfDrift<'a>],
    run_drift: &'a [OfRunDrift<'a>],
    left_out: &'a OfLeftOut,
    doubts: &'a OfDoubts,
    warnings: &'a [OfWarning<'a>],
    baselines: Vec<Baselines<'a>>,
    stacks: Option<Part>,
}

impl<'a> Report<'a> {
    /// `live`: the points that have baselines. Parts are numbered as they come: regions, baselines, then the stacks.
    pub fn new(whole: &'a super::Report<'a>, live: impl Iterator<Item = &'a PointSummary>) -> Self {
        let regions = whole.regions.len();
        let baselines: Vec<Baselines<'a>> = live
            .zip(regions..)
            .map(|(point, part)| Baselines { point: &point.name, kind: point.target.kind(), part })
            .collect();
        Report {
            version: whole.version,
            sentence: &whole.sentence,
            answer: &whole.answer,
            sessions: &whole.sessions,
            points: &whole.points,
            production: whole.production,
            programs: &whole.programs,
            threads: &whole.threads,
            overhead: whole.overhead,
            go: whole.go,
            regions: whole
                .regions
                .iter()
                .enumerate()
                .map(|(part, region)| Region::new(region, part))
                .collect(),
            regions_apart: false,
            candidates: &whole.candidates,
            drift: &whole.drift,
            run_drift: &whole.run_drift,
            left_out: &whole.left_out,
            doubts: &whole.doubts,
            warnings: &whole.warnings,
            stacks: whole.stacks.as_ref().map(|_| Part { part: regions + baselines.len() }),
            baselines,
        }
    }

    /// The regions, if they are too many to stay in the summary.
    pub fn take_many_regions(&mut self) -> Option<Vec<Region<'a>>> {
        self.regions_apart = self.regions.len() > MANY_REGIONS;
        self.regions_apart.then(|| std::mem::take(&mut self.regions))
    }
}

#[derive(Serialize)]
pub(super) struct Region<'a> {
    kind: &'static str,
    name: &'a str,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    inclusive: bool,
    image: &'a OfImage<'a>,
    program: Option<&'a str>,
    samples: u64,
    share: Option<f64>,
    production_share: Option<f64>,
    mark: Option<&'static str>,
    windows: usize,
    verdict: &'static str,
    points: Vec<Estimate<'a>>,
    part: usize,
}

impl<'a> Region<'a> {
    fn new(whole: &'a OfRegion<'a>, part: usize) -> Self {
        Region {
            kind: whole.kind,
            name: whole.name,
            function: whole.function,
            file: whole.file,
            line: whole.line,
            inclusive: whole.inclusive,
            image: &whole.image,
            program: whole.program,
            samples: whole.samples,
            share: whole.share,
            production_share: whole.production_share,
            mark: whole.mark,
            windows: whole.windows,
            verdict: whole.verdict,
            points: whole.points.iter().map(Estimate::new).collect(),
            part,
        }
    }
}

#[derive(Serialize)]
struct Estimate<'a> {
    point: &'a str,
    kind: &'static str,
    verdict: &'static str,
    blocks: usize,
    slope: Option<f64>,
    slope_se: Option<f64>,
    slope_lo: Option<f64>,
    slope_hi: Option<f64>,
    effect: Option<f64>,
    effect_lo: Option<f64>,
    effect_hi: Option<f64>,
    span: Option<(f64, f64)>,
}

impl<'a> Estimate<'a> {
    fn new(whole: &'a OfEstimate<'a>) -> Self {
        Estimate {
            point: whole.point,
            kind: whole.kind,
            verdict: whole.verdict,
            blocks: whole.blocks,
            slope: whole.slope.map(rounded),
            slope_se: whole.slope_se.map(rounded),
            slope_lo: whole.slope_lo.map(rounded),
            slope_hi: whole.slope_hi.map(rounded),
            effect: whole.effect.map(rounded),
            effect_lo: whole.effect_lo.map(rounded),
            effect_hi: whole.effect_hi.map(rounded),
            span: span(whole),
        }
    }
}

/// The lowest and the highest gain that the curve and its band reach.
fn span(estimate: &OfEstimate<'_>) -> Option<(f64, f64)> {
    let reach = |at: &super::OfSpeedup| at.gain.map(|gain| (at.lo.unwrap_or(gain), at.hi.unwrap_or(gain)));
    let ends = estimate.speedups.iter().filter_map(reach);
    ends.reduce(|(lo, hi), (low, high)| (lo.min(low), hi.max(high)))
        .map(|(lo, hi)| (rounded(lo), rounded(hi)))
}

/// More digits than are visible, and fewer than would be written.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

#[derive(Serialize)]
struct Baselines<'a> {
    point: &'a str,
    kind: &'static str,
    part: usize,
}

/// Where all of it is.
#[derive(Serialize)]
struct Part {
    part: usize,
}
