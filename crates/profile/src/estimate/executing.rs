//! What it costs to execute programs and to start threads under whatif may hide: a part of what code is worth.
//!
//! A program of a tree (a compiler that `make` starts), or a thread that lives for one request, takes longer to begin and to end when it is profiled, by a CPU time that was counted, and measured. In a run that keeps the CPUs
//! busy, and in which that is the share `e` of the CPU time, everything takes `1 / (1 − e)` of the time that it takes without whatif, so what a region is worth is a smaller share of it
//! (`tree_build`: 200 processes that live for 10 ms each). In a run that waits most of the time it is as much less as it waits: the share is one of the elapsed time then. Estimates are
//! corrected by that, which is right where what is waited for executes as much as the rest. Where it executes less, what was measured is right, so the difference counts as an
//! error of the method. Where it executes more, gains are larger still; that is not in the intervals. A latency contains what it contains, which may be none of this: it is not corrected.

use super::interval::NORMAL;
use super::{Estimate, Target};
use crate::model::Window;

/// Less is not worth a correction.
const LEAST: f64 = 0.005;
/// No correction is larger: of a program that is executed for most of the time little is known.
const MOST: f64 = 0.5;

/// The share, from the baseline windows, 0 to 0.5. Zero where nothing was counted.
pub(super) fn share<'a>(baselines: impl Iterator<Item = &'a Window>, target: Target) -> f64 {
    if matches!(target, Target::Latency { .. }) {
        return 0.0;
    }
    let (mut executing, mut used, mut elapsed) = (0.0, 0.0, 0.0);
    for window in baselines {
        let cost = window.audit.map_or(0.0, |audit| audit.executing.get() as f64);
        executing += cost;
        used += cost + window.total_weight.get() as f64;
        elapsed += window.elapsed.get() as f64;
    }
    let all = used.max(elapsed);
    let share = if all > 0.0 { (executing / all).min(MOST) } else { 0.0 };
    if share < LEAST { 0.0 } else { share }
}

/// A gain as it is without that share; no more than all.
pub(super) fn without(share: f64, gain: Estimate) -> Estimate {
    if share == 0.0 {
        return gain;
    }
    let scaled = gain.scaled(1.0 / (1.0 - share));
    // As far as it was known before.
    let most = gain.value.max(1.0);
    Estimate { value: scaled.value.min(most), ..scaled }
}

/// The standard error that the correction adds to a slope that is corrected.
pub(super) fn error(share: f64, slope: f64) -> f64 {
    share * slope.abs() / NORMAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::{Audit, PointId};
    use crate::units::{Nanos, Speedup};

    #[test]
    fn a_gain_is_a_share_of_the_time_without_whatif() {
        let point = Target::Throughput(PointId::new(1));
        let with = |executing, sampled| {
            let audit = Audit { executing: Nanos::from_millis(executing), ..Audit::default() };
            let total_weight = Nanos::from_millis(sampled);
            let elapsed = Nanos::from_millis(50);
            Window { audit: Some(audit), total_weight, elapsed, ..window(0, 0, Speedup::ZERO) }
        };
        assert_eq!(share([].iter(), point), 0.0);
        assert_eq!(share([Window { audit: None, ..with(9, 91) }].iter(), point), 0.0);
        assert_eq!(share([with(1, 999)].iter(), point), 0.0, "too little");
        assert_eq!(share([with(90, 10)].iter(), point), MOST);
        let latency = Target::Latency { begin: PointId::new(1), end: PointId::new(2) };
        assert_eq!(share([with(30, 70)].iter(), latency), 0.0);
        // It waits for most of the time.
        assert!((share([with(5, 5)].iter(), point) - 0.1).abs() < 1e-9);
        let share = share([with(30, 70), with(10, 90)].iter(), point);
        assert!((share - 0.2).abs() < 1e-9);
        let measured = Estimate { value: 0.4, se: 0.02, lo: 0.36, hi: 0.44 };
        let gain = without(share, measured);
        assert!((gain.value - 0.5).abs() < 1e-9 && (gain.lo - 0.45).abs() < 1e-9);
        // As far as to what was measured.
        assert!((gain.value - error(share, gain.value) * NORMAL - measured.value).abs() < 1e-9);
        assert_eq!(without(0.0, measured), measured);
        assert_eq!(without(share, Estimate { value: 0.9, ..measured }).value, 1.0);
    }
}
