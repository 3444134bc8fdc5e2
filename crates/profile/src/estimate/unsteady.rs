//! Unsteady windows: Little's law needs as many departures as arrivals.

use super::{LeftOutReason, Target};
use crate::model::Window;

/// Arrivals and departures that differ by no more than this many standard deviations of counting do not show that the queue grew or shrank.
const DEVIATIONS: f64 = 3.0;
/// Arrivals and departures that differ by no more than this share of them do not show that the queue grew or shrank.
const SHARE: f64 = 0.05;

/// Windows in which a latency was not in a steady state: what its mean is then depends on how long one
/// looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsteady {
    /// Windows in which more began than ended, beyond noise.
    pub growing: usize,
    /// Windows in which more ended than began, beyond noise.
    pub shrinking: usize,
    /// How many windows that count saw a begin or an end at all.
    pub windows: usize,
}

impl Unsteady {
    /// Counts them; `None` for throughput.
    pub(crate) fn of(target: Target, windows: &[Window]) -> Option<Unsteady> {
        if matches!(target, Target::Throughput(_)) {
            return None;
        }
        let mut counted = Unsteady::default();
        for window in windows.iter().filter(|window| LeftOutReason::of(window).is_none()) {
            if let Some(trend) = Trend::of(target, window) {
                counted.windows += 1;
                counted.growing += usize::from(trend == Trend::Growing);
                counted.shrinking += usize::from(trend == Trend::Shrinking);
            }
        }
        Some(counted)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.growing + self.shrinking
    }
}

/// What a queue did during a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// Nothing beyond noise.
    Steady,
    /// More began than ended.
    Growing,
    /// More ended than began.
    Shrinking,
}

impl Trend {
    /// What the queue between begin and end did; `None` for throughput, or if nothing came or went.
    pub(crate) fn of(target: Target, window: &Window) -> Option<Trend> {
        let Target::Latency { begin, end } = target else { return None };
        let (begun, ended) = (window.visits(begin), window.visits(end));
        let most = begun.max(ended) as f64;
        if most == 0.0 {
            return None;
        }
        let noise = (DEVIATIONS * most.sqrt()).max(SHARE * most);
        Some(match begun as f64 - ended as f64 {
            growth if growth > noise => Trend::Growing,
            growth if growth < -noise => Trend::Shrinking,
            _ => Trend::Steady,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::{PointId, Visits, WindowFlags};
    use crate::units::Speedup;

    const BEGIN: PointId = PointId::new(2);
    const END: PointId = PointId::new(3);
    const TARGET: Target = Target::Latency { begin: BEGIN, end: END };

    fn queue(begun: u64, ended: u64) -> Window {
        let visits = |point, count| Visits { point, count, span: None };
        Window { visits: vec![visits(BEGIN, begun), visits(END, ended)], ..window(0, 0, Speedup::ZERO) }
    }

    #[test]
    fn counting_noise_is_steady_and_more_is_not() {
        for (begun, ended, trend) in [
            (0, 0, None),
            (100, 100, Some(Trend::Steady)),
            (100, 70, Some(Trend::Steady)), // three deviations of 10
            (100, 69, Some(Trend::Growing)),
            (69, 100, Some(Trend::Shrinking)),
            (9, 0, Some(Trend::Steady)),
            (10, 0, Some(Trend::Growing)),
            (1_000_000, 950_000, Some(Trend::Steady)), // 5 %
            (1_000_000, 949_999, Some(Trend::Growing)),
        ] {
            assert_eq!(Trend::of(TARGET, &queue(begun, ended)), trend, "{begun} {ended}");
        }
        assert_eq!(Trend::of(Target::Throughput(END), &queue(100, 0)), None);
    }

    #[test]
    fn windows_that_do_not_count_are_not_unsteady() {
        let cut = Window { flags: WindowFlags::CUT, ..queue(100, 0) };
        let windows = [queue(100, 0), queue(0, 100), queue(100, 100), queue(0, 0), cut];
        let unsteady = Unsteady::of(TARGET, &windows).unwrap();
        assert_eq!(unsteady, Unsteady { growing: 1, shrinking: 1, windows: 3 });
        assert_eq!(unsteady.count(), 2);
        assert_eq!(Unsteady::of(Target::Throughput(END), &windows), None);
    }
}
