//! What other programs' use of the CPUs may hide: an error of the method that is known to be there.
//!
//! A thread that wakes up from a wait for the world and finds its CPU in use by another program waits for it. That wait is taken to be as long in both executions. Where the selected code is
//! really faster, the thread wants the CPU for less time, and may wait for it less as well: at most in proportion. (`docs/theory.md`, under what is approximate.) Intervals
//! hold both answers, in windows in which other programs used the machine.

use super::interval::NORMAL;
use crate::model::{Window, WindowFlags};

/// The standard error, no larger than the slope itself, that waits for CPUs add to a slope of `slope`, from the windows with a speedup.
pub(super) fn error<'a>(treated: impl Iterator<Item = &'a Window>, slope: f64) -> f64 {
    let (mut used, mut queued) = (0.0, 0.0);
    for window in treated {
        let Some(audit) = window.audit else { continue };
        let pauses = audit.pausing.get() as f64;
        used += (audit.cpu.get() as f64 - audit.sliced.get() as f64 - pauses).max(0.0);
        if window.flags.has(WindowFlags::BUSY) {
            let waits = (audit.queued.get() as f64 - audit.sliced_queued.get() as f64).max(0.0);
            let (world, threads) = (audit.in_world.get() as f64, audit.in_waits.get() as f64);
            // Behind a wait for another thread it is credited.
            queued += waits * world / (world + threads).max(1.0);
        }
    }
    if used > 0.0 { slope.abs() * (queued / used).min(1.0) / NORMAL } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::Audit;
    use crate::units::{Nanos, Speedup};

    /// A window in which threads ran, waited for CPUs, for the world and for each other for so many milliseconds.
    fn one([cpu, queued, in_world, in_waits]: [u64; 4], flags: WindowFlags) -> f64 {
        let [cpu, queued, in_world, in_waits] = [cpu, queued, in_world, in_waits].map(Nanos::from_millis);
        let audit = Audit { cpu, queued, in_world, in_waits, ..Audit::default() };
        let all = Speedup::from_percent(100).unwrap();
        error([Window { audit: Some(audit), flags, ..window(0, 0, all) }].iter(), 0.3) * NORMAL
    }

    #[test]
    fn what_a_server_waited_for_cpus_may_be_saved_as_well() {
        let busy = WindowFlags::BUSY;
        assert!((one([50, 50, 20, 0], busy) - 0.3).abs() < 1e-9);
        assert!((one([50, 50, 20, 20], busy) - 0.15).abs() < 1e-9, "half of the waits were for threads");
        assert!((one([50, 500, 20, 0], busy) - 0.3).abs() < 1e-9, "as much again");
        assert_eq!(one([50, 50, 20, 0], WindowFlags::NONE), 0.0, "no other program was there");
        assert_eq!(one([50, 50, 0, 20], busy), 0.0);
        assert_eq!(one([0, 50, 20, 0], busy), 0.0);
    }
}
