//! Outliers: blocks in which something disturbed one of the two windows.
//!
//! A window during which the machine did something else altogether (a backup, a suspended virtual
//! machine) counts a tenth of the visits, and a single one of them can move a slope by more than its
//! interval. Such a block is not used for the estimate at all. Only what no noise explains is left out: by
//! normal noise it happens to fewer than one block in ten thousand, so that intervals stay what they are.
//!
//! A block is judged by what its two windows say about each other, so drift, and sessions that run at
//! different levels, look normal.

use std::collections::BTreeMap;

use super::fit::LEAST_SHARE;
use super::pair::{Pair, Side};

/// How many standard deviations from the others are too many.
const TOO_FAR: f64 = 4.0;
/// How many blocks at the same and the nearest speedups show what is normal there.
const NEARBY: usize = 9;
/// With fewer blocks than this it cannot be told what is normal.
pub(super) const ENOUGH_TO_COMPARE: usize = 5;
/// A window is disturbed if a visit took this many times as long as in the other, pauses included. (Where windows agree
/// about that, it is the delay that differs: a region runs in one phase of the program and not in the next.)
const SLOWER: f64 = 1.5;
/// If more than this share of the blocks is far from the others, nothing disturbed them: the program is like
/// that, as one whose phases are as long as windows.
const MOST: f64 = 1.0 / 8.0;
/// The standard deviation of a normal distribution, over the median of its absolute values.
const DEVIATION_OF_MEDIAN: f64 = 1.482_6;

/// Takes the disturbed pairs out of `pairs`.
pub(super) fn remove(pairs: &mut Vec<Pair>) -> Vec<Pair> {
    let complete: Vec<Option<Complete>> = pairs.iter().map(Complete::new).collect();
    let misfits = misfits(&complete);
    let sizes: Vec<(f64, f64)> = misfits.iter().flatten().map(|z| (z.abs(), 1.0)).collect();
    let n = sizes.len();
    if n < ENOUGH_TO_COMPARE {
        return Vec::new();
    }
    // Never less than the noise of counting: a few blocks may agree by chance. The median of a few is
    // itself a guess, and gets some room.
    let normal = (DEVIATION_OF_MEDIAN * median(sizes) * (1.0 + ENOUGH_TO_COMPARE as f64 / n as f64)).max(1.0);
    let is_far = |misfit: Option<f64>| misfit.is_some_and(|z| z.abs() >= TOO_FAR * normal);
    let is_slower = |pair: &Option<Complete>| pair.as_ref().is_some_and(|pair| pair.slower >= SLOWER);
    let are_disturbed: Vec<bool> =
        complete.iter().zip(misfits).map(|(pair, misfit)| is_slower(pair) && is_far(misfit)).collect();
    if are_disturbed.iter().filter(|disturbed| **disturbed).count() > ((n as f64 * MOST) as usize).max(1) {
        return Vec::new();
    }
    let mut are_disturbed = are_disturbed.iter();
    let disturbed: Vec<Pair> = pairs.extract_if(.., |_| are_disturbed.next() == Some(&true)).collect();
    // Another pair of the same block may be good, and with it their baseline.
    let mut before = None;
    for pair in pairs {
        pair.first = before != Some(pair.block);
        before = Some(pair.block);
    }
    disturbed
}

/// How far each complete pair is from the pairs at its own and the nearest speedups, in units of what
/// counting alone would give.
fn misfits(complete: &[Option<Complete>]) -> Vec<Option<f64>> {
    let curve = Curve::new(complete.iter().flatten());
    // However many blocks there are, they share a few speedups.
    let mut known = BTreeMap::new();
    let mut at = |s: f64| *known.entry(s.to_bits()).or_insert_with(|| curve.at(s));
    complete.iter().map(|c| c.as_ref().map(|c| c.misfit(at(c.s)))).collect()
}

/// A curve that outliers do not move: the line through zero with the smallest sum of absolute misfits, and
/// the median misfit of the blocks nearby.
struct Curve {
    slope: f64,
    /// Speedups, and how far the gain was above the line.
    above: Vec<(f64, f64)>,
}

impl Curve {
    fn new<'a>(complete: impl Iterator<Item = &'a Complete>) -> Curve {
        let seen: Vec<&Complete> = complete.filter(|c| c.visits > 0.0).collect();
        let slope = median(seen.iter().map(|c| (c.gain() / c.s, c.s * c.visits)).collect());
        Curve { slope, above: seen.iter().map(|c| (c.s, c.gain() - slope * c.s)).collect() }
    }

    fn at(&self, s: f64) -> f64 {
        let mut distances: Vec<f64> = self.above.iter().map(|(at, _)| (at - s).abs()).collect();
        distances.sort_unstable_by(f64::total_cmp);
        let Some(near) = distances.get(NEARBY - 1).or(distances.last()) else { return 0.0 };
        let nearby = self.above.iter().filter(|(at, _)| (at - s).abs() <= near + 1e-9);
        self.slope * s + median(nearby.map(|(_, above)| (*above, 1.0)).collect())
    }
}

