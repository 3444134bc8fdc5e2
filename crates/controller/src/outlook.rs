//! What is known so far, and what an answer still lacks.
//!
//! The outlook sees every block of a run (or of several runs of one program, into one recording), estimates now
//! and then what they say, and tells the planner where another experiment would teach most. It also says when
//! to stop: when the regions that may be the best are known as exactly as asked, and all others are known not
//! to be the best.
//!
//! Looking often enough shows whatever one hopes for: an interval that is looked at every second crosses a
//! line sooner or later. So being sure takes two looks in a row, with blocks in between, and only the width of
//! intervals and their order count, not the verdict that they lead to.

use profile::{
    ENOUGH_BLOCKS, Estimate, EstimateOptions, Point, PointEstimate, PointId, Profile, RegionId, Rows, Target,
    Verdict, Window,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks, at least, as a multiple of what a look takes.
const SHARE: u32 = 30;
/// Resamples of a look: intervals that only guide the search need not be as smooth as those that are printed.
const RESAMPLES: usize = 200;
/// A region that cannot make more than this difference is not waited for.
const NEGLIGIBLE: f64 = 0.02;
/// Effects that are less far apart than this are not worth telling apart.
const APART: f64 = 0.02;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Regions about which everything is known that was asked for.
    pub decided: usize,
    /// Regions about which it is not.
    pub open: usize,
    /// About how many more blocks that takes; `None` while it is unknown.
    pub blocks_left: Option<f64>,
}

/// See the module.
#[derive(Debug)]
pub struct Outlook {
    rows: Rows,
    /// Half the width of the interval of the gain at [`profile::REFERENCE`] that is asked for.
    precision: f64,
    options: EstimateOptions,
    /// How much each region lacks: nothing, or up to 1.
    needs: HashMap<RegionId, f64>,
    /// Regions that help, and may be the best.
    matter: HashSet<RegionId>,
    standing: Standing,
    next_look: Instant,
    /// Blocks at the last look that found nothing open.
    sure_at: Option<usize>,
    sure: bool,
}

impl Outlook {
    /// `fixed`: the user has chosen regions or speedups.
    pub fn new(precision: f64, fixed: bool) -> Self {
        let options = EstimateOptions {
            fixed,
            resamples: RESAMPLES,
            phase_correction: false,
            ..EstimateOptions::default()
        };
        Self {
            rows: Rows::default(),
            precision,
            options,
            needs: HashMap::new(),
            matter: HashSet::new(),
            standing: Standing::default(),
            next_look: Instant::now() + LOOK,
            sure_at: None,
            sure: false,
        }
    }

    /// Takes the windows of one block; whether it is time to [`look`](Self::look).
    pub fn add(&mut self, windows: Vec<Window>) -> bool {
        self.rows.windows.extend(windows);
        Instant::now() >= self.next_look
    }

    /// Estimates what is known. `points`: all progress points so far; `regions`: those that ran, with the share
    /// of the time in which they did.
    pub fn look(&mut self, points: &BTreeMap<PointId, Point>, regions: &[(RegionId, f64)]) {
        let begin = Instant::now();
        self.rows.points.clone_from(points);
        self.judge(regions);
        self.next_look = begin + LOOK.max(begin.elapsed() * SHARE);
    }

    /// How much an experiment on the region would help: from 0, not at all, to 1. `share`: of the time in which the
    /// region runs, for one that has not been looked at yet.
    pub fn need(&self, region: RegionId, share: f64) -> f64 {
        self.needs.get(&region).copied().unwrap_or_else(|| potential(share))
    }

