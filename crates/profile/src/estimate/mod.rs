//! The estimators: from windows to "20 % less time here makes the period of the program 11 % ± 2 % shorter".
//!
//! **Does:** estimate, for one region and one progress point, what making the region faster does to
//! the point, with an interval for every number. **Does not:** compare regions (`ranking`) or put
//! anything into words (`sentence`). **Constraints:** pure; the same windows and the same seed give
//! the same bits. **Place:** sample → delay → experiment → record → **profile** → report.
//!
//! # What is estimated
//!
//! With effective time *e* = elapsed − inserted delay, and *v* visits, the period of a point is
//! *p = e / v*, and the gain at speedup *s* is *g(s) = 1 − p(s) / p(0)*: the fraction of the period
//! that disappears (papers/coz-cacm.txt). For the latency between a begin and an end, Little's law
//! gives *W = L / λ*: `pair.rs` shows that it has the form *amount / visits* too, so that both share
//! everything below.
//!
//! # How
//!
//! Each block gives a baseline (*e₀, v₀*) and a treated window (*e, v, s*). If the region were no
//! faster, the treated window would have seen *u = e·ρ* visits, where ρ is the rate without speedup.
//! **Everything is computed from sums of *v* and *u*, never from means of ratios:** the gain at a
//! speedup is *1 − Σu / Σv* over its blocks, and the slope is the least-squares line through zero with
//! the visits as weights, *θ = Σ s·(v − u) / Σ s²·v*. Visits are the right weights because they make
//! the fit linear in the counts: a mean of *1/v* is biased upwards by *1/v* (20 % at five visits), and
//! a window without any visit would be infinite, while here it simply adds *u*.
//!
//! **Which baseline?** The block's own (ρ = v₀/e₀) cancels drift but doubles the noise; all baselines
//! of the region together (ρ = Σv₀/Σe₀) are quiet but drift. We use *β·own + (1 − β)·all*. Speedups are
//! assigned at random, so this is unbiased for every β (an analysis of covariance); the best β is the
//! share of the baselines' variance that the treated windows of the same blocks follow, which is their
//! regression on each other. It is estimated as if four more blocks had shown β = 1: with little data we
//! pair. Recordings of runs with different levels come out near β = 1 by themselves. Where the program's
//! speed is known to have changed between the region's blocks (`drift`), β is 1: what was measured before and
//! after the change is kept apart, and each part gets a slope of its own besides (`era.rs`). A treated window that may lie on the other side of the change than its
//! baseline is left out.
//!
//! **Disturbed blocks.** A block whose two windows differ more than any noise explains is not used
//! (`outlier.rs`): one window that took ten times as long would move everything.
//!
//! **How sure of the slope?** Whole blocks are drawn with replacement (baseline and treated windows stay
//! together, drift and all), 1000 times. Intervals are *expanded percentiles*: plain bootstrap percentiles
//! are too narrow for few blocks by √((n−1)/n) and by normal against t; the percentiles are moved outwards
//! to make up for both (Hesterberg, *What Teachers Should Know About the Bootstrap*, 2015, §3.3).
//!
//! **The curve.** Windows at one speedup are few, so the gain at each is read off a curve through all of
//! them (`curve.rs`): an average over lines, lines that bend once, and anything smooth, each as far as the
//! data speak for it. In `calibration.rs` its root mean square error is a tenth to two fifths of that of
//! single dots with twenty speedups; with four it is two fifths to all of it. (A single speedup with few
//! visits is also too low, by about one over the visits of all its windows: a ratio is a ratio. Slope and
//! curve hardly suffer.)
//! The effect of 20 %, the largest gain and the speedup at which the curve bends come from the same curve,
//! with its intervals: drawing blocks would only count noise, and what is unknown is mostly the shape.
//!
//! **How exact is the method?** More experiments make noise as small as one likes, but not what is wrong with
//! every one of them: caches that are shared, CPUs that take time to wake, all that docs/theory.md lists under
//! what is assumed. It is in proportion to what is inserted: if delays are off by a share ε of themselves, a
//! period is off by ε times the delay per visit. The share differs from program to program and is taken to be
//! normal with a deviation of [`METHOD_ERROR`], and up to twice that where threads wait for one another (`method.rs`), which is
//! measured, and the same at all speedups. It widens every interval, and is no reason to ask for more experiments. Where locks or items are handed over to threads
//! that wait many thousand times a second, what that costs comes on top (`handover.rs`), and what time slices do where threads that never
//! block compete for CPUs (`slices.rs`). What goes one way only makes intervals longer on that side: other programs on the same CPUs (`queues.rs`), and clients of which it is not known
//! whether they wait (`arrivals.rs`).
//!
//! **Many regions.** Verdicts given here are about one region and one point; `discovery` takes back those
//! that could be chance among so many.
//!
//! **From one recording to another** (`comparison`): levels without speedups are compared by `level.rs`,
//! slopes by the standard errors of both (`interval::Difference`).