/// A pair of windows that can be compared.
struct Complete {
    s: f64,
    visits: f64,
    /// The visits that the baseline leads to expect.
    own: f64,
    /// How many amounts of the baseline went into the treated window.
    ratio: f64,
    /// How many times as long a visit took in the window where it took longer, by the clock on the wall.
    slower: f64,
}

impl Complete {
    fn new(pair: &Pair) -> Option<Complete> {
        let (speedup, side) = pair.treated?;
        let ratio = side.amount / pair.baseline.amount;
        let own = ratio * pair.baseline.visits;
        let wall = |side: &Side| (side.amount + side.delayed) / side.visits;
        let longer = wall(&side) / wall(&pair.baseline);
        let slower = longer.max(1.0 / longer);
        ratio.is_finite().then_some(Complete {
            s: speedup.fraction(),
            visits: side.visits,
            own,
            ratio,
            slower,
        })
    }

    fn gain(&self) -> f64 {
        1.0 - self.own / self.visits
    }

    fn misfit(&self, gain: f64) -> f64 {
        let left = (1.0 - gain).max(LEAST_SHARE);
        let (treated, baseline) = (self.visits * left, self.own);
        // Both windows together say how many visits there should have been.
        let counting = (treated + baseline) / 2.0 * (left + self.ratio);
        if counting > 0.0 { (treated - baseline) / counting.sqrt() } else { 0.0 }
    }
}

/// The value with half of the weight on either side; 0 without values.
fn median(mut weighted: Vec<(f64, f64)>) -> f64 {
    weighted.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    let half = weighted.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let middle = weighted.iter().find(|(_, weight)| {
        below += weight;
        below >= half
    });
    middle.map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;
    use crate::units::Speedup;

    /// Blocks in which two speedups were tried with one baseline, one of them disturbed in the last block.
    #[test]
    fn a_baseline_counts_as_long_as_one_of_its_pairs_does() {
        let side = |visits| Side { amount: 1.0, visits, delayed: 0.0 };
        let pair = |block, percent, visits| Pair {
            block: (SessionId::new(1), block),
            part: Default::default(),
            baseline: side(100.0),
            treated: Speedup::from_percent(percent).map(|speedup| (speedup, side(visits))),
            first: percent == 20,
        };
        let mut pairs: Vec<Pair> =
            (0..9).flat_map(|block| [pair(block, 20, 100.0), pair(block, 40, 101.0)]).collect();
        assert!(remove(&mut pairs).is_empty());
        pairs[16] = pair(8, 20, 10.0);
        let disturbed = remove(&mut pairs);
        assert_eq!((disturbed.len(), disturbed[0].block.1, pairs.len()), (1, 8, 17));
        assert!(pairs[16].first && pairs.iter().filter(|pair| pair.first).count() == 9);
    }

    /// 20 blocks, of which every `nth` has `odd` as its treated window, and the others `usual`.
    fn blocks(nth: i64, odd: Side, usual: Side) -> Vec<Pair> {
        let pair = |block: i64| Pair {
            block: (SessionId::new(1), block),
            part: Default::default(),
            baseline: Side { amount: 1.0, visits: 100.0, delayed: 0.0 },
            treated: Some((Speedup::from_percent(100).unwrap(), if block % nth == 0 { odd } else { usual })),
            first: true,
        };
        (0..20).map(pair).collect()
    }

    #[test]
    fn a_phase_in_which_the_region_is_everything_is_no_disturbance() {
        let alone = Side { amount: 0.01, visits: 100.0, delayed: 0.99 };
        let usual = Side { amount: 1.0, visits: 100.0, delayed: 0.0 };
        assert!(remove(&mut blocks(10, alone, usual)).is_empty());
        assert_eq!(remove(&mut blocks(10, Side { visits: 10.0, ..usual }, usual)).len(), 2);
    }

    #[test]
    fn what_happens_often_is_no_disturbance() {
        let usual = Side { amount: 1.0, visits: 100.0, delayed: 0.0 };
        assert!(remove(&mut blocks(5, Side { visits: 10.0, ..usual }, usual)).is_empty());
    }
}
