//! Numbers with intervals, and intervals from resamples: expanded percentiles (see the folder's documentation).

use super::options::REFERENCE;

/// The 97.5 % quantile of the standard normal distribution.
pub(crate) const NORMAL: f64 = 1.959_964;

/// A number and how sure we are of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// Its standard error.
    pub se: f64,
    /// The lower end of the 95 % interval.
    pub lo: f64,
    /// The upper end of the 95 % interval.
    pub hi: f64,
}

impl Estimate {
    /// Half the width of the interval: the number after "±".
    pub fn half_width(&self) -> f64 {
        (self.hi - self.lo) / 2.0
    }

    /// Whether some value is inside both intervals.
    pub fn overlaps(&self, other: &Estimate) -> bool {
        self.lo <= other.hi && other.lo <= self.hi
    }

    /// Whether the interval of a gain at [`REFERENCE`] excludes anything that could be so: it is seldom more than that.
    pub(crate) fn says_something(&self) -> bool {
        self.half_width() < REFERENCE.fraction()
    }

    /// The same, with all of it so much more.
    pub(super) fn moved(self, by: f64) -> Estimate {
        let Estimate { value, se, lo, hi } = self;
        Estimate { value: value + by, se, lo: lo + by, hi: hi + by }
    }

    pub(crate) fn scaled(self, factor: f64) -> Estimate {
        let Estimate { value, se, lo, hi } = self;
        Estimate { value: value * factor, se: se * factor, lo: lo * factor, hi: hi * factor }
    }
}

/// The 95 % interval and standard error of `value`, whose resampled values are `drawn`, from `blocks`
/// independent blocks with `freedom` degrees of freedom. Sorts `drawn`; values that are not numbers
/// are passed over.
pub(super) fn of(value: f64, drawn: &mut Vec<f64>, blocks: usize, freedom: usize) -> Estimate {
    drawn.retain(|v| v.is_finite());
    if drawn.is_empty() || blocks < 2 || freedom < 1 {
        return unknown(value); // one block says nothing about how much blocks differ
    }
    let n = blocks as f64;
    let expansion = (n / (n - 1.0)).sqrt();
    let tail = normal_below(-student(freedom) * expansion);
    drawn.sort_unstable_by(f64::total_cmp);
    Estimate {
        value,
        se: deviation(drawn) * expansion,
        lo: quantile(drawn, tail).min(value),
        hi: quantile(drawn, 1.0 - tail).max(value),
    }
}

/// The 95 % interval of a ratio of sums, Σ v / Σ e, from independent terms (v, e): by the deviation of
/// v − ratio·e.
pub fn of_ratio(terms: &[(f64, f64)]) -> Estimate {
    let (v, e) = terms.iter().fold((0.0, 0.0), |(v, e), (dv, de)| (v + dv, e + de));
    let value = v / e;
    if terms.len() < 2 {
        return unknown(value);
    }
    let n = terms.len() as f64;
    let squares: f64 = terms.iter().map(|(v, e)| (v - value * e).powi(2)).sum();
    around(value, (squares * n / (n - 1.0)).sqrt() / e, terms.len() - 1)
}

/// The 95 % interval of after − before, from two independent estimates and the degrees of freedom of each; `None` where either
/// is not known.
pub fn difference(before: (&Estimate, usize), after: (&Estimate, usize)) -> Option<Estimate> {
    Difference::new(before, after).map(|apart| apart.estimate)
}

/// `value` with an unknown error.
pub(crate) fn unknown(value: f64) -> Estimate {
    Estimate { value, se: f64::INFINITY, lo: f64::NEG_INFINITY, hi: f64::INFINITY }
}

/// How far two independent estimates are apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    /// The value after less the value before.
    pub(crate) estimate: Estimate,
    freedom: usize,
}

impl Difference {
    /// From two estimates and the number of blocks that each rests on; `None` where either has no standard
    /// error. The degrees of freedom are Welch's.
    pub(crate) fn new(before: (&Estimate, usize), after: (&Estimate, usize)) -> Option<Difference> {
        let ((before, of_before), (after, of_after)) = (before, after);
        let (a, b) = (before.se.powi(2), after.se.powi(2));
        if !(a + b).is_finite() || of_before < 2 || of_after < 2 {
            return None;
        }
        let welch = (a + b).powi(2) / (a * a / (of_before - 1) as f64 + b * b / (of_after - 1) as f64);
        // Without any error, both terms are zero, and so is the interval.
        let freedom = if welch.is_finite() { (welch as usize).max(1) } else { 1 };
        Some(Difference { estimate: around(after.value - before.value, (a + b).sqrt(), freedom), freedom })
    }

