//! The curve: the gain at every speedup, from the windows at all of them.
//!
//! The windows at one speedup are few, but the neighbours know something too: a curve starts at zero and
//! is mostly straight, until another bottleneck takes over. Three kinds of curve are tried, and averaged
//! by how well each explains the dots (Bayesian model averaging; Hoeting et al., *Statistical Science*
//! 14, 1999). All are lines through zero whose slope may change:
//!
//! * nowhere: a line;
//! * once, anywhere, by any amount: linear until another bottleneck takes over;
//! * a little at every 5 %: anything smooth, in several strengths (a random walk of the slope, which is a
//!   smoothing spline; Wahba, *J. R. Stat. Soc. B* 40, 1978).
//!
//! Each kind is a regression with a normal prior, whose evidence is known in closed form: more freedom
//! must earn its place. So weak data give nearly a line, and with strong data the dots speak for
//! themselves. The noise is that of blocks at the same speedup, and the error of the baselines' level,
//! which moves all dots together, is part of it.
//!
//! **What it costs:** a bend that the data hardly show is rounded off. Right at such a bend the interval
//! holds the truth less often than 95 times in 100 (70 to 90, in the worst of the simulations); over a whole
//! curve it is 88 to 100, and over curves of all shapes 93 to 99. On a straight line it is wider than it need
//! be, because it is not known that the line is straight.

use super::{Estimate, interval};

/// Where the slope may change once: at every 1 %.
const BENDS: usize = 100;
/// Where the slope of a smooth curve changes: at every 5 %.
const KNOTS: usize = 20;
/// How large slopes may be, as a standard deviation: so large that it forbids nothing.
const SLOPE: f64 = 3.0;
/// How much the slope changes where another bottleneck takes over, as a standard deviation.
const BEND: f64 = 0.7;
/// How much the slope of a smooth curve changes at each knot, as standard deviations.
const WANDERS: [f64; 3] = [0.05, 0.15, 0.5];
/// What is believed before any data: how often a curve is a line, bends once, or is anything smooth.
const BELIEF: [f64; 3] = [0.3, 0.4, 0.3];
/// Kinds with a smaller share than this are passed over.
const NEGLIGIBLE: f64 = 1e-8;
/// A bend is one when no more than this is left for a line or a bend upwards.
const DOUBT: f64 = 0.05;

/// What was seen at one speedup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) speedup: f64,
    /// The gain by the windows at this speedup alone.
    pub(super) gain: f64,
    /// The variance of the noise of those windows.
    pub(super) variance: f64,
    /// How far an error of the level of all baselines (of one standard deviation) moves the gain.
    pub(super) lift: f64,
}

/// The gain at every speedup.
#[derive(Debug)]
pub(super) struct Curve {
    /// What it goes through, ascending.
    pub(super) seen: Vec<Seen>,
    /// The degrees of freedom of the noise.
    pub(super) freedom: usize,
    /// The standard error of the method itself, per unit of speedup.
    method_error: f64,
    kinds: Vec<Kind>,
}

/// The shares of the kinds of curve in the average; they add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// The share of the line through zero.
    pub line: f64,
    /// The share of all curves that bend once.
    pub bent: f64,
    /// The share of the smooth curves.
    pub smooth: f64,
}

/// One kind of curve, after seeing the data: a slope that changes at each knot, the first of which is at 0.
#[derive(Debug)]
struct Kind {
    knots: Vec<f64>,
    /// The logarithm of belief and evidence; later the share in the average.
    weight: f64,
    /// The share in the spread: the square root of the share in the average. Where kinds that explain the data almost equally well
    /// disagree, the interval spans them.
    spread: f64,
    /// How much the slope changes at each knot.
    changes: Vec<f64>,
    /// The Cholesky factor of the inverse of the covariance of the changes: the lower triangle, by rows.
    factor: Vec<f64>,
}

impl Kind {
    /// The posterior of changes at `knots`, whose prior is normal around zero: with deviation [`SLOPE`] at
    /// the first, `change` at the others.
    fn new(seen: &[Seen], knots: Vec<f64>, change: f64, belief: f64) -> Kind {
        let n = knots.len();
        let (mut gram, mut moments, mut lifted) = (vec![0.0; n * n], vec![0.0; n], vec![0.0; n]);
        let (mut lifts, mut lifted_gain) = (1.0, 0.0);
        for at in seen {
            let phi = hinges(&knots, at.speedup);
            for i in 0..n {
                let x = phi[i] / at.variance;
                for j in 0..=i {
                    gram[i * n + j] += x * phi[j];
                }
                moments[i] += x * at.gain;
                lifted[i] += x * at.lift;
            }
            lifts += at.lift * at.lift / at.variance;
            lifted_gain += at.lift * at.gain / at.variance;
        }
        // The error of the level moves all gains together (Sherman and Morrison's formula).
        for i in 0..n {
            for j in 0..=i {
                gram[i * n + j] -= lifted[i] * lifted[j] / lifts;
            }
            moments[i] -= lifted[i] * lifted_gain / lifts;
        }
        let prior = |nth| if nth == 0 { SLOPE } else { change };
        for i in 0..n {
            gram[i * n + i] += prior(i).powi(-2);
        }
        let factor = cholesky(gram, n);
        let half = forward(&factor, moments);
        let freedom: f64 = (0..n).map(|i| (factor[i * n + i] * prior(i)).ln()).sum();
        let weight = belief.ln() - freedom + half.iter().map(|x| x * x).sum::<f64>() / 2.0;
        Kind { knots, weight, spread: 0.0, changes: backward(&factor, half), factor }
    }

