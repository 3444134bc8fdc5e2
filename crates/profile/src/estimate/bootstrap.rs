//! The bootstrap: whole blocks, drawn with replacement.

use super::fit::{Fit, Residuals, Sums};
use super::{Estimate, EstimateOptions, Target, interval};
use crate::units::Speedup;

/// Every estimate of a fit, with its interval.
pub(super) struct Drawn {
    pub(super) slope: Estimate,
    pub(super) effect: Estimate,
    /// The standard error of the curvature; infinite where there are too few speedups for a curve.
    pub(super) curvature_error: f64,
    /// Ascending, with the baseline first.
    pub(super) dots: Vec<(Speedup, Option<Estimate>)>,
}

/// Draws `options.resamples` times. Each target of a region has draws of its own; the region need not be
/// told apart, because its rows do that.
pub(super) fn draw(fit: &Fit, options: &EstimateOptions, target: Target) -> Drawn {
    let stream = target.counted().get() as u64;
    let mut rng = fastrand::Rng::with_seed(options.seed ^ stream.rotate_left(32));
    let resamples: Vec<Sums> = (0..options.resamples).map(|_| resample(fit, &mut rng)).collect();
    let sums = fit.sums();
    let (n, freedom) = (fit.blocks(), fit.blocks().saturating_sub(1));
    let mut values: Vec<f64> = Vec::with_capacity(resamples.len());

    values.extend(resamples.iter().map(Sums::slope));
    let slope = interval::of(sums.slope(), &mut values, n, freedom);

    // A parabola through one or two speedups would be a guess about the others.
    let curvature_error = if fit.speedups.len() < 3 {
        f64::INFINITY
    } else {
        refill(&mut values, resamples.iter().map(|drawn| drawn.parabola().1));
        values.retain(|b| b.is_finite());
        let expansion = (n as f64 / freedom as f64).sqrt();
        if values.is_empty() { f64::INFINITY } else { interval::deviation(&values) * expansion }
    };
    refill(&mut values, resamples.iter().map(|drawn| drawn.effect(curvature_error)));
    let effect = interval::of(sums.effect(curvature_error), &mut values, n, freedom);

    let level = sums.level();
    refill(&mut values, resamples.iter().map(|drawn| 1.0 - level / drawn.level()));
    let terms = fit.terms.len();
    let band = interval::of(0.0, &mut values, terms, terms.saturating_sub(1));
    let mut dots = vec![(Speedup::ZERO, Some(band))];

    let Residuals { noise, scale, freedom } = fit.residuals(level, |s| sums.curve(s, curvature_error));
    for at in &fit.speedups {
        if at.visits == 0.0 {
            dots.push((at.speedup, None));
            continue;
        }
        let gain = fit.gain(at, level);
        let lift = |drawn: &Sums| fit.gain(at, drawn.level()) - gain;
        refill(
            &mut values,
            resamples.iter().map(|drawn| {
                let noises =
                    scale[at.blocks.clone()].iter().map(|scale| scale * noise[rng.usize(..noise.len())]);
                gain + lift(drawn) + noises.sum::<f64>() / at.visits
            }),
        );
        // The noise already makes up for the degrees of freedom; only the t of the percentiles is left.
        dots.push((at.speedup, Some(interval::of(gain, &mut values, freedom + 1, freedom))));
    }
    Drawn { slope, effect, curvature_error, dots }
}

fn resample(fit: &Fit, rng: &mut fastrand::Rng) -> Sums {
    let mut sums = Sums::ZERO;
    for _ in 0..fit.terms.len() {
        sums.add(&fit.terms[rng.usize(..fit.terms.len())]);
    }
    sums
}

fn refill(values: &mut Vec<f64>, with: impl Iterator<Item = f64>) {
    values.clear();
    values.extend(with);
}
