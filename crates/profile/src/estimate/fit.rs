//! Fit: the sums over blocks from which slope, curve and gains follow.

use std::ops::Range;

use super::REFERENCE;
use super::pair::{Pair, Pairs};
use crate::units::Speedup;

/// How many blocks' worth of belief in pairing (β = 1) the estimate of β starts with.
const PAIRING_PRIOR: f64 = 4.0;

/// What one block adds to every sum. In the order of the fields of [`Sums`], so that adding up a
/// resample is a loop that the compiler turns into vector instructions.
pub(super) type Term = [f64; 10];

/// Everything the bootstrap needs, computed once.
pub(super) struct Fit {
    /// One per block, those at the same speedup side by side; baselines without a partner come last.
    pub(super) terms: Vec<Term>,
    /// The treated speedups, ascending.
    pub(super) speedups: Vec<AtSpeedup>,
    /// β.
    pub(super) pairing: f64,
    treated: Vec<Treated>,
}

/// The blocks at one speedup.
pub(super) struct AtSpeedup {
    pub(super) speedup: Speedup,
    /// Where they stand in `terms`.
    pub(super) blocks: Range<usize>,
    /// Σ v: visits,
    pub(super) visits: f64,
    /// Σ e: amounts,
    pub(super) amount: f64,
    /// and Σ β·e·v₀/e₀: the visits that their own baselines led to expect, as far as they count.
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
}

/// Sums over blocks; see the folder's documentation for the letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums([f64; 10]);

impl Sums {
    pub(super) const ZERO: Sums = Sums([0.0; 10]);

    pub(super) fn add(&mut self, term: &Term) {
        for (sum, part) in self.0.iter_mut().zip(term) {
            *sum += part;
        }
    }

    /// ρ: visits per amount over all baselines.
    pub(super) fn level(&self) -> f64 {
        self.0[0] / self.0[1]
    }

    /// Σ s·(v − u) and Σ s²·(v − u).
    fn right_hand_sides(&self) -> (f64, f64) {
        let level = self.level();
        (self.0[5] - level * self.0[7], self.0[6] - level * self.0[8])
    }

    /// θ: the line through zero.
    pub(super) fn slope(&self) -> f64 {
        let (over, under) = self.slope_sums();
        over / under
    }

    /// The parabola a·s + b·s² through zero; not a number with fewer than two speedups.
    pub(super) fn parabola(&self) -> (f64, f64) {
        let [_, _, s2, s3, s4, ..] = self.0;
        let (t1, t2) = self.right_hand_sides();
        let determinant = s2 * s4 - s3 * s3;
        if determinant <= 1e-9 * s2 * s4 {
            return (f64::NAN, f64::NAN);
        }
        ((t1 * s4 - t2 * s3) / determinant, (t2 * s2 - t1 * s3) / determinant)
    }

    /// The share of the parabola in the curve.
    pub(super) fn trust(&self, curvature_error: f64) -> f64 {
        trust(self.parabola().1, curvature_error)
    }

    /// The gain at `s`: the line, and as much of the parabola as its curvature is larger than the
    /// curvature's standard error.
    pub(super) fn curve(&self, s: f64, curvature_error: f64) -> f64 {
        let (a, b) = self.parabola();
        let trust = trust(b, curvature_error);
        let line = self.slope() * s;
        // A parabola that is not a number counts for nothing.
        if trust > 0.0 { line + trust * (a * s + b * s * s - line) } else { line }
    }

    /// Σ s·(v − u) and Σ s²·v, whose ratio is the slope.
    pub(super) fn slope_sums(&self) -> (f64, f64) {
        (self.right_hand_sides().0, self.0[2])
    }