    /// Whether the region helps and may be the best.
    pub fn matters(&self, region: RegionId) -> bool {
        self.matter.contains(&region)
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether everything is known that was asked for.
    pub fn is_sure(&self) -> bool {
        self.sure
    }

    fn judge(&mut self, regions: &[(RegionId, f64)]) {
        let profile = Profile::new(self.rows.clone(), &self.options);
        let rivals: Vec<(Target, Rivals)> =
            profile.points.iter().map(|point| (point.target, Rivals::of(&profile, point.target))).collect();
        let rivals =
            |target| rivals.iter().find(|(of, _)| *of == target).map_or(Rivals::default(), |(_, of)| *of);
        self.matter = profile
            .regions
            .iter()
            .filter(|region| region.points.iter().any(|point| may_be_best(rivals(point.target), point)))
            .map(|region| region.region)
            .collect();
        let verdicts = judge(&profile, rivals, regions, self.precision);
        let open = || verdicts.iter().filter(|(_, judged)| judged.need > 0.0);
        self.standing = Standing {
            decided: verdicts.len() - open().count(),
            open: open().count(),
            blocks_left: open().map(|(_, judged)| judged.blocks_left).sum(),
        };
        self.needs = verdicts.iter().map(|(region, judged)| (*region, judged.need)).collect();
        let blocks = self.rows.windows.len();
        // Where no point is visited there is nothing to be sure of.
        let alive = profile.points.iter().any(|point| !point.idle);
        let nothing_open = self.standing.open == 0 && !profile.regions.is_empty() && alive;
        self.sure = nothing_open && self.sure_at.is_some_and(|before| before < blocks);
        self.sure_at = if nothing_open { self.sure_at.or(Some(blocks)) } else { None };
    }
}

/// What a region lacks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Judged {
    need: f64,
    blocks_left: Option<f64>,
}

impl Judged {
    /// The most that is lacking for one of two points.
    fn most(self, other: Self) -> Self {
        let blocks_left = self.blocks_left.zip(other.blocks_left).map(|(one, other)| one.max(other));
        Self { need: self.need.max(other.need), blocks_left }
    }
}

const DECIDED: Judged = Judged { need: 0.0, blocks_left: Some(0.0) };

/// The most that a region which runs for this share of the time can win.
fn potential(share: f64) -> f64 {
    if share < NEGLIGIBLE { 0.0 } else { share.min(1.0) }
}

/// Judges all regions: by the point for which they lack most. `rivals`: what is known of all regions and a point.
fn judge(
    profile: &Profile,
    rivals: impl Fn(Target) -> Rivals,
    regions: &[(RegionId, f64)],
    precision: f64,
) -> Vec<(RegionId, Judged)> {
    let mut judged: Vec<(RegionId, Judged)> = Vec::new();
    for (region, share) in regions {
        let estimate = profile.regions.iter().find(|estimate| estimate.region == *region);
        let of_region = match estimate {
            // Idle points decide nothing.
            Some(estimate) => estimate
                .points
                .iter()
                .filter(|point| point.verdict != Verdict::Idle)
                .map(|point| of_point(Known::of(point), rivals(point.target), *share, precision))
                .reduce(Judged::most)
                .unwrap_or(DECIDED),
            None if potential(*share) == 0.0 => DECIDED,
            None => Judged { need: potential(*share), blocks_left: Some(ENOUGH_BLOCKS as f64) },
        };
        judged.push((*region, of_region));
    }
    judged
}

fn may_be_best(rivals: Rivals, point: &PointEstimate) -> bool {
    let effect = point.effect.filter(|_| point.verdict == Verdict::Helps);
    effect.is_some_and(|effect| effect.hi >= rivals.certain)
}

/// What is known of all regions and one point, as far as it says what an experiment on one of them is worth.
#[derive(Clone, Copy, Debug, Default)]
struct Rivals {
    /// The highest lower end of an effect that is known to help.
    certain: f64,
    /// The highest effect so far, and how it is known.
    leader: Option<Known>,
    /// The same, but for the leader.
    second: f64,
    /// What an experiment on the leader is worth for telling it from the others.
    telling_apart: f64,
}

impl Rivals {
    fn of(profile: &Profile, target: Target) -> Self {
        let estimates = profile.regions.iter().flat_map(|region| &region.points);
        let is_known = |other: &&PointEstimate| {
            let is_idle_or_doubted = matches!(other.verdict, Verdict::Idle | Verdict::NotTrusted);
            other.target == target && other.blocks >= ENOUGH_BLOCKS && !is_idle_or_doubted
        };
        let known = estimates.filter(is_known);
        Self::among(known.map(Known::of))
    }