    /// The probability of a difference at least as far from zero if the truth were `least` away from zero,
    /// on the same side: two-sided, by Student's t.
    pub(crate) fn p_beyond(&self, least: f64) -> f64 {
        let more = self.estimate.value.abs() - least;
        if more <= 0.0 {
            return 1.0;
        }
        beyond(more / self.estimate.se, self.freedom as f64)
    }
}

/// The 95 % interval of a `value` whose standard error `se` was estimated with `freedom` degrees of freedom.
pub(crate) fn around(value: f64, se: f64, freedom: usize) -> Estimate {
    let half = student(freedom) * se;
    Estimate { value, se, lo: value - half, hi: value + half }
}

/// `estimate` when it may also be off by an error of its own, whose standard deviation is `error`.
pub(crate) fn widened(estimate: Estimate, error: f64) -> Estimate {
    let Estimate { value, se, lo, hi } = estimate;
    let half = NORMAL * error;
    Estimate {
        value,
        se: se.hypot(error),
        lo: value - (value - lo).hypot(half),
        hi: value + (hi - value).hypot(half),
    }
}

/// The same with an error to each side, `below` and `above`.
pub(super) fn stretched(estimate: Estimate, (below, above): (f64, f64)) -> Estimate {
    let (lower, upper) = (widened(estimate, below), widened(estimate, above));
    Estimate { value: estimate.value, se: lower.se.max(upper.se), lo: lower.lo, hi: upper.hi }
}

/// What was [`stretched`] before.
pub(super) fn shortened(estimate: Estimate, (below, above): (f64, f64)) -> Estimate {
    let (lower, upper) = (narrowed(estimate, below), narrowed(estimate, above));
    Estimate { value: estimate.value, se: lower.se.min(upper.se), lo: lower.lo, hi: upper.hi }
}

/// What was [`widened`] by `error`, before.
pub(super) fn narrowed(estimate: Estimate, error: f64) -> Estimate {
    let Estimate { value, se, lo, hi } = estimate;
    let without = |whole: f64, part: f64| (whole.powi(2) - part.powi(2)).max(0.0).sqrt();
    let half = NORMAL * error;
    Estimate {
        value,
        se: without(se, error),
        lo: value - without(value - lo, half),
        hi: value + without(hi - value, half),
    }
}

/// The value that has weights instead of draws: points `step` apart, ascending, each with its weight.
pub(super) fn weighted(points: &[(f64, f64)], step: f64) -> Estimate {
    let total: f64 = points.iter().map(|(_, weight)| weight).sum();
    let mean = points.iter().map(|(at, weight)| at * weight).sum::<f64>() / total;
    let variance = points.iter().map(|(at, weight)| (at - mean).powi(2) * weight).sum::<f64>() / total;
    let below = |share: f64| {
        let mut left = share * total;
        for (at, weight) in points {
            if left <= *weight {
                return at + step * (left / weight - 0.5);
            }
            left -= weight;
        }
        f64::NAN
    };
    Estimate {
        value: below(0.5),
        se: (variance + step * step / 12.0).sqrt(),
        lo: below(0.025),
        hi: below(0.975),
    }
}

/// The standard deviation.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (squares / (n - 1.0).max(1.0)).sqrt()
}

/// The value below which a share `tail` of `sorted` lies.
fn quantile(sorted: &[f64], tail: f64) -> f64 {
    let last = sorted.len() - 1;
    let position = (tail * (sorted.len() + 1) as f64 - 1.0).clamp(0.0, last as f64);
    let (below, share) = (position.floor() as usize, position.fract());
    sorted[below] * (1.0 - share) + sorted[(below + 1).min(last)] * share
}

/// The 97.5 % quantile of Student's t, by the expansion of Abramowitz and Stegun 26.7.5; good to 1 %.
fn student(freedom: usize) -> f64 {
    const Z: f64 = NORMAL;
    let n = freedom as f64;
    match freedom {
        0 => f64::INFINITY,
        1 => 12.706,
        2 => 4.303,
        _ => {
            let g1 = (Z.powi(3) + Z) / 4.0;
            let g2 = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
            let g3 = (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / 384.0;
            Z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3)
        }
    }
}