mod about;
mod arrivals;
mod bootstrap;
#[cfg(test)]
mod calibration;
mod curve;
mod doubts;
mod era;
mod executing;
mod fit;
mod handover;
mod in_doubt;
pub(crate) mod interval;
mod latency;
mod left_out;
mod level;
mod method;
mod options;
mod outlier;
mod pair;
mod phase;
mod quantiles;
mod queues;
mod reading;
#[cfg(test)]
pub(crate) mod simulation;
mod slices;
mod target;
mod terms;
mod throttling;
mod unsteady;
mod verdict;
mod wakeups;
mod working;

pub(crate) use about::{About, shortest};
pub use curve::Shares;
pub use era::Era;
pub use in_doubt::InDoubt;
pub use interval::{Estimate, difference, of_ratio, quantile_of_student};
pub use left_out::{LeftOutReason, LeftOutWindows};
pub use options::{EstimateOptions, METHOD_ERROR, REFERENCE};
pub use phase::Phase;
pub use quantiles::{QUANTILES, Quantile, QuantileGain};
pub use queues::Reach;
pub use reading::Reading;
pub use target::Target;
pub use unsteady::{Trend, Unsteady};
pub use verdict::{ENOUGH_BLOCKS, Verdict};
pub use working::{SpeedupSum, Working};

pub(crate) use arrivals::at_least_none as arrivals_limit;
pub(crate) use in_doubt::{corrected, in_doubt};
pub(crate) use interval::{Difference, NORMAL, beyond, of_ratio as ratio_interval, widened};
pub(crate) use level::{ENOUGH_RUNS, Level, gain as level_gain};
pub(crate) use pair::{Experiments, Pairs, experiments};
pub(crate) use phase::{TreatedSums, of as phase_of};
pub(crate) use quantiles::at_rest as quantiles_at_rest;
pub(crate) use verdict::{
    Errors as MethodErrors, NEVER, WORTH, of as verdict_of, without_effect as verdict_without_effect,
};
pub(crate) use working::of as working_of;

use crate::units::Speedup;
use doubts::Doubts;
use throttling::Throttling;

/// Half an interval of a bend that is told of is no wider.
const KNOWN_BEND: f64 = 0.2;

