//! What hand-overs may be worth: an error of the method that is known to be there, and not how large it is.
//!
//! A thread that waits for a lock or an item goes on some microseconds after it has been handed over: the kernel wakes it, and its CPU. Where
//! code is really faster, there may be fewer hand-overs (a lock that is no longer contended), or more; virtual speedup shows
//! neither, because sections of a few microseconds are shorter than the pauses that it inserts. So each hand-over that was counted in the
//! baseline windows may come on top of the gain or off it, and intervals hold both. Measured (`bench -- truth`): at
//! 32,000 hand-overs a second predictions are 45 points off, at 16,000 16 points, at 2,700 5 points: 10 to 17 µs each.

use crate::model::Window;

/// What a hand-over costs beyond the work that is waited for, in nanoseconds: see the file's documentation.
const COST: f64 = 12_000.0;
/// No error is larger: a gain lies between losing as much and all.
const MOST: f64 = 0.5;
/// The speedup from which on all of it may be gone.
const FULL: f64 = 0.5;

/// The standard error that hand-overs add to a gain at large speedups, from the baseline windows: the 95 % interval reaches as far as
/// if all of them were gone. Zero where nothing was counted.
pub(super) fn error<'a>(baselines: impl Iterator<Item = &'a Window>) -> f64 {
    let (mut handovers, mut time) = (0.0, 0.0);
    for window in baselines {
        let Some(audit) = window.audit else { continue };
        // What is waited for longer than that is mostly work.
        let mean = audit.in_waits.get() as f64 / audit.handovers.max(1) as f64;
        handovers += audit.handovers as f64 * COST.min(mean);
        time += window.elapsed.get() as f64;
    }
    if time > 0.0 { (handovers / time / super::interval::NORMAL).min(MOST) } else { 0.0 }
}

/// The share of the hand-overs, 0 to 1, that can only be gained: those of locks under which the threads mostly run the region. Where such a section is shorter, fewer
/// threads find the lock taken (in `sections`, A under the lock gains 50 % at *s* = 25 %, and B outside of it loses 17: the faster B is, the more often they meet at
/// the lock). A lock that is not waited for is not in it, nor what threads wait for that is no lock.
pub(super) fn in_sections<'a>(baselines: impl Iterator<Item = &'a Window>) -> f64 {
    let audits = baselines.filter_map(|window| window.audit);
    let (sections, handovers) =
        audits.fold((0, 0), |(sections, all), audit| (sections + audit.sections, all + audit.handovers));
    (sections as f64 / handovers.max(1) as f64).min(1.0)
}

/// The part of it that counts at speedup `s`, 0 to 1.
pub(super) fn at(error: f64, s: f64) -> f64 {
    error * (s / FULL).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::Audit;
    use crate::units::{Nanos, Speedup};

    #[test]
    fn locks_that_are_held_for_the_region_are_handed_over_less_often() {
        let with = |handovers, sections| {
            let audit = Audit { handovers, sections, ..Audit::default() };
            Window { audit: Some(audit), ..window(0, 0, Speedup::ZERO) }
        };
        assert_eq!(in_sections([].iter()), 0.0);
        assert_eq!(in_sections([with(0, 0), Window { audit: None, ..with(0, 0) }].iter()), 0.0);
        assert_eq!(in_sections([with(30, 30), with(10, 0)].iter()), 0.75);
    }

    #[test]
    fn the_interval_reaches_as_far_as_if_all_were_gone() {
        let with = |handovers: u64, wait_us: u64| {
            let audit =
                Audit { handovers, in_waits: Nanos::new(handovers * wait_us * 1000), ..Audit::default() };
            let elapsed = Nanos::from_millis(100);
            Window { elapsed, audit: Some(audit), ..window(0, 0, Speedup::ZERO) }
        };
        let half = |windows: &[Window]| error(windows.iter()) * super::super::interval::NORMAL;
        assert_eq!(half(&[]), 0.0);
        assert_eq!(half(&[Window { audit: None, ..with(9, 9) }]), 0.0);
        // 3000 in 100 ms, 12 µs each.
        assert!((half(&[with(3000, 30)]) - 0.36).abs() < 1e-9);
        assert!((half(&[with(3000, 30), with(0, 0)]) - 0.18).abs() < 1e-9);
        assert!((half(&[with(3000, 6)]) - 0.18).abs() < 1e-9, "they did not wait longer");
        assert!((error([with(90_000, 30)].iter()) - MOST).abs() < 1e-9);
        assert!((at(0.2, 0.2) - 0.08).abs() < 1e-9 && (at(0.2, 0.8) - 0.2).abs() < 1e-9);
    }
}
