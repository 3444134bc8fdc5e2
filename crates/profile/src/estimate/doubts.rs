//! Doubts: what is known to be wrong with the method in the experiments on one region, beside inserted delays that are not exact.

use super::interval::{self, NORMAL};
use super::{
    Estimate, Experiments, Phase, Reach, Target, arrivals, executing, handover, latency, slices, wakeups,
};

/// Standard errors of the method that are known to be there, as far as they go at large speedups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubts {
    pub(super) handovers: f64,
    pub(super) slices: f64,
    pub(super) waking: f64,
    pub(super) latency: f64,
    pub(super) executing: f64,
    /// Those that go one way, as ends of intervals: they are no standard errors.
    pub(super) crowding: Reach,
    pub(super) clocks: Reach,
}

impl Doubts {
    /// By the windows of a region, whose slope is about `slope`, and may be so far off because others used the CPUs.
    pub(super) fn of(
        experiments: &Experiments<'_>,
        target: Target,
        phase: &Phase,
        (slope, crowding): (f64, Reach),
    ) -> Doubts {
        let (baselines, treated) = (|| experiments.baselines(), || experiments.treated());
        Doubts {
            handovers: handover::error(baselines()) * phase.factor,
            slices: slices::error(treated()) * phase.factor,
            waking: wakeups::error(baselines()) * phase.factor,
            latency: latency::error(baselines(), treated(), target, slope),
            executing: executing::error(executing::share(baselines(), target), slope),
            crowding,
            clocks: arrivals::reach(baselines(), target, slope),
        }
    }

    /// What those that go either way add at speedup `s`, 0 to 1. Those of a slope are what they are at 1.
    fn either_way(self, s: f64) -> f64 {
        // A hand-over to a CPU that slept costs one or the other.
        let in_proportion = self.slices.hypot(self.latency).hypot(self.executing) * s;
        handover::at(self.handovers, s).max(self.waking * s).hypot(in_proportion)
    }

    /// With what goes one way, which is `part` of each of those.
    fn with(self, s: f64, part: impl Fn(Reach) -> f64) -> f64 {
        let one_way = part(self.crowding).hypot(part(self.clocks)) / NORMAL;
        self.either_way(s).hypot(one_way * s)
    }

    /// What they add at speedup `s`, whichever way is longer.
    pub(super) fn longest(self, s: f64) -> f64 {
        self.with(s, Reach::longest)
    }

    /// What makes a slope less than it seems.
    pub(super) fn towards_zero(self, slope: f64) -> f64 {
        self.with(1.0, |reach| reach.towards_zero(slope))
    }

    /// A gain at speedup `s` whose interval holds all that they may add.
    pub(super) fn widen(self, s: f64, gain: Estimate) -> Estimate {
        let [below, above] = self.both(s);
        interval::stretched(gain, (below, above))
    }

    /// A gain at speedup `s` without them.
    pub(super) fn narrow(self, s: f64, gain: Estimate, more: f64) -> Estimate {
        let [below, above] = self.both(s);
        interval::shortened(gain, (below.hypot(more), above.hypot(more)))
    }

    fn both(self, s: f64) -> [f64; 2] {
        [self.with(s, |reach| reach.below), self.with(s, |reach| reach.above)]
    }
}
