//! Load from outside: how busy the program is with arrivals that come at times of their own.
//!
//! In an open loop throughput is what arrives, whatever the code costs, as long as there is idle time left. The runtime has found
//! out by probes which arrivals those are, and has counted how long threads waited for them.

use crate::model::{RegionId, Window};

/// Where threads serve such arrivals for a smaller part of a window, the arrivals are not what the program is about.
const LITTLE: f64 = 0.1;
/// With less idle time than this, the arrivals do not limit the program.
const IDLE: f64 = 0.03;

/// What limits throughput from outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The share of the time, 0 to 1, in which the threads that serve the arrivals are busy, without experiments.
    pub busy: f64,
}

impl Load {
    /// From the windows of a recording. `None` where no arrivals are known to come at times of their own.
    pub fn of<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Option<Load> {
        let (mut serving, mut idle, mut time) = (0.0, 0.0, 0.0);
        for window in windows.into_iter().filter(|window| window.speedup.is_zero()) {
            let Some(audit) = window.audit else { continue };
            serving += audit.serving.get() as f64;
            idle += audit.idle.get() as f64;
            time += window.elapsed.get() as f64;
        }
        (serving > LITTLE * time).then(|| Load { busy: 1.0 - idle / serving })
    }

    /// The share of the time in which the threads that serve arrivals are busy that they spend in a region, 0 to 1, from its baseline windows: what limits them when the load
    /// rises until they are always busy. `None` where no arrivals are known to come at times of their own. (What threads would wait for each other then is not in it.)
    pub fn share_of<'a>(windows: impl IntoIterator<Item = &'a Window>, region: RegionId) -> Option<f64> {
        let of_region = windows.into_iter().filter(|window| window.region == region);
        let windows: Vec<&Window> = of_region.filter(|window| window.speedup.is_zero()).collect();
        Load::of(windows.iter().copied())?;
        let (mut inside, mut busy) = (0.0, 0.0);
        for (window, audit) in windows.iter().filter_map(|window| Some((window, window.audit?))) {
            inside += window.region_weight.get() as f64;
            busy += audit.serving.saturating_sub(audit.idle).get() as f64;
        }
        (busy > 0.0).then(|| (inside / busy).min(1.0))
    }

    /// Whether the program cannot keep up with them.
    pub fn is_full(self) -> bool {
        self.busy > 1.0 - IDLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::Audit;
    use crate::units::{Nanos, Speedup};

    #[test]
    fn arrivals_limit_a_program_that_waits_for_them() {
        let with = |serving, idle| {
            let [serving, idle] = [serving, idle].map(Nanos::from_millis);
            let audit = Audit { serving, idle, ..Audit::default() };
            Window { elapsed: Nanos::from_millis(100), audit: Some(audit), ..window(0, 0, Speedup::ZERO) }
        };
        let busy = |windows: &[Window]| Load::of(windows).map(|load| load.busy);
        assert_eq!(busy(&[]), None);
        assert_eq!(busy(&[with(0, 0)]), None);
        assert_eq!(busy(&[with(5, 4)]), None, "a side show");
        assert!(Load::of(&[with(100, 1)]).unwrap().is_full());
        assert_eq!(busy(&[with(100, 40)]), Some(0.6));
        let half = Window { region_weight: Nanos::from_millis(30), ..with(100, 40) };
        assert_eq!(Load::share_of(&[half.clone(), half.clone()], half.region), Some(0.5));
        assert_eq!(Load::share_of(std::slice::from_ref(&half), RegionId::new(99)), None);
        assert_eq!(Load::share_of(&[with(0, 0)], half.region), None);
        let treated = Window { speedup: Speedup::from_percent(50).unwrap(), ..with(100, 90) };
        assert_eq!(busy(&[with(100, 40), treated]), Some(0.6));
    }
}
