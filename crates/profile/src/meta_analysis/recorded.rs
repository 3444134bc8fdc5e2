//! Recorded: all that one host has recorded with one version of the code, with what windows alone do not say.

use std::collections::BTreeMap;

use super::{HostId, HostSlope, VersionId};
use crate::audit::{self, Audited};
use crate::estimate::{About, EstimateOptions, Experiments, InDoubt, Target, TreatedSums};
use crate::estimate::{corrected, experiments, in_doubt, phase_of, shortest};
use crate::model::{RegionId, Rows, Served};
use crate::units::Nanos;

/// What one host has recorded with one version, sorted into experiments once for all regions and points.
pub struct Recorded<'r> {
    rows: &'r Rows,
    experiments: BTreeMap<RegionId, Experiments<'r>>,
    treated: TreatedSums,
    served: Served,
    /// Windows shorter than this say nothing about a target.
    shortest: BTreeMap<Target, Nanos>,
}

impl<'r> Recorded<'r> {
    /// From the rows of all its runs, about these targets and no others.
    pub fn new(rows: &'r Rows, targets: &[Target]) -> Recorded<'r> {
        let (all, _) = experiments(&rows.windows);
        let shortest = |target: &Target| (*target, shortest(*target, &rows.windows));
        Recorded {
            rows,
            experiments: all.into_iter().map(|of_region| (of_region.region, of_region)).collect(),
            treated: TreatedSums::of(&rows.windows),
            served: rows.served(),
            shortest: targets.iter().map(shortest).collect(),
        }
    }

    /// [`HostSlope::of_windows`], scaled by the phase of the region, whose error is in the variance, and corrected for what executing programs costs,
    /// as an [`estimate`](crate::estimate) is. The error of the method is left out: see [`in_doubt`](Self::in_doubt).
    pub fn slope(
        &self,
        (host, version): (HostId, VersionId),
        region: RegionId,
        target: Target,
        observed: Nanos,
    ) -> HostSlope {
        let Some(of_region) = self.experiments.get(&region).filter(|of| of.has_baseline()) else {
            return HostSlope::of_blocks(host, version, &[], observed);
        };
        let terms = of_region.pairs(self.about(target)).terms();
        let plain = HostSlope::of_blocks(host, version, &terms, observed);
        let phase = phase_of(of_region, self.rows, &self.treated);
        let (slope, se) = corrected((plain.slope, plain.variance.sqrt()), of_region, target, &phase);
        HostSlope { slope, variance: se * se, ..plain }.or_nothing()
    }

    /// How exact the method is in these experiments, where the region is worth about `slope`; `None` where there are none.
    pub fn in_doubt(
        &self,
        region: RegionId,
        target: Target,
        slope: f64,
        options: &EstimateOptions,
    ) -> Option<InDoubt> {
        let of_region = self.experiments.get(&region).filter(|of| of.has_baseline())?;
        let phase = phase_of(of_region, self.rows, &self.treated);
        in_doubt(of_region, self.about(target), &phase, slope, options)
    }

    fn about(&self, target: Target) -> About<'static> {
        let shortest = self.shortest.get(&target).copied().unwrap_or_default();
        let Served { cpus, clients_are_here } = self.served;
        About { target, drifts: &[], of_runs: &[], shortest, cpus, clients_are_here }
    }
}