    fn among(known: impl Iterator<Item = Known>) -> Self {
        let effect = |one: &Known| one.effect.filter(|effect| effect.half_width().is_finite());
        let mut known: Vec<(Estimate, Known)> = known.filter_map(|one| Some((effect(&one)?, one))).collect();
        let helping = known.iter().filter(|(_, one)| one.verdict == Verdict::Helps);
        let certain = helping.map(|(effect, _)| effect.lo).fold(0.0, f64::max);
        known.sort_by(|(a, _), (b, _)| b.value.total_cmp(&a.value));
        let Some(((best, leader), others)) = known.split_first() else { return Self::default() };
        let second = others.first().map_or(0.0, |(effect, _)| effect.value).max(0.0);
        let apart = |(effect, one): &(Estimate, Known)| {
            (one.variance() * one.blocks as f64) / (best.value - effect.value).max(APART).powi(4)
        };
        let sum: f64 = others.iter().map(apart).filter(|one| one.is_finite()).sum();
        let deviation = (leader.variance() * leader.blocks as f64).sqrt();
        Self {
            certain,
            leader: Some(*leader),
            second,
            telling_apart: deviation * sum.sqrt() / leader.blocks as f64,
        }
    }

    /// What one more experiment on a region is worth, 0 to 1: the share of all that it should have, by those that it has (optimal computing budget allocation: Chen, Lin, Yücesan and
    /// Chick, *Discrete Event Dyn. Syst.* 10, 2000). For all but the leader that is the variance of its effect by the square of its distance from the leader's. For the leader it is the
    /// same with its distance from the second, or from nothing, and more where there are many others.
    fn worth(&self, point: Known) -> f64 {
        let value = |known: Known| known.effect.map_or(0.0, |effect| effect.value);
        let best = self.leader.map_or(0.0, value);
        let need = if value(point) >= best {
            let by_itself = point.variance() / (best - self.second).max(APART).powi(2);
            by_itself.max(self.telling_apart)
        } else {
            point.variance() / (best - value(point)).max(APART).powi(2)
        };
        need.clamp(0.01, 1.0)
    }
}

/// What an estimate says, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Known {
    effect: Option<Estimate>,
    /// The effect as far as more experiments can change it.
    by_noise: Option<Estimate>,
    verdict: Verdict,
    blocks: usize,
}

impl Known {
    fn of(point: &PointEstimate) -> Self {
        Self {
            effect: point.effect,
            by_noise: point.effect_by_noise(),
            verdict: point.verdict,
            blocks: point.blocks,
        }
    }

    /// That of the noise.
    fn variance(&self) -> f64 {
        self.by_noise.or(self.effect).map_or(0.0, |effect| effect.se.powi(2))
    }
}

fn of_point(point: Known, rivals: Rivals, share: f64, precision: f64) -> Judged {
    let reference = profile::REFERENCE.fraction();
    let Some(effect) = point.effect.filter(|effect| effect.half_width().is_finite()) else {
        return Judged { need: potential(share), blocks_left: Some(ENOUGH_BLOCKS as f64) };
    };
    if point.blocks < ENOUGH_BLOCKS {
        let missing = (ENOUGH_BLOCKS - point.blocks) as f64;
        return Judged { need: potential(share).max(NEGLIGIBLE), blocks_left: Some(missing) };
    }
    let best = rivals.certain;
    let half = point.by_noise.unwrap_or(effect).half_width();
    // Cannot be the best; or is known as exactly as asked.
    let lost = effect.hi < best.max(NEGLIGIBLE * reference);
    // Without a verdict it takes twice the precision: the interval is then narrower than any that matters.
    let precision = if point.verdict == Verdict::NotEnoughData { precision / 2.0 } else { precision };
    if lost || half <= precision {
        return DECIDED;
    }
    // As narrow as asked, or narrow enough to be out of the question.
    let settled = wanted(&effect, best, precision);
    let more = point.blocks as f64 * ((half / settled).powi(2) - 1.0);
    Judged { need: rivals.worth(point), blocks_left: Some(more.max(1.0)) }
}

