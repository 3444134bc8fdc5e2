//! Shares of counts, and how sure they are.

use crate::Share;
use profile::estimate::{Estimate, of_ratio};

/// The 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_964;
/// Fewer spans of time do not show how much they vary.
pub const ENOUGH_SPANS: usize = 8;

/// A share of counts that were found `at_a_time`, with the interval of Wilson (1927): right for few samples, and for shares near 0 and 1.
pub fn of_counts(part: u64, whole: u64, at_a_time: f64) -> Share {
    if whole == 0 {
        return Share::default();
    }
    let (k, n) = (part as f64 / at_a_time, whole as f64 / at_a_time);
    let (p, z2) = (k / n, Z * Z);
    let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    Share { value: p, lo: (middle - half).max(0.0).min(p), hi: (middle + half).min(1.0).max(p) }
}

/// A level with how sure it is, and the degrees of freedom of that.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// The level.
    pub estimate: Estimate,
    /// The degrees of freedom behind the level's interval.
    pub freedom: usize,
}

/// Degrees of freedom of what is known from counts alone.
const MANY: usize = 1_000_000;

/// What samples are per something (samples, or CPU time): `terms` has one entry for each span of time. Samples of one
/// kind come in bursts, so the spread between spans is used where there are enough of them; but never less than that of
/// independent samples. One sample stands for `weight`; they were found `at_a_time`.
pub fn level(terms: &[(f64, f64)], weight: f64, at_a_time: f64) -> Level {
    let (samples, whole) = terms.iter().fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
    let value = if whole > 0.0 { samples * weight / whole } else { 0.0 };
    let of_counts = (samples / at_a_time).max(1.0).sqrt() * at_a_time * weight / whole.max(f64::MIN_POSITIVE);
    let level = |se: f64, freedom| Level {
        estimate: Estimate { value, se, lo: value - Z * se, hi: value + Z * se },
        freedom,
    };
    if terms.len() < ENOUGH_SPANS {
        return level(of_counts, MANY);
    }
    let weighted: Vec<(f64, f64)> = terms.iter().map(|(samples, of)| (samples * weight, *of)).collect();
    let spread = of_ratio(&weighted).se;
    if spread > of_counts { level(spread, terms.len() - 1) } else { level(of_counts, MANY) }
}

/// For drawing.
pub fn share(estimate: &Estimate) -> Share {
    Share { value: estimate.value, lo: estimate.lo, hi: estimate.hi }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_counts_have_intervals() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-3;
        for (part, whole, lo, hi) in [(50, 100, 0.404, 0.596), (0, 100, 0.0, 0.037), (100, 100, 0.963, 1.0)] {
            let share = of_counts(part, whole, 1.0);
            assert!(near(share.lo, lo) && near(share.hi, hi), "{part} of {whole}: {share:?}");
        }
        assert_eq!(of_counts(0, 0, 1.0), Share::default());
    }

    #[test]
    fn samples_that_were_found_several_at_a_time_are_fewer_observations() {
        let (one, ten) = (of_counts(50, 100, 1.0), of_counts(500, 1000, 10.0));
        assert_eq!((ten.value, ten.lo, ten.hi), (one.value, one.lo, one.hi));
        let (one, ten) = (level(&[(50.0, 100.0)], 1.0, 1.0), level(&[(500.0, 1000.0)], 1.0, 10.0));
        assert!((one.estimate.se - ten.estimate.se).abs() < 1e-12);
        // None was found, and there may be one observation.
        assert_eq!(level(&[(0.0, 1000.0)], 1.0, 10.0).estimate.se, 0.01);
    }

    #[test]
    fn bursts_make_intervals_wider() {
        let steady: Vec<(f64, f64)> = (0..20).map(|_| (10.0, 100.0)).collect();
        let bursts: Vec<(f64, f64)> =
            (0..20).map(|nth| (if nth % 10 == 0 { 100.0 } else { 0.0 }, 100.0)).collect();
        let of = |terms: &[(f64, f64)]| level(terms, 1.0, 1.0).estimate;
        assert_eq!((of(&steady).value, of(&bursts).value), (0.1, 0.1));
        assert!(of(&bursts).se > 3.0 * of(&steady).se);
        // Few spans: counts alone.
        let few = level(&bursts[..4], 1.0, 1.0);
        assert_eq!((few.estimate.se, few.freedom), (10.0 / 400.0, MANY));
    }
}
