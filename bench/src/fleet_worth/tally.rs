//! What is counted over many fleets of one kind.

use std::thread;

use fastrand::Rng;

use crate::calibration::coverage::Share;
use crate::interval::{Interval, count};

/// The least and the greatest share of intervals that may hold the truth.
const HONEST: (f64, f64) = (0.93, 0.97);

/// Estimates with 95 % intervals, and the truth.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    errors: Vec<f64>,
    half_widths: Vec<f64>,
    held: usize,
}

impl Tally {
    pub fn push(&mut self, estimate: profile::Estimate, truth: f64) {
        self.errors.push(estimate.value - truth);
        self.half_widths.push(estimate.half_width());
        self.held += usize::from(estimate.lo <= truth && truth <= estimate.hi);
    }

    fn extend(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.half_widths.extend(other.half_widths);
        self.held += other.held;
    }

    pub fn coverage(&self) -> Share {
        Share { some: self.held, of: self.errors.len() }
    }

    /// In points: the mean error with its interval, and the median half width of intervals.
    ///
    /// # Panics
    ///
    /// When nothing was counted.
    pub fn line(&self) -> String {
        let bias = Interval::of_mean(&self.errors).scaled(100.0);
        let half_width = 100.0 * crate::interval::median(&self.half_widths);
        let coverage = self.coverage().interval().expect("there are fleets").scaled(100.0);
        format!(
            "{:>+6.2} ± {:<4.2} {half_width:>7.2}  {:>5.1} [{:>4.1}, {:>5.1}] {:<4}",
            bias.estimate,
            bias.half_width(),
            coverage.estimate,
            coverage.low,
            coverage.high,
            mark(self.coverage())
        )
    }
}

/// What a coverage is marked with: `low` or `wide` where it is certainly out of what is honest, `low?` or `wide?` where it may be chance.
pub fn mark(coverage: Share) -> &'static str {
    let Some(Interval { estimate, low, high }) = coverage.interval() else { return "" };
    match () {
        () if high < HONEST.0 => "low",
        () if low > HONEST.1 => "wide",
        () if estimate < HONEST.0 => "low?",
        () if estimate > HONEST.1 => "wide?",
        () => "",
    }
}

/// What several fleets add up to.
pub trait Counts: Default + Send {
    fn add(&mut self, other: Self);
}

impl Counts for Tally {
    fn add(&mut self, other: Self) {
        self.extend(other);
    }
}

/// Simulates `fleets` fleets, each with random numbers of its own, on all CPUs. The same seed gives the same counts, if their order does not matter.
pub fn simulate<C: Counts>(fleets: usize, seed: u64, one: impl Fn(&mut C, &mut Rng) + Sync) -> C {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(fleets.max(1));
    let of_thread = |first: usize| {
        let mut counts = C::default();
        for fleet in (first..fleets).step_by(threads) {
            // Far apart: neighbouring seeds must not give related fleets.
            let stream = (fleet as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            one(&mut counts, &mut Rng::with_seed(seed.rotate_left(40) ^ stream));
        }
        counts
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(move || of_thread(first))).collect();
        let mut all = C::default();
        for thread in running {
            all.add(thread.join().expect("a simulation does not panic"));
        }
        all
    })
}

/// A share in per cent.
pub fn percent(some: usize, of: usize) -> f64 {
    100.0 * count(some) / count(of.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverages_are_marked() {
        for (some, of, expected) in [
            (950, 1000, ""),
            (900, 1000, "low"),
            (925, 1000, "low?"),
            (1000, 1000, "wide"),
            (98, 100, "wide?"),
        ] {
            assert_eq!(mark(Share { some, of }), expected, "{some} of {of}");
        }
    }

    #[test]
    fn all_fleets_are_simulated_once() {
        let one = |tally: &mut Tally, rng: &mut Rng| {
            let value = rng.f64();
            tally.push(profile::Estimate { value, se: 1.0, lo: value - 0.25, hi: value + 0.25 }, 0.5);
        };
        let tally = simulate(501, 3, one);
        assert_eq!(tally.errors.len(), 501);
        // Half of the numbers are within a quarter of the middle.
        assert!(tally.held > 200 && tally.held < 300, "{}", tally.held);
        let mut sorted = tally.errors.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        assert_eq!(sorted.len(), 501);
    }
}
