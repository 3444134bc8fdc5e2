//! A median and how far to trust it.

use serde::{Deserialize, Serialize};

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// Resamples per interval: enough for its ends to be stable to about a hundredth of its width.
const RESAMPLES: usize = 2000;

impl Interval {
    /// The median of `values` with its 95 % percentile-bootstrap interval (Efron and Tibshirani, "An
    /// Introduction to the Bootstrap", 1993, chapter 13). With fewer than six values the interval
    /// is in effect their range, and covers less than it says.
    ///
    /// # Panics
    ///
    /// When there are no values.
    pub fn of_median(values: &[f64]) -> Self {
        Self::bootstrapped(median(values), || median(&resampled(values)))
    }

    /// `estimate`, with the 95 % percentile interval of what `resample` returns.
    pub fn bootstrapped(estimate: f64, resample: impl FnMut() -> f64) -> Self {
        let mut values: Vec<f64> = std::iter::repeat_with(resample).take(RESAMPLES).collect();
        values.sort_by(f64::total_cmp);
        Self { estimate, low: values[RESAMPLES / 40], high: values[RESAMPLES - 1 - RESAMPLES / 40] }
    }

    /// The mean of `values` with Student's 95 % interval; unbounded for a single value.
    ///
    /// # Panics
    ///
    /// When there are no values.
    pub fn of_mean(values: &[f64]) -> Self {
        let mean = mean(values).expect("the caller has values");
        let freedom = values.len() - 1;
        if freedom == 0 {
            return Self { estimate: mean, low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / count(freedom) / count(values.len())).sqrt();
        Self::around(mean, student(freedom) * error)
    }

    pub fn around(estimate: f64, half_width: f64) -> Self {
        Self { estimate, low: estimate - half_width, high: estimate + half_width }
    }

    pub fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    pub fn scaled(self, factor: f64) -> Self {
        Self { estimate: self.estimate * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// As many of `values`, drawn with replacement.
pub fn resampled<T: Copy>(values: &[T]) -> Vec<T> {
    (0..values.len()).map(|_| values[fastrand::usize(..values.len())]).collect()
}

/// The 97.5 % quantile of Student's distribution with `freedom` degrees of freedom (Abramowitz and
/// Stegun, "Handbook of Mathematical Functions", 26.7.5; table 26.10 for the first few).
pub fn student(freedom: usize) -> f64 {
    const FEW: [f64; 8] = [f64::INFINITY, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365];
    if let Some(quantile) = FEW.get(freedom) {
        return *quantile;
    }
    let (x, n) = (1.959_964_f64, count(freedom));
    let (x3, x5, x7) = (x.powi(3), x.powi(5), x.powi(7));
    x + (x3 + x) / (4.0 * n)
        + (5.0 * x5 + 16.0 * x3 + 3.0 * x) / (96.0 * n.powi(2))
        + (3.0 * x7 + 19.0 * x5 + 17.0 * x3 - 15.0 * x) / (384.0 * n.powi(3))
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss)]
pub fn count(things: usize) -> f64 {
    things as f64
}

/// The middle value, or the mean of the two middle ones.
///
/// # Panics
///
/// When there are no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// The mean, or nothing of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        for (values, expected) in [(&[3.0][..], 3.0), (&[1.0, 9.0, 2.0], 2.0), (&[4.0, 1.0, 2.0, 9.0], 3.0)] {
            assert!((median(values) - expected).abs() < 1e-12, "{values:?}");
        }
    }

    #[test]
    fn interval_surrounds_the_median_and_stays_in_range() {
        let values: Vec<f64> = (0..101).map(f64::from).collect();
        let interval = Interval::of_median(&values);
        assert!((30.0..=50.0).contains(&interval.low), "{interval:?}");
        assert!((50.0..=70.0).contains(&interval.high), "{interval:?}");
    }

    #[test]
    fn equal_values_leave_no_doubt() {
        let interval = Interval::of_median(&[2.5; 7]);
        for value in [interval.estimate, interval.low, interval.high] {
            assert!((value - 2.5).abs() < 1e-12);
        }
    }

    #[test]
    fn student_is_as_in_tables() {
        for (freedom, expected) in
            [(1, 12.706), (4, 2.776), (5, 2.571), (8, 2.306), (30, 2.042), (120, 1.980)]
        {
            assert!((student(freedom) - expected).abs() < 0.002, "{freedom}: {}", student(freedom));
        }
        assert!(student(0).is_infinite());
    }

    #[test]
    fn the_mean_has_students_interval() {
        let interval = Interval::of_mean(&[1.0, 2.0, 3.0]);
        assert!((interval.estimate - 2.0).abs() < 1e-12);
        assert!((interval.half_width() - 4.303 / 3_f64.sqrt()).abs() < 1e-9, "{interval:?}");
        assert!(Interval::of_mean(&[7.0]).half_width().is_infinite());
    }
}