    /// The gain at a speedup, and its variance.
    fn at(&self, s: f64) -> (f64, f64) {
        let phi = hinges(&self.knots, s);
        let gain = phi.iter().zip(&self.changes).map(|(x, change)| x * change).sum();
        (gain, forward(&self.factor, phi).iter().map(|x| x * x).sum())
    }
}

/// What a change of slope at each knot adds to the gain at `s`.
fn hinges(knots: &[f64], s: f64) -> Vec<f64> {
    knots.iter().map(|knot| (s - knot).max(0.0)).collect()
}

/// The lower triangle `L` with `L Lᵀ = matrix`, of which only the lower triangle is read.
fn cholesky(mut matrix: Vec<f64>, n: usize) -> Vec<f64> {
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| matrix[i * n + k] * matrix[j * n + k]).sum();
            let rest = matrix[i * n + j] - known;
            matrix[i * n + j] = if i == j { rest.sqrt() } else { rest / matrix[j * n + j] };
        }
    }
    matrix
}

/// Solves `L x = y`.
fn forward(factor: &[f64], mut y: Vec<f64>) -> Vec<f64> {
    let n = y.len();
    for i in 0..n {
        let known: f64 = (0..i).map(|k| factor[i * n + k] * y[k]).sum();
        y[i] = (y[i] - known) / factor[i * n + i];
    }
    y
}

/// Solves `Lᵀ x = y`.
fn backward(factor: &[f64], mut y: Vec<f64>) -> Vec<f64> {
    let n = y.len();
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| factor[k * n + i] * y[k]).sum();
        y[i] = (y[i] - known) / factor[i * n + i];
    }
    y
}

impl Curve {
    /// `freedom`: the degrees of freedom of the noise. `method_error`: see the folder's documentation; it is
    /// the same at all speedups.
    pub(super) fn new(seen: Vec<Seen>, freedom: usize, method_error: f64) -> Curve {
        let [line, bent, smooth] = BELIEF;
        let mut kinds = vec![Kind::new(&seen, vec![0.0], SLOPE, line)];
        // One speedup shows no bend.
        if seen.len() > 1 {
            let share = bent / (BENDS - 1) as f64;
            let bend = |nth| Kind::new(&seen, vec![0.0, nth as f64 / BENDS as f64], BEND, share);
            kinds.extend((1..BENDS).map(bend));
            let knots: Vec<f64> = (0..KNOTS).map(|nth| nth as f64 / KNOTS as f64).collect();
            let share = smooth / WANDERS.len() as f64;
            kinds.extend(WANDERS.map(|wander| Kind::new(&seen, knots.clone(), wander, share)));
        }
        let most = kinds.iter().map(|kind| kind.weight).fold(f64::NEG_INFINITY, f64::max);
        for kind in &mut kinds {
            kind.weight = (kind.weight - most).exp();
            kind.spread = kind.weight.sqrt();
        }
        kinds.retain(|kind| kind.weight > NEGLIGIBLE);
        let sum = |part: fn(&Kind) -> f64| kinds.iter().map(part).sum::<f64>();
        let (weights, spreads) = (sum(|kind| kind.weight), sum(|kind| kind.spread));
        for kind in &mut kinds {
            kind.weight /= weights;
            kind.spread /= spreads;
        }
        Curve { seen, freedom, method_error, kinds }
    }

    /// How far each kind is believed.
    pub(super) fn shares(&self) -> Shares {
        let mut shares = Shares::default();
        for kind in &self.kinds {
            let share = match kind.knots.len() {
                1 => &mut shares.line,
                2 => &mut shares.bent,
                _ => &mut shares.smooth,
            };
            *share += kind.weight;
        }
        shares
    }

    /// The gain at speedup `s`.
    pub(super) fn at(&self, s: f64) -> Estimate {
        interval::widened(self.by_noise(s), s * self.method_error)
    }

    /// The same, if nothing but noise were in the way.
    fn by_noise(&self, s: f64) -> Estimate {
        let gains: Vec<(f64, f64)> = self.kinds.iter().map(|kind| kind.at(s)).collect();
        let both = || self.kinds.iter().zip(&gains);
        let mean: f64 = both().map(|(kind, (gain, _))| kind.weight * gain).sum();
        let off = |(gain, variance): &(f64, f64)| (gain - mean).powi(2) + variance;
        let variance: f64 = both().map(|(kind, at)| kind.spread * off(at)).sum();
        interval::around(mean, variance.sqrt(), self.freedom)
    }

