//! From the windows of a host to its slope.

use super::{HostId, HostSlope, VersionId};
use crate::estimate::{About, Target, experiments, shortest};
use crate::model::{RegionId, Window};
use crate::units::Nanos;

impl HostSlope {
    /// From the windows of one host with one version: what they say about a region and a target, by blocks ([`of_blocks`](HostSlope::of_blocks)). `observed`: for how long the host
    /// took part, experiments or not.
    ///
    /// Windows that are left out or disturbed are so here as in an [`estimate`](crate::estimate). Unlike there, nothing is known of phases, of what executing programs costs, and of
    /// the error of the method, which is 0 until the caller sets [`method_error`](HostSlope::method_error).
    pub fn of_windows(
        (host, version): (HostId, VersionId),
        windows: &[Window],
        region: RegionId,
        target: Target,
        observed: Nanos,
    ) -> HostSlope {
        let shortest = shortest(target, windows);
        let about =
            About { target, drifts: &[], of_runs: &[], shortest, cpus: None, clients_are_here: false };
        let (all, _) = experiments(windows);
        let of_region = all.iter().find(|experiments| experiments.region == region);
        let terms = of_region.map(|experiments| experiments.pairs(about).terms()).unwrap_or_default();
        HostSlope::of_blocks(host, version, &terms, observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::{POINT, window};
    use crate::meta_analysis::{Fleet, Refused, Variances};
    use crate::model::Visits;
    use crate::units::Speedup;

    const TARGET: Target = Target::Throughput(POINT);
    const WHO: (HostId, VersionId) = (HostId::new(1), VersionId::new(1));

    /// Blocks of a region worth 40 %: a baseline of so many visits, and a window at 50 % with a fourth more.
    fn windows(baselines: &[u64]) -> Vec<Window> {
        let half = Speedup::from_percent(50).unwrap();
        (0..)
            .zip(baselines)
            .flat_map(|(block, count)| {
                let seen = |count| vec![Visits { point: POINT, count, span: None }];
                [
                    Window { visits: seen(*count), ..window(block, 0, Speedup::ZERO) },
                    Window { visits: seen(count * 5 / 4), ..window(block, 1, half) },
                ]
            })
            .collect()
    }

    #[test]
    fn each_block_is_compared_with_its_own_baseline() {
        let windows = windows(&[400, 800, 1200, 400, 2000, 600]);
        let region = windows[0].region;
        let host = HostSlope::of_windows(WHO, &windows, region, TARGET, Nanos::ZERO);
        // (v − u) / v = 1 − 4/5, at a speedup of a half.
        assert_eq!(host.blocks, 6);
        assert!((host.slope - 0.4).abs() < 1e-9 && host.variance < 1e-12, "{host:?}");
    }

    #[test]
    fn windows_without_visits_say_nothing() {
        let windows = windows(&[0; 8]);
        let region = windows[0].region;
        let host = HostSlope::of_windows(WHO, &windows, region, TARGET, Nanos::ZERO);
        assert_eq!(host.blocks, 0);
        assert_eq!(Fleet::new(&[host], Variances::Pooled).unwrap_err(), Refused::NoWindows { hosts: 1 });
        let other = HostSlope::of_windows(WHO, &windows, RegionId::new(99), TARGET, Nanos::ZERO);
        assert_eq!(other.blocks, 0);
    }

    #[test]
    fn a_host_that_saw_one_visit_does_not_keep_others_from_an_answer() {
        // All visits are in one block: without it there is nothing to divide by.
        let seldom = windows(&[0, 0, 4, 0, 0, 0]);
        let region = seldom[0].region;
        let host = HostSlope::of_windows(WHO, &seldom, region, TARGET, Nanos::ZERO);
        assert_eq!((host.blocks, host.slope, host.variance), (0, 0.0, 0.0));
        let often = HostSlope::of_windows(
            (HostId::new(2), VersionId::new(1)),
            &windows(&[400, 800, 1200, 400, 2000, 600]),
            region,
            TARGET,
            Nanos::ZERO,
        );
        let worth = Fleet::new(&[host, often], Variances::Pooled).unwrap().worth();
        assert_eq!((worth.hosts, worth.left_out), (1, 1));
    }

    #[test]
    fn baselines_without_visits_count() {
        // Visits by chance: on average 1.5, with and without a speedup that is worth nothing.
        let mut random = fastrand::Rng::with_seed(3);
        let half = Speedup::from_percent(50).unwrap();
        let mut seldom = windows(&[0; 4000]);
        for window in &mut seldom {
            window.visits[0].count =
                u64::from(random.bool()) + u64::from(random.bool()) + u64::from(random.bool());
        }
        assert!(seldom.iter().any(|window| window.speedup == half && window.visits[0].count > 0));
        let host = HostSlope::of_windows(WHO, &seldom, seldom[0].region, TARGET, Nanos::ZERO);
        // Of the pairs whose baseline saw something the gain would be 1 − 8/7 = −0.14, by a speedup of a half −0.29.
        assert!(host.blocks > 3000 && host.slope.abs() < 4.0 * host.variance.sqrt(), "{host:?}");
        assert!(host.variance.sqrt() < 0.05, "{host:?}");
    }
}