/// What making a region faster does to one progress point.
#[derive(Clone, Debug, PartialEq)]
pub struct PointEstimate {
    /// What becomes faster.
    pub target: Target,
    /// What to think of it.
    pub verdict: Verdict,
    /// How many blocks the estimate rests on.
    pub blocks: usize,
    /// How many more were not used, because something disturbed one of their windows.
    pub disturbed: usize,
    /// Gain per speedup: a slope of 0.5 means 10 % less time per visit at 20 %. `None` without visits.
    pub slope: Option<Estimate>,
    /// The standard error that more experiments do not make smaller: that of the method. Of what goes one way only, what makes the slope less than it seems.
    pub method_error: f64,
    /// The part of that which stands for hand-overs to threads that wait: at large speedups, whatever the gain is.
    pub handover_error: f64,
    /// The part which stands for time slices of threads that never block: in proportion to the speedup.
    pub slice_error: f64,
    /// The part which stands for CPUs that slept when a thread was woken: in proportion to the speedup.
    pub waking_error: f64,
    /// The share of both that can only be gained: hand-overs of locks under which the region runs.
    pub in_sections: f64,
    /// So much of the slope is no delay's doing: the program's clients used the same CPUs, and what they use belongs to each request.
    pub crowding_shift: f64,
    /// So much of the slope comes from no delay: a limit on CPU time was used up, and a gain is the region's share of what is allowed then.
    pub limit_shift: f64,
    /// How far the slope may be off because other programs used the same CPUs, or because a limit on CPU time was used up now and then, whatever noise does: not in `method_error`.
    pub crowding: Reach,
    /// How far it may be off because it is not known whether arrivals wait for the program. It is towards zero, and in `method_error`.
    pub clocks: Reach,
    /// The part which stands for what is not known of a latency, breakpoints and clients with few connections: in proportion to the speedup.
    pub latency_error: f64,
    /// The share of the time that executing programs and starting threads costs under whatif, 0 to 0.5: gains are corrected for it, and `method_error` has the difference.
    pub executing: f64,
    /// How often chance alone would show so large a slope where there is none worth having (below 0.02):
    /// what [`Verdict::Helps`] and [`Verdict::Hurts`] rest on when many regions were tried. `None` without
    /// visits.
    pub chance: Option<f64>,
    /// Whether it is no more than [`Verdict::NotEnoughData`], and still probable that the region helps, or hurts: as the sign of the slope says.
    pub is_probable: bool,
    /// The gain at [`REFERENCE`], read off the curve.
    pub effect: Option<Estimate>,
    /// The largest gain on the curve at any speedup that was tried, or 0 if there is none.
    pub most: Option<Estimate>,
    /// The speedup (0 to 1) at which the curve bends down because another bottleneck takes over; `None`
    /// where the data do not show a bend.
    pub bend: Option<Estimate>,
    /// The gain at each speedup that was tried, ascending; the first is the baseline, whose gain is 0
    /// and whose interval is that of the baseline's own level.
    pub curve: Vec<Dot>,
    /// β: how far each window was compared with its own baseline (1) rather than with all (0).
    pub pairing: f64,
    /// Whether the program's speed changed between the blocks, so that β had to be 1.
    pub kept_apart: bool,
    /// What each part of the recording says by itself, if its parts are kept apart, in the order of time; parts with
    /// fewer than five blocks are missing.
    pub eras: Vec<Era>,
    /// Whether two of them certainly differ.
    pub eras_differ: bool,
    /// Gains for quantiles of a latency; empty where single pieces of work are not known, or too few.
    pub quantiles: Vec<QuantileGain>,
    /// About how many more blocks would settle a verdict of [`Verdict::NotEnoughData`].
    pub more_blocks: Option<u32>,
}

impl PointEstimate {
    /// Takes back a call that would need a chance below `bar`.
    pub(crate) fn doubt(&mut self, bar: f64) {
        let Some(slope) = self.of_noise() else { return };
        self.verdict = verdict::without_effect(&slope, self.errors(), self.crowding);
        if self.verdict == Verdict::NotEnoughData {
            let slope = self.crowding.nearest_to_zero(slope);
            self.more_blocks = Some(verdict::more_blocks_below(bar, &slope, self.method_error, self.blocks));
        }
    }

    /// Whether it is probable that making the region faster helps, at [`REFERENCE`] as over all speedups.
    pub(crate) fn probably_helps(&self) -> bool {
        let is_gain = |gain: Option<Estimate>| gain.is_some_and(|gain| gain.value > 0.0);
        self.is_probable && is_gain(self.slope) && is_gain(self.effect)
    }

    /// The slope, if nothing but noise were in the way.
    pub(crate) fn of_noise(&self) -> Option<Estimate> {
        self.slope.map(|slope| self.doubts().narrow(1.0, slope, self.errors().of_delays))
    }

    /// Where the curve bends, if that is known well enough to be told: [`bend`](Self::bend) may lie anywhere in its interval.
    pub fn known_bend(&self) -> Option<Estimate> {
        self.bend.filter(|bend| bend.half_width() <= KNOWN_BEND)
    }

    /// The gain at [`REFERENCE`], likewise: what more experiments can make more certain.
    pub fn effect_by_noise(&self) -> Option<Estimate> {
        let at = REFERENCE.fraction();
        self.effect.map(|effect| self.doubts().narrow(at, effect, at * self.errors().of_delays))
    }

    /// The part of [`method_error`](Self::method_error) that stands for arrivals of which it is not known whether they wait for the program.
    pub fn clock_error(&self) -> f64 {
        self.of_one_way(self.clocks)
    }

