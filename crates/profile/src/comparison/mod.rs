//! Comparison: what is different in another recording.
//!
//! **Does:** match the progress points and regions of two profiles, say how much each point became faster
//! and whether each region matters more or less than before, with an interval for every number. **Does
//! not:** draw anything. **Constraints:** pure; the same profiles and the same seed give the same bits.
//! **Place:** sample → delay → experiment → record → **profile** → report.
//!
//! # What is compared
//!
//! Points are the same when name and kind agree. Their change is the change of the period (or latency)
//! without speedups, `estimate/level.rs`. Regions are matched by `matching.rs`; their change is the
//! difference of two slopes from independent recordings, whose variances add up. `change.rs` says what
//! to think of a difference, and corrects for looking at many of them at once.

mod change;
mod doubt;
mod matching;
mod sentence;

pub use change::Change;
pub use sentence::PointHeadline;

use crate::estimate::{
    self, Difference, Estimate, EstimateOptions, Level, PointEstimate, Target, Verdict, level_gain,
};
use crate::model::{Region, RegionId, Warning};
use crate::ranking::{PointSummary, Profile, RegionEstimate};

/// Two profiles, and how they differ.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// What it was.
    pub before: &'a Profile,
    /// What it became.
    pub after: &'a Profile,
    /// The points of both: those of `after`, then those that only `before` has.
    pub points: Vec<PointChange<'a>>,
    /// The regions that were tried in either recording. [`Comparison::ranked`] puts them in order.
    pub regions: Vec<RegionChange<'a>>,
    /// Why the two may not be comparable.
    pub warnings: Vec<Warning>,
}

/// What became of a progress point or latency pair.
#[derive(Clone, Debug)]
pub struct PointChange<'a> {
    /// The point in the first recording, if it is there.
    pub before: Option<PointLevel<'a>>,
    /// The point in the second recording, if it is there.
    pub after: Option<PointLevel<'a>>,
    /// The fraction of the period (or latency) without speedups that disappeared: positive is better.
    /// `None` where a recording does not have the point, or never saw a visit. Unbounded with fewer than
    /// five baselines.
    pub gain: Option<Estimate>,
}

impl PointChange<'_> {
    /// Whether both recordings have the point.
    pub fn is_in_both(&self) -> bool {
        self.before.is_some() && self.after.is_some()
    }
}

/// A progress point in one recording.
#[derive(Clone, Copy, Debug)]
pub struct PointLevel<'a> {
    /// The point.
    pub summary: &'a PointSummary,
    /// Nanoseconds per visit, or from begin to end, without speedups; `None` without visits.
    pub period_ns: Option<f64>,
    /// How many baselines this rests on.
    pub blocks: usize,
    /// How many runs those baselines are in.
    pub runs: usize,
}

/// What became of a region.
#[derive(Clone, Debug)]
pub struct RegionChange<'a> {
    /// The region in the first recording, if it is there.
    pub before: Option<RegionSide<'a>>,
    /// The region in the second recording, if it is there.
    pub after: Option<RegionSide<'a>>,
    /// One for each of [`Comparison::points`], in that order.
    pub points: Vec<SlopeChange<'a>>,
}

/// A region in one recording.
#[derive(Clone, Copy, Debug)]
pub struct RegionSide<'a> {
    /// The region.
    pub region: &'a Region,
    /// The program or library that it is in, where that has to be told.
    pub program: Option<&'a str>,
    /// What is known about it; `None` if it was seen, but not tried often enough.
    pub estimate: Option<&'a RegionEstimate>,
}

/// What became of the effect of a region on a point.
#[derive(Clone, Copy, Debug)]
pub struct SlopeChange<'a> {
    /// What to think of it.
    pub change: Change,
    /// What was estimated in the first recording.
    pub before: Option<&'a PointEstimate>,
    /// What was estimated in the second recording.
    pub after: Option<&'a PointEstimate>,
    /// The slope after, less the slope before; its interval is not corrected for how many there are.
    pub difference: Option<Estimate>,
}

