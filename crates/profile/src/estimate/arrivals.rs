//! Arrivals of which it is not known whether they answer what the program sent: both answers are in the interval.
//!
//! In a closed loop clients wait for their answers, and a program that needs less time for them gets more requests. In an open loop it does not: what is
//! saved is idle time. Experiments treat arrivals whose clock could not be found out as a closed loop; in an open one the gain would be none. (Whether there
//! is idle time at all is known: threads waited for these arrivals. Where requests come before others on the same connection are answered, the runtime counts all the time as such,
//! for faster code would have to wait.)
//!
//! The same where an open loop leaves no idle time: it may be the profiler that takes what is missing. Without it, at a load of nearly 100 %, the program keeps up with
//! its arrivals.
//!
//! An open loop that leaves idle time does not bring fewer requests when code is faster. It may seem to: while the program is delayed, answers are late, and clients with a pool of connections run out of
//! them, which they would not if the code were really faster. So a loss is taken for none ([`at_least_none`]), and the interval reaches from what windows have shown.
//! There is no gain either. Where windows show one it stays, and the interval reaches to none: time that threads spend waiting for one another, as the workers of an executor do, counts as a gain in part.

use super::{Estimate, Reach, Target};
use crate::load::Load;
use crate::model::Window;

/// Threads that wait for such arrivals for less than this share of the time hardly ever wait for them: either answer is the same.
const LITTLE: f64 = 0.02;

/// How far a slope of `slope` may be off because of this, from the baseline windows: as far as none. Latencies do not depend on when requests come, as long as there
/// is idle time.
pub(super) fn reach<'a>(baselines: impl Iterator<Item = &'a Window>, target: Target, slope: f64) -> Reach {
    let (mut doubtful, mut time) = (0.0, 0.0);
    let baselines: Vec<_> = baselines.collect();
    for window in &baselines {
        let Some(audit) = window.audit else { continue };
        doubtful += audit.doubtful.get() as f64;
        time += window.elapsed.get() as f64;
    }
    let doubtful = doubtful > LITTLE * time || Load::of(baselines).is_some();
    if doubtful && matches!(target, Target::Throughput(_)) {
        Reach::default().with(-slope)
    } else {
        Reach::default()
    }
}

/// Whether throughput is what arrives, whatever the code costs.
pub(super) fn limit<'a>(baselines: impl Iterator<Item = &'a Window>, target: Target) -> bool {
    matches!(target, Target::Throughput(_)) && Load::of(baselines).is_some_and(|load| !load.is_full())
}

/// A gain of what arrivals limit: not less than none. What was measured stays in the interval, for it shows that the model does not hold.
pub(crate) fn at_least_none(gain: Estimate) -> Estimate {
    let loss = gain.value.min(0.0);
    Estimate { value: gain.value - loss, se: gain.se.hypot(loss), lo: gain.lo, hi: gain.hi - loss }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::{Audit, PointId};
    use crate::units::{Nanos, Speedup};

    #[test]
    fn the_interval_reaches_to_no_gain_where_the_clock_is_not_known() {
        let with = |millis| {
            let audit = Audit { doubtful: Nanos::from_millis(millis), ..Audit::default() };
            let elapsed = Nanos::from_millis(100);
            Window { elapsed, audit: Some(audit), ..window(0, 0, Speedup::ZERO) }
        };
        let (point, other) = (PointId::new(1), PointId::new(2));
        let throughput = Target::Throughput(point);
        let latency = Target::Latency { begin: point, end: other };
        let reach_of = |windows: &[Window], target| reach(windows.iter(), target, -0.4);
        let reach = |millis, target| reach_of(&[with(millis), with(0)], target);
        let (none, to_zero) = (Reach::default(), Reach { below: 0.0, above: 0.4 });
        assert_eq!(reach(50, throughput), to_zero);
        assert_eq!(reach(50, latency), none);
        assert_eq!(reach(1, throughput), none);
        assert_eq!(reach_of(&[], throughput), none);
        let open = |idle| {
            let [serving, idle] = [100, idle].map(Nanos::from_millis);
            let audit = Audit { serving, idle, ..Audit::default() };
            let elapsed = Nanos::from_millis(100);
            Window { elapsed, audit: Some(audit), ..window(0, 0, Speedup::ZERO) }
        };
        let of_open = |idle| reach_of(&[open(idle)], throughput);
        assert_eq!(of_open(30), to_zero, "what arrives does not change");
        assert_eq!(of_open(0), to_zero, "without the profiler there may be idle time");
        let limited = |idle, target| limit([open(idle)].iter(), target);
        assert!(limited(30, throughput) && !limited(0, throughput) && !limited(30, latency));
        assert!(!limit([with(50)].iter(), throughput));
    }

    #[test]
    fn arrivals_do_not_become_fewer() {
        let gain = |value| Estimate { value, se: 0.1, lo: value - 0.2, hi: value + 0.3 };
        assert_eq!(at_least_none(gain(0.5)), gain(0.5));
        let none = at_least_none(gain(-2.0));
        assert!(none.value == 0.0 && (none.lo + 2.2).abs() < 1e-9 && (none.hi - 0.3).abs() < 1e-9);
        assert!(none.se > 2.0);
    }
}