    /// The same of other programs on the same CPUs, as if it were a standard error; it is no part of that.
    pub fn crowding_error(&self) -> f64 {
        self.of_one_way(self.crowding)
    }

    fn of_one_way(&self, reach: Reach) -> f64 {
        self.slope.map_or(0.0, |slope| reach.towards_zero(slope.value) / interval::NORMAL)
    }

    /// What verdicts make of the errors of the method.
    fn errors(&self) -> verdict::Errors {
        let (doubts, slope) = (self.doubts(), self.slope.map_or(0.0, |slope| slope.value));
        verdict::Errors::parts(self.method_error, doubts.towards_zero(slope), doubts.without_crowding(1.0))
    }

    fn doubts(&self) -> Doubts {
        Doubts {
            handovers: self.handover_error,
            slices: self.slice_error,
            waking: self.waking_error,
            in_sections: self.in_sections,
            latency: self.latency_error,
            executing: self.executing_error(),
            crowding: self.crowding,
            clocks: self.clocks,
        }
    }

    /// The part of [`method_error`](Self::method_error) that the correction for what executing programs costs adds.
    pub(crate) fn executing_error(&self) -> f64 {
        executing::error(self.executing, self.slope.map_or(0.0, |slope| slope.value))
    }
}

/// The gain at one speedup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// The speedup.
    pub speedup: Speedup,
    /// The gain by the windows at this speedup alone; `None` where the point was never visited.
    pub raw: Option<f64>,
    /// The gain by the curve through the windows at all speedups, the better guess; `None` as above.
    pub gain: Option<Estimate>,
    /// How many windows it rests on.
    pub windows: usize,
}

