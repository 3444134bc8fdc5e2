//! Eras: the parts of a recording between which the program's speed changed, each by itself.

use super::fit::Fit;
use super::interval::Difference;
use super::pair::Pairs;
use super::verdict::{ENOUGH_BLOCKS, WORTH};
use super::{Estimate, EstimateOptions, Target, bootstrap, interval};
use crate::model::SessionId;

/// How often two parts of a program that stays what it is may be taken to differ.
const LEVEL: f64 = 0.01;

/// A part of a recording, from one change of the program's speed to the next, or a stretch of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Era {
    /// The run, or the first of the stretch.
    pub session: SessionId,
    /// Which part of the run it is, from 0: see [`Drift::segments`](crate::Drift::segments).
    pub segment: usize,
    /// How many blocks the slope rests on.
    pub blocks: usize,
    /// The slope in this part alone, not scaled by the phase.
    pub slope: Estimate,
}

/// Those that have enough blocks, in the order of time; none where nothing is kept apart.
pub(super) fn all(pairs: &Pairs, target: Target, options: &EstimateOptions, error_of_delay: f64) -> Vec<Era> {
    if !pairs.apart {
        return Vec::new();
    }
    let era = |((session, segment), part): ((SessionId, usize), Pairs)| {
        let fit = Fit::new(&part).filter(|fit| fit.blocks() >= ENOUGH_BLOCKS)?;
        let of_noise = bootstrap::draw(&fit, options, target).slope;
        let slope = interval::widened(of_noise, error_of_delay * fit.delay);
        Some(Era { session, segment, blocks: fit.blocks(), slope })
    };
    pairs.parts().into_iter().filter_map(era).collect()
}

/// Whether two of them differ by more than what is not worth having, beyond chance.
pub(super) fn differ(eras: &[Era]) -> bool {
    let pairs = || eras.iter().enumerate().flat_map(|(nth, a)| eras[nth + 1..].iter().map(move |b| (a, b)));
    let tests = pairs().count() as f64;
    pairs().any(|(a, b)| {
        let apart = Difference::new((&a.slope, a.blocks), (&b.slope, b.blocks));
        apart.is_some_and(|apart| apart.p_beyond(WORTH) * tests <= LEVEL)
    })
}
