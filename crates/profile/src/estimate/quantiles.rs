//! Quantiles: how long the slow ones take, and what a region does to them.
//!
//! Where it is known of each piece of work how long it took, windows hold the distribution. Distributions of windows at the same speedup are added up, and the gain of a quantile
//! is *1 − Q(s) / Q(0)*, as for the mean. The effect of 20 % is read off a parabola through zero that is fitted to the gains at all speedups, weighted by the pieces of work (a
//! line, where there are fewer than three). Speedups at which there are too few pieces of work for a quantile are put together with their neighbours.
//!
//! **How sure?** Blocks are put into at most [`GROUPS`] groups, and everything is computed again without each (a grouped jackknife: Shao and Wu, *A General Theory for Jackknife
//! Variance Estimation*, 1989, which holds for quantiles, where leaving out single observations does not). Windows that follow each other may depend on each other,
//! so a group is blocks in the order of time. What is wrong with the method comes on top, as for the mean: what is inserted into a piece of work is taken to be in proportion to how long it takes.

use std::collections::{BTreeMap, BTreeSet};

use super::{Estimate, Experiments, Pairs, REFERENCE, interval};
use crate::model::{PointId, Window};
use crate::units::Speedup;

/// The shares of all pieces of work that take no longer than the quantiles that are estimated.
pub const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// See [the file](self).
const GROUPS: usize = 20;
/// With fewer than this it is not known how sure a quantile is.
const ENOUGH_GROUPS: usize = 3;
/// How many pieces of work must take longer than a quantile.
const BEYOND: f64 = 5.0;
/// Of this share of all it must be known how long they took.
const ENOUGH_KNOWN: f64 = 0.8;
/// Speedups are put together until this many times [`BEYOND`] do.
const ENOUGH_IN_A_BIN: f64 = 4.0;

/// A quantile of how long pieces of work take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The share of all that take no longer, 0 to 1.
    pub share: f64,
    /// How long that is, in nanoseconds.
    pub time: Estimate,
}

/// What making a region faster does to a quantile.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantileGain {
    /// The share of all pieces of work that take no longer, 0 to 1.
    pub share: f64,
    /// The gain at [`REFERENCE`].
    pub effect: Estimate,
    /// The gain at each speedup at which there is enough to tell, by the windows at this speedup alone.
    pub curve: Vec<(Speedup, Estimate)>,
}

/// How many pieces of work took each number of nanoseconds.
#[derive(Clone, Debug, Default)]
struct Distribution {
    counts: BTreeMap<u64, u64>,
    /// How many pieces of work ended, also where it is not known how long they took.
    ended: u64,
}

/// A begin and its end.
type Pair = (PointId, PointId);

