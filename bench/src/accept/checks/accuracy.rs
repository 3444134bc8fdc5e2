//! Predictions against the truth: what really happens when a function's work is shrunk.

use std::time::Duration;

use anyhow::Result;
use targets::TARGETS;

use crate::accept::check::{Body, Check, Run};
use crate::accept::plan::Plan;
use crate::machine::Patience;
use crate::native::{self, Effort};
use crate::profiler::Question;
use crate::report::Verdict;
use crate::subject::Subject;

/// Random programs that are checked in every release; new ones are for `.ci/nightly`.
const SEEDS: [u64; 8] =
    [710_971_271, 710_971_272, 710_971_273, 710_971_274, 770_127_401, 771_128_001, 775_112_802, 750_629_992];

/// In per cent.
const SPEEDUPS: &[u32] = &[50, 100];
/// Native runs: how often, and how long.
const EFFORT: Effort = Effort { rounds: 3, seconds: 0.4 };
/// Of a profiled run.
const SECONDS: u32 = 4;
/// The same where the point is a percentile (`point/95`), of which fewer visits tell less.
const SECONDS_OF_PERCENTILE: u32 = 12;
/// How far the interval of a prediction may be from that of the truth.
const MAX_DISTANCE_POINTS: f64 = 6.0;
const MAX_DISTANCE_POINTS_OF_RANDOM_PROGRAM: f64 = 10.0;
/// An interval that reaches further to either side says too little to be judged.
const MAX_HALF_WIDTH: f64 = 0.2;
/// What is unsure of the truth is taken into account up to here.
const MAX_DOUBT_OF_TRUTH: f64 = 0.05;
/// A region that is truly worth less, or more, at 100 %, contradicts the verdict *helps*, or *no effect*.
const NO_GAIN_POINTS: f64 = 2.0;
const SURE_GAIN_POINTS: f64 = 10.0;

/// Time that a program with this point is profiled for each region.
fn seconds(point: &str) -> u32 {
    if point.contains('/') { SECONDS_OF_PERCENTILE } else { SECONDS }
}

/// A check for each target that has regions, and for each random program.
pub fn checks() -> Vec<Check> {
    let whole_run = |regions: usize, point: &str| {
        let regions = u32::try_from(regions).unwrap_or(u32::MAX);
        regions * (seconds(point) + 4) + 2
    };
    let targets = TARGETS.iter().filter(|target| !target.regions.is_empty()).map(|target| Check {
        name: format!("truth::{}", target.name).into(),
        seconds: whole_run(target.regions.len(), target.point),
        plan: Plan::Runs,
        body: Body::Target(target),
    });
    let random = SEEDS.iter().map(|seed| Check {
        name: format!("mosaic::{seed}").into(),
        seconds: whole_run(2, ""),
        plan: Plan::Runs,
        body: Body::Mosaic(*seed),
    });
    targets.chain(random).collect()
}

/// Predicts what each region of a program is worth, and measures what is true.
pub fn predictions(run: &mut Run, subject: &dyn Subject) -> Result<()> {
    let is_random = subject.name().starts_with("seed=");
    let most = if is_random { MAX_DISTANCE_POINTS_OF_RANDOM_PROGRAM } else { MAX_DISTANCE_POINTS };
    let patience = Patience::new(0, Duration::ZERO);
    let truths = native::truths(subject, SPEEDUPS, EFFORT, run.machine, &patience)?.value;
    let mut judged = 0;
    for region in subject.regions() {
        let seconds = seconds(subject.point()).into();
        let question = Question { target: subject, region, speedups: SPEEDUPS, seconds };
        let answers = run.whatif.predict_with(&[], &question)?;
        if answers.iter().any(|answer| answer.trusted == Some(false)) {
            run.holds(format!("the audit of {region} balances"), false);
        }
        for answer in answers {
            let truth = truths.iter().find(|truth| truth.region == region && truth.speedup == answer.speedup);
            let (Some(truth), Some(low), Some(high)) = (truth, answer.low, answer.high) else { continue };
            if high - low > 2.0 * MAX_HALF_WIDTH {
                continue;
            }
            judged += 1;
            let doubt = truth.gain.half_width().min(MAX_DOUBT_OF_TRUTH);
            let (lowest, highest) = (truth.gain.estimate - doubt, truth.gain.estimate + doubt);
            let what = format!(
                "points between prediction and truth of {region} at {} % ({:.1}, {:.1} to {:.1}; true {:.1})",
                answer.speedup,
                answer.gain * 100.0,
                low * 100.0,
                high * 100.0,
                truth.gain.estimate * 100.0
            );
            run.measured(what, (low - highest).max(lowest - high).max(0.0) * 100.0, 0.0..=most);
            if answer.speedup == 100 {
                let contradicts = match answer.verdict {
                    Some(Verdict::Helps) => truth.gain.high * 100.0 < NO_GAIN_POINTS,
                    Some(Verdict::NoEffect) => truth.gain.low * 100.0 > SURE_GAIN_POINTS,
                    _ => false,
                };
                run.holds(format!("the verdict on {region} agrees with the truth"), !contradicts);
            }
        }
    }
    if judged == 0 {
        run.inconclusive("no answer that is sure enough to be judged");
    }
    Ok(())
}
