//! What other programs' use of the CPUs may hide: an error of the method that is known to be there, and goes one way.
//!
//! A thread that wakes up from a wait for the world and finds its CPU in use by another program waits for it. That wait is taken to be as long in both executions. Where the selected code is
//! really faster, the thread wants the CPU for less time, and may wait for it less as well: at most in proportion. (`docs/theory.md`, under what is approximate.) So a gain may be
//! larger than it looks, and not smaller.
//!
//! Where the others are the program's own clients, or servers that it asks, what they use of the CPUs belongs to each request: faster code makes them want more of the CPUs, or both wait less. If all CPUs are busy, a
//! gain is the region's share of all CPU time that is used on the machine, whatever windows show: it may be more or less. The fewer CPUs are busy and the less
//! threads wait for them, the less of this is so.
//!
//! Intervals hold both answers, from windows in which other programs used the machine. Where it is known that the others are those clients, gains are moved towards that share, the more of the CPUs are busy the
//! further, and intervals hold both and no more.

use super::{About, Estimate, Experiments, Phase, Target, arrivals};
use crate::model::WindowFlags;

/// Threads that wait for CPUs for this share of the time that they use them are held up by all that others do.
const MUCH_WAITING: f64 = 1.0 / 8.0;
/// With this share of the CPUs busy, it makes no difference what others want of them.
const SOME_BUSY: f64 = 0.5;
/// With this share, they are as good as all of them.
const ALL_BUSY: f64 = 0.8;
/// Where the others are clients, the same for what is most probable, from hardly any to all.
const CLIENTS_BUSY: (f64, f64) = (0.7, 0.9);

/// How far a slope may be from the truth, to either side. Gain per speedup.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reach {
    /// The truth may be so much less.
    pub below: f64,
    /// Or so much more.
    pub above: f64,
}

impl Reach {
    /// What makes a slope of this sign less than it seems.
    pub fn towards_zero(self, slope: f64) -> f64 {
        if slope < 0.0 { self.above } else { self.below }
    }

    /// The longer of both.
    pub fn longest(self) -> f64 {
        self.below.max(self.above)
    }

    /// So that it holds what another one does, too.
    pub(super) fn and(self, other: Reach) -> Reach {
        self.with(-other.below).with(other.above)
    }

    /// The same, seen from what is so much less.
    pub(super) fn seen_from(self, shift: f64) -> Reach {
        Reach::default().with(shift - self.below).with(shift + self.above)
    }

    /// A slope, nearer to zero by as much as it may be.
    pub(super) fn nearest_to_zero(self, slope: Estimate) -> Estimate {
        let by = self.towards_zero(slope.value).min(slope.value.abs());
        slope.moved(if slope.value < 0.0 { by } else { -by })
    }

    /// So that it holds what is so far away, too.
    pub(super) fn with(self, distance: f64) -> Reach {
        Reach { below: self.below.max(-distance), above: self.above.max(distance) }
    }
}

/// Sums over windows in which other programs used the machine, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// CPU time on the machine, idle or not.
    passed: f64,
    /// What threads of the program used.
    used: f64,
    /// What other programs used.
    others: f64,
    /// What all samples stand for, and those in the region.
    samples: (f64, f64),
    /// How long threads waited for a CPU.
    queued: f64,
}

/// What other programs on the same CPUs do to a slope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Crowding {
    /// It is probably so much more.
    pub(super) shift: f64,
    /// How far that may be off.
    pub(super) reach: Reach,
}

/// What they do to a slope of `slope`.
pub(super) fn crowding(
    experiments: &Experiments<'_>,
    about: About<'_>,
    phase: &Phase,
    slope: f64,
) -> Crowding {
    let shrunk = slope * waits_of_woken(experiments);
    let open = || Crowding { shift: 0.0, reach: Reach::default().with(shrunk) };
    match (about.target, about.cpus) {
        // Which waits make a latency longer depends on when they are.
        (Target::Latency { .. }, _) => {
            Crowding { shift: 0.0, reach: Reach::default().with(shrunk).with(-shrunk) }
        }
        // What arrives does not depend on what clients use of the CPUs.
        (target, _) if arrivals::limit(experiments.baselines(), target) => open(),
        (_, None) => open(),
        (_, Some(cpus)) => {
            let Some(share) = Share::of(experiments, cpus, phase) else { return open() };
            let distance = share.of_all - slope;
            let most = distance * share.waiting * share.between(SOME_BUSY, ALL_BUSY);
            if about.clients_are_here {
                let (none, all) = CLIENTS_BUSY;
                let shift = distance * share.waiting * share.between(none, all);
                Crowding { shift, reach: Reach::default().with(-shift).with(most - shift) }
            } else {
                Crowding { shift: 0.0, reach: Reach::default().with(shrunk).with(most) }
            }
        }
    }
}

