//! What waking CPUs may be worth: an error of the method that is known to be there.
//!
//! A thread that another one wakes runs once its CPU is awake, and that takes the longer the deeper the CPU sleeps: 1 µs where the thread goes on on
//! the CPU of the one that wakes it, 8 µs after 5 µs of sleep, 40 µs after 20 µs, 100 µs after 4 ms (a virtual machine with a polling idle loop,
//! `futex`). Where the selected code is really faster, waits are shorter, CPUs hardly fall asleep, or the kernel puts both threads on one CPU. In
//! virtual time none of that is visible: CPUs sleep as they did. (`mosaic seed=426844482`, a client and a server that takes 320 µs: 99 µs of each
//! request are not work; without the work they are 29 to 55.) So the time that CPUs may have taken to wake up may be gained besides, in proportion to the
//! speedup, and intervals hold both answers.

use super::interval::NORMAL;
use crate::model::Window;

/// No error is larger: a gain lies between losing as much and all.
const MOST: f64 = 0.5;

/// The standard error that CPUs which slept add to the slope, from the baseline windows. Zero where nothing was counted. As far as the region ran on another thread while
/// a thread waited, it is no matter whether a CPU woke up meanwhile: windows with delays say for which part of the waits it did.
pub(super) fn error<'a>(
    baselines: impl Iterator<Item = &'a Window>,
    treated: impl Iterator<Item = &'a Window>,
) -> f64 {
    let (mut woken, mut time) = (0.0, 0.0);
    for window in baselines {
        let Some(audit) = window.audit else { continue };
        woken += audit.waking.get() as f64;
        time += window.elapsed.get() as f64;
    }
    let (mut grown, mut waited) = (0.0, 0.0);
    for window in treated {
        let Some(audit) = window.audit else { continue };
        grown += audit.grown.get() as f64;
        waited += audit.in_waits.get() as f64 * window.speedup.fraction();
    }
    let idle = if waited > 0.0 { (1.0 - grown / waited).max(0.0) } else { 1.0 };
    if time > 0.0 { (woken * idle / time / NORMAL).min(MOST) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::Audit;
    use crate::units::{Nanos, Speedup};

    #[test]
    fn the_interval_reaches_as_far_as_if_no_cpu_had_slept() {
        let with = |millis| {
            let audit = Audit { waking: Nanos::from_millis(millis), ..Audit::default() };
            let elapsed = Nanos::from_millis(100);
            Window { elapsed, audit: Some(audit), ..window(0, 0, Speedup::ZERO) }
        };
        let reach = |windows: &[Window]| error(windows.iter(), [].iter()) * NORMAL;
        assert_eq!(reach(&[]), 0.0);
        assert_eq!(reach(&[Window { audit: None, ..with(9) }]), 0.0);
        assert!((reach(&[with(12)]) - 0.12).abs() < 1e-9);
        assert!((reach(&[with(12), with(0)]) - 0.06).abs() < 1e-9);
        assert!((error([with(900)].iter(), [].iter()) - MOST).abs() < 1e-9);
        let treated = |grown_ms, speedup| {
            let [grown, in_waits] = [grown_ms, 40].map(Nanos::from_millis);
            let audit = Audit { grown, in_waits, ..Audit::default() };
            Window { audit: Some(audit), ..window(0, 0, speedup) }
        };
        let [half, all] = [50, 100].map(|percent| Speedup::from_percent(percent).unwrap());
        let with_treated = |treated: &[Window]| error([with(12)].iter(), treated.iter()) * NORMAL;
        assert!((with_treated(&[treated(5, half), treated(5, half)]) - 0.09).abs() < 1e-9);
        assert!((with_treated(&[treated(40, all)])).abs() < 1e-9, "the region ran all the time");
        assert!((with_treated(&[treated(0, Speedup::ZERO)]) - 0.12).abs() < 1e-9);
    }
}
