//! Slope: whether what fluctuates grows.
//!
//! Theil and Sen's estimate, the median of the slopes between all pairs, with the interval of Kendall's test (P. K. Sen, "Estimates of the
//! regression coefficient based on Kendall's tau", JASA 63, 1968): no spike bends it, and steps need no model. Readings in a row are
//! alike, and the interval would be too narrow; so it is made from medians of parts of the time.

use crate::interval::{count, median};

/// Parts of the time.
const PARTS: usize = 24;
/// Standard deviations of an interval of 95 %.
const WIDTH: f64 = 1.96;
const HOUR: f64 = 3600.0;

/// Growth in an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// The medians of the first part and of the last one.
    pub first: f64,
    pub last: f64,
    pub each: f64,
    pub low: f64,
    pub high: f64,
}

/// What an interval says about growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flatness {
    /// It does not grow more than it may.
    Flat,
    /// It grows more than it may.
    Grows,
    /// Either may be so.
    Open,
}

impl Slope {
    /// Of values with their times in seconds; `None` if there are too few.
    pub fn of(values: &[(f64, f64)]) -> Option<Self> {
        let length = values.len() / PARTS;
        if length == 0 {
            return None;
        }
        let middle = |part: &[(f64, f64)]| {
            let (times, values): (Vec<_>, Vec<_>) = part.iter().copied().unzip();
            (median(&times), median(&values))
        };
        let parts: Vec<_> = values.rchunks_exact(length).take(PARTS).map(middle).collect();
        let mut slopes = Vec::new();
        for (nth, later) in parts.iter().enumerate() {
            // The latest is the first.
            slopes
                .extend(parts[nth + 1..].iter().map(|earlier| (later.1 - earlier.1) / (later.0 - earlier.0)));
        }
        slopes.sort_by(f64::total_cmp);
        let (parts_, pairs) = (count(parts.len()), count(slopes.len()));
        let spread = WIDTH * (parts_ * (parts_ - 1.0) * (2.0 * parts_ + 5.0) / 18.0).sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank below the number of pairs"
        )]
        let rank = ((pairs - spread) / 2.0).max(0.0) as usize;
        Some(Self {
            first: parts.last()?.1,
            last: parts.first()?.1,
            each: HOUR * median(&slopes),
            low: HOUR * slopes[rank],
            high: HOUR * slopes[slopes.len() - 1 - rank],
        })
    }

    pub fn flatness(&self, allowed: f64) -> Flatness {
        if self.high <= allowed {
            Flatness::Flat
        } else if self.low > allowed {
            Flatness::Grows
        } else {
            Flatness::Open
        }
    }
}

impl Flatness {
    pub fn word(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Grows => "GROWS",
            Self::Open => "open: take more minutes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(slope: f64, seconds: u32, seed: u64) -> Slope {
        let mut random = fastrand::Rng::with_seed(seed);
        let values = (0..seconds).map(|second| {
            let at = f64::from(second);
            // A spike now and then, and a sawtooth.
            let spike = if second % 97 == 0 { 50.0 } else { 0.0 };
            (at, 20.0 + slope * at / HOUR + spike + f64::from(second % 10) * 0.05 + random.f64() * 0.1)
        });
        Slope::of(&values.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn growth_is_told_from_noise() {
        for (slope, seconds, flatness) in [
            (0.0, 2700, Flatness::Flat),
            (0.5, 2700, Flatness::Flat),
            (1.5, 2700, Flatness::Grows),
            (-5.0, 2700, Flatness::Flat),
            (1.0, 60, Flatness::Open),
        ] {
            let found: Vec<Slope> = (0..100).map(|seed| noisy(slope, seconds, seed)).collect();
            assert!(found.iter().all(|one| one.flatness(1.0) == flatness), "{slope}: {found:?}");
            // Of 95 % intervals of a hundred series, fewer than 88 hold the truth once in 500 times.
            let held = found.iter().filter(|one| one.low <= slope && slope <= one.high).count();
            assert!(held >= 88, "{slope}: {held} of 100");
        }
    }

    #[test]
    fn a_leak_that_comes_in_steps_is_seen() {
        let values: Vec<_> = (0..2700).map(|second| (f64::from(second), f64::from(second / 300))).collect();
        assert_eq!(Slope::of(&values).unwrap().flatness(1.0), Flatness::Grows);
    }

    #[test]
    fn what_never_changes_has_no_slope() {
        let values: Vec<_> = (0..100).map(|second| (f64::from(second), 7.0)).collect();
        let slope = Slope::of(&values).unwrap();
        assert_eq!((slope.low, slope.each, slope.high), (0.0, 0.0, 0.0));
        assert_eq!(Slope::of(&values[..10]), None);
    }
}
