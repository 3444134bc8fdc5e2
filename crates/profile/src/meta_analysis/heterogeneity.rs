//! How much hosts differ in truth: τ², I² and Q.

use crate::estimate::interval::beyond_f;

/// Steps of Fisher scoring before DerSimonian and Laird's estimate stands.
const STEPS: usize = 100;

/// How much the worth of a region differs from host to host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heterogeneity {
    /// τ: the standard deviation of the true slopes of hosts.
    pub tau: f64,
    /// I²: which share of what hosts differ by is not noise, 0 to 1 (Higgins and Thompson 2002).
    pub i_squared: f64,
    /// Q: the weighted sum of squares around the common slope, *k* − 1 in the mean if hosts do not differ (Cochran 1954).
    pub q: f64,
    /// How often noise alone would make so large a Q.
    pub chance: f64,
}

/// The slope of each host and its sampling variance, which is positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slope {
    pub(super) value: f64,
    pub(super) variance: f64,
}

/// Sums of powers of the weights 1 / (v + τ²), and what the weighted mean is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weighted {
    pub(super) mean: f64,
    pub(super) weights: f64,
    squares: f64,
    cubes: f64,
}

impl Weighted {
    pub(super) fn new(slopes: &[Slope], between: f64) -> Weighted {
        let mut sums = Weighted::default();
        for slope in slopes {
            let weight = 1.0 / (slope.variance + between);
            sums.mean += weight * slope.value;
            sums.weights += weight;
            sums.squares += weight * weight;
            sums.cubes += weight * weight * weight;
        }
        sums.mean /= sums.weights;
        sums
    }
}

impl Heterogeneity {
    /// Of at least two slopes, with their τ²; their variances rest on `freedom` degrees of freedom together.
    pub(super) fn new(slopes: &[Slope], between: f64, freedom: f64) -> Heterogeneity {
        let expected = slopes.len() as f64 - 1.0;
        let q = q(slopes);
        Heterogeneity {
            tau: between.sqrt(),
            i_squared: if q > expected { (q - expected) / q } else { 0.0 },
            q,
            chance: beyond_f(q / expected, expected, freedom),
        }
    }
}

fn q(slopes: &[Slope]) -> f64 {
    let common = Weighted::new(slopes, 0.0).mean;
    slopes.iter().map(|slope| (slope.value - common).powi(2) / slope.variance).sum()
}

/// τ² by the moments of Q (DerSimonian and Laird, *Meta-analysis in clinical trials*, 1986).
pub(super) fn by_moments(slopes: &[Slope]) -> f64 {
    let sums = Weighted::new(slopes, 0.0);
    let scale = sums.weights - sums.squares / sums.weights;
    ((q(slopes) - (slopes.len() as f64 - 1.0)) / scale).max(0.0)
}

/// τ² by restricted maximum likelihood: Fisher scoring from that of moments (Viechtbauer, *Bias and efficiency of meta-analytic variance
/// estimators in the random-effects model*, 2005). Where it does not settle, that of moments.
pub(super) fn between(slopes: &[Slope]) -> f64 {
    let start = by_moments(slopes);
    let mut between = start;
    for _ in 0..STEPS {
        let sums = Weighted::new(slopes, between);
        let mut squares = 0.0;
        for slope in slopes {
            squares += ((slope.value - sums.mean) / (slope.variance + between)).powi(2);
        }
        let ratio = sums.squares / sums.weights;
        let score = squares - sums.weights + ratio;
        let information = sums.squares - 2.0 * sums.cubes / sums.weights + ratio * ratio;
        let next = between + score / information;
        // Before it is compared with zero: what is no number would become that.
        if !next.is_finite() {
            return start;
        }
        let next = next.max(0.0);
        // Relative to the noise where τ² is nothing.
        if (next - between).abs() <= 1e-9 * (next + 1.0 / sums.weights) {
            return next;
        }
        between = next;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slopes(pairs: &[(f64, f64)]) -> Vec<Slope> {
        pairs.iter().map(|&(value, variance)| Slope { value, variance }).collect()
    }

    /// Slopes of hosts that differ by τ, with variances between 0.01 and 0.09.
    fn simulated(hosts: usize, tau: f64, seed: u64) -> Vec<Slope> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        (0..hosts)
            .map(|nth| {
                let variance = (0.1 + 0.2 * nth as f64 / hosts as f64).powi(2);
                Slope { value: 0.3 + tau * normal() + variance.sqrt() * normal(), variance }
            })
            .collect()
    }

    /// The restricted log-likelihood, written down as it is defined.
    fn likelihood(slopes: &[Slope], between: f64) -> f64 {
        let totals: Vec<f64> = slopes.iter().map(|slope| slope.variance + between).collect();
        let weights: f64 = totals.iter().map(|total| 1.0 / total).sum();
        let mean =
            slopes.iter().zip(&totals).map(|(slope, total)| slope.value / total).sum::<f64>() / weights;
        let squares: f64 =
            slopes.iter().zip(&totals).map(|(slope, total)| (slope.value - mean).powi(2) / total).sum();
        -0.5 * (totals.iter().map(|total| total.ln()).sum::<f64>() + weights.ln() + squares)
    }

    #[test]
    fn the_likelihood_has_its_maximum_there() {
        for seed in 0..40 {
            let hosts = [2, 3, 5, 10, 40][seed as usize % 5];
            let slopes = simulated(hosts, [0.0, 0.1, 0.5][seed as usize % 3], seed);
            let found = between(&slopes);
            let grid = (0..20_000).map(|nth| f64::from(nth) * 1e-4);
            let best =
                grid.max_by(|a, b| likelihood(&slopes, *a).total_cmp(&likelihood(&slopes, *b))).unwrap();
            assert!((found - best).abs() < 1.1e-4, "{seed}: {found} {best}");
        }
    }

    #[test]
    fn a_hand_calculation() {
        // Weights 100, 25, 25: mean (0.2·100 + 0.5·25 + 0.8·25) / 150 = 0.35; Q = 100·0.0225 + 25·0.0225 + 25·0.2025 = 7.875;
        // moments: (7.875 − 2) / (150 − 11250/150) = 5.875 / 75 = 0.078333; I² = 5.875 / 7.875.
        let slopes = slopes(&[(0.2, 0.01), (0.5, 0.04), (0.8, 0.04)]);
        assert!((Weighted::new(&slopes, 0.0).mean - 0.35).abs() < 1e-12);
        assert!((by_moments(&slopes) - 5.875 / 75.0).abs() < 1e-12);
        let found = Heterogeneity::new(&slopes, between(&slopes), f64::INFINITY);
        assert!((found.q - 7.875).abs() < 1e-12 && (found.i_squared - 5.875 / 7.875).abs() < 1e-12);
        // χ² with two degrees of freedom is exponential: exp(−7.875 / 2) = 0.0195.
        assert!((found.chance - 0.0195).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn equal_variances_have_a_formula() {
        // τ² is then the variance of the slopes less that of the noise.
        let found = between(&slopes(&[(0.1, 0.01), (0.3, 0.01), (0.8, 0.01)]));
        assert!((found - (0.13 - 0.01)).abs() < 1e-9, "{found}");
        assert_eq!(between(&slopes(&[(0.1, 0.01), (0.12, 0.01)])), 0.0);
    }
}
