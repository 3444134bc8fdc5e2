//! Fit: the sums over blocks from which slope, curve and gains follow.

use std::collections::HashMap;
use std::ops::Range;

use super::curve::{Curve, Seen};
use super::pair::{BlockKey, Pair, Pairs};
use crate::units::Speedup;

/// How many blocks' worth of belief in pairing (β = 1) the estimate of β starts with.
const PAIRING_PRIOR: f64 = 4.0;
/// No gain at a single speedup is known better than this: where a point is visited like clockwork, blocks
/// may agree to the last visit.
const BEST_VARIANCE: f64 = 1e-8;
/// With at least this many degrees of freedom among blocks at the same speedup, noise is how much they differ.
const ENOUGH_SHARED: usize = 8;

/// Less of the period than this never remains, as far as noise is concerned.
pub(super) const LEAST_SHARE: f64 = 0.05;

/// What one block adds to every sum. In the order of the fields of [`Sums`], so that adding up a
/// resample is a loop that the compiler turns into vector instructions.
pub(super) type Term = [f64; 5];

/// Everything the bootstrap needs, computed once.
pub(super) struct Fit {
    /// One per block, by the smallest speedup in it; baselines without a partner come last. Whatever shares a
    /// baseline is one term, and so is drawn together.
    pub(super) terms: Vec<Term>,
    /// The treated speedups, ascending.
    pub(super) speedups: Vec<AtSpeedup>,
    /// β.
    pub(super) pairing: f64,
    /// The delay per visit, in periods of the baseline, that a speedup of 100 % takes: of all treated windows
    /// together, as if it were in proportion to the speedup.
    pub(super) delay: f64,
    /// Complete pairs, those at the same speedup side by side.
    treated: Vec<Treated>,
    /// How many blocks the pairs are of.
    blocks: usize,
}

/// The blocks at one speedup.
pub(super) struct AtSpeedup {
    pub(super) speedup: Speedup,
    /// Where they stand in `treated`.
    pub(super) blocks: Range<usize>,
    /// Σ v: visits.
    pub(super) visits: f64,
    /// Σ e: amounts.
    pub(super) amount: f64,
    /// Σ β·e·v₀/e₀: the visits that their own baselines led to expect, as far as they count.
    pub(super) own: f64,
}

/// One complete pair: what the treated window had, and what its own baseline led to expect.
#[derive(Clone, Copy)]
struct Treated {
    s: f64,
    visits: f64,
    amount: f64,
    own: f64,
    baseline_visits: f64,
    /// Where its block stands in `terms`.
    block: usize,
}

/// Sums over blocks; see the folder's documentation for the letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums([f64; 5]);

impl Sums {
    pub(super) const ZERO: Sums = Sums([0.0; 5]);

    pub(super) fn add(&mut self, term: &Term) {
        for (sum, part) in self.0.iter_mut().zip(term) {
            *sum += part;
        }
    }

    /// ρ: visits per amount over all baselines.
    pub(super) fn level(&self) -> f64 {
        self.0[0] / self.0[1]
    }

    /// θ: the line through zero.
    pub(super) fn slope(&self) -> f64 {
        let (over, under) = self.slope_sums();
        over / under
    }

    /// Σ s·(v − u) and Σ s²·v, whose ratio is the slope.
    pub(super) fn slope_sums(&self) -> (f64, f64) {
        (self.0[3] - self.level() * self.0[4], self.0[2])
    }
}

