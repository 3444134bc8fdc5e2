//! How often a place is visited, and how steadily: to find places that make good progress points.

use super::PointSpec;
use crate::images::Images;
use anyhow::Result;
use kernel::visits::Counter;
use profile::{Nanos, Region};
use symbols::Scope;

/// How often visits are read.
const STEPS: usize = 8;
/// Time between two readings.
const STEP: Nanos = Nanos::from_millis(50);
/// A place in more copies than this is not counted: a CPU has four breakpoints.
const MOST_COPIES: usize = 4;

/// A place whose visits are being counted, or have been.
#[derive(Debug)]
pub struct CallRate {
    counters: Vec<Counter>,
    pub per_second: f64,
    /// The standard deviation from one reading to the next, as a share of the mean, beyond what counting explains.
    pub variation: f64,
}

impl CallRate {
    /// Begins to count visits to `place`, as `-p` understands it, in a program that runs. `None` where it cannot be counted.
    pub fn begin(place: &str, pid: u32, images: &Images, scope: &Scope) -> Result<Option<Self>> {
        let specs = PointSpec::all(&[place.to_owned()], &[])?;
        let found = images.instructions(|image| specs[0].entries(image, scope));
        if found.is_empty() || found.len() > MOST_COPIES {
            return Ok(None);
        }
        let counters: Result<Vec<Counter>, _> = found.iter().map(|place| Counter::new(pid, place)).collect();
        Ok(counters.ok().map(|counters| Self { counters, per_second: 0.0, variation: 0.0 }))
    }

    /// Counts for a while; `None` if the program ended. `wait` returns false then.
    pub fn measure(mut self, mut wait: impl FnMut(Nanos) -> bool) -> Option<Self> {
        let mut counts = Vec::with_capacity(STEPS);
        let begin = kernel::clock::monotonic();
        let mut last = self.count();
        for _ in 0..STEPS {
            if !wait(STEP) {
                return None;
            }
            let now = self.count();
            counts.push(now.wrapping_sub(last) as f64);
            last = now;
        }
        let passed = kernel::clock::monotonic().saturating_sub(begin);
        self.counters.clear();
        self.per_second = counts.iter().sum::<f64>() / passed.0.max(1) as f64 * 1e9;
        self.variation = variation(&counts);
        Some(self)
    }

    fn count(&self) -> u64 {
        self.counters.iter().map(Counter::count).fold(0, u64::wrapping_add)
    }
}

/// See [`CallRate::variation`].
fn variation(counts: &[f64]) -> f64 {
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<f64>() / n;
    if mean <= 0.0 {
        return 0.0;
    }
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    // As many as that differ by chance alone.
    (variance - mean).max(0.0).sqrt() / mean
}

/// What to call a function with `-p fn:NAME`: its short name where no other function has that, else the full one.
pub fn name_of<'a>(region: &Region, names: impl Iterator<Item = &'a str>) -> String {
    let same = names.filter(|name| *name == region.name).count();
    match &region.function {
        Some(full) if same > 1 => full.clone(),
        _ => region.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_steady_does_not_vary() {
        assert_eq!(variation(&[100.0, 103.0, 98.0, 101.0]), 0.0);
        assert_eq!(variation(&[0.0; 8]), 0.0);
        assert!((variation(&[0.0, 1000.0, 0.0, 1000.0]) - 1.15).abs() < 0.05);
    }
}
