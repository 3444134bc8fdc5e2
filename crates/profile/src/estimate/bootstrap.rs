//! The bootstrap: whole blocks, drawn with replacement.

use super::fit::{Fit, Sums};
use super::{Estimate, EstimateOptions, Target, interval};

/// What is drawn, with its interval.
pub(super) struct Drawn {
    pub(super) slope: Estimate,
    /// The level of all baselines: by which share of itself it may be off.
    pub(super) level: Estimate,
}

/// Draws `options.resamples` times. Each target of a region has draws of its own; the region need not be told
/// apart, because its rows do that.
pub(super) fn draw(fit: &Fit, options: &EstimateOptions, target: Target) -> Drawn {
    let stream = target.counted().get() as u64;
    let mut rng = fastrand::Rng::with_seed(options.seed ^ stream.rotate_left(32));
    let resamples: Vec<Sums> = (0..options.resamples).map(|_| resample(fit, &mut rng)).collect();
    let sums = fit.sums();

    let mut slopes: Vec<f64> = resamples.iter().map(Sums::slope).collect();
    let n = fit.blocks();
    let slope = interval::of(sums.slope(), &mut slopes, n, n.saturating_sub(1));

    let mut levels: Vec<f64> = resamples.iter().map(|drawn| 1.0 - sums.level() / drawn.level()).collect();
    let n = fit.terms.len();
    let level = interval::of(0.0, &mut levels, n, n.saturating_sub(1));
    Drawn { slope, level }
}

fn resample(fit: &Fit, rng: &mut fastrand::Rng) -> Sums {
    let mut sums = Sums::ZERO;
    for _ in 0..fit.terms.len() {
        sums.add(&fit.terms[rng.usize(..fit.terms.len())]);
    }
    sums
}