impl Fit {
    /// `None` where no treated window saw a visit, or no baseline did, or most windows did not: there is nothing
    /// to compare.
    pub(super) fn new(of_target: &Pairs) -> Option<Fit> {
        if of_target.idle() {
            return None;
        }
        let pairs = &of_target.pairs;
        let level = of_target.level();
        if !(level.is_finite() && level > 0.0) {
            return None;
        }
        let mut places: HashMap<BlockKey, usize> = HashMap::new();
        let mut complete: Vec<(Speedup, Pair, Treated)> = pairs
            .iter()
            .filter_map(|pair| {
                let (speedup, side) = pair.treated?;
                let own = pair.baseline.visits / pair.baseline.amount;
                let treated = Treated {
                    s: speedup.fraction(),
                    visits: side.visits,
                    amount: side.amount,
                    // A baseline with nothing in flight has no rate of its own.
                    own: side.amount * if own.is_finite() { own } else { level },
                    baseline_visits: pair.baseline.visits,
                    block: 0,
                };
                Some((speedup, *pair, treated))
            })
            .collect();
        complete.sort_by_key(|(speedup, ..)| *speedup);
        for (_, pair, treated) in &mut complete {
            let next = places.len();
            treated.block = *places.entry(pair.block).or_insert(next);
        }
        let treated: Vec<Treated> = complete.iter().map(|(.., treated)| *treated).collect();
        let follows = pairing(&complete, level)?;
        // One level for all would compare windows across a change of speed.
        let pairing = if of_target.apart { 1.0 } else { follows };

        let baseline = |pair: &Pair| match pair.first {
            true => (pair.baseline.visits, pair.baseline.amount),
            false => (0.0, 0.0),
        };
        let mut terms: Vec<Term> = vec![[0.0; 5]; places.len()];
        let mut speedups: Vec<AtSpeedup> = Vec::new();
        for (nth, (speedup, pair, t)) in complete.iter().enumerate() {
            let (v0, e0) = baseline(pair);
            let (s, v) = (t.s, t.visits);
            let own = pairing * t.own;
            let all = (1.0 - pairing) * t.amount; // times the level, once that is known
            let term = [v0, e0, s * s * v, s * (v - own), s * all];
            terms[t.block].iter_mut().zip(term).for_each(|(sum, part)| *sum += part);
            if speedups.last().is_none_or(|last| last.speedup != *speedup) {
                let blocks = nth..nth;
                speedups.push(AtSpeedup { speedup: *speedup, blocks, visits: 0.0, amount: 0.0, own: 0.0 });
            }
            if let Some(at) = speedups.last_mut() {
                at.blocks.end = nth + 1;
                at.visits += v;
                at.amount += t.amount;
                at.own += own;
            }
        }
        for pair in pairs.iter().filter(|pair| pair.treated.is_none() && pair.first) {
            let (v0, e0) = baseline(pair);
            let term = [v0, e0, 0.0, 0.0, 0.0];
            match places.get(&pair.block) {
                Some(&at) => terms[at].iter_mut().zip(term).for_each(|(sum, part)| *sum += part),
                None => terms.push(term),
            }
        }
        let delay = of_target.delay(level);
        Some(Fit { terms, speedups, pairing, delay, treated, blocks: places.len() })
    }

    /// How many blocks have a complete pair.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// How many blocks of equal weight would say as much about the slope: those at small speedups say
    /// little.
    pub(super) fn effective_blocks(&self) -> f64 {
        let weights = || self.terms.iter().map(|term| term[2]);
        weights().sum::<f64>().powi(2) / weights().map(|w| w * w).sum::<f64>()
    }

    /// The sums over all blocks.
    pub(super) fn sums(&self) -> Sums {
        let mut sums = Sums::ZERO;
        self.terms.iter().for_each(|term| sums.add(term));
        sums
    }

    /// The gain at one speedup when all baselines run at `level`: 1 − Σu / Σv.
    pub(super) fn gain(&self, at: &AtSpeedup, level: f64) -> f64 {
        1.0 - (at.own + (1.0 - self.pairing) * level * at.amount) / at.visits
    }

    /// The gain by the windows at `speedup` alone; `None` where there are none, or no visit.
    pub(super) fn raw_gain(&self, speedup: Speedup) -> Option<f64> {
        let at = self.speedups.iter().find(|at| at.speedup == speedup)?;
        (at.visits > 0.0).then(|| self.gain(at, self.sums().level()))
    }