    /// The largest gain at any of `speedups`, or at none (which is zero).
    ///
    /// The largest of several guesses is too large. So speedups within a standard error of the best are
    /// taken to be as good as it, and share what they say.
    pub(super) fn most(&self, speedups: impl Iterator<Item = f64>) -> Estimate {
        let nothing = Estimate { value: 0.0, se: 0.0, lo: 0.0, hi: 0.0 };
        // By noise alone, which tells speedups apart; and with the error of the method, which is the same for all.
        let gains: Vec<(Estimate, Estimate)> =
            speedups.map(|s| (self.by_noise(s), self.at(s))).chain([(nothing, nothing)]).collect();
        let (best, whole) = gains
            .iter()
            .fold((nothing, nothing), |best, at| if at.0.value > best.0.value { *at } else { best });
        let good = || gains.iter().filter(|(at, _)| at.value >= best.value - best.se);
        Estimate {
            value: good().map(|(at, _)| at.value).sum::<f64>() / good().count() as f64,
            se: whole.se,
            lo: good().map(|(_, at)| at.lo).fold(whole.lo, f64::min).max(0.0),
            hi: gains.iter().map(|(_, at)| at.hi).fold(0.0, f64::max),
        }
    }

    /// The speedup from which on more speed brings less, if there is one: another bottleneck takes over.
    pub(super) fn bend(&self) -> Option<Estimate> {
        let (mut down, mut others, mut smooth) = (Vec::new(), 0.0, 0.0);
        for kind in &self.kinds {
            match (kind.knots.as_slice(), kind.changes.as_slice()) {
                ([_, at], [_, change]) if *change < 0.0 => down.push((*at, kind.weight)),
                ([_] | [_, _], _) => others += kind.weight,
                _ => smooth += kind.weight,
            }
        }
        let bent: f64 = down.iter().map(|(_, weight)| weight).sum();
        (others < DOUBT * (bent + others) && smooth < bent)
            .then(|| interval::weighted(&down, 1.0 / BENDS as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(dots: &[(f64, f64)], error: f64) -> Vec<Seen> {
        let dot = |&(speedup, gain): &(f64, f64)| Seen { speedup, gain, variance: error * error, lift: 0.0 };
        dots.iter().map(dot).collect()
    }

    #[test]
    fn strong_dots_speak_for_themselves() {
        // No expected shape.
        let dots = [(0.1, 0.2), (0.3, 0.1), (0.5, 0.4), (0.7, -0.3), (1.0, 0.2)];
        let curve = Curve::new(seen(&dots, 1e-4), 100, 0.0);
        for (s, gain) in dots {
            assert!((curve.at(s).value - gain).abs() < 0.002, "{s}: {:?}", curve.at(s));
        }
        assert!((curve.most(dots.iter().map(|dot| dot.0)).value - 0.4).abs() < 0.002);
        assert_eq!(curve.bend(), None);
        assert!(curve.shares().smooth > 0.99, "{:?}", curve.shares());
    }

    #[test]
    fn weak_dots_give_a_line_between_them() {
        let dots = [(0.2, 0.15), (0.4, 0.1), (0.6, 0.35), (0.8, 0.3), (1.0, 0.45)];
        let curve = Curve::new(seen(&dots, 0.3), 100, 0.0);
        let slope = curve.at(1.0).value;
        assert!((0.3..0.5).contains(&slope));
        assert!((curve.at(0.4).value - 0.4 * slope).abs() < 0.03);
        assert_eq!((curve.at(0.0).value, curve.bend()), (0.0, None));
    }

    #[test]
    fn one_speedup_shows_a_line() {
        let curve = Curve::new(seen(&[(0.5, 0.2)], 0.01), 10, 0.0);
        assert!((curve.at(0.2).value - 0.08).abs() < 1e-4);
        assert!((curve.at(0.2).se - 0.004).abs() < 1e-4);
        assert_eq!(curve.shares(), Shares { line: 1.0, ..Shares::default() });
    }

    #[test]
    fn an_error_of_the_level_moves_all_dots_together() {
        // The same for all dots: no gain at zero gives it away.
        let dots: Vec<(f64, f64)> = (1..=20).map(|nth| 0.05 * f64::from(nth)).map(|s| (s, 0.1)).collect();
        let mut dots = seen(&dots, 0.02);
        let moved = Curve::new(dots.clone(), 100, 0.0).at(1.0);
        dots.iter_mut().for_each(|dot| dot.lift = 0.1);
        let lifted = Curve::new(dots, 100, 0.0).at(1.0);
        assert!(lifted.value < 0.6 * moved.value && lifted.lo < 0.0, "{moved:?} {lifted:?}");
    }
}
