//! Working: the sums behind an estimate, so that it can be computed again by hand.

use super::curve::{Seen, Shares};
use super::{About, EstimateOptions, Experiments, REFERENCE, bootstrap, fit::Fit, method};
use crate::units::Speedup;

/// The sums behind the estimate of one region and one target; the letters are those of
/// [`estimate`](crate::estimate). Nothing here is scaled by the phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Working {
    /// ρ: visits per nanosecond over all baselines of the region.
    pub level: f64,
    /// The standard error of ρ as a share of it, by the bootstrap; infinite with one block.
    pub level_error: f64,
    /// β.
    pub pairing: f64,
    /// One for each speedup that was tried, ascending.
    pub speedups: Vec<SpeedupSum>,
    /// Σ s·(v − u).
    pub slope_over: f64,
    /// Σ s²·v; the slope is `slope_over` divided by this.
    pub slope_under: f64,
    /// What the curve is an average of.
    pub shares: Shares,
    /// The degrees of freedom of the noise of the gains: those of the intervals on the curve.
    pub freedom: usize,
    /// The curve at 20 %.
    pub effect: f64,
    /// The delay per visit, in periods of the baseline, at a speedup of 100 %.
    pub delay: f64,
    /// What the method may be off by, per unit of speedup: a share of `delay`.
    pub method_error: f64,
}

impl Working {
    /// The slope, before it is scaled by the phase.
    pub fn slope(&self) -> f64 {
        self.slope_over / self.slope_under
    }
}

/// The sums at one speedup.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedupSum {
    /// The speedup.
    pub speedup: Speedup,
    /// How many blocks were summed.
    pub blocks: usize,
    /// Σ v: visits of the treated windows.
    pub visits: f64,
    /// Σ e: the amounts they were spent on, in nanoseconds.
    pub amount: f64,
    /// β·Σ e·v₀/e₀: visits expected from the blocks' own baselines, as far as these count.
    pub own: f64,
    /// (1 − β)·ρ·Σ e: visits expected from the level of all, as far as that counts. Σ u is `own + all`.
    pub all: f64,
    /// 1 − Σ u / Σ v; not a number where there was no visit.
    pub gain: f64,
    /// The standard error of `gain` by the noise of its blocks, without that of ρ: what it counts for in the
    /// curve. `None` where there was no visit.
    pub gain_error: Option<f64>,
    /// The curve there; `None` as above.
    pub curve: Option<f64>,
}

/// The working of [`estimate`](super::estimate) with the same arguments; `None` where it estimates nothing.
pub(crate) fn of(
    experiments: &Experiments<'_>,
    about: About<'_>,
    options: &EstimateOptions,
) -> Option<Working> {
    let fit = Fit::new(&experiments.pairs(about))?;
    let sums = fit.sums();
    let level = sums.level();
    let level_error = bootstrap::draw(&fit, options, about.target).level.se;
    let error_of_delay = method::error(experiments.treated(), options.method_error);
    let curve = fit.curve(level_error, error_of_delay);
    let gain_error = |s: f64| {
        let seen: Option<&Seen> = curve.seen.iter().find(|seen| seen.speedup == s);
        seen.map(|seen| seen.variance.sqrt())
    };
    let (slope_over, slope_under) = sums.slope_sums();
    let speedups = fit.speedups.iter().map(|at| SpeedupSum {
        speedup: at.speedup,
        blocks: at.blocks.len(),
        visits: at.visits,
        amount: at.amount,
        own: at.own,
        all: (1.0 - fit.pairing) * level * at.amount,
        gain: fit.gain(at, level),
        gain_error: gain_error(at.speedup.fraction()),
        curve: (at.visits > 0.0).then(|| curve.at(at.speedup.fraction()).value),
    });
    Some(Working {
        level,
        level_error,
        pairing: fit.pairing,
        speedups: speedups.collect(),
        slope_over,
        slope_under,
        shares: curve.shares(),
        freedom: curve.freedom,
        effect: curve.at(REFERENCE.fraction()).value,
        delay: fit.delay,
        method_error: error_of_delay * fit.delay,
    })
}