/// The 97.5 % quantile of Student's t for any number of degrees of freedom from 1 on (fewer count as 1): between whole ones, in proportion to their inverse.
pub(crate) fn student_of(freedom: f64) -> f64 {
    let freedom = freedom.clamp(1.0, 1e9);
    let below = freedom.floor();
    let (near, far) = (student(below as usize), student(below as usize + 1));
    let share = (1.0 / below - 1.0 / freedom) / (1.0 / below - 1.0 / (below + 1.0));
    near + share * (far - near)
}

/// How often Fisher's F with `upper` and `lower` degrees of freedom is at least `f`, by the cube roots of Paulson, *Ann. Math. Statist.* 13,
/// 1942; with infinitely many below, that is Wilson and Hilferty's χ². Good to 0.005.
pub(crate) fn beyond_f(f: f64, upper: f64, lower: f64) -> f64 {
    let (a, b) = (2.0 / (9.0 * upper), 2.0 / (9.0 * lower));
    let root = f.max(0.0).cbrt();
    normal_below(-((1.0 - b) * root - (1.0 - a)) / (b * root * root + a).sqrt())
}

/// How often Student's t is at least `t` away from zero, by the transformation to a normal deviate of
/// Wallace, *Ann. Math. Statist.* 30, 1959; good to some per cent of itself, far into the tails.
pub(crate) fn beyond(t: f64, freedom: f64) -> f64 {
    if freedom <= 0.0 || t.is_nan() {
        return 1.0;
    }
    let n = freedom;
    2.0 * normal_below(-(8.0 * n + 1.0) / (8.0 * n + 3.0) * (n * (t * t / n).ln_1p()).sqrt())
}

/// How far from zero Student's t is with the probability `two_sided`, which is above 1e-12; for any number of intervals at once.
#[must_use]
pub fn quantile_of_student(two_sided: f64, freedom: usize) -> f64 {
    let (mut near, mut far) = (0.0, 1.0);
    while beyond(far, freedom as f64) > two_sided && far < 1e9 {
        far *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(near, far);
        if beyond(middle, freedom as f64) > two_sided { near = middle } else { far = middle }
    }
    far
}