impl<'a> Comparison<'a> {
    /// Compares two profiles, which must be of different runs.
    pub fn new(before: &'a Profile, after: &'a Profile, options: &EstimateOptions) -> Comparison<'a> {
        let points = points(before, after, options);
        let regions = regions(before, after, &points);
        let warnings = doubt::warnings(before, after, &points);
        Comparison { before, after, points, regions, warnings }
    }

    /// The regions in the order of what there is to say about their effect on a point, with the position
    /// of `point` in [`points`](Comparison::points): what became or ceased to be critical comes first,
    /// then what is more or less, by the size of the difference.
    pub fn ranked(&self, point: usize) -> Vec<(&RegionChange<'a>, &SlopeChange<'a>)> {
        let mut ranked: Vec<_> = self.regions.iter().map(|region| (region, &region.points[point])).collect();
        let rank = |slope: &SlopeChange<'_>| (slope.change.rank(), -slope.weight());
        ranked.sort_by(|(_, a), (_, b)| {
            let ((a, how_much), (b, other)) = (rank(a), rank(b));
            a.cmp(&b).then(how_much.total_cmp(&other))
        });
        ranked
    }
}

impl<'a> PointChange<'a> {
    /// The point as the second recording has it, or the only one.
    ///
    /// # Panics
    ///
    /// Never for a change that [`Comparison::new`] made: one side is always there.
    pub fn summary(&self) -> &'a PointSummary {
        self.after.or(self.before).expect("a point is in one of the recordings").summary
    }

    /// What a gain of this point is called: `less time` or `more time`, of a latency `shorter` or `longer`. What would be shown
    /// as 0.0 % has no sign.
    pub fn word(&self, gain: f64) -> &'static str {
        let latency = matches!(self.summary().target, Target::Latency { .. });
        match (gain > -0.0005, latency) {
            (true, false) => "less time",
            (false, false) => "more time",
            (true, true) => "shorter",
            (false, true) => "longer",
        }
    }

    /// The throughput after, as a factor of that before: "1.8 ×"; `None` for a latency, and where it is not known.
    pub fn throughput(&self) -> Option<String> {
        let gain = self.gain.filter(|_| matches!(self.summary().target, Target::Throughput(_)))?;
        crate::factor(gain.value)
    }

    /// Whether the point certainly became faster (positive) or slower (negative): the sign of its gain, if
    /// all of the interval has it.
    pub fn sign(&self) -> Option<f64> {
        self.gain.filter(|gain| gain.lo > 0.0 || gain.hi < 0.0).map(|gain| gain.value.signum())
    }
}

impl<'a> RegionChange<'a> {
    /// The region as the second recording has it, or the only one.
    ///
    /// # Panics
    ///
    /// Never for a change that [`Comparison::new`] made: one side is always there.
    pub fn region(&self) -> &'a Region {
        self.side().region
    }

    fn side(&self) -> RegionSide<'a> {
        self.after.or(self.before).expect("a region is in one of the recordings")
    }

    /// The program or library that it is in, where that has to be told.
    ///
    /// # Panics
    ///
    /// As [`region`](Self::region).
    pub fn program(&self) -> Option<&'a str> {
        self.side().program
    }
}

impl SlopeChange<'_> {
    /// How much there is to see.
    fn weight(&self) -> f64 {
        let only = self.after.or(self.before).and_then(|estimate| estimate.slope);
        self.difference.or(only).map_or(0.0, |estimate| estimate.value.abs())
    }
}

fn points<'a>(
    before_profile: &'a Profile,
    after_profile: &'a Profile,
    options: &EstimateOptions,
) -> Vec<PointChange<'a>> {
    let (of_before, _) = estimate::experiments(&before_profile.rows.windows);
    let (of_after, _) = estimate::experiments(&after_profile.rows.windows);
    let both = after_profile.points.iter().map(|point| (find(before_profile, point), Some(point)));
    let gone = before_profile.points.iter().filter(|point| find(after_profile, point).is_none());
    both.chain(gone.map(|point| (Some(point), None)))
        .map(|(before, after)| {
            let measured = |experiments, profile, point: Option<&'a PointSummary>| {
                point.map(|summary| (summary, Level::new(experiments, summary.about_in(profile))))
            };
            let (before, after) =
                (measured(&of_before, before_profile, before), measured(&of_after, after_profile, after));
            let gain = match (&before, &after) {
                (Some((_, before)), Some((_, after))) => level_gain(before, after, options),
                _ => None,
            };
            PointChange { before: before.map(PointLevel::new), after: after.map(PointLevel::new), gain }
        })
        .collect()
}

