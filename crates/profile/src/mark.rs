//! Marks: what something costs against what it is worth.
//!
//! Users who look for something to make faster look at what costs most. These are the two ways to be misled by that.

use crate::estimate::{ENOUGH_BLOCKS, PointEstimate, REFERENCE, Verdict};
use crate::ranking::RegionEstimate;

/// From this share on, code is hot.
const HOT: f64 = 0.05;
/// Below this share, code is not hot; what is between is neither.
const NOT_HOT: f64 = 0.02;
/// A gain that is worth having, at [`REFERENCE`].
const WORTH_HAVING: f64 = 0.01;

/// What to think of a cost and a worth that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// It costs much, and making it faster changes next to nothing.
    HotButDoesNotMatter,
    /// It costs little, and making it faster helps.
    MattersButIsNotHot,
}

impl Mark {
    /// The name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Mark::HotButDoesNotMatter => "hot-but-does-not-matter",
            Mark::MattersButIsNotHot => "matters-but-is-not-hot",
        }
    }

    /// The mark of code that has this share of the time (the largest that is known), this verdict, and this interval of
    /// the gain at [`REFERENCE`].
    pub fn of(share: f64, verdict: Verdict, effect: Option<(f64, f64)>) -> Option<Mark> {
        let at_most = |gain| effect.is_some_and(|(_, hi)| hi < gain);
        let at_least = |gain| effect.is_some_and(|(lo, _)| lo >= gain);
        let does_not_matter = match verdict {
            Verdict::NoEffect => true,
            Verdict::Helps | Verdict::NotEnoughData => at_most(WORTH_HAVING),
            // The user should know that it hurts; and of an idle point nothing is known.
            Verdict::Hurts | Verdict::Idle | Verdict::NotTrusted => false,
        };
        if share >= HOT && does_not_matter {
            Some(Mark::HotButDoesNotMatter)
        } else if share < NOT_HOT && verdict == Verdict::Helps && at_least(WORTH_HAVING) {
            Some(Mark::MattersButIsNotHot)
        } else {
            None
        }
    }

    /// The same where only the interval of the slope is known.
    pub fn of_slope(share: f64, verdict: Verdict, slope: Option<(f64, f64)>) -> Option<Mark> {
        let at = REFERENCE.fraction();
        Mark::of(share, verdict, slope.map(|(lo, hi)| (at * lo, at * hi)))
    }
}

impl RegionEstimate {
    /// Its largest share: in production, or in the runs that were recorded.
    pub fn largest_share(&self) -> Option<f64> {
        self.share.into_iter().chain(self.production).max_by(f64::total_cmp)
    }

    /// What to think of its cost and its worth: it matters if it matters to any progress point.
    pub fn mark(&self) -> Option<Mark> {
        let share = self.largest_share()?;
        let live = || self.points.iter().filter(|point| point.verdict != Verdict::Idle);
        let mark = |point: &PointEstimate| {
            let known = point.effect.filter(|_| point.blocks >= ENOUGH_BLOCKS);
            Mark::of(share, point.verdict, known.map(|effect| (effect.lo, effect.hi)))
        };
        let first = live().find_map(mark)?;
        let is_alone = first == Mark::MattersButIsNotHot || live().all(|point| mark(point) == Some(first));
        is_alone.then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mark::{HotButDoesNotMatter as Hot, MattersButIsNotHot as Matters};
    use Verdict::{Helps, Hurts, Idle, NoEffect, NotEnoughData};

    #[test]
    fn cost_and_worth_are_compared() {
        for (share, verdict, effect, expected) in [
            (0.30, NoEffect, Some((-0.005, 0.009)), Some(Hot)),
            (0.05, NoEffect, Some((-0.010, 0.011)), Some(Hot)),
            (0.05, NoEffect, None, Some(Hot)),
            (0.049, NoEffect, Some((-0.005, 0.005)), None),
            (0.30, NotEnoughData, Some((-0.02, 0.009)), Some(Hot)),
            (0.30, NotEnoughData, Some((-0.02, 0.010)), None),
            (0.30, NotEnoughData, None, None),
            (0.30, Helps, Some((0.005, 0.008)), Some(Hot)),
            (0.30, Helps, Some((0.050, 0.070)), None),
            (0.30, Hurts, Some((-0.09, -0.05)), None),
            (0.30, Idle, None, None),
            (0.019, Helps, Some((0.010, 0.030)), Some(Matters)),
            (0.000, Helps, Some((0.100, 0.200)), Some(Matters)),
            (0.020, Helps, Some((0.010, 0.030)), None),
            (0.001, Helps, Some((0.009, 0.030)), None),
            (0.001, Helps, None, None),
            (0.001, NoEffect, Some((-0.005, 0.005)), None),
            (0.001, NotEnoughData, Some((0.02, 0.05)), None),
        ] {
            assert_eq!(Mark::of(share, verdict, effect), expected, "{share} {verdict:?} {effect:?}");
        }
        assert_eq!(Mark::of_slope(0.001, Helps, Some((0.05, 0.2))), Some(Matters));
        assert_eq!(Mark::of_slope(0.001, Helps, Some((0.04, 0.2))), None);
    }
}