impl Distribution {
    fn add<'a>(&mut self, windows: impl IntoIterator<Item = &'a Window>, (begin, end): Pair) {
        for window in windows {
            self.ended += window.visits(end);
            for latencies in window.latencies.iter().filter(|of| of.begin == begin) {
                for (time, count) in &latencies.counts {
                    *self.counts.entry(time.get()).or_default() += u64::from(*count);
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.ended += other.ended;
        other.counts.iter().for_each(|(time, count)| *self.counts.entry(*time).or_default() += count);
    }

    /// Without what `part`, a part of it, has.
    fn without(&self, part: Option<&Self>) -> Self {
        let less = |time: &u64| part.and_then(|part| part.counts.get(time)).copied().unwrap_or(0);
        Self {
            counts: self.counts.iter().map(|(time, count)| (*time, count - less(time))).collect(),
            ended: self.ended - part.map_or(0, |part| part.ended),
        }
    }

    fn known(&self) -> f64 {
        self.counts.values().sum::<u64>() as f64
    }

    /// In nanoseconds, linear between the middles of cells; `None` where there are too few, or too few are known. What began before the window is not known, and is taken
    /// to be longer than all others.
    fn quantile(&self, share: f64) -> Option<f64> {
        let known = self.known();
        let all = known.max(self.ended as f64);
        let wanted = share * all;
        if all * share.min(1.0 - share) < BEYOND || known < ENOUGH_KNOWN * all || wanted > known - 1.0 {
            return None;
        }
        let (mut below, mut last) = (0.0, None);
        for (time, count) in self.counts.iter().filter(|(_, count)| **count > 0) {
            let (rank, time) = (below + *count as f64 / 2.0, *time as f64);
            if rank >= wanted {
                let (of_last, before) = last.unwrap_or((rank, time));
                let along = if rank > of_last { (wanted - of_last) / (rank - of_last) } else { 1.0 };
                return Some(before + along * (time - before));
            }
            (below, last) = (below + *count as f64, Some((rank, time)));
        }
        last.map(|(_, time)| time)
    }
}

/// The quantiles without speedups, as far as they are known.
pub(crate) fn at_rest<'a>(baselines: impl IntoIterator<Item = &'a Window>, pair: Pair) -> Vec<Quantile> {
    let windows: Vec<&Window> = baselines.into_iter().collect();
    let mut groups = vec![Distribution::default(); windows.len().min(GROUPS)];
    let count = groups.len();
    for (nth, window) in windows.iter().enumerate() {
        groups[nth * count / windows.len()].add([*window], pair);
    }
    let mut all = Distribution::default();
    groups.iter().for_each(|group| all.merge(group));
    let of_share = |share: f64| {
        let time = jackknife((groups.len(), groups.len()), |left_out| {
            all.without(left_out.map(|nth| &groups[nth])).quantile(share)
        })?;
        Some(Quantile { share, time })
    };
    QUANTILES.into_iter().filter_map(of_share).collect()
}

/// A value with its interval, from `value(Some(nth))`, which leaves one of so many groups out, and `value(None)`. The second number is that of the groups that say
/// anything.
fn jackknife(
    (groups, telling): (usize, usize),
    value: impl Fn(Option<usize>) -> Option<f64>,
) -> Option<Estimate> {
    if telling < ENOUGH_GROUPS {
        return None;
    }
    let whole = value(None)?;
    let parts: Vec<f64> = (0..groups).map(|nth| value(Some(nth))).collect::<Option<_>>()?;
    let n = groups as f64;
    let mean = parts.iter().sum::<f64>() / n;
    let squares: f64 = parts.iter().map(|part| (part - mean).powi(2)).sum();
    Some(interval::around(whole, (squares * (n - 1.0) / n).sqrt(), telling - 1))
}

/// What is wrong with all gains, whatever the noise.
#[derive(Clone, Copy)]
pub(super) struct Errors<'a> {
    /// The standard error of inserted delay, as a share of it.
    pub(super) of_delay: f64,
    /// The standard error of what is in doubt besides, at a speedup of 0 to 1.
    pub(super) in_doubt: &'a dyn Fn(f64) -> f64,
    /// What gains are scaled by.
    pub(super) phase: f64,
}

/// What the windows of one region hold: distributions by speedup and group.
#[derive(Debug, Default)]
struct Sums {
    whole: BTreeMap<Speedup, Distribution>,
    groups: Vec<BTreeMap<Speedup, Distribution>>,
    /// Inserted delay, as a share of the time that pieces of work take in virtual time.
    inserted: BTreeMap<Speedup, f64>,
}

impl Sums {
    fn of(experiments: &Experiments<'_>, pairs: &Pairs, pair: Pair) -> Self {
        let mut sums = Self::default();
        let used: BTreeSet<_> = pairs.pairs.iter().map(|pair| pair.block).collect();
        let blocks: Vec<_> = experiments.blocks().filter(|block| used.contains(&block.key())).collect();
        let count = used.len().min(GROUPS);
        sums.groups = vec![BTreeMap::new(); count];
        let nth: BTreeMap<_, _> =
            used.iter().enumerate().map(|(nth, key)| (*key, nth * count / used.len())).collect();
        for block in &blocks {
            let group = nth[&block.key()];
            let mut add = |speedup, windows: &[&Window]| {
                sums.groups[group].entry(speedup).or_default().add(windows.iter().copied(), pair);
                sums.whole.entry(speedup).or_default().add(windows.iter().copied(), pair);
            };
            if block.first {
                add(Speedup::ZERO, &block.baseline);
            }
            if let Some((speedup, windows)) = &block.treated
                && !pairs.is_disturbed(block.key(), *speedup)
            {
                add(*speedup, windows);
            }
        }
        let mut sides: BTreeMap<Speedup, (f64, f64)> = BTreeMap::new();
        for (speedup, side) in pairs.pairs.iter().filter_map(|pair| pair.treated) {
            let sum = sides.entry(speedup).or_default();
            *sum = (sum.0 + side.delayed, sum.1 + side.amount);
        }
        let share = |(delayed, amount): (f64, f64)| if amount > 0.0 { delayed / amount } else { 0.0 };
        sums.inserted = sides.into_iter().map(|(speedup, sum)| (speedup, share(sum))).collect();
        sums
    }

