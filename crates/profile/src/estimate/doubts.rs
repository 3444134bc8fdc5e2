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
    /// The share of hand-overs, and of waking, that can only be gained.
    pub(super) in_sections: f64,
    pub(super) latency: f64,
    pub(super) executing: f64,
    /// Those that go one way, as distances: they are no standard errors.
    pub(super) crowding: Reach,
    pub(super) clocks: Reach,
}

/// Whether a gain may be less than it seems or more.
#[derive(Clone, Copy, Debug)]
enum Way {
    Lost,
    Gained,
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
            waking: wakeups::error(baselines(), treated()) * phase.factor,
            in_sections: handover::in_sections(baselines()),
            latency: latency::error(baselines(), treated(), target, slope),
            executing: executing::error(executing::share(baselines(), target), slope),
            crowding,
            clocks: arrivals::reach(baselines(), target, slope),
        }
    }

    /// So much of those that are about delays.
    pub(super) fn by(self, part: f64) -> Doubts {
        let Doubts { handovers, slices, waking, .. } = self;
        Doubts { handovers: handovers * part, slices: slices * part, waking: waking * part, ..self }
    }

    /// What they add at speedup `s`, 0 to 1, in the direction of `way`: `clocks` of those that go one way, and what goes either way. Those of a slope are what they are at 1.
    fn with(self, s: f64, way: Way, clocks: f64) -> f64 {
        // A hand-over to a CPU that slept costs one or the other.
        let handovers = handover::at(self.handovers, s).max(self.waking * s);
        let handovers = match way {
            Way::Gained => handovers,
            Way::Lost => handovers * (1.0 - self.in_sections),
        };
        let in_proportion = self.slices.hypot(self.latency).hypot(self.executing).hypot(clocks / NORMAL) * s;
        handovers.hypot(in_proportion)
    }

    /// All that they add at speedup `s`, whichever way is longer, as if it were one standard error.
    pub(super) fn longest(self, s: f64) -> f64 {
        self.without_crowding(s).hypot(self.crowding.longest() / NORMAL * s)
    }

    /// The same without what other programs do.
    pub(super) fn without_crowding(self, s: f64) -> f64 {
        self.with(s, Way::Gained, self.clocks.longest())
    }

    /// What makes a slope less than it seems, without what other programs do.
    pub(super) fn towards_zero(self, slope: f64) -> f64 {
        let way = if slope > 0.0 { Way::Lost } else { Way::Gained };
        self.with(1.0, way, self.clocks.towards_zero(slope))
    }

    /// A gain at speedup `s` whose interval holds all that they may add. What other programs do may be all of it, whatever noise does besides.
    pub(super) fn widen(self, s: f64, gain: Estimate) -> Estimate {
        let Estimate { value, se, lo, hi } = interval::stretched(gain, self.both(s, 0.0));
        let Reach { below, above } = self.crowding;
        let se = se.hypot(self.crowding.longest() / NORMAL * s);
        Estimate { value, se, lo: lo - below * s, hi: hi + above * s }
    }

    /// A gain at speedup `s` without them, and without another error.
    pub(super) fn narrow(self, s: f64, gain: Estimate, error: f64) -> Estimate {
        let Estimate { value, se, lo, hi } = gain;
        let Reach { below, above } = self.crowding;
        let crowding = self.crowding.longest() / NORMAL * s;
        let se = (se.powi(2) - crowding.powi(2)).max(0.0).sqrt();
        let gain = Estimate { value, se, lo: (lo + below * s).min(value), hi: (hi - above * s).max(value) };
        interval::shortened(gain, self.both(s, error))
    }

    fn both(self, s: f64, error: f64) -> (f64, f64) {
        let Reach { below, above } = self.clocks;
        (self.with(s, Way::Lost, below).hypot(error), self.with(s, Way::Gained, above).hypot(error))
    }
}