/// How long woken threads waited for CPUs that others had, by what threads of the program used; at most 1.
fn waits_of_woken(experiments: &Experiments<'_>) -> f64 {
    let (mut used, mut queued) = (0.0, 0.0);
    for window in experiments.treated() {
        let Some(audit) = window.audit else { continue };
        let pauses = audit.pausing.get() as f64;
        used += (audit.cpu.get() as f64 - audit.sliced.get() as f64 - pauses).max(0.0);
        if window.flags.has(WindowFlags::BUSY) {
            let waits = (audit.queued.get() as f64 - audit.sliced_queued.get() as f64).max(0.0);
            let (world, threads) = (audit.in_world.get() as f64, audit.in_waits.get() as f64);
            // Behind a wait for another thread it is credited.
            queued += waits * world / (world + threads).max(1.0);
        }
    }
    if used > 0.0 { (queued / used).min(1.0) } else { 0.0 }
}

/// A region's share of all CPU time, in windows in which other programs used the machine.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Of what was used on the machine.
    of_all: f64,
    /// The share of the CPUs that was used.
    used: f64,
    /// From 0 to 1: how far threads are held up by what others do.
    waiting: f64,
}

impl Share {
    /// On a machine with so many CPUs. `None` where others hardly use any.
    fn of(experiments: &Experiments<'_>, cpus: u32, phase: &Phase) -> Option<Share> {
        let mut sums = Sums::default();
        for window in experiments.baselines().filter(|window| window.flags.has(WindowFlags::BUSY)) {
            let (Some(audit), Some(busy)) = (window.audit, window.busy) else { continue };
            let passed = window.elapsed.get() as f64 * f64::from(cpus);
            sums.passed += passed;
            sums.used += audit.cpu.get() as f64;
            sums.others += busy * passed;
            sums.samples.0 += window.total_weight.get() as f64;
            sums.samples.1 += window.region_weight.get() as f64;
            sums.queued += audit.queued.get() as f64;
        }
        let all = sums.used + sums.others;
        (sums.used > 0.0 && sums.samples.0 > 0.0).then(|| Share {
            of_all: sums.samples.1 / sums.samples.0 * (sums.used / all) * phase.factor,
            used: all / sums.passed,
            waiting: (sums.queued / sums.used / MUCH_WAITING).min(1.0),
        })
    }

