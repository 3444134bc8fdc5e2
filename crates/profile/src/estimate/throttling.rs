//! A limit on the CPU time of the program's control group, where it is used up, so that threads are held up until the next period begins.
//!
//! As long as it is, the time per visit is the CPU time that the group uses for one, by the number of CPUs that it is allowed, whichever thread waits for which: a gain is the region's share of what is allowed. The limit stops being
//! used up at the speedup at which the program without a limit would need as long; from there on a gain is what delays show, if that is less. (`docs/theory.md`, "Limits on CPU time".) Delays do not
//! show the first part, because pauses fall into time in which threads would have been held up; but that they do is seen: threads are held up in windows with delays as well.
//!
//! Where the limit was used up in nearly all periods, that is the gain. Where it was in few, it is what delays show. Where it is between, the interval holds both.

use super::queues::Reach;
use super::{Estimate, Experiments, Phase, REFERENCE, Target, arrivals, of_ratio};
use crate::cpu_limit::{CpuLimit, MUCH};
use crate::model::Window;
use std::collections::BTreeMap;

/// Used up in a smaller share of the periods, it is as good as never used up.
const HARDLY: f64 = 0.5;
/// The part of what is allowed that a group can use: the kernel gives it to CPUs in slices, and what is left of them when the group is held up is lost.
const SPENT: f64 = 0.9;
/// How far the share of the CPU time may be off besides, as a share of itself: code that is faster may use other amounts of the rest.
const ERROR: f64 = 0.15;

/// How a limit on CPU time holds the program up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Throttling {
    /// From 0 to 1: how far the limit decides.
    weight: f64,
    /// The region's share of the CPU time that is allowed, and how far that may be off.
    share: f64,
    error: f64,
    /// Up to this speedup the limit is used up.
    until: f64,
    /// Up to this one a gain is certainly the share; beyond, as far as `until`, it is at least this part of it.
    sure: f64,
    least: f64,
}

impl Throttling {
    /// By the windows of a region. `None` where no limit was used up, or where that says nothing of `target`.
    pub(super) fn of(experiments: &Experiments<'_>, target: Target, phase: &Phase) -> Option<Throttling> {
        if !matches!(target, Target::Throughput(_)) || arrivals::limit(experiments.baselines(), target) {
            return None;
        }
        let limit = CpuLimit::of(experiments.baselines()).filter(|limit| limit.is_felt())?;
        // In windows with a limit: in each what samples in the region stand for, and what all do.
        let (mut elapsed, mut held_up, mut samples) = (0.0, 0.0, Vec::new());
        for window in experiments.baselines() {
            let Some(audit) = window.audit.filter(|audit| audit.allowed.get() > 0) else { continue };
            elapsed += window.elapsed.get() as f64;
            held_up += audit.held_up.get() as f64;
            samples.push((window.region_weight.get() as f64, window.total_weight.get() as f64));
        }
        let used: f64 = samples.iter().map(|(_, all)| all).sum();
        if used <= 0.0 {
            return None;
        }
        // Others in the group have the rest.
        let part = used / used.max(SPENT * limit.cpus * elapsed);
        let share = phase.scale(of_ratio(&samples).scaled(part));
        // A visit without a limit takes as much less time as CPUs are held up: at least so long the limit is used up.
        let at_least = (held_up / elapsed / share.value.max(f64::MIN_POSITIVE)).min(1.0);
        let until = until(experiments.treated()).max(at_least);
        Some(Throttling {
            weight: ((limit.used_up - HARDLY) / (MUCH - HARDLY)).clamp(0.0, 1.0),
            share: share.value,
            error: share.half_width().max(ERROR * share.value),
            until,
            // What was inserted is less than what the limit saves where it allows less than a CPU.
            sure: if limit.cpus >= 1.0 { until } else { at_least },
            least: limit.cpus.min(1.0),
        })
    }

    /// A gain at speedup `s` by delays, with what the limit makes of it.
    pub(super) fn applied(self, s: f64, gain: Estimate) -> Estimate {
        self.mixed(gain, self.limited(s, s, gain))
    }

