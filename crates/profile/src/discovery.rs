//! Discoveries: verdicts that survive having looked at many regions.
//!
//! A 95 % interval misses the truth once in twenty times, so among 200 regions without any effect some would
//! be reported to help. What is called *helps* or *hurts* is therefore chosen from all regions and points of the
//! profile together, so that on average at most 5 % of what is called so has no effect (the false discovery
//! rate; Benjamini and Hochberg, *J. R. Stat. Soc. B* 57, 1995). If nothing at all has an effect, that is at
//! most one wrong call in twenty recordings, whether 1 region was tried or 200. The points of one region go
//! up and down together; the procedure allows that (Benjamini and Yekutieli, *Ann. Statist.* 29, 2001).
//!
//! What is no call by that may still be *probable*: by the same procedure among the rest, with [`PROBABLY_FALSE`] instead. Half of such chances are on the side that nobody asks about, so that of
//! what is said to help probably at most one in ten should not.
//!
//! Intervals are not widened: each is honest about its own number, and only the calls are about many.

use crate::estimate::{ENOUGH_BLOCKS, PointEstimate, Verdict};
use crate::ranking::RegionEstimate;

/// The share of calls that may be wrong.
const FALSE_SHARE: f64 = 0.05;

/// The same of what is probable.
const PROBABLY_FALSE: f64 = 0.20;

/// Takes back the calls in `regions` that could well be chance, given how many were looked at, and marks what is probable all the same.
pub(crate) fn check(regions: &mut [RegionEstimate]) {
    let estimates = || regions.iter().flat_map(|region| &region.points);
    let mut chances: Vec<f64> = estimates().filter_map(counted).collect();
    chances.sort_unstable_by(f64::total_cmp);
    let called = called(&chances);
    // Of those that are no calls: calls are sure, and must not make up for others that are wrong.
    let others = &chances[called..];
    let probable = highest(others, within(others, PROBABLY_FALSE));
    // What a chance has to be below to be called: that of the next one.
    let bar = FALSE_SHARE * (called + 1) as f64 / chances.len() as f64;
    let last = highest(&chances, called);
    for estimate in regions.iter_mut().flat_map(|region| &mut region.points) {
        let is_call = matches!(estimate.verdict, Verdict::Helps | Verdict::Hurts);
        if is_call && counted(estimate).is_none_or(|chance| last.is_none_or(|last| chance > last)) {
            estimate.doubt(bar);
        }
        let is_within = counted(estimate).zip(probable).is_some_and(|(chance, probable)| chance <= probable);
        estimate.is_probable =
            is_within && estimate.says_something() && estimate.verdict == Verdict::NotEnoughData;
    }
}

/// The chance of an estimate that could become a call.
fn counted(estimate: &PointEstimate) -> Option<f64> {
    estimate.chance.filter(|_| estimate.blocks >= ENOUGH_BLOCKS)
}

/// The highest of the first `count` chances.
fn highest(chances: &[f64], count: usize) -> Option<f64> {
    count.checked_sub(1).map(|last| chances[last])
}

/// How many of the `chances`, ascending, are discoveries.
pub(crate) fn called(chances: &[f64]) -> usize {
    within(chances, FALSE_SHARE)
}

/// The same if this share of them may be false.
fn within(chances: &[f64], false_share: f64) -> usize {
    let share = false_share / chances.len() as f64;
    let within = |(nth, chance): (usize, &f64)| *chance <= share * (nth + 1) as f64;
    chances.iter().enumerate().rposition(within).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_is_below_its_own_bar_and_all_before_it() {
        for (chances, expected) in [
            (&[][..], 0),
            (&[0.05], 1),
            (&[0.06], 0),
            (&[0.03, 0.04], 2),
            (&[0.03, 0.06], 0),
            (&[0.001, 0.02, 0.03, 0.9], 3),
            (&[0.001, 0.03, 0.04, 0.9], 1),
        ] {
            assert_eq!(called(chances), expected, "{chances:?}");
        }
    }
}
