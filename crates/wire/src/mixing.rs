//! How finely the selected code and other code take turns.
//!
//! A sample tells where a thread was at one moment; what it is credited with is the time between two. If the
//! region and other code take turns many times in between, the two moments say nothing about that time, and its
//! share of the region is the best guess. If a turn is longer than that, the two moments say all. Which of the two it
//! is shows in the correlation of samples that follow each other. (Their distances are drawn at random, so turns of
//! a regular length do not deceive.)
//!
//! One sum for all threads, so that it is known soon. Additions that are lost to a race do not matter.

use crate::atomic::{AtomicI64, AtomicU32, Ordering::Relaxed};

/// What is called one: shares are parts of it.
pub const ONE: i64 = 1024;

/// The variance that must have been seen before a correlation is believed: that of 100 samples in a half.
const ENOUGH: i64 = 25 * ONE * ONE;
/// The variance after which half of it is forgotten.
const OLD: i64 = 20 * ENOUGH;
/// A correlation of one over this and more is a full one. With turns of two periods each, where it is zero, a share is
/// as far off at the end of a turn as what a single sample stands for; with turns of three it is a third.
const FULL: i64 = 3;

/// The correlation of samples that follow each other, of one region.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mixing {
    region: AtomicU32,
    covariance: AtomicI64,
    variance: AtomicI64,
}

impl Mixing {
    /// A sample and the one before found the region numbered `region` or did not, in code of which `share`
    /// (of [`ONE`]) is the region.
    pub fn learn(&self, region: u32, share: i64, (first, second): (bool, bool)) {
        if self.region.swap(region, Relaxed) != region {
            self.covariance.store(0, Relaxed);
            self.variance.store(0, Relaxed);
        }
        let deviation = |hit: bool| i64::from(hit) * ONE - share;
        self.covariance.fetch_add(deviation(first) * deviation(second), Relaxed);
        let variance = self.variance.fetch_add(share * (ONE - share), Relaxed);
        if variance > OLD {
            self.covariance.store(self.covariance.load(Relaxed) / 2, Relaxed);
            self.variance.store(variance / 2, Relaxed);
        }
    }

    /// The share of the time between two samples that was in `region`. With nothing known, the moments decide.
    pub fn between(&self, region: u32, share: i64, (first, second): (bool, bool)) -> i64 {
        let moments = (i64::from(first) + i64::from(second)) * ONE / 2;
        share + self.weight(region) * (moments - share) / ONE
    }

    /// How much single moments say about the time around them, in parts of [`ONE`]: everything, while nothing is known.
    pub fn weight(&self, region: u32) -> i64 {
        let variance = self.variance.load(Relaxed);
        if self.region.load(Relaxed) != region || variance < ENOUGH {
            return ONE;
        }
        (FULL * ONE * self.covariance.load(Relaxed) / variance).clamp(0, ONE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Samples, on average 1000 apart, of code that is half a `turn` in the region and half a turn outside.
    fn mixing(turn: u64, samples: u64) -> Mixing {
        let mixing =
            Mixing { region: AtomicU32::new(0), covariance: AtomicI64::new(0), variance: AtomicI64::new(0) };
        let (mut time, mut state) = (0, 1_u64);
        let hit = |time: u64| time % turn < turn / 2;
        for _ in 0..samples {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let next = time + 500 + (state >> 33) % 1000;
            mixing.learn(7, ONE / 2, (hit(time), hit(next)));
            time = next;
        }
        mixing
    }

    #[test]
    fn long_turns_show_in_both_moments() {
        for turn in [8_000, 10_000, 100_000] {
            let mixing = mixing(turn, 2_000);
            let between = |found| mixing.between(7, ONE / 2, found);
            let (both, one, none) = (between((true, true)), between((true, false)), between((false, false)));
            assert_eq!((both, one, none), (ONE, ONE / 2, 0), "{turn}");
        }
    }

    #[test]
    fn short_turns_leave_the_share() {
        for turn in [100, 330, 500, 580, 1_000, 2_000, 3_000] {
            let mixing = mixing(turn, 2_000);
            let between = |share, found| mixing.between(7, share, found);
            assert!((between(ONE / 2, (true, true)) - ONE / 2).abs() < ONE / 5, "{turn}");
            assert!((between(ONE / 4, (false, false)) - ONE / 4).abs() < ONE / 8, "{turn}");
        }
    }

    #[test]
    fn moments_decide_while_little_is_known() {
        assert_eq!(mixing(100, 50).between(7, ONE / 2, (true, true)), ONE);
        assert_eq!(mixing(100, 2_000).between(8, ONE / 2, (true, true)), ONE, "another region's turns");
    }
}
