//! Levels: how fast a progress point is when nothing is sped up, and how that differs between recordings.
//!
//! A level is the sum of amounts over the sum of visits of all baselines, the period (or latency) of the
//! whole recording; see `pair.rs`. The change from one recording to another is *1 − p_after / p_before*,
//! the fraction of the period that disappeared: positive is better, as for every other gain.
//!
//! **How sure?** Baselines that follow each other drift together, so that the bootstrap draws stretches of
//! them: of ∛n blocks, from the n of a run (Künsch, *The Jackknife and the Bootstrap for General
//! Stationary Observations*, 1989). What differs from one run to the next cannot be seen in one run; where
//! both recordings hold at least [`ENOUGH_RUNS`], whole runs are drawn first, and stretches within each.

use std::collections::BTreeMap;

use super::pair::Side;
use super::verdict::ENOUGH_BLOCKS;
use super::{About, Estimate, EstimateOptions, Experiments, interval};
use crate::model::SessionId;

/// With fewer runs than this on either side, intervals do not know how much runs differ.
pub(crate) const ENOUGH_RUNS: usize = 3;

/// The baselines of one target in one recording, by run, in the order in which they were measured.
pub(crate) struct Level {
    runs: Vec<Vec<Side>>,
}

impl Level {
    /// What the baselines of all regions say about a target, without those that something disturbed.
    pub(crate) fn new(experiments: &[Experiments<'_>], about: About<'_>) -> Level {
        let mut runs: BTreeMap<SessionId, BTreeMap<i64, Side>> = BTreeMap::new();
        for of_region in experiments {
            for pair in of_region.pairs(about).pairs.iter().filter(|pair| pair.first) {
                let (session, block) = pair.block;
                runs.entry(session).or_default().insert(block, pair.baseline);
            }
        }
        Level { runs: runs.into_values().map(|blocks| blocks.into_values().collect()).collect() }
    }

    /// How many baselines there are.
    pub(crate) fn blocks(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    /// In how many runs.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Nanoseconds per visit, or from begin to end; `None` without visits.
    pub(crate) fn period_ns(&self) -> Option<f64> {
        let sum = self.runs.iter().flatten().fold(Side::default(), Side::plus);
        let period = sum.amount / sum.visits;
        (period.is_finite() && period > 0.0).then_some(period)
    }

    /// One resample: as many blocks, drawn in stretches, from the runs or from runs that are drawn too.
    fn resample(&self, of_runs: bool, rng: &mut fastrand::Rng) -> Side {
        let mut sum = Side::default();
        for run in &self.runs {
            let run = if of_runs { &self.runs[rng.usize(..self.runs.len())] } else { run };
            let mut first = 0;
            for nth in 0..run.len() {
                let within = nth % stretch(run.len());
                if within == 0 {
                    first = rng.usize(..run.len());
                }
                sum = sum.plus(&run[(first + within) % run.len()]);
            }
        }
        sum
    }

    /// How many independent things a resample draws.
    fn units(&self, of_runs: bool) -> usize {
        let stretches = |run: &Vec<Side>| run.len().div_ceil(stretch(run.len()));
        if of_runs { self.runs() } else { self.runs.iter().map(stretches).sum() }
    }
}

/// How many baselines that follow each other are drawn together: ∛n of n.
fn stretch(blocks: usize) -> usize {
    (1..).take_while(|length| length * length * length <= blocks).last().unwrap_or(1)
}

/// The gain from `before` to `after`; `None` where either saw no visit.
pub(crate) fn gain(before: &Level, after: &Level, options: &EstimateOptions) -> Option<Estimate> {
    let value = 1.0 - after.period_ns()? / before.period_ns()?;
    if before.blocks().min(after.blocks()) < ENOUGH_BLOCKS {
        return Some(interval::unknown(value));
    }
    let of_runs = before.runs().min(after.runs()) >= ENOUGH_RUNS;
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let mut draw = || {
        let (before, after) = (before.resample(of_runs, &mut rng), after.resample(of_runs, &mut rng));
        1.0 - (after.amount / after.visits) / (before.amount / before.visits)
    };
    let mut drawn: Vec<f64> = (0..options.resamples).map(|_| draw()).collect();
    let (before, after) = (before.units(of_runs), after.units(of_runs));
    Some(interval::of(value, &mut drawn, before.min(after), (before + after).saturating_sub(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: EstimateOptions =
        EstimateOptions { fixed: false, seed: 5, resamples: 300, phase_correction: true, method_error: 0.0 };

    /// How a recording is made.
    #[derive(Clone, Copy)]
    struct World {
        runs: usize,
        blocks: usize,
        /// The relative deviation of a run from the mean of all runs.
        between: f64,
        /// The relative deviation of a block from its run.
        within: f64,
        /// How much of a block's deviation the next one keeps.
        memory: f64,
    }

    fn normal(rng: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
    }

    impl World {
        fn level(self, period: f64, rng: &mut fastrand::Rng) -> Level {
            let run = |rng: &mut fastrand::Rng| {
                let run = 1.0 + self.between * normal(rng);
                let mut away = normal(rng);
                let mut block = || {
                    away = self.memory * away + (1.0 - self.memory.powi(2)).sqrt() * normal(rng);
                    Side {
                        amount: 1e8,
                        visits: 1e8 / period * run * (1.0 + self.within * away),
                        delayed: 0.0,
                    }
                };
                (0..self.blocks).map(|_| block()).collect()
            };
            Level { runs: (0..self.runs).map(|_| run(rng)).collect() }
        }
    }

    #[test]
    fn gains_are_unbiased_and_their_intervals_honest() {
        let steady = World { runs: 1, blocks: 40, between: 0.0, within: 0.1, memory: 0.0 };
        for (what, world) in [
            ("steady", steady),
            ("few blocks", World { blocks: 8, ..steady }),
            ("drifting", World { blocks: 100, memory: 0.6, ..steady }),
            ("three runs", World { runs: 3, blocks: 20, between: 0.05, ..steady }),
            ("six runs", World { runs: 6, blocks: 20, between: 0.05, ..steady }),
        ] {
            let (mut error, mut held) = (0.0, 0.0);
            let times = 400;
            for seed in 0..times {
                let mut rng = fastrand::Rng::with_seed(seed);
                let (before, after) = (world.level(1e5, &mut rng), world.level(0.9e5, &mut rng));
                let got = gain(&before, &after, &EstimateOptions { seed, ..OPTIONS }).unwrap();
                error += (got.value - 0.1) / times as f64;
                held += f64::from(u8::from(got.lo <= 0.1 && 0.1 <= got.hi)) / times as f64;
            }
            println!("{what}: bias {error:+.4}, the interval holds the truth in {:.1} %", 100.0 * held);
            assert!(error.abs() < 0.01, "{what}: bias {error}");
            assert!((0.89..=0.995).contains(&held), "{what}: coverage {held}");
        }
    }

    #[test]
    fn few_blocks_say_nothing_and_no_visits_say_less() {
        let world = World { runs: 1, blocks: 4, between: 0.0, within: 0.0, memory: 0.0 };
        let level = world.level(1e5, &mut fastrand::Rng::with_seed(1));
        let gained = gain(&level, &level, &OPTIONS).unwrap();
        assert_eq!((gained.value, gained.hi), (0.0, f64::INFINITY));
        let idle = Level { runs: vec![vec![Side { amount: 1e8, ..Side::default() }; 9]] };
        assert_eq!(gain(&level, &idle, &OPTIONS), None);
        assert_eq!(gain(&idle, &level, &OPTIONS), None);
    }

    #[test]
    fn stretches_grow_with_the_cube_root() {
        for (blocks, length) in [(1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1000, 10)] {
            assert_eq!(stretch(blocks), length, "{blocks}");
        }
    }
}