    /// The same for a slope, which is that of small speedups.
    pub(super) fn applied_to_slope(self, slope: Estimate) -> Estimate {
        self.mixed(slope, self.limited(REFERENCE.fraction(), 1.0, slope))
    }

    /// How far a slope that is `slope` by delays may be off, with what the limit makes of it, beside noise.
    pub(super) fn reach(self, slope: f64) -> Reach {
        let now = self.applied_to_slope(exactly(slope)).value;
        self.answers(slope).fold(Reach::default(), |reach, answer| reach.with(answer - now))
    }

    /// The same of a slope that is left as it is by delays.
    pub(super) fn reach_of_delays(self, slope: f64) -> Reach {
        self.answers(slope).fold(Reach::default(), |reach, answer| reach.with(answer - slope))
    }

    /// What may be the slope.
    fn answers(self, slope: f64) -> impl Iterator<Item = f64> {
        let limited = self.limited(REFERENCE.fraction(), 1.0, exactly(slope)).value;
        let others = if self.weight < 1.0 { vec![slope, self.share] } else { Vec::new() };
        others.into_iter().chain([limited])
    }

    /// The part of other doubts, which are about delays, that remains at speedup `s`.
    pub(super) fn doubts(self, s: f64) -> f64 {
        if self.until < s { 1.0 } else { 1.0 - self.weight }
    }

    /// A gain at speedup `s`, or a slope, as the limit has it: while that is used up `factor` times the share.
    fn limited(self, s: f64, factor: f64, gain: Estimate) -> Estimate {
        let (share, error) = (factor * self.share, factor * self.error);
        let of_limit = Estimate { value: share, se: error / 2.0, lo: share - error, hi: share + error };
        if s <= self.until {
            let least = if s <= self.sure { 1.0 } else { self.least };
            return Estimate { lo: least * share - error, ..of_limit };
        }
        let Estimate { value, se, lo, hi } = gain;
        let value = value.min(share);
        // It is no less than where the limit stops being used up.
        let least = of_limit.hi * (self.until / s);
        let hi = hi.min(of_limit.hi).max(value).max(least);
        Estimate { value, se: se.max(of_limit.se), lo: lo.min(of_limit.lo), hi }
    }

    fn mixed(self, gain: Estimate, limited: Estimate) -> Estimate {
        let mix = |of: fn(&Estimate) -> f64| {
            let (by_delays, limited) = (of(&gain), of(&limited));
            // Only what has an end can be mixed.
            match self.weight {
                0.0 => by_delays,
                1.0 => limited,
                _ if !by_delays.is_finite() => by_delays,
                weight => by_delays + weight * (limited - by_delays),
            }
        };
        Estimate { value: mix(|of| of.value), se: mix(|of| of.se), lo: mix(|of| of.lo), hi: mix(|of| of.hi) }
    }
}

/// A value without an error.
fn exactly(value: f64) -> Estimate {
    Estimate { value, se: 0.0, lo: value, hi: value }
}

