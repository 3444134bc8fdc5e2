//! A median and how far to trust it.

use serde::Serialize;

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let resample: Vec<f64> =
                    (0..values.len()).map(|_| values[fastrand::usize(..values.len())]).collect();
                median(&resample)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        Self {
            estimate: median(values),
            low: medians[RESAMPLES / 40],
            high: medians[RESAMPLES - 1 - RESAMPLES / 40],
        }
    }

    pub fn scaled(self, factor: f64) -> Self {
        Self { estimate: self.estimate * factor, low: self.low * factor, high: self.high * factor }
    }
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
    #[expect(clippy::cast_precision_loss)]
    let count = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
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
}