    /// How far the used share of the CPUs is from `none` to `all`, 0 to 1.
    fn between(self, none: f64, all: f64) -> f64 {
        ((self.used - none) / (all - none)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::experiments;
    use crate::estimate::simulation::{POINT, about, window};
    use crate::model::{Audit, PointId, Window};
    use crate::units::{Nanos, Speedup};

    const SLOPE: f64 = 0.3;
    const THROUGHPUT: Target = Target::Throughput(POINT);

    /// Windows of 100 ms on two CPUs, of which others use this share, with and without a speedup. Threads ran, waited for CPUs, for the world and for each other for so
    /// many milliseconds; two fifths of their samples are in the region.
    fn windows([cpu, queued, in_world, in_waits]: [u64; 4], others: f64) -> Vec<Window> {
        let [cpu, queued, in_world, in_waits] = [cpu, queued, in_world, in_waits].map(Nanos::from_millis);
        let audit = Audit { cpu, queued, in_world, in_waits, ..Audit::default() };
        let flags = if others > WindowFlags::BUSY_ABOVE { WindowFlags::BUSY } else { WindowFlags::NONE };
        let one = |index, speedup| Window {
            audit: Some(audit),
            busy: Some(others),
            flags,
            ..window(0, index, speedup)
        };
        vec![one(0, Speedup::ZERO), one(1, Speedup::from_percent(100).unwrap())]
    }

    fn crowded(windows: &[Window], about: About<'_>, slope: f64) -> Crowding {
        crowding(&experiments(windows).0[0], about, &Phase::ALWAYS, slope)
    }

    /// Where nothing is moved.
    fn of(windows: &[Window], about: About<'_>, slope: f64) -> Reach {
        let Crowding { shift, reach } = crowded(windows, about, slope);
        assert_eq!(shift, 0.0);
        reach
    }

    fn close(one: Reach, other: [f64; 2]) -> bool {
        (one.below - other[0]).abs() < 1e-9 && (one.above - other[1]).abs() < 1e-9
    }

    #[test]
    fn what_a_server_waited_for_cpus_may_be_saved_as_well() {
        let one = |times, others| of(&windows(times, others), about(THROUGHPUT), SLOPE);
        assert!(close(one([50, 50, 20, 0], 0.5), [0.0, 0.3]));
        assert!(close(one([50, 50, 20, 20], 0.5), [0.0, 0.15]), "half of the waits were for threads");
        assert!(close(one([50, 500, 20, 0], 0.5), [0.0, 0.3]), "as much again");
        assert!(close(one([50, 50, 20, 0], 0.05), [0.0, 0.0]), "no other program was there");
        assert!(close(one([50, 50, 0, 20], 0.5), [0.0, 0.0]));
        assert!(close(one([0, 50, 20, 0], 0.5), [0.0, 0.0]));
        let harm = of(&windows([50, 50, 20, 0], 0.5), about(THROUGHPUT), -SLOPE);
        assert!(close(harm, [0.3, 0.0]), "a loss may be larger: {harm:?}");
    }

    #[test]
    fn what_clients_on_the_same_machine_use_belongs_to_each_request() {
        let serving = About { cpus: Some(2), ..about(THROUGHPUT) };
        let one = |times, others, slope| of(&windows(times, others), serving, slope);
        // All CPUs are busy, half of them with others: the region has a fifth of all CPU time.
        assert!(close(one([100, 50, 20, 20], 0.5, 0.5), [0.3, 0.125]));
        assert!(close(one([100, 50, 0, 20], 0.5, 0.1), [0.0, 0.1]));
        assert!(close(one([100, 50, 0, 20], 0.5, -0.1), [0.0, 0.3]));
        // Hardly any of the time is waited for a CPU, or a CPU is always idle.
        assert!(close(one([100, 5, 0, 20], 0.5, 0.1), [0.0, 0.04]));
        assert!(close(one([70, 50, 0, 20], 0.15, 0.1), [0.0, 0.0]));
    }

    #[test]
    fn where_the_others_are_clients_a_gain_is_moved_towards_the_share_of_all_cpu_time() {
        let serving = About { cpus: Some(2), clients_are_here: true, ..about(THROUGHPUT) };
        let one = |cpu, others, slope| {
            let Crowding { shift, reach } = crowded(&windows([cpu, 50, 20, 0], others), serving, slope);
            let ends = [slope + shift - reach.below, slope + shift, slope + shift + reach.above];
            ends.map(|end| (end * 1000.0).round() / 1000.0)
        };
        // A fifth of the CPU time; all CPUs are busy, then four fifths of them.
        assert_eq!(one(100, 0.5, 0.5), [0.2, 0.2, 0.5]);
        assert_eq!(one(100, 0.5, 0.1), [0.1, 0.2, 0.2]);
        assert_eq!(one(80, 0.4, 0.1), [0.1, 0.15, 0.2]);
        assert_eq!(one(60, 0.2, 0.1), [0.1, 0.1, 0.1], "there is always a CPU");
    }

    #[test]
    fn what_arrives_does_not_depend_on_what_clients_use_of_the_cpus() {
        let mut windows = windows([100, 50, 20, 0], 0.5);
        let serving = About { cpus: Some(2), clients_are_here: true, ..about(THROUGHPUT) };
        for audit in windows.iter_mut().filter_map(|window| window.audit.as_mut()) {
            (audit.serving, audit.idle) = (Nanos::from_millis(100), Nanos::from_millis(30));
        }
        assert_eq!(crowded(&windows, serving, 0.0), Crowding::default());
        let Crowding { shift, reach } = crowded(&windows, serving, SLOPE);
        assert!(shift == 0.0 && close(reach, [0.0, SLOPE * 0.5]), "waits may still be saved: {reach:?}");
    }

    #[test]
    fn of_a_latency_it_is_not_known_which_way_it_goes() {
        let latency = Target::Latency { begin: PointId::new(1), end: PointId::new(2) };
        let serving = About { cpus: Some(2), ..about(latency) };
        assert!(close(of(&windows([50, 50, 20, 0], 0.5), serving, SLOPE), [0.3, 0.3]));
    }
}
