//! Changes: what to think of the difference of two slopes.

use super::SlopeChange;
use crate::estimate::{Difference, ENOUGH_BLOCKS, Verdict, WORTH};

/// The share of comparisons without any change in which some region may be reported as changed.
const FALSE_ALARMS: f64 = 0.05;
/// A slope that certainly changed by less than this is unchanged: making the region free would gain at most
/// 10 % more or less than before. Wider than a verdict's, because a difference has the noise of both.
const SAME: f64 = 0.1;

/// What became of the effect of a region on a point.
///
/// A change is *significant* when it is larger than 0.02 (what is smaller is not worth having) for certain:
/// by Student's t from both standard errors, with Holm's correction (*A Simple Sequentially Rejective
/// Multiple Test Procedure*, 1979) over all regions and points that are compared, because among twenty
/// regions that did not change, one 95 % interval is expected to say that it did. With it, the chance
/// that *any* of them is reported as changed is 5 %.
///
/// | change | |
/// |---|---|
/// | `BecameCritical` | significant; helps now, did not before, and the intervals of the slopes do not overlap |
/// | `NoLongerCritical` | significant; helped before, does not now, and the intervals do not overlap |
/// | `More`, `Less` | otherwise significant |
/// | `Unchanged` | not significant, and the 95 % interval of the difference is within ±0.1 |
/// | `CannotTell` | anything else, also when one recording did not try the region, or in fewer than five blocks |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Making the region faster did not help, and does now.
    BecameCritical,
    /// It helped, and no longer does.
    NoLongerCritical,
    /// It is worth more than it was (or hurts less).
    More,
    /// It is worth less than it was (or hurts more).
    Less,
    /// The same as before.
    Unchanged,
    /// There is not enough data to tell.
    CannotTell,
    /// Only the first recording has the region.
    OnlyBefore,
    /// Only the second one has it.
    OnlyAfter,
}

impl Change {
    /// The name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Change::BecameCritical => "became-critical",
            Change::NoLongerCritical => "no-longer-critical",
            Change::More => "more",
            Change::Less => "less",
            Change::Unchanged => "unchanged",
            Change::CannotTell => "cannot-tell",
            Change::OnlyBefore => "only-before",
            Change::OnlyAfter => "only-after",
        }
    }

    /// Where it stands in a list: smaller is earlier.
    pub(super) fn rank(self) -> u8 {
        match self {
            Change::BecameCritical => 0,
            Change::NoLongerCritical => 1,
            Change::More | Change::Less => 2,
            Change::OnlyAfter => 3,
            Change::OnlyBefore => 4,
            Change::CannotTell => 5,
            Change::Unchanged => 6,
        }
    }
}

/// Says of every difference what to think of it.
pub(super) fn classify<'s, 'a: 's>(slopes: impl Iterator<Item = &'s mut SlopeChange<'a>>) {
    let mut tests: Vec<(f64, Difference, &mut SlopeChange<'_>)> = slopes
        .filter(|slope| slope.has_enough_blocks())
        .filter_map(|slope| {
            let apart = slope.apart()?;
            Some((apart.p_beyond(WORTH), apart, slope))
        })
        .collect();
    tests.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let (mut left, mut rejected) = (tests.len(), true);
    for (p, apart, slope) in tests {
        // Holm: the smallest against all of them, the next against the others, until one fails.
        rejected &= p * left as f64 <= FALSE_ALARMS;
        left -= 1;
        slope.change = if rejected { slope.significant(&apart) } else { insignificant(&apart) };
    }
}

fn insignificant(apart: &Difference) -> Change {
    let within = apart.estimate.lo > -SAME && apart.estimate.hi < SAME;
    if within { Change::Unchanged } else { Change::CannotTell }
}

