//! What all windows of a recording say about one target, before any region is looked at.

use super::{LeftOutReason, Target};
use crate::drift::{Drift, RunDrift};
use crate::model::{SessionId, Window, WindowFlags};
use crate::units::Nanos;

/// Visits that must be expected in a window that tells anything about a point, unless hardly any window is longer than it.
const ENOUGH_VISITS: f64 = 2.5;
/// A window of at least this share of the long ones is never too short.
const NEARLY_LONGEST: f64 = 0.75;
/// Long windows take this share of the time; a single one that something held up does not.
const LONG: f64 = 0.2;

/// One target, and what there is to know about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) target: Target,
    /// How its speed changed within runs.
    pub(crate) drifts: &'a [Drift],
    /// How its speed changed from one run to the next.
    pub(crate) of_runs: &'a [RunDrift],
    /// Windows shorter than this say nothing about it; see [`shortest`].
    pub(crate) shortest: Nanos,
    /// How many CPUs the machine has, where the program serves requests of other programs, or asks them.
    pub(crate) cpus: Option<u32>,
    /// Whether nearly all that used the machine beside the program were those: its clients, or those that it asks.
    pub(crate) clients_are_here: bool,
}

impl About<'_> {
    /// Whether a window was too short for this target.
    pub(crate) fn is_short(&self, window: &Window) -> bool {
        window.elapsed < self.shortest && !window.flags.has(WindowFlags::WHOLE)
    }

    /// Which part of the run a window that begins at `start` belongs to, from 0.
    pub(crate) fn segment(&self, session: SessionId, start: Nanos) -> usize {
        self.in_session(session).map_or(0, |drift| drift.segment_at(start))
    }

    /// Whether its speed changed next to `window`, a treated one, before the next baseline; or between it and
    /// its own `baseline`, where that is further away (in recordings that are not ours).
    pub(crate) fn straddles(&self, window: &Window, baseline: &Window) -> bool {
        self.in_session(window.session).is_some_and(|drift| drift.between(window.start))
            || self.segment(window.session, window.start) != self.segment(baseline.session, baseline.start)
    }

    /// Which of the stretches of runs of one speed a run belongs to, from 0.
    pub(super) fn era_of_run(&self, session: SessionId) -> usize {
        let of_target = self.of_runs.iter().find(|drift| drift.target == self.target);
        of_target.map_or(0, |drift| drift.segment_of(session))
    }

    fn in_session(&self, session: SessionId) -> Option<&Drift> {
        self.drifts.iter().find(|drift| drift.target == self.target && drift.session == session)
    }
}

/// How long a window must be to say anything about `target`.
///
/// Each point gets windows of a length of its own. In those made for a point that is visited often, one that is visited seldom shows
/// no visit, or by chance one: they are noise, and what is timed from visit to visit is biased where most of
/// the time has none. Windows that are whole runs are never too short.
pub(crate) fn shortest(target: Target, windows: &[Window]) -> Nanos {
    let counts = |window: &&Window| {
        window.speedup.is_zero()
            && LeftOutReason::of(window).is_none()
            && !window.flags.has(WindowFlags::WHOLE)
    };
    let (mut visits, mut time, mut lengths) = (0, 0.0, Vec::new());
    for window in windows.iter().filter(counts) {
        visits += window.visits(target.counted());
        time += window.elapsed.get() as f64;
        lengths.push(window.elapsed.get() as f64);
    }
    if visits == 0 {
        return Nanos::ZERO;
    }
    lengths.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut longer = 0.0;
    let long = lengths.into_iter().find(|length| {
        longer += length;
        longer >= LONG * time
    });
    let needed = ENOUGH_VISITS * time / visits as f64;
    Nanos::new(needed.min(NEARLY_LONGEST * long.unwrap_or(0.0)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::{POINT, window};
    use crate::model::Visits;
    use crate::units::Speedup;

    const TARGET: Target = Target::Throughput(POINT);

    fn baseline(millis: u64, count: u64) -> Window {
        let visits = vec![Visits { point: POINT, count, span: None }];
        Window { elapsed: Nanos::from_millis(millis), visits, ..window(0, 0, Speedup::ZERO) }
    }

    #[test]
    fn windows_made_for_another_point_are_too_short() {
        // Three visits a second: 2.5 take 833 ms.
        let mut windows = vec![baseline(2000, 6); 10];
        windows.extend(std::iter::repeat_n(baseline(100, 0), 9).chain([baseline(100, 3)]));
        assert_eq!(shortest(TARGET, &windows).get() / 1_000_000, 833);
        assert_eq!(shortest(TARGET, &[baseline(100, 0)]), Nanos::ZERO);
    }

    #[test]
    fn what_is_as_long_as_any_is_never_too_short() {
        let mut windows = vec![baseline(5000, 1); 12];
        windows.push(baseline(7000, 2));
        assert!(windows.iter().all(|window| window.elapsed >= shortest(TARGET, &windows)));
    }
}
