//! Two programs that were run by turns: how much less the second one needs, with its interval.
//!
//! Each round has one run of each. Runs of a round are compared with each other, so that whatever makes the machine slower for a while
//! makes both slower; the logarithm of their ratio is what is averaged, so that twice and half are equally far from no difference.

use crate::estimate::{Estimate, interval};

/// The share of `before` that `after` does not need any more: 0.45 for 45 % less, −0.2 for 20 % more. From the rounds' pairs of a positive
/// quantity (time, memory) before and after; rounds without such are passed over. The interval holds the truth in 95 % of the cases; it
/// is infinite for fewer than two rounds.
#[must_use]
pub fn gain_by_turns(rounds: &[(f64, f64)]) -> Estimate {
    let logs: Vec<f64> =
        rounds.iter().map(|(before, after)| (after / before).ln()).filter(|log| log.is_finite()).collect();
    let n = logs.len();
    if n == 0 {
        return interval::unknown(f64::NAN);
    }
    let mean = logs.iter().sum::<f64>() / n as f64;
    if n < 2 {
        return interval::unknown(1.0 - mean.exp());
    }
    let log = interval::around(mean, interval::deviation(&logs) / (n as f64).sqrt(), n - 1);
    let gain = |log: f64| 1.0 - log.exp();
    Estimate { value: gain(log.value), se: log.value.exp() * log.se, lo: gain(log.hi), hi: gain(log.lo) }
}

/// How many times as much is done in the same time, by the share of the time that is not needed any more.
#[must_use]
pub fn throughput_factor(gain: f64) -> f64 {
    1.0 / (1.0 - gain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_are_equally_far() {
        let half = gain_by_turns(&[(2.0, 1.0), (4.0, 2.0), (2.2, 1.1)]);
        assert!((half.value - 0.5).abs() < 1e-9 && half.half_width() < 1e-9, "{half:?}");
        assert!((throughput_factor(half.value) - 2.0).abs() < 1e-9);
        let none = gain_by_turns(&[(1.0, 2.0), (2.0, 1.0)]);
        assert!(none.value.abs() < 1e-12 && none.lo < -1.0 && none.hi > 0.9, "{none:?}");
        assert!((gain_by_turns(&[(1.0, 1.2), (1.0, 1.2)]).value + 0.2).abs() < 1e-9);
    }

    #[test]
    fn too_few_rounds_say_nothing() {
        assert!(gain_by_turns(&[]).value.is_nan());
        let one = gain_by_turns(&[(2.0, 1.0), (0.0, 1.0), (1.0, f64::NAN)]);
        assert!((one.value - 0.5).abs() < 1e-9 && one.hi.is_infinite(), "{one:?}");
    }

    /// Runs that take at random longer, together with a disturbance that both runs of a round have.
    #[test]
    fn intervals_hold_the_truth() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut noise = |most: f64| 1.0 + most * (random.f64() + random.f64() + random.f64());
        let truth = 0.3;
        let mut held = 0;
        const TRIES: u32 = 2000;
        for _ in 0..TRIES {
            let round = |noise: &mut dyn FnMut(f64) -> f64| {
                let both = noise(0.5);
                (both * noise(0.05), both * (1.0 - truth) * noise(0.05))
            };
            let rounds: Vec<(f64, f64)> = (0..6).map(|_| round(&mut noise)).collect();
            let gain = gain_by_turns(&rounds);
            held += u32::from(gain.lo <= truth && truth <= gain.hi);
        }
        let share = f64::from(held) / f64::from(TRIES);
        assert!((0.93..=0.97).contains(&share), "{share}");
    }
}
