//! Pooling: one slope from many, and its interval.

use super::Variances;
use super::heterogeneity::{Heterogeneity, Slope, Weighted, between};
use crate::estimate::Estimate;
use crate::estimate::interval::{NORMAL, student_of};

/// With fewer hosts it cannot be told whether those with many windows differ from the others.
const LEAST_HOSTS: usize = 20;
/// How many standard errors apart the two means have to be: by chance in one of a hundred fleets.
const APART: f64 = 2.576;

/// How hosts are weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// By how well their slopes are known: 1 / (variance of the noise + τ²).
    Noise,
    /// All the same, because hosts with many windows are worth more or less than others.
    Even,
}

/// The mean of the true slopes, with an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pooled {
    pub(super) estimate: Estimate,
    /// Degrees of freedom of its standard error.
    pub(super) freedom: f64,
    /// The half width is no smaller: what it would be if hosts did not differ. Zero for a single slope.
    pub(super) bound: f64,
    pub(super) weights: Weights,
    /// `None` for a single slope.
    pub(super) heterogeneity: Option<Heterogeneity>,
    /// Where the true slope of one more lies; `None` for fewer than three.
    pub(super) new_host: Option<Estimate>,
}

/// Pools at least one slope. `freedom` is that of all variances together.
pub(super) fn pool(slopes: &[Slope], freedom: f64, variances: Variances) -> Pooled {
    if let [only] = slopes {
        let estimate = around(only.value, only.variance.sqrt(), freedom, 0.0);
        return Pooled {
            estimate,
            freedom,
            bound: 0.0,
            weights: Weights::Noise,
            heterogeneity: None,
            new_host: None,
        };
    }
    let hosts = slopes.len() as f64;
    let between = between(slopes);
    let by_noise = Weighted::new(slopes, between);
    let share = |slope: &Slope| 1.0 / (slope.variance + between) / by_noise.weights;
    let (weights, mean, variance, of_mean) = if variances == Variances::Own {
        let square = |slope: &Slope| (slope.value - by_noise.mean).powi(2) * share(slope);
        let variance = slopes.iter().map(square).sum::<f64>() / (hosts - 1.0);
        (Weights::Noise, by_noise.mean, variance, hosts - 1.0)
    } else if are_busy_ones_different(slopes, share, by_noise.mean) {
        let mean = slopes.iter().map(|slope| slope.value).sum::<f64>() / hosts;
        let (variance, freedom) = scatter(slopes, |_| 1.0 / hosts, mean);
        (Weights::Even, mean, variance, freedom)
    } else {
        let (variance, freedom) = scatter(slopes, share, by_noise.mean);
        (Weights::Noise, by_noise.mean, variance, freedom)
    };
    let se = variance.sqrt();
    let if_none_differ = NORMAL / Weighted::new(slopes, 0.0).weights.sqrt();
    let enough = slopes.len() >= 3;
    Pooled {
        estimate: around(mean, se, of_mean, if_none_differ),
        freedom: of_mean,
        bound: if_none_differ,
        weights,
        heterogeneity: Some(Heterogeneity::new(slopes, between, freedom)),
        // Higgins, Thompson and Spiegelhalter, "A re-evaluation of random-effects meta-analysis", 2009.
        new_host: enough.then(|| around(mean, between.sqrt().hypot(se), hosts - 2.0, 0.0)),
    }
}

/// Student's interval, at least `least` on either side.
pub(super) fn around(value: f64, se: f64, freedom: f64, least: f64) -> Estimate {
    let half = (student_of(freedom) * se).max(least);
    Estimate { value, se, lo: value - half, hi: value + half }
}

/// The variance of a weighted mean by how slopes scatter around it, and its degrees of freedom. A slope pulls the mean towards itself, so
/// its square is divided by 1 − its share; the degrees of freedom are Satterthwaite's if the shares are right (Bell and McCaffrey 2002). With
/// equal shares: Student's variance of a mean, and one degree of freedom less than there are slopes.
fn scatter(slopes: &[Slope], share: impl Fn(&Slope) -> f64, mean: f64) -> (f64, f64) {
    let (mut variance, mut shares, mut factors, mut squares) = (0.0, 0.0, 0.0, 0.0);
    for slope in slopes {
        let share = share(slope);
        let factor = share * share / (1.0 - share);
        variance += factor * (slope.value - mean).powi(2);
        shares += share * share;
        factors += factor;
        squares += factor * factor;
    }
    (variance, 1.0 / (shares + factors * factors - squares))
}

/// Whether the mean by weights and that of all differ beyond chance: as Hausman's test (1978), by the scatter of slopes.
fn are_busy_ones_different(slopes: &[Slope], share: impl Fn(&Slope) -> f64, mean: f64) -> bool {
    if slopes.len() < LEAST_HOSTS {
        return false;
    }
    let even = 1.0 / slopes.len() as f64;
    let (mut apart, mut variance) = (0.0, 0.0);
    for slope in slopes {
        let more = share(slope) - even;
        apart += more * (slope.value - mean);
        variance += (more * (slope.value - mean)).powi(2);
    }
    apart * apart > APART * APART * variance
}
