//! What sampling costs the program while experiments go on.

use crate::estimate::{Estimate, of_ratio};
use crate::model::OverheadPair;
use crate::ranking::Profile;

/// Fewer pairs say nothing about how much pairs differ.
const ENOUGH: usize = 4;

impl Profile {
    /// The share of its speed that the program lost by being sampled, and credited between samples, as it is in experiments; without delays, and without what the functions
    /// cost that stand in front of the C library's, which are always there. `None` where it was not measured.
    pub fn overhead(&self) -> Option<Estimate> {
        let pairs = self.rows.sessions.iter().flat_map(|session| &session.overhead);
        let rates: Vec<(f64, f64)> = pairs.filter_map(rates).collect();
        if rates.len() < ENOUGH {
            return None;
        }
        let kept = of_ratio(&rates);
        let lost = Estimate { value: 1.0 - kept.value, lo: 1.0 - kept.hi, hi: 1.0 - kept.lo, se: kept.se };
        lost.half_width().is_finite().then_some(lost)
    }
}

/// Visits in each time unit while it was profiled, and while it hardly was, as shares of both: pairs count alike, of whatever point they are.
fn rates(pair: &OverheadPair) -> Option<(f64, f64)> {
    let rate = |visits: u64, time: u64| (time > 0).then(|| visits as f64 / time as f64);
    let profiled = rate(pair.profiled_visits, pair.profiled.get())?;
    let seldom = rate(pair.seldom_visits, pair.seldom.get())?;
    let both = profiled + seldom;
    (both > 0.0).then_some((profiled / both, seldom / both))
}