/// The audit of a region over several hosts: whether the rules of virtual time did what they should have done. `None` where no window was audited.
pub fn audited<'r>(hosts: impl Iterator<Item = &'r Rows> + Clone, region: RegionId) -> Option<Audited> {
    let sessions = hosts.clone().flat_map(|rows| &rows.sessions);
    let period = sessions.map(|session| session.start.sample_period).max().unwrap_or_default();
    audit::of(hosts.flat_map(|rows| &rows.windows), region, period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::{POINT, window};
    use crate::model::{
        Audit, RegionSamples, SampleTotals, Session, SessionId, SessionStart, Visits, Window,
    };
    use crate::units::Speedup;

    const TARGET: Target = Target::Throughput(POINT);
    const WHO: (HostId, VersionId) = (HostId::new(1), VersionId::new(1));

    /// Twelve blocks of a region that is worth 40 %, and takes half of the CPU time in its windows.
    fn rows(executing: Nanos) -> Rows {
        let half = Speedup::from_percent(50).unwrap();
        let (elapsed, weight) = (Nanos::from_millis(100), Nanos::from_millis(50));
        let seen = |count| vec![Visits { point: POINT, count, span: None }];
        let audit = Some(Audit { executing, ..Audit::default() });
        let plain = |block, index, speedup, count| Window {
            visits: seen(count),
            elapsed,
            required: Nanos::ZERO,
            region_weight: weight,
            region_samples: 50,
            total_weight: elapsed.saturating_sub(executing),
            audit,
            ..window(block, index, speedup)
        };
        let windows: Vec<Window> = (0..12)
            .flat_map(|block| [plain(block, 0, Speedup::ZERO, 400), plain(block, 1, half, 500)])
            .collect();
        let (session, region) = (windows[0].session, windows[0].region);
        let samples = SampleTotals {
            until: Nanos::from_millis(10_000),
            delayed: Nanos::ZERO,
            count: 10_000,
            weight: Nanos::from_millis(10_000),
            ..SampleTotals::default()
        };
        let start = SessionStart { sample_period: Nanos::from_millis(1), ..SessionStart::default() };
        let session = Session {
            id: session,
            start,
            end: None,
            samples,
            images: vec![],
            arrivals: vec![],
            programs: vec![],
            threads: vec![],
            overhead: vec![],
        };
        // In the whole run it takes a fourth as much as in its windows: it runs for a fourth of the time.
        let of_run = RegionSamples {
            session: SessionId::new(session.id.get()),
            region,
            count: 1250,
            weight: Nanos::from_millis(1250),
        };
        Rows { sessions: vec![session], windows, samples: vec![of_run], ..Rows::default() }
    }

    #[test]
    fn a_region_helps_in_its_phase_only() {
        let rows = rows(Nanos::ZERO);
        let recorded = Recorded::new(&rows, &[TARGET]);
        let region = rows.windows[0].region;
        let plain = HostSlope::of_windows(WHO, &rows.windows, region, TARGET, Nanos::ZERO);
        let scaled = recorded.slope(WHO, region, TARGET, Nanos::ZERO);
        assert!((plain.slope - 0.4).abs() < 1e-9 && scaled.blocks == 12);
        assert!((scaled.slope - 0.1).abs() < 0.01 && scaled.variance > plain.variance, "{scaled:?}");
        // Nothing is known of a region that was not tried.
        assert_eq!(recorded.slope(WHO, RegionId::new(99), TARGET, Nanos::ZERO).blocks, 0);
        assert_eq!(
            recorded.in_doubt(RegionId::new(99), TARGET, 0.1, &EstimateOptions::default()).map(|_| ()),
            None
        );
    }

    #[test]
    fn what_executing_programs_costs_is_taken_off_and_doubted() {
        let of = |rows: &Rows| {
            let recorded = Recorded::new(rows, &[TARGET]);
            let region = rows.windows[0].region;
            let slope = recorded.slope(WHO, region, TARGET, Nanos::ZERO).slope;
            (slope, recorded.in_doubt(region, TARGET, slope, &EstimateOptions::default()).unwrap())
        };
        let ((plain, _), (without, doubt)) = (of(&rows(Nanos::ZERO)), of(&rows(Nanos::from_millis(20))));
        assert!((without / plain - 1.25).abs() < 1e-6, "{plain} {without}");
        assert!(doubt.of_doubts > 0.0 && doubt.method_error >= doubt.of_doubts && !doubt.has_limit);
    }

    #[test]
    fn an_audit_is_of_all_hosts() {
        let rows = [rows(Nanos::ZERO), rows(Nanos::ZERO)];
        let region = rows[0].windows[0].region;
        let audited = audited(rows.iter(), region).unwrap();
        // It ran in its experiments, and nothing was credited for it.
        assert_eq!((audited.windows, audited.is_trusted()), (24, false));
    }
}