    /// The windows at these speedups together.
    fn at(&self, speedups: &[Speedup], left_out: Option<usize>) -> Distribution {
        let mut sum = Distribution::default();
        for speedup in speedups {
            let Some(whole) = self.whole.get(speedup) else { continue };
            sum.merge(&whole.without(left_out.and_then(|nth| self.groups[nth].get(speedup))));
        }
        sum
    }

    /// How much shorter a quantile is at these speedups, as a share.
    fn gain(&self, share: f64, speedups: &[Speedup], left_out: Option<usize>) -> Option<f64> {
        let quantile = |speedups: &[Speedup]| self.at(speedups, left_out).quantile(share);
        Some(1.0 - quantile(speedups)? / quantile(&[Speedup::ZERO])?.max(1.0))
    }

    /// The groups that were treated at any of these speedups.
    fn telling(&self, speedups: &[Speedup]) -> usize {
        let tells =
            |group: &&BTreeMap<Speedup, Distribution>| speedups.iter().any(|at| group.contains_key(at));
        self.groups.iter().filter(tells).count()
    }

    fn treated(&self) -> impl Iterator<Item = Speedup> + '_ {
        self.whole.keys().copied().filter(|speedup| !speedup.is_zero())
    }

    /// Speedups next to each other, put together until they have enough pieces of work for the quantile.
    fn bins(&self, share: f64) -> Vec<Vec<Speedup>> {
        let enough = ENOUGH_IN_A_BIN * BEYOND / (1.0 - share);
        let mut bins: Vec<(Vec<Speedup>, f64)> = Vec::new();
        for speedup in self.treated() {
            let total = self.whole[&speedup].known();
            match bins.last_mut().filter(|bin| bin.1 < enough) {
                Some(bin) => {
                    bin.0.push(speedup);
                    bin.1 += total;
                }
                None => bins.push((vec![speedup], total)),
            }
        }
        // What is left over belongs to the last that is full.
        if bins.len() > 1
            && let Some((rest, total)) = bins.pop_if(|bin| bin.1 < enough)
            && let Some(last) = bins.last_mut()
        {
            last.0.extend(rest);
            last.1 += total;
        }
        bins.into_iter().map(|bin| bin.0).collect()
    }

    /// The gain at [`REFERENCE`]: see [the file](self).
    fn effect(&self, share: f64, bins: &[Vec<Speedup>], left_out: Option<usize>) -> Option<f64> {
        let gain = |bin: &Vec<Speedup>| {
            let weight = self.at(bin, left_out).known();
            let sum: f64 = bin.iter().map(|at| at.fraction() * self.at(&[*at], left_out).known()).sum();
            Some((sum / weight, self.gain(share, bin, left_out)?, weight))
        };
        parabola(&bins.iter().filter_map(gain).collect::<Vec<_>>()).map(|at| at(REFERENCE.fraction()))
    }

    /// The standard error of the method at `speedup`, for a gain of `gain`.
    fn error(&self, errors: Errors<'_>, speedup: Speedup, gain: f64) -> f64 {
        let inserted = self.inserted.get(&speedup).copied().unwrap_or(0.0);
        let of_delay = errors.of_delay * inserted * (1.0 - gain).max(0.0) * errors.phase;
        of_delay.hypot((errors.in_doubt)(speedup.fraction()))
    }
}

