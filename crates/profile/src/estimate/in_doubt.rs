//! What stands between a slope of windows and an estimate, for those who put slopes of many hosts together: corrections, and how exact the method is.

use super::doubts::Doubts;
use super::interval::around;
use super::queues::Crowding;
use super::throttling::Throttling;
use super::{About, EstimateOptions, Experiments, Phase, Reach, Target, arrivals, executing, method, queues};
use crate::cpu_limit::CpuLimit;

/// How exact a slope is, apart from noise. Standard errors, of gain per speedup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InDoubt {
    /// All of it: [`PointEstimate::method_error`](super::PointEstimate::method_error).
    pub method_error: f64,
    /// The part that stands for hand-overs, time slices and the like, of which it is not known what they are worth.
    pub of_doubts: f64,
    /// Whether throughput is what arrives, whatever the code costs.
    pub has_limit: bool,
}

/// A slope and its standard error, scaled by the phase and corrected for what executing programs costs.
pub(crate) fn corrected(
    (slope, se): (f64, f64),
    experiments: &Experiments<'_>,
    target: Target,
    phase: &Phase,
) -> (f64, f64) {
    let scaled = phase.scale(around(slope, se, usize::MAX));
    let corrected = executing::without(executing::share(experiments.baselines(), target), scaled);
    (corrected.value, corrected.se)
}

/// How exact the method is where a region is worth about `slope`; `None` where nothing was compared.
pub(crate) fn in_doubt(
    experiments: &Experiments<'_>,
    about: About<'_>,
    phase: &Phase,
    slope: f64,
    options: &EstimateOptions,
) -> Option<InDoubt> {
    let pairs = experiments.pairs(about);
    let delay = pairs.delay(pairs.level());
    let of_delay = method::error(experiments.treated(), options.method_error);
    // Of many hosts, with clients here and there, no slope is moved.
    let Crowding { shift, reach } = queues::crowding(experiments, about, phase, slope);
    let throttling = Throttling::of(experiments, about.target, phase);
    let is_felt = || CpuLimit::of(experiments.baselines()).is_some_and(CpuLimit::is_felt);
    let is_latency = matches!(about.target, Target::Latency { .. });
    let of_limit = match throttling {
        Some(limit) => limit.reach_of_delays(slope),
        // It may be nothing, or twice as much.
        None if is_latency && is_felt() => Reach::default().with(-slope).with(slope),
        None => Reach::default(),
    };
    let crowding = reach.seen_from(shift).and(of_limit);
    let of_doubts = Doubts::of(experiments, about.target, phase, (slope, crowding)).longest(1.0);
    let method_error = (of_delay * delay * phase.factor).hypot(of_doubts);
    let has_limit = arrivals::limit(experiments.baselines(), about.target);
    method_error.is_finite().then_some(InDoubt { method_error, of_doubts, has_limit })
}