/// The speedup up to which threads are held up: what divides the windows best into those in which they are, and those in which they are not.
fn until<'a>(treated: impl Iterator<Item = &'a Window>) -> f64 {
    let mut by_speedup: BTreeMap<_, f64> = BTreeMap::new();
    for window in treated {
        let Some(audit) = window.audit else { continue };
        let more_than_half = audit.throttled.get() as f64 - window.elapsed.get() as f64 / 2.0;
        *by_speedup.entry(window.speedup).or_default() += more_than_half;
    }
    let (mut sum, mut most, mut until) = (0.0, 0.0, 0.0);
    for (speedup, more_than_half) in by_speedup {
        sum += more_than_half;
        if sum > most {
            (most, until) = (sum, speedup.fraction());
        }
    }
    until
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::experiments;
    use crate::estimate::simulation::{POINT, window};
    use crate::model::{Audit, PointId};
    use crate::units::{Nanos, Speedup};

    const THROUGHPUT: Target = Target::Throughput(POINT);
    const SPEEDUPS: [u16; 4] = [0, 25, 50, 100];

    /// Windows of 100 ms in which a limit allows 1.5 CPUs, three of each speedup; `held_up`: for how long it was used up in those of each of [`SPEEDUPS`], in milliseconds. Two fifths of 150 ms of samples are in the region.
    fn windows(held_up: [u64; 4]) -> Vec<Window> {
        let mut all = Vec::new();
        for (percent, throttled) in SPEEDUPS.into_iter().zip(held_up).flat_map(|of| [of; 3]) {
            let (allowed, throttled) = (Nanos::from_millis(150), Nanos::from_millis(throttled));
            let speedup = Speedup::from_percent(percent).unwrap();
            let (total_weight, region_weight) = (Nanos::from_millis(150), Nanos::from_millis(60));
            let audit = Some(Audit { allowed, throttled, ..Audit::default() });
            let index = all.len() as u32;
            all.push(Window { audit, total_weight, region_weight, ..window(0, index, speedup) });
        }
        all
    }

    fn of(windows: &[Window], target: Target) -> Option<Throttling> {
        Throttling::of(&experiments(windows).0[0], target, &Phase::ALWAYS)
    }

    /// A gain with an interval of ± 0.02.
    fn gain(value: f64) -> Estimate {
        Estimate { value, se: 0.01, lo: value - 0.02, hi: value + 0.02 }
    }

    fn rounded(Estimate { value, lo, hi, .. }: Estimate) -> [f64; 3] {
        [value, lo, hi].map(|end| (end * 1000.0).round() / 1000.0)
    }

    #[test]
    fn while_a_limit_is_used_up_a_gain_is_the_share_of_the_cpu_time() {
        // By delays nothing is gained, or all that was inserted.
        let limit = of(&windows([100; 4]), THROUGHPUT).unwrap();
        for by_delays in [0.0, 0.3, 0.6] {
            assert_eq!(rounded(limit.applied(0.5, gain(by_delays))), [0.2, 0.17, 0.23]);
            assert_eq!(rounded(limit.applied_to_slope(gain(by_delays))), [0.4, 0.34, 0.46]);
        }
        assert_eq!(limit.doubts(1.0), 0.0, "nothing of delays is in it");
        assert_eq!(limit.reach(0.0), Reach::default());
        let Reach { below, above } = limit.reach_of_delays(0.1);
        assert!(
            below == 0.0 && (above - 0.3).abs() < 1e-9,
            "what is put together for many hosts is not moved"
        );
    }

    #[test]
    fn where_it_is_not_used_up_any_more_a_gain_is_what_delays_show_but_no_more_than_the_share() {
        // With half of the code gone the program would do with what is allowed.
        let limit = of(&windows([100, 100, 0, 0]), THROUGHPUT).unwrap();
        assert_eq!(rounded(limit.applied(0.25, gain(0.15))), [0.1, 0.085, 0.115]);
        assert_eq!(rounded(limit.applied(0.5, gain(0.12))), [0.12, 0.1, 0.14]);
        assert_eq!(rounded(limit.applied(1.0, gain(0.12))), [0.12, 0.1, 0.14]);
        assert_eq!(rounded(limit.applied(1.0, gain(0.5))), [0.4, 0.34, 0.46]);
        // It does not become less than it was where the limit was left behind.
        assert_eq!(rounded(limit.applied(1.0, gain(0.01))), [0.01, -0.01, 0.115]);
        // At once: only what delays show is known.
        let limit = of(&windows([100, 0, 0, 0]), THROUGHPUT).unwrap();
        assert_eq!(rounded(limit.applied_to_slope(gain(0.12))), [0.12, 0.1, 0.14]);
        assert_eq!([0.0, 0.25, 1.0].map(|s| limit.doubts(s)), [0.0, 1.0, 1.0]);
        // As uncertain as delays are.
        let unsure = Estimate { value: 0.5, se: 0.4, lo: -0.2, hi: 1.2 };
        assert_eq!(rounded(limit.applied_to_slope(unsure)), [0.4, -0.2, 0.46]);
    }

    #[test]
    fn where_it_is_used_up_now_and_then_both_answers_are_in_the_interval() {
        let limit = of(&windows([70; 4]), THROUGHPUT).unwrap();
        let (slope, Reach { below, above }) = (limit.applied_to_slope(gain(0.1)), limit.reach(0.1));
        assert_eq!(rounded(slope), [0.25, 0.21, 0.29]);
        let ends = [slope.value - below, slope.value + above];
        assert!((ends[0] - 0.1).abs() < 1e-9 && (ends[1] - 0.4).abs() < 1e-9, "{ends:?}");
        // Seldom: what delays show, and the doubt.
        let limit = of(&windows([20; 4]), THROUGHPUT).unwrap();
        assert_eq!(rounded(limit.applied_to_slope(gain(0.1))), rounded(gain(0.1)));
        assert_eq!(limit.reach(0.1), Reach::default().with(limit.share - 0.1));
    }

    #[test]
    fn a_limit_that_is_not_used_up_makes_no_difference() {
        assert_eq!(of(&windows([0; 4]), THROUGHPUT), None);
        let mut without = windows([100; 4]);
        without.iter_mut().for_each(|window| window.audit = Some(Audit::default()));
        assert_eq!(of(&without, THROUGHPUT), None);
        let latency = Target::Latency { begin: PointId::new(1), end: PointId::new(2) };
        assert_eq!(of(&windows([100; 4]), latency), None, "which is not predicted");
    }

    #[test]
    fn below_one_cpu_a_gain_is_the_share_only_as_long_as_cpus_are_certainly_held_up() {
        let of = |held_up: u64| {
            let mut windows = windows([100; 4]);
            for window in &mut windows {
                let audit = window.audit.as_mut().unwrap();
                (audit.allowed, audit.held_up) = (Nanos::from_millis(50), Nanos::from_millis(held_up));
                (window.total_weight, window.region_weight) =
                    (Nanos::from_millis(50), Nanos::from_millis(20));
            }
            super::tests::of(&windows, THROUGHPUT).unwrap()
        };
        // All of the region would save as much as the limit costs at least.
        assert_eq!(rounded(of(40).applied(1.0, gain(0.2))), [0.4, 0.34, 0.46]);
        // Half of it: beyond, windows with delays are still held up, and it saves at least what was inserted.
        let limit = of(20);
        assert_eq!(rounded(limit.applied(0.5, gain(0.1))), [0.2, 0.17, 0.23]);
        assert_eq!(rounded(limit.applied(1.0, gain(0.2))), [0.4, 0.14, 0.46]);
        assert_eq!(rounded(of(0).applied(0.25, gain(0.05))), [0.1, 0.035, 0.115]);
    }

    #[test]
    fn what_is_not_known_stays_so() {
        let limit = of(&windows([70; 4]), THROUGHPUT).unwrap();
        let Estimate { value, lo, hi, .. } = limit.applied_to_slope(crate::estimate::interval::unknown(0.1));
        assert_eq!((lo, hi), (f64::NEG_INFINITY, f64::INFINITY));
        assert!((value - 0.25).abs() < 1e-9, "{value}");
    }

    #[test]
    fn runs_without_a_limit_count_as_time_in_which_it_was_not_used_up() {
        let mut windows = windows([100; 4]);
        let count = windows.len();
        for window in &mut windows[..3] {
            window.audit = Some(Audit::default());
        }
        let weight = |windows: &[Window]| of(windows, THROUGHPUT).map(|limit| limit.weight);
        assert_eq!(weight(&windows), None, "in none of the windows without a speedup");
        windows[0].audit = windows[count - 1].audit;
        assert_eq!(weight(&windows), Some(0.0), "in a third of them");
    }

    #[test]
    fn what_others_in_the_group_use_is_no_part_of_the_program() {
        let mut shared = windows([100; 4]);
        for window in &mut shared {
            (window.total_weight, window.region_weight) = (Nanos::from_millis(75), Nanos::from_millis(30));
        }
        let share = of(&shared, THROUGHPUT).unwrap().share;
        assert!((share - 0.4 * 75.0 / (SPENT * 150.0)).abs() < 1e-9, "{share}");
    }
}