/// The parabola through zero nearest to points (s, gain, weight), as a function of s; a line where there are fewer than three, nothing without any.
fn parabola(points: &[(f64, f64, f64)]) -> Option<impl Fn(f64) -> f64> {
    let sum = |term: fn(f64, f64) -> f64| points.iter().map(|(s, g, w)| w * term(*s, *g)).sum::<f64>();
    let (s2, s3, s4) = (sum(|s, _| s * s), sum(|s, _| s.powi(3)), sum(|s, _| s.powi(4)));
    let (gs, gs2) = (sum(|s, g| g * s), sum(|s, g| g * s * s));
    if s2 <= 0.0 {
        return None;
    }
    let determinant = s2 * s4 - s3 * s3;
    let (a, b) = if points.len() < 3 || determinant <= 1e-9 * s2 * s4 {
        (gs / s2, 0.0)
    } else {
        ((gs * s4 - gs2 * s3) / determinant, (gs2 * s2 - gs * s3) / determinant)
    };
    Some(move |s: f64| a * s + b * s * s)
}

/// What the experiments on one region say about the quantiles of what begins at `begin`; nothing where single pieces of work are not known.
pub(super) fn gains(
    experiments: &Experiments<'_>,
    pairs: &Pairs,
    pair: Pair,
    errors: Errors<'_>,
) -> Vec<QuantileGain> {
    let sums = Sums::of(experiments, pairs, pair);
    let groups = sums.groups.len();
    let of_share = |share: f64| {
        let scaled = |estimate: Estimate| estimate.scaled(errors.phase);
        let at = |speedup: Speedup| {
            let telling = sums.telling(&[speedup]);
            let gain = jackknife((groups, telling), |left_out| sums.gain(share, &[speedup], left_out))?;
            Some((speedup, interval::widened(scaled(gain), sums.error(errors, speedup, gain.value))))
        };
        let bins = sums.bins(share);
        let telling = sums.telling(&bins.concat());
        let effect = jackknife((groups, telling), |left_out| sums.effect(share, &bins, left_out))?;
        // In proportion to what is inserted, so nearly to the speedup.
        let of_method =
            |speedup: Speedup| sums.error(errors, speedup, 0.0) * REFERENCE.fraction() / speedup.fraction();
        let error = sums.treated().map(of_method).fold(0.0, f64::max);
        let effect = interval::widened(scaled(effect), error);
        Some(QuantileGain { share, effect, curve: sums.treated().filter_map(at).collect() })
    };
    QUANTILES.into_iter().filter_map(of_share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::{about, window};
    use crate::estimate::{EstimateOptions, Phase, Target, estimate, experiments};
    use crate::model::{InFlight, Latencies, Visits};
    use crate::units::{Nanos, VisitNanos};

    const BEGIN: PointId = PointId::new(2);
    const END: PointId = PointId::new(3);

    /// A window in which `count` pieces of work took random times, exponential with a mean of 4 ms that a speedup `s` makes shorter by half of it.
    fn served(block: i64, s: f64, count: u64, rng: &mut fastrand::Rng) -> Window {
        let mean = 4e6 * (1.0 - 0.5 * s);
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        let mut sum = 0.0;
        for _ in 0..count {
            let time = -mean * (1.0 - rng.f64()).ln();
            sum += time;
            *counts.entry((time / 1e5) as u64 * 100_000 + 50_000).or_default() += 1;
        }
        let counts = counts.into_iter().map(|(time, count)| (Nanos::new(time), count)).collect();
        Window {
            required: Nanos::new((3e7 * s) as u64),
            visits: vec![Visits { point: END, count, span: None }],
            in_flight: vec![InFlight { begin: BEGIN, integral: VisitNanos::new(sum as i64) }],
            latencies: vec![Latencies { begin: BEGIN, counts }],
            ..window(block, u32::from(s > 0.0), Speedup::from_per_mille((s * 1000.0) as u16).unwrap())
        }
    }

    fn windows(seed: u64) -> Vec<Window> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut windows = Vec::new();
        for block in 0..40 {
            for s in [0.0, f64::from(rng.u16(1..=4)) / 4.0] {
                windows.push(served(block, s, 200, &mut rng));
            }
        }
        windows
    }

    fn gains_of(windows: &[Window], method_error: f64) -> Vec<QuantileGain> {
        let options = EstimateOptions { method_error, ..EstimateOptions::default() };
        let target = Target::Latency { begin: BEGIN, end: END };
        estimate(&experiments(windows).0[0], about(target), &Phase::ALWAYS, &options).quantiles
    }

    #[test]
    fn quantiles_follow_the_work() {
        let (mut inside, mut of, mut sum) = (0, 0, 0.0);
        for seed in 0..20 {
            let gains = gains_of(&windows(seed), 0.0);
            assert_eq!(gains.iter().map(|gain| gain.share).collect::<Vec<_>>(), QUANTILES);
            for gain in &gains {
                let truths = gain.curve.iter().map(|(speedup, at)| (0.5 * speedup.fraction(), at));
                for (truth, estimate) in truths.chain([(0.1, &gain.effect)]) {
                    inside += u32::from(estimate.lo <= truth && truth <= estimate.hi);
                    of += 1;
                }
                sum += gain.effect.value - 0.1;
            }
        }
        assert_eq!(of, 20 * 3 * 5);
        assert!(inside >= 270, "{inside} of {of} intervals hold the truth");
        assert!((sum / 60.0).abs() < 0.02, "{}", sum / 60.0);
    }

    #[test]
    fn quantiles_at_rest_are_those_of_the_distribution() {
        let windows = windows(7);
        let baselines = windows.iter().filter(|window| window.speedup.is_zero());
        let found = at_rest(baselines, (BEGIN, END));
        for (quantile, truth) in found.iter().zip([4e6 * 2_f64.ln(), 4e6 * 20_f64.ln(), 4e6 * 100_f64.ln()]) {
            let near = (quantile.time.value / truth - 1.0).abs();
            assert!(near < 0.1 && quantile.time.se / truth < 0.1, "{quantile:?}, truly {truth}");
        }
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn the_method_widens_them_in_proportion_to_what_is_inserted() {
        let windows = windows(3);
        let at_all = |method| gains_of(&windows, method)[0].curve.last().copied().unwrap().1;
        let (without, with) = (at_all(0.0), at_all(0.1));
        // 30 of 100 ms are inserted, and half of the time is left: 10 % of 30 / 70 of that.
        let added = (with.se.powi(2) - without.se.powi(2)).sqrt();
        assert!((added - 0.1 * 0.3 / 0.7 * 0.5).abs() < 0.005, "{added}");
    }

    #[test]
    fn what_began_before_the_window_is_long() {
        // One in twenty is not known how long it took: the longest ones.
        let cut = |mut window: Window| {
            let mut left = 10;
            for (_, count) in window.latencies[0].counts.iter_mut().rev() {
                let less = left.min(*count);
                (*count, left) = (*count - less, left - less);
            }
            window
        };
        let (whole, cut) = (windows(3), windows(3).into_iter().map(cut).collect::<Vec<_>>());
        let median = |windows: &[Window]| at_rest(windows, (BEGIN, END))[0].time.value;
        assert!((median(&whole) / median(&cut) - 1.0).abs() < 1e-9);
        let shares = |gains: Vec<QuantileGain>| gains.iter().map(|gain| gain.share).collect::<Vec<_>>();
        assert_eq!(shares(gains_of(&cut, 0.0)), [0.5], "the others are longer than what is known");
        let mut hidden = whole;
        hidden.iter_mut().step_by(4).for_each(|window| window.latencies.clear());
        assert!(gains_of(&hidden, 0.0).is_empty(), "windows that were left out are not like the others");
    }

    #[test]
    fn nothing_is_made_up() {
        let none = |windows: &[Window]| {
            gains_of(windows, 0.0).is_empty() && at_rest(windows, (BEGIN, END)).is_empty()
        };
        let without: Vec<Window> =
            windows(3).into_iter().map(|window| Window { latencies: vec![], ..window }).collect();
        assert!(none(&without));
        let mut rng = fastrand::Rng::with_seed(3);
        let few: Vec<Window> = (0..4)
            .flat_map(|block| [0.0, 0.5].map(|s| (block, s)))
            .map(|(block, s)| served(block, s, 1, &mut rng))
            .collect();
        assert!(none(&few), "four pieces of work have no median");
    }
}