/// Estimates what the experiments on one region say about a target. All gains are scaled by `phase`, whose error is
/// in their intervals, and corrected for what executing programs costs ([`executing`]).
pub(crate) fn estimate(
    experiments: &Experiments<'_>,
    about: About<'_>,
    phase: &Phase,
    options: &EstimateOptions,
) -> PointEstimate {
    let target = about.target;
    let pairs = experiments.pairs(about);
    let curve_windows = |speedup| experiments.windows_at(speedup);
    let idle = pairs.idle();
    let Some(fit) = fit::Fit::new(&pairs) else {
        let dot = |speedup| Dot { speedup, raw: None, gain: None, windows: curve_windows(speedup) };
        return PointEstimate {
            target,
            verdict: if idle { Verdict::Idle } else { Verdict::NotEnoughData },
            blocks: pairs.blocks(),
            disturbed: pairs.disturbed.len(),
            slope: None,
            method_error: 0.0,
            handover_error: 0.0,
            slice_error: 0.0,
            waking_error: 0.0,
            in_sections: 0.0,
            crowding_shift: 0.0,
            limit_shift: 0.0,
            crowding: Reach::default(),
            clocks: Reach::default(),
            latency_error: 0.0,
            executing: 0.0,
            chance: None,
            is_probable: false,
            effect: None,
            most: None,
            bend: None,
            curve: experiments.speedups().into_iter().map(dot).collect(),
            pairing: 1.0,
            kept_apart: pairs.apart,
            eras: Vec::new(),
            eras_differ: false,
            quantiles: Vec::new(),
            more_blocks: None,
        };
    };
    let drawn = bootstrap::draw(&fit, options, target);
    let error_of_delay = method::error(experiments.treated(), options.method_error);
    let curve = fit.curve(drawn.level.se, error_of_delay);
    let limited = arrivals::limit(experiments.baselines(), target);
    let executing = executing::share(experiments.baselines(), target);
    let scaled = |gain: Estimate| {
        let gain = executing::without(executing, phase.scale(gain));
        if limited { arrivals::at_least_none(gain) } else { gain }
    };
    let crowding = queues::crowding(experiments, about, phase, scaled(drawn.slope).value);
    let throttling = Throttling::of(experiments, target, phase);
    let by_limit = |s: f64, gain: Estimate| throttling.map_or(gain, |limit| limit.applied(s, gain));
    // How much of what is doubtful about delays remains.
    let by_delays = |s: f64| throttling.map_or(1.0, |limit| limit.doubts(s));
    let moved = |s: f64, gain: Estimate| scaled(gain).moved(s * crowding.shift);
    let slope_by_delays = moved(1.0, drawn.slope);
    let slope_of = |slope: Estimate| throttling.map_or(slope, |limit| limit.applied_to_slope(slope));
    let of_limit = throttling.map_or(Reach::default(), |limit| limit.reach(slope_by_delays.value));
    let reach = crowding.reach.and(of_limit);
    let of_noise = slope_of(slope_by_delays);
    let all_doubts = Doubts::of(experiments, target, phase, (of_noise.value, reach));
    let doubts = all_doubts.by(by_delays(REFERENCE.fraction()));
    let of_delays = error_of_delay * fit.delay * phase.factor * by_delays(REFERENCE.fraction());
    let method_error = of_delays.hypot(doubts.towards_zero(of_noise.value));
    let slope = doubts.widen(1.0, interval::widened(of_noise, of_delays));
    let in_doubt = doubts.without_crowding(1.0);
    let errors = verdict::Errors { method: method_error, of_delays, in_doubt };
    let verdict = verdict::of(&of_noise, errors, reach, fit.blocks());
    let nearest = reach.nearest_to_zero(of_noise);
    let on_curve = |s: f64, gain: Estimate| all_doubts.by(by_delays(s)).widen(s, by_limit(s, moved(s, gain)));
    let dot = |speedup: Speedup| {
        let raw = if speedup.is_zero() { Some(0.0) } else { fit.raw_gain(speedup) };
        let s = speedup.fraction();
        let gain = if speedup.is_zero() { drawn.level } else { curve.at(s) };
        let gain = raw.map(|_| on_curve(s, gain));
        Dot {
            speedup,
            raw: raw.map(|raw| {
                let by_delays = raw * phase.factor / (1.0 - executing) + s * crowding.shift;
                by_limit(s, interval::unknown(by_delays)).value
            }),
            gain,
            windows: curve_windows(speedup),
        }
    };
    let tried = fit.speedups.iter().map(|at| at.speedup.fraction());
    let furthest = tried.clone().fold(0.0, f64::max);
    let most = moved(1.0, curve.most(tried));
    let mut eras = era::all(&pairs, target, options, error_of_delay);
    // What the limit makes of a part of the run is not known.
    eras.retain(|_| throttling.is_none());
    eras.iter_mut().for_each(|era| {
        era.slope = executing::without(executing, era.slope).moved(crowding.shift);
    });
    if limited {
        eras.iter_mut().for_each(|era| era.slope = arrivals::at_least_none(era.slope));
    }
    let quantiles = match target {
        Target::Latency { begin, end } => {
            let in_doubt = &|s: f64| doubts.longest(s);
            let errors = quantiles::Errors { of_delay: error_of_delay, in_doubt, phase: phase.factor };
            quantiles::gains(experiments, &pairs, (begin, end), errors)
        }
        Target::Throughput(_) => Vec::new(),
    };
    PointEstimate {
        target,
        verdict,
        blocks: fit.blocks(),
        disturbed: pairs.disturbed.len(),
        slope: Some(slope),
        method_error,
        handover_error: doubts.handovers,
        slice_error: doubts.slices,
        waking_error: doubts.waking,
        in_sections: doubts.in_sections,
        crowding_shift: crowding.shift,
        limit_shift: of_noise.value - slope_by_delays.value,
        crowding: doubts.crowding,
        clocks: doubts.clocks,
        latency_error: doubts.latency,
        executing,
        chance: Some(verdict::chance(&nearest, method_error, fit.blocks(), fit.effective_blocks())),
        is_probable: false,
        effect: Some(on_curve(REFERENCE.fraction(), curve.at(REFERENCE.fraction()))),
        most: Some(all_doubts.by(by_delays(furthest)).widen(1.0, by_limit(furthest, most))),
        // That of delays.
        bend: curve.bend().filter(|_| throttling.is_none()),
        curve: experiments.speedups().into_iter().map(dot).collect(),
        pairing: fit.pairing,
        kept_apart: pairs.apart,
        eras_differ: era::differ(&eras),
        eras,
        quantiles,
        more_blocks: verdict::more_blocks(verdict, &of_noise, errors, reach, fit.blocks()),
    }
}
