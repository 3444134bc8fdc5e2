//! Doubts: what is known to be wrong with the method in the experiments on one region, beside inserted delays that are not exact.

use super::{Experiments, Phase, Target, arrivals, executing, handover, latency, queues, slices, wakeups};

/// Standard errors of the method that are known to be there, as far as they go at large speedups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubts {
    pub(super) handovers: f64,
    pub(super) slices: f64,
    pub(super) waking: f64,
    pub(super) clocks: f64,
    pub(super) latency: f64,
    pub(super) executing: f64,
}

impl Doubts {
    /// By the windows of a region, whose slope is about `slope`.
    pub(super) fn of(experiments: &Experiments<'_>, target: Target, phase: &Phase, slope: f64) -> Doubts {
        let (baselines, treated) = (|| experiments.baselines(), || experiments.treated());
        let slices = slices::error(treated()) * phase.factor;
        Doubts {
            handovers: handover::error(baselines()) * phase.factor,
            slices: slices.hypot(queues::error(treated(), slope)),
            waking: wakeups::error(baselines()) * phase.factor,
            clocks: arrivals::error(baselines(), target, slope),
            latency: latency::error(baselines(), treated(), target, slope),
            executing: executing::error(executing::share(baselines(), target), slope),
        }
    }

    /// What they add at speedup `s`, 0 to 1. Those of a slope are what they are at 1.
    pub(super) fn at(self, s: f64) -> f64 {
        // A hand-over to a CPU that slept costs one or the other.
        let in_proportion = self.slices.hypot(self.clocks).hypot(self.latency).hypot(self.executing) * s;
        handover::at(self.handovers, s).max(self.waking * s).hypot(in_proportion)
    }
}
