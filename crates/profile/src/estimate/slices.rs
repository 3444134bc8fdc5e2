//! What time slices may be worth: an error of the method that is known to be there.
//!
//! A thread that never blocks gives its CPU away when its time slice ends, and slices are of real time. Where the selected code is really faster, such a thread
//! gets as much of the CPU as before and does more with it; in virtual time its slices have become shorter, as if it
//! left the CPU to others. (`docs/theory.md`, under what is approximate.) How much CPU time that is has been counted, and the program may be slower by
//! the share of it that the other threads would have lost. Intervals hold both answers.

use super::interval::NORMAL;
use crate::model::Window;

/// No error is larger: a gain lies between losing as much and all.
const MOST: f64 = 0.5;

/// Where others use less than this share of the CPU time, they lose nothing that matters.
const OTHERS: f64 = 0.05;

/// Sums over windows at one speedup, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    elapsed: f64,
    effective: f64,
    sliced: f64,
    sliced_virtual: f64,
    all_virtual: f64,
    /// How long the others waited for a CPU.
    queued: f64,
}

/// The standard error that time slices add to the slope, from the windows with a speedup. Zero where nothing was counted.
pub(super) fn error<'a>(treated: impl Iterator<Item = &'a Window>) -> f64 {
    let mut speedups: Vec<(f64, Sums)> = Vec::new();
    for window in treated {
        let (Some(audit), s) = (window.audit, window.speedup.fraction()) else { continue };
        let at = match speedups.iter().position(|(speedup, _)| *speedup == s) {
            Some(at) => at,
            None => {
                speedups.push((s, Sums::default()));
                speedups.len() - 1
            }
        };
        let sums = &mut speedups[at].1;
        let used = audit.cpu.get() as f64 - (audit.pausing.get() + audit.given.get()) as f64;
        sums.elapsed += window.elapsed.get() as f64;
        sums.effective += window.elapsed.get() as f64 - window.required.get() as f64;
        sums.sliced += audit.sliced.get() as f64;
        sums.sliced_virtual += audit.sliced_virtual.get() as f64;
        sums.all_virtual += used.max(audit.sliced_virtual.get() as f64);
        sums.queued += audit.queued.get() as f64 - audit.sliced_queued.get() as f64;
    }
    let elapsed: f64 = speedups.iter().map(|(_, sums)| sums.elapsed).sum();
    let errors = speedups.iter().filter(|(s, _)| *s > 0.0).map(|(s, sums)| sums.loss() / s * sums.elapsed);
    if elapsed > 0.0 { (errors.sum::<f64>() / elapsed / NORMAL).min(MOST) } else { 0.0 }
}

impl Sums {
    /// The share of the period by which the program may be slower than predicted, or faster.
    fn loss(&self) -> f64 {
        if self.effective <= 0.0 || self.sliced <= 0.0 {
            return 0.0;
        }
        // CPUs that threads without rest have in real time, and in virtual time; and what all others have.
        let (real, imagined) = (self.sliced / self.elapsed, self.sliced_virtual / self.effective);
        let others = (self.all_virtual - self.sliced_virtual) / self.effective;
        if self.all_virtual - self.sliced_virtual < OTHERS * self.all_virtual {
            return 0.0;
        }
        // Nothing can be lost that was not waited for.
        let slower = ((real - imagined).abs() / others).min(self.queued.max(0.0) / self.elapsed).min(1.0);
        slower * self.effective / self.elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::Audit;
    use crate::units::{Nanos, Speedup};

    /// A window of 100 ms on two CPUs at 100 %, in milliseconds.
    fn half(required: u64, given: u64, sliced: u64, sliced_virtual: u64) -> f64 {
        let audit = Audit {
            cpu: Nanos::from_millis(200),
            given: Nanos::from_millis(given),
            queued: Nanos::from_millis(200),
            sliced_queued: Nanos::from_millis(100),
            sliced: Nanos::from_millis(sliced),
            sliced_virtual: Nanos::from_millis(sliced_virtual),
            ..Audit::default()
        };
        let (elapsed, required) = (Nanos::from_millis(100), Nanos::from_millis(required));
        let all = Speedup::from_percent(100).unwrap();
        error([Window { elapsed, required, audit: Some(audit), ..window(0, 0, all) }].iter()) * NORMAL
    }

    #[test]
    fn a_pool_of_equals_loses_nothing() {
        for imagined in 99..=101 {
            assert!(half(50, 100, 200, imagined) < 1e-9, "{imagined}: there is no one to lose");
        }
        assert!(half(50, 90, 160, 78) < 0.035);
        assert_eq!(half(50, 100, 0, 0), 0.0, "all of them block");
    }

    #[test]
    fn a_thread_that_never_rests_keeps_its_share_of_the_cpu() {
        // It has one of the two CPUs, all of it in the region: in virtual time it has nothing, the others everything.
        let doubt = half(50, 100, 100, 0);
        assert!((doubt - 0.25).abs() < 1e-9, "{doubt}: 50 ms for others become 100 ms");
    }
}