    /// The effect of the speedup that sentences speak about.
    pub(super) fn effect(&self, curvature_error: f64) -> f64 {
        self.curve(REFERENCE.fraction(), curvature_error)
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
        let level = {
            let firsts = pairs.iter().filter(|p| p.first).map(|p| p.baseline);
            let (v, e) = firsts.fold((0.0, 0.0), |(v, e), side| (v + side.visits, e + side.amount));
            v / e
        };
        if !(level.is_finite() && level > 0.0) {
            return None;
        }
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
                };
                Some((speedup, *pair, treated))
            })
            .collect();
        complete.sort_by_key(|(speedup, ..)| *speedup);
        let treated: Vec<Treated> = complete.iter().map(|(.., treated)| *treated).collect();
        let follows = pairing(&complete, level)?;
        // One level for all would compare windows across a change of speed.
        let pairing = if of_target.apart { 1.0 } else { follows };

        let baseline = |pair: &Pair| match pair.first {
            true => (pair.baseline.visits, pair.baseline.amount),
            false => (0.0, 0.0),
        };
        let mut terms: Vec<Term> = Vec::with_capacity(pairs.len());
        let mut speedups: Vec<AtSpeedup> = Vec::new();
        for (nth, (speedup, pair, t)) in complete.iter().enumerate() {
            let (v0, e0) = baseline(pair);
            let (s, v) = (t.s, t.visits);
            let own = pairing * t.own;
            let all = (1.0 - pairing) * t.amount; // times the level, once that is known
            let (s_v, s2_v) = (s * v, s * s * v);
            terms.push([
                v0,
                e0,
                s2_v,
                s * s2_v,
                s * s * s2_v,
                s_v - s * own,
                s2_v - s * s * own,
                s * all,
                s * s * all,
                0.0,
            ]);
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
        for pair in pairs.iter().filter(|pair| pair.treated.is_none()) {
            let (v0, e0) = baseline(pair);
            terms.push([v0, e0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        }
        Some(Fit { terms, speedups, pairing, treated })
    }

    /// How many pairs are complete.
    pub(super) fn blocks(&self) -> usize {
        self.treated.len()
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

    /// The noise of each complete block and the scale that makes blocks comparable: what its visits
    /// were above what they should have been, in units of what counting alone would give. In the order
    /// of `terms`; with the degrees of freedom that are left.
    ///
    /// Noise is taken around the gain of the block's own speedup if there are enough blocks that share
    /// one, else around the curve (whose misfit then counts as noise, to be safe).
    pub(super) fn residuals(&self, level: f64, curve: impl Fn(f64) -> f64) -> Residuals {
        let n = self.treated.len();
        let shared: usize = self.speedups.iter().map(|at| at.blocks.len() - 1).sum();
        let around_own = shared >= 8;
        let mut noise = Vec::with_capacity(n);
        let mut scale = Vec::with_capacity(n);
        for at in &self.speedups {
            let own_gain = self.gain(at, level);
            for t in &self.treated[at.blocks.clone()] {
                let gain = if around_own { own_gain } else { curve(t.s) };
                let expected = self.pairing * t.own + (1.0 - self.pairing) * level * t.amount;
                let share = (1.0 - gain).max(0.05);
                let visits = t.visits.max(1.0);
                let baseline = t.baseline_visits.max(1.0);
                let counting = share * (visits + (self.pairing * visits).powi(2) / baseline).sqrt();
                scale.push(counting);
                if !around_own || at.blocks.len() > 1 {
                    let misfit = t.visits * (1.0 - gain) - expected;
                    let m = at.blocks.len() as f64;
                    let lost = if around_own { (m / (m - 1.0)).sqrt() } else { 1.0 };
                    noise.push(lost * misfit / counting);
                }
            }
        }
        let freedom = if around_own { shared } else { n.saturating_sub(2) };
        if !around_own && freedom > 0 {
            let lost = (n as f64 / freedom as f64).sqrt();
            noise.iter_mut().for_each(|z| *z *= lost);
        }
        let mean = noise.iter().sum::<f64>() / noise.len() as f64;
        noise.iter_mut().for_each(|z| *z -= mean);
        Residuals { noise, scale, freedom }
    }
}

/// How far to believe a curvature: 1 − (se/curvature)², or not at all where that is negative or not a number.
fn trust(curvature: f64, error: f64) -> f64 {
    let trust = 1.0 - (error / curvature).powi(2);
    if trust > 0.0 { trust } else { 0.0 }
}

/// See [`Fit::residuals`].
pub(super) struct Residuals {
    pub(super) noise: Vec<f64>,
    pub(super) scale: Vec<f64>,
    pub(super) freedom: usize,
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