/// The widest half of an interval with which the region would be decided.
fn wanted(effect: &Estimate, best: f64, precision: f64) -> f64 {
    (best - effect.value).max(precision).max(1e-4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: f64, half: f64, blocks: usize, verdict: Verdict) -> Known {
        let effect = Estimate { value, se: half / 2.0, lo: value - half, hi: value + half };
        Known { effect: Some(effect), by_noise: Some(effect), verdict, blocks }
    }

    /// Nothing else is known but that the best effect is certainly so much.
    fn besides(certain: f64) -> Rivals {
        Rivals { certain, ..Rivals::default() }
    }

    #[test]
    fn the_best_is_decided_when_it_is_known_exactly_enough() {
        let wide = of_point(point(0.10, 0.04, 16, Verdict::Helps), besides(0.06), 0.5, 0.02);
        assert!(wide.need > 0.0);
        // Twice as wide as asked takes four times the blocks.
        assert!((wide.blocks_left.unwrap() - 48.0).abs() < 1e-6, "{wide:?}");
        assert_eq!(of_point(point(0.10, 0.0199, 64, Verdict::Helps), besides(0.08), 0.5, 0.02), DECIDED);
    }

    #[test]
    fn what_cannot_be_the_best_is_decided_however_wide() {
        assert_eq!(of_point(point(0.01, 0.03, 9, Verdict::NotEnoughData), besides(0.06), 0.5, 0.02), DECIDED);
        let may_be = of_point(point(0.04, 0.03, 9, Verdict::NotEnoughData), besides(0.06), 0.5, 0.02);
        assert!(may_be.need > 0.0 && may_be.blocks_left.unwrap() > 0.0, "{may_be:?}");
    }

    #[test]
    fn an_experiment_is_worth_most_where_it_may_change_who_leads() {
        let [leader, near, far] = [(0.10, 0.04), (0.08, 0.04), (0.0, 0.04)]
            .map(|(value, half)| point(value, half, 10, Verdict::NotEnoughData));
        let rivals = Rivals::among([far, leader, near].into_iter());
        assert!((rivals.second - 0.08).abs() < 1e-9);
        // A standard error of two points between effects that are two points, or ten, apart.
        assert!((rivals.worth(near) - 1.0).abs() < 1e-9 && (rivals.worth(far) - 0.04).abs() < 1e-9);
        assert!((rivals.worth(leader) - 1.0).abs() < 1e-9);
        // A leader far ahead of many others has to be told from all of them.
        let many = Rivals::among([leader].into_iter().chain([far; 9]));
        assert!((many.worth(leader) - 3.0 * many.worth(far)).abs() < 1e-9);
        assert!((Rivals::among([leader].into_iter()).worth(leader) - 0.04).abs() < 1e-9, "and from nothing");
    }

    #[test]
    fn without_data_the_share_of_the_time_counts() {
        let few = of_point(point(0.5, 0.001, 3, Verdict::NotEnoughData), besides(0.0), 0.4, 0.02);
        assert_eq!(few, Judged { need: 0.4, blocks_left: Some(2.0) });
        let outlook = Outlook::new(0.02, false);
        assert_eq!(outlook.need(RegionId::new(1), 0.3), 0.3);
        assert_eq!(outlook.need(RegionId::new(1), 0.001), 0.0);
        assert!(!outlook.is_sure());
    }

    #[test]
    fn nobody_is_sure_at_first_sight() {
        let mut outlook = Outlook::new(0.02, false);
        outlook.look(&BTreeMap::new(), &[]);
        outlook.look(&BTreeMap::new(), &[]);
        assert!(!outlook.is_sure(), "nothing was tried");
    }
}