impl<'a> PointLevel<'a> {
    fn new((summary, level): (&'a PointSummary, Level)) -> PointLevel<'a> {
        let (period_ns, blocks, runs) = (level.period_ns(), level.blocks(), level.runs());
        PointLevel { summary, period_ns, blocks, runs }
    }
}

/// The point of `profile` that is the same as `point` of another profile.
fn find<'a>(profile: &'a Profile, point: &PointSummary) -> Option<&'a PointSummary> {
    profile.points.iter().find(|p| p.name == point.name && p.target.kind() == point.target.kind())
}

fn regions<'a>(before: &'a Profile, after: &'a Profile, points: &[PointChange<'a>]) -> Vec<RegionChange<'a>> {
    let mut regions: Vec<RegionChange<'a>> = matching::pairs(&before.rows, &after.rows)
        .into_iter()
        .map(|(in_before, in_after)| {
            let before = in_before.map(|id| RegionSide::new(before, id));
            let after = in_after.map(|id| RegionSide::new(after, id));
            let points = points.iter().map(|point| SlopeChange::new(before, after, point)).collect();
            RegionChange { before, after, points }
        })
        .filter(|region| [region.before, region.after].iter().flatten().any(|side| side.estimate.is_some()))
        .collect();
    change::classify(regions.iter_mut().flat_map(|region| &mut region.points));
    regions
}

impl<'a> RegionSide<'a> {
    fn new(profile: &'a Profile, id: RegionId) -> RegionSide<'a> {
        let estimate = profile.regions.iter().find(|estimate| estimate.region == id);
        let region = &profile.rows.regions[&id];
        RegionSide { region, program: profile.program(region), estimate }
    }

    fn of(self, target: Target) -> Option<&'a PointEstimate> {
        self.estimate?.points.iter().find(|estimate| estimate.target == target)
    }
}

impl<'a> SlopeChange<'a> {
    /// Not classified yet, except for what only one recording has.
    fn new(
        before: Option<RegionSide<'a>>,
        after: Option<RegionSide<'a>>,
        point: &PointChange<'a>,
    ) -> SlopeChange<'a> {
        let change = match (before.is_some(), after.is_some()) {
            (true, false) => Change::OnlyBefore,
            (false, true) => Change::OnlyAfter,
            _ => Change::CannotTell,
        };
        let estimate = |side: Option<RegionSide<'a>>, level: Option<PointLevel<'a>>| {
            side?.of(level?.summary.target).filter(|estimate| estimate.verdict != Verdict::Idle)
        };
        let (before, after) = (estimate(before, point.before), estimate(after, point.after));
        let mut slope = SlopeChange { change, before, after, difference: None };
        slope.difference = slope.apart().map(|apart| apart.estimate);
        slope
    }

    /// How far the two slopes are apart, where both are known.
    fn apart(&self) -> Option<Difference> {
        let (before, after) = (self.before?, self.after?);
        // What the method gets wrong, it gets wrong both times, as far as both insert the same delays.
        let apart = |of: fn(&PointEstimate) -> f64| (of(after) - of(before)).abs();
        // Clients that were found the one time may have been there both times.
        let shift = |one: &PointEstimate| one.crowding_shift + one.limit_shift;
        let crowding = apart(shift) + apart(|one| one.crowding.longest());
        let other = apart(|one| one.method_error).hypot(crowding / estimate::NORMAL);
        let after_slope = estimate::widened(after.of_noise()?, other);
        Difference::new((&before.of_noise()?, before.blocks), (&after_slope, after.blocks))
    }
}