    /// The gain at every speedup. `level_error` is the standard error of the level, as a share of it;
    /// `method_error` that of inserted delays.
    pub(super) fn curve(&self, level_error: f64, method_error: f64) -> Curve {
        // One block has no such error, but no degree of freedom either: all intervals are infinite.
        let level_error = if level_error.is_finite() { level_error } else { 0.0 };
        let sums = self.sums();
        let (level, slope) = (sums.level(), sums.slope());
        let around = |curve: &dyn Fn(f64) -> f64| {
            let noise = self.noise(level, curve);
            let dots = self.speedups.iter().zip(&noise.variances).filter(|(at, _)| at.visits > 0.0);
            let seen = dots.map(|(at, variance)| Seen {
                speedup: at.speedup.fraction(),
                gain: self.gain(at, level),
                variance: variance.max(BEST_VARIANCE),
                lift: level_error * (1.0 - self.pairing) * level * at.amount / at.visits,
            });
            Curve::new(seen.collect(), noise.freedom, method_error * self.delay)
        };
        // How noisy a dot is depends on the gain, and the gain on that: the second round has settled.
        let first = around(&|s| slope * s);
        around(&|s| first.at(s).value)
    }

    /// The noise of the gains: what the visits of each block were above what they should have been,
    /// compared with what counting alone would give.
    ///
    /// Noise is taken around the gain of the block's own speedup if there are enough blocks that share
    /// one, else around the curve (whose misfit then counts as noise, to be safe).
    fn noise(&self, level: f64, curve: &dyn Fn(f64) -> f64) -> Noise {
        let visited = self.speedups.iter().filter(|at| at.visits > 0.0);
        let shared: usize = visited.map(|at| at.blocks.len() - 1).sum();
        let around_own = shared >= ENOUGH_SHARED;
        let freedom = if around_own { shared } else { self.treated.len().saturating_sub(2) };
        let mut squares = 0.0;
        let mut counting: Vec<f64> = Vec::with_capacity(self.speedups.len());
        for at in &self.speedups {
            let fitted = curve(at.speedup.fraction());
            let gain = if around_own { self.gain(at, level) } else { fitted };
            let mut of_dot = 0.0;
            for t in &self.treated[at.blocks.clone()] {
                let (visits, baseline) = (t.visits.max(1.0), t.baseline_visits.max(1.0));
                let by_counting = (1.0 - fitted).max(LEAST_SHARE).powi(2)
                    * (visits + (self.pairing * visits).powi(2) / baseline);
                let expected = self.pairing * t.own + (1.0 - self.pairing) * level * t.amount;
                // A dot that was never visited has no gain to be around.
                if at.visits > 0.0 {
                    squares += (t.visits * (1.0 - gain) - expected).powi(2) / by_counting;
                }
                of_dot += by_counting;
            }
            counting.push(of_dot / at.visits.powi(2));
        }
        let factor = if freedom > 0 { squares / freedom as f64 } else { 1.0 };
        Noise {
            variances: counting.iter().map(|variance| variance * factor).collect(),
            freedom: freedom.min(self.blocks.saturating_sub(1)),
        }
    }
}

/// See [`Fit::noise`].
struct Noise {
    /// The variance of the gain at each speedup.
    variances: Vec<f64>,
    freedom: usize,
}

/// β: how far treated windows follow their own baselines away from the level of all. `None` where no
/// treated window saw a visit.
fn pairing(complete: &[(Speedup, Pair, Treated)], level: f64) -> Option<f64> {
    // The line that strict pairing fits, to take the effect of the speedup out of the treated windows.
    let (mut up, mut down) = (0.0, 0.0);
    for (.., t) in complete {
        up += t.s * (t.visits - t.own);
        down += t.s * t.s * t.visits;
    }
    if down <= 0.0 {
        return None;
    }
    let slope = up / down;
    let (mut together, mut alone, mut n) = (0.0, 0.0, 0.0);
    for (_, pair, t) in complete {
        let away = pair.baseline.visits / (pair.baseline.amount * level) - 1.0;
        if away.is_finite() {
            together += away * (t.visits * (1.0 - slope * t.s) / level - t.amount);
            alone += away * away * t.amount;
            n += 1.0;
        }
    }
    let follow = together / alone;
    Some(if follow.is_finite() {
        ((n * follow + PAIRING_PRIOR) / (n + PAIRING_PRIOR)).clamp(0.0, 1.0)
    } else {
        1.0
    })
}