/// The share of a standard normal distribution below `z` (Abramowitz and Stegun 7.1.26; good to 1e-7).
fn normal_below(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let upper = 0.5 * series * (-x * x).exp();
    if z < 0.0 { upper } else { 1.0 - upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_far_out() {
        // From tables of the t distribution.
        for (two_sided, freedom, expected) in [
            (0.05, 1_000_000, 1.96),
            (0.05, 7, 2.365),
            (0.001, 20, 3.850),
            (1e-5, 1_000_000, 4.417),
            (0.01, 30, 2.750),
        ] {
            let found = quantile_of_student(two_sided, freedom);
            assert!((found / expected - 1.0).abs() < 0.01, "{two_sided} {freedom}: {found}");
        }
    }

    #[test]
    fn known_quantiles() {
        for (freedom, t) in [(1, 12.706), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (1000, 1.962)] {
            assert!((student(freedom) / t - 1.0).abs() < 0.01, "{freedom}: {}", student(freedom));
        }
        for (z, below) in [(-3.0, 0.001_350), (-1.959_964, 0.025), (0.0, 0.5), (1.0, 0.841_345)] {
            assert!((normal_below(z) - below).abs() < 1e-6, "{z}");
        }
    }

    #[test]
    fn known_tails() {
        for (t, freedom, share) in [
            (2.776, 4.0, 0.05),
            (4.604, 4.0, 0.01),
            (2.228, 10.0, 0.05),
            (4.587, 10.0, 0.001),
            (2.042, 30.0, 0.05),
            // Far out it is less exact.
            (10.0, 4.0, 0.000_562),
            (6.0, 60.0, 1.2e-7),
        ] {
            let got = beyond(t, freedom);
            let exact = if share > 0.000_6 { 0.06 } else { 0.25 };
            assert!((got / share - 1.0).abs() < exact, "{t} {freedom}: {got}");
        }
        assert!((beyond(0.0, 9.0) - 1.0).abs() < 1e-6);
        assert_eq!((beyond(f64::INFINITY, 9.0), beyond(9.0, 0.0)), (0.0, 1.0));
    }

    #[test]
    fn quantiles_between_whole_numbers() {
        for freedom in [1, 2, 3, 9, 400] {
            assert!((student_of(f64::from(freedom)) - student(freedom as usize)).abs() < 1e-12, "{freedom}");
        }
        // Numerical integration of the density.
        for (freedom, t) in [(2.5, 3.575), (4.5, 2.659), (12.3, 2.173)] {
            assert!((student_of(freedom) / t - 1.0).abs() < 0.013, "{freedom}: {}", student_of(freedom));
        }
        assert!(
            (student_of(f64::INFINITY) - NORMAL).abs() < 1e-6 && (student_of(0.2) - 12.706).abs() < 1e-12
        );
    }

    #[test]
    fn known_tails_of_f_and_chi_squared() {
        // From tables; the χ² is f times the degrees of freedom.
        for (f, upper, lower, share) in [
            (4.965, 1.0, 10.0, 0.05),
            (3.326, 5.0, 10.0, 0.05),
            (5.636, 5.0, 10.0, 0.01),
            (3.841, 1.0, f64::INFINITY, 0.05),
            (1.831, 10.0, f64::INFINITY, 0.05),
            (1.0, 10.0, f64::INFINITY, 0.4405),
        ] {
            assert!(
                (beyond_f(f, upper, lower) - share).abs() < 0.005,
                "{f} {upper} {lower}: {}",
                beyond_f(f, upper, lower)
            );
        }
    }

    #[test]
    fn ratios_of_equal_terms_are_means() {
        // 1, 2, 3: a mean of 2 with a standard error of √(1/3).
        let ratio = of_ratio(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]);
        assert!((ratio.value - 2.0).abs() < 1e-12 && (ratio.se - (1.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((ratio.half_width() / ratio.se - 4.303).abs() < 1e-9);
        assert!(of_ratio(&[(1.0, 1.0)]).half_width().is_infinite());
    }

    #[test]
    fn differences_add_their_errors() {
        let slope = |value: f64, se: f64| Estimate { value, se, lo: value - 2.0 * se, hi: value + 2.0 * se };
        let apart = Difference::new((&slope(0.1, 0.03), 21), (&slope(0.6, 0.04), 21)).unwrap();
        let Estimate { value, se, lo, hi } = apart.estimate;
        assert!((value - 0.5).abs() < 1e-9 && (se - 0.05).abs() < 1e-9);
        // Welch: 37 degrees of freedom, of which the 97.5 % quantile of t is 2.026.
        assert!((lo - 0.3987).abs() < 1e-3 && (hi - 0.6013).abs() < 1e-3, "{lo} {hi}");
        assert!(apart.p_beyond(0.0) < 1e-6 && apart.p_beyond(0.4) > 0.05 && apart.p_beyond(0.5) > 0.9);
        let exact = Difference::new((&slope(0.1, 0.0), 9), (&slope(0.1, 0.0), 9)).unwrap();
        assert_eq!((exact.estimate.hi, exact.p_beyond(0.0)), (0.0, 1.0));
        assert!(Difference::new((&unknown(0.1), 9), (&slope(0.1, 0.1), 9)).is_none());
    }

    #[test]
    fn what_was_stretched_can_be_shortened() {
        let plain = around(0.4, 0.1, usize::MAX);
        let stretched = stretched(plain, (0.0, 0.3));
        assert!((stretched.lo - plain.lo).abs() < 1e-9 && stretched.hi > plain.hi + 0.4, "{stretched:?}");
        let again = shortened(stretched, (0.0, 0.3));
        let same = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(
            same(again.lo, plain.lo) && same(again.hi, plain.hi) && same(again.se, plain.se),
            "{again:?}"
        );
    }

    #[test]
    fn weights_make_quantiles() {
        let even: Vec<(f64, f64)> = (0..100).map(|nth| (0.005 + 0.01 * f64::from(nth), 3.0)).collect();
        let Estimate { value, se, lo, hi } = weighted(&even, 0.01);
        for (got, expected) in [(value, 0.5), (se, 0.2887), (lo, 0.025), (hi, 0.975)] {
            assert!((got - expected).abs() < 1e-3, "{got} {expected}");
        }
        // A place cannot be known better than the distance between two of them.
        let one = weighted(&[(0.3, 1.0)], 0.01);
        assert!((one.value - 0.3).abs() < 1e-9 && (one.half_width() - 0.00475).abs() < 1e-9);
    }

    #[test]
    fn one_block_says_nothing() {
        let estimate = of(0.5, &mut vec![0.5; 100], 1, 1);
        assert!(estimate.hi.is_infinite() && estimate.se.is_infinite());
    }
}
