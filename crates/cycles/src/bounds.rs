//! Bounds: how sure levels of samples are, for any number of them at once, and what is certain of two of them.

use super::share::ENOUGH_SPANS;
use crate::Share;
use profile::estimate::{of_ratio, quantile_of_student};

/// How often any of the intervals of one condition misses the truth.
const MISSES: f64 = 0.05;
/// Degrees of freedom of what is known from counts alone.
const MANY: usize = 1_000_000;

/// The probability with which one of so many intervals may miss (Bonferroni), so that all are right at once in 95 of 100 cases.
pub fn misses_of(many: usize) -> f64 {
    MISSES / many.max(1) as f64
}

/// What samples are per something: `terms` has samples and the whole for each span of time, and a sample stands for `weight`; they were found `at_a_time`. The
/// spread between spans counts where there are enough of them, but the interval is never narrower than that of counts: at its lower end
/// by Wald's, at its upper end by the score interval of a Poisson mean, each the wider of the two there. So few samples never look certain.
pub fn level(terms: &[(f64, f64)], weight: f64, at_a_time: f64, misses: f64) -> Share {
    let (samples, whole) = terms.iter().fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
    if whole <= 0.0 {
        return Share { value: 0.0, lo: f64::NEG_INFINITY, hi: f64::INFINITY };
    }
    let (observed, scale) = (samples / at_a_time, at_a_time * weight / whole);
    let z = quantile_of_student(misses, MANY);
    let value = observed * scale;
    let lo = (observed - z * observed.sqrt()).max(0.0) * scale;
    let hi = (observed + z * z / 2.0 + z * (observed + z * z / 4.0).sqrt()) * scale;
    if terms.len() < ENOUGH_SPANS {
        return Share { value, lo, hi };
    }
    let weighted: Vec<(f64, f64)> = terms.iter().map(|(samples, of)| (samples * weight, *of)).collect();
    let half = quantile_of_student(misses, terms.len() - 1) * of_ratio(&weighted).se;
    Share { value, lo: lo.min(value - half).max(0.0), hi: hi.max(value + half) }
}

/// How far `of` is above `factor` times `other` and `constant`, with the interval that follows from those of both (Zou and Donner, *Statistics in
/// Medicine* 27, 2008).
pub fn excess(of: Share, factor: f64, other: Share, constant: f64) -> Share {
    let value = of.value - factor * other.value - constant;
    let below = (of.value - of.lo).hypot(factor * (other.hi - other.value));
    let above = (of.hi - of.value).hypot(factor * (other.value - other.lo));
    Share { value, lo: value - below, hi: value + above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_are_never_certain() {
        // No sample of 1000: the exact upper end is 3.7 of 1000 at 95 %.
        let none = level(&[(0.0, 1000.0)], 1.0, 1.0, 0.05);
        assert!(none.value == 0.0 && none.lo == 0.0 && none.hi >= 0.0037, "{none:?}");
        let one = level(&[(1.0, 1000.0)], 1.0, 1.0, 0.05);
        assert!(one.lo == 0.0 && one.hi > 0.0055, "{one:?}");
        // More of them at once are wider, and nothing at all says nothing.
        let hundred = level(&[(100.0, 1000.0)], 1.0, 1.0, 0.05);
        let of_many = level(&[(100.0, 1000.0)], 1.0, 1.0, misses_of(1000));
        assert!(of_many.lo < hundred.lo && of_many.hi > hundred.hi);
        assert!(level(&[], 1.0, 1.0, 0.05).hi.is_infinite());
    }

    #[test]
    fn what_varies_is_less_certain() {
        let steady: Vec<(f64, f64)> = (0..20).map(|_| (10.0, 100.0)).collect();
        let bursts: Vec<(f64, f64)> =
            (0..20).map(|nth| (if nth % 10 == 0 { 100.0 } else { 0.0 }, 100.0)).collect();
        let (steady, bursts) = (level(&steady, 1.0, 1.0, 0.05), level(&bursts, 1.0, 1.0, 0.05));
        assert_eq!((steady.value, bursts.value), (0.1, 0.1));
        assert!(bursts.hi - bursts.lo > 3.0 * (steady.hi - steady.lo), "{steady:?} {bursts:?}");
    }

    #[test]
    fn an_excess_has_the_doubts_of_both_sides() {
        let of = Share { value: 0.3, lo: 0.27, hi: 0.33 };
        let other = Share { value: 0.1, lo: 0.08, hi: 0.12 };
        let excess = excess(of, 2.0, other, 0.05);
        assert!(
            (excess.value - 0.05).abs() < 1e-12
                && (excess.lo).abs() < 1e-12
                && (excess.hi - 0.1).abs() < 1e-12
        );
    }

    /// Two spans of the same program, many functions: how often a condition about any of them is certain although nothing is different.
    #[test]
    fn what_is_the_same_is_seldom_certain_to_be_different() {
        let mut random = fastrand::Rng::with_seed(7);
        let functions = 200;
        let mut wrong = 0;
        let runs = 200;
        for _ in 0..runs {
            let mut draw = || {
                let mut counts = vec![0.0; functions];
                // Zipf's: few are hot, most have a sample or none.
                for _ in 0..3000 {
                    let at = ((functions as f64).powf(random.f64()) - 1.0) as usize;
                    counts[at.min(functions - 1)] += 1.0;
                }
                counts
            };
            let (before, after) = (draw(), draw());
            let certain = |relation: fn(&Share) -> bool| {
                (0..functions).any(|nth| {
                    let of = |counts: &[f64]| level(&[(counts[nth], 3000.0)], 1.0, 1.0, misses_of(functions));
                    relation(&excess(of(&after), 1.0, of(&before), 0.0))
                })
            };
            wrong += usize::from(certain(|excess| excess.lo > 0.0) || certain(|excess| excess.hi < 0.0));
        }
        assert!(wrong <= runs / 20, "{wrong} of {runs}");
    }
}