impl SlopeChange<'_> {
    fn has_enough_blocks(&self) -> bool {
        [self.before, self.after].iter().all(|side| side.is_some_and(|e| e.blocks >= ENOUGH_BLOCKS))
    }

    fn significant(&self, apart: &Difference) -> Change {
        let helps = [self.before, self.after].map(|side| side.is_some_and(|e| e.verdict == Verdict::Helps));
        let overlap = match (self.before.and_then(|e| e.slope), self.after.and_then(|e| e.slope)) {
            (Some(before), Some(after)) => before.overlaps(&after),
            _ => true,
        };
        match helps {
            [false, true] if !overlap => Change::BecameCritical,
            [true, false] if !overlap => Change::NoLongerCritical,
            _ if apart.estimate.value > 0.0 => Change::More,
            _ => Change::Less,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Estimate, PointEstimate, Reach, Target};
    use crate::model::PointId;

    fn estimated(value: f64, se: f64, verdict: Verdict) -> PointEstimate {
        PointEstimate {
            target: Target::Throughput(PointId::new(1)),
            verdict,
            blocks: 40,
            disturbed: 0,
            slope: Some(Estimate { value, se, lo: value - 2.0 * se, hi: value + 2.0 * se }),
            method_error: 0.0,
            handover_error: 0.0,
            slice_error: 0.0,
            waking_error: 0.0,
            in_sections: 0.0,
            crowding_shift: 0.0,
            limit_shift: 0.0,
            crowding: Reach::default(),
            clocks: Reach::default(),
            latency_error: 0.0,
            executing: 0.0,
            chance: None,
            effect: None,
            most: None,
            bend: None,
            curve: vec![],
            pairing: 1.0,
            kept_apart: false,
            eras: vec![],
            eras_differ: false,
            quantiles: vec![],
            is_probable: false,
            more_blocks: None,
        }
    }

    /// Classifies pairs of slopes that all have this standard error.
    fn changes(se: f64, slopes: &[(f64, f64)]) -> Vec<Change> {
        let verdict = |value| if value - 2.0 * se > WORTH { Verdict::Helps } else { Verdict::NoEffect };
        let estimate = |value| estimated(value, se, verdict(value));
        let sides: Vec<_> = slopes.iter().map(|&(a, b)| (estimate(a), estimate(b))).collect();
        let unclassified = |(a, b)| SlopeChange {
            change: Change::CannotTell,
            before: Some(a),
            after: Some(b),
            difference: None,
        };
        let mut slopes: Vec<_> = sides.iter().map(|(a, b)| unclassified((a, b))).collect();
        classify(slopes.iter_mut());
        slopes.iter().map(|slope| slope.change).collect()
    }

    #[test]
    fn a_table_of_changes() {
        for (se, before, after, change) in [
            (0.02, 0.0, 0.5, Change::BecameCritical),
            (0.02, 0.5, 0.0, Change::NoLongerCritical),
            (0.02, 0.3, 0.5, Change::More),
            (0.02, 0.5, 0.3, Change::Less),
            (0.02, -0.5, -0.1, Change::More),
            (0.02, 0.5, 0.51, Change::Unchanged),
            (0.002, 0.5, 0.51, Change::Unchanged), // certain, but not worth having
            (0.1, 0.5, 0.51, Change::CannotTell),
            (0.03, 0.05, 0.16, Change::More), // helps now and did not, but the intervals overlap
        ] {
            assert_eq!(changes(se, &[(before, after)]), [change], "{before} → {after} ± {se}");
        }
    }

    #[test]
    fn many_regions_need_more_to_be_believed() {
        // 2.6 standard errors beyond what is worth having: p = 0.011.
        let one = (0.4, 0.4 + WORTH + 2.6 * 0.02 * f64::sqrt(2.0));
        assert_eq!(changes(0.02, &[one]), [Change::More]);
        let among = |others: usize| changes(0.02, &[vec![one], vec![(0.4, 0.4); others]].concat())[0];
        assert_eq!(among(3), Change::More);
        assert_eq!(among(9), Change::CannotTell);
        // Those that are certain do not stand in the way of the others.
        let certain = changes(0.02, &[vec![(0.1, 0.8); 9], vec![one]].concat());
        assert!(certain.iter().all(|change| *change == Change::More), "{certain:?}");
    }
}
