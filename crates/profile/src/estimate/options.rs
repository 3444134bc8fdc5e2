//! How to estimate: what a caller chooses, and the numbers that stand where it chooses nothing.

use crate::units::Speedup;

/// The speedup that sentences speak about.
pub const REFERENCE: Speedup = match Speedup::from_percent(20) {
    Some(speedup) => speedup,
    None => Speedup::ZERO,
};

/// How exact virtual speedup is where threads do not wait for one another and nothing is known to be wrong: see [`estimate`](crate::estimate).
pub const METHOD_ERROR: f64 = 0.04;

/// How to estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct EstimateOptions {
    /// Keep regions with fewer than five speedups, as if the user had fixed them. A session that was
    /// recorded with fixed regions or speedups has the same effect.
    pub fixed: bool,
    /// The seed of the bootstrap.
    pub seed: u64,
    /// How many resamples to draw.
    pub resamples: usize,
    /// Scale gains by the share of the run in which the region ran at all
    /// (papers/coz-first-paper.txt, section 4.6).
    pub phase_correction: bool,
    /// How exact virtual speedup itself is: the standard error of inserted delay, as a share of it, where threads do not wait
    /// for one another; it is up to twice as much where they do.
    pub method_error: f64,
}

impl Default for EstimateOptions {
    fn default() -> EstimateOptions {
        EstimateOptions {
            fixed: false,
            seed: 0x5eed,
            resamples: 1000,
            phase_correction: true,
            method_error: METHOD_ERROR,
        }
    }
}
