//! Rates of the same programs, measured several times, and what can be said about their ratios.

use crate::interval::{Interval, count, mean, student};

/// Rounds of rates: each round has one rate of every program, in the same order.
#[derive(Debug, Default)]
pub struct Rounds(Vec<Vec<f64>>);

impl Rounds {
    /// # Panics
    ///
    /// When `round` has another number of programs than the ones before.
    pub fn push(&mut self, round: Vec<f64>) {
        assert!(self.0.first().is_none_or(|first| first.len() == round.len()));
        self.0.push(round);
    }

    /// What the period of the last program lost in each of the others: 1 − p/p_last, as a share.
    ///
    /// Two or three rounds of each program say little about its noise, but they can be pooled: the
    /// logarithm of a rate is taken as a property of the program, plus one of the round, plus noise of
    /// the same size everywhere (a two-way layout; Scheffé, "The Analysis of Variance", 1959, chapter
    /// 4). With a single round the intervals are unbounded below. The last program was run `last_runs` times a
    /// round, and its rate is their mean.
    ///
    /// # Panics
    ///
    /// When there are no rounds, or no programs.
    pub fn gains(&self, last_runs: usize) -> Vec<Interval> {
        let logarithms: Vec<Vec<f64>> =
            self.0.iter().map(|round| round.iter().map(|rate| rate.ln()).collect()).collect();
        let programs = logarithms[0].len();
        let average = |values: &mut dyn Iterator<Item = f64>| {
            mean(&values.collect::<Vec<_>>()).expect("there are rounds and programs")
        };
        let of_program: Vec<f64> = (0..programs)
            .map(|program| average(&mut logarithms.iter().map(|round| round[program])))
            .collect();
        let of_all = average(&mut of_program.iter().copied());
        let mut squares = 0.0;
        for round in &logarithms {
            let of_round = average(&mut round.iter().copied());
            for (logarithm, of_program) in round.iter().zip(&of_program) {
                squares += (logarithm - of_program - of_round + of_all).powi(2);
            }
        }
        let freedom = (programs - 1) * (logarithms.len() - 1);
        let half_width = if freedom == 0 {
            f64::INFINITY
        } else {
            // The mean of several runs has less noise, and so has what it adds to the squares.
            let of_last = 1.0 / count(last_runs);
            let noise = squares / ((count(programs) - 2.0 + of_last) * count(logarithms.len() - 1));
            student(freedom) * (noise * (1.0 + of_last) / count(logarithms.len())).sqrt()
        };
        let last = of_program[programs - 1];
        of_program[..programs - 1]
            .iter()
            .map(|program| {
                let Interval { estimate, low, high } = Interval::around(program - last, half_width);
                let gain = |logarithm: f64| 1.0 - (-logarithm).exp();
                Interval { estimate: gain(estimate), low: gain(low), high: gain(high) }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rates: &[&[f64]]) -> Rounds {
        let mut rounds = Rounds::default();
        for round in rates {
            rounds.push(round.to_vec());
        }
        rounds
    }

    #[test]
    fn a_program_twice_as_fast_gains_half_of_the_period() {
        let gains = rounds(&[&[200.0, 100.0, 100.0], &[200.0, 100.0, 100.0]]).gains(1);
        for (gain, expected) in gains.iter().zip([0.5, 0.0]) {
            assert!((gain.estimate - expected).abs() < 1e-12, "{gain:?}");
            assert!(gain.half_width() < 1e-6, "{gain:?}");
        }
    }

    #[test]
    fn a_round_that_is_slower_as_a_whole_is_no_noise() {
        let gains = rounds(&[&[200.0, 100.0], &[20.0, 10.0]]).gains(1);
        assert!(gains[0].half_width() < 1e-6, "{gains:?}");
    }

    #[test]
    fn noise_is_pooled() {
        // Only the second program is noisy, and yet the first is doubted as much (on a log scale).
        let gains = rounds(&[&[100.0, 90.0, 100.0], &[100.0, 110.0, 100.0]]).gains(1);
        assert!(gains[0].half_width() > 0.1, "{gains:?}");
        assert!(gains[0].low < 0.0 && gains[0].high > 0.0, "{gains:?}");
    }

    #[test]
    fn a_mean_of_several_runs_is_doubted_less() {
        let noisy: &[&[f64]] = &[&[100.0, 90.0, 110.0, 100.0, 100.0], &[100.0, 110.0, 90.0, 90.0, 100.0]];
        let (one, four) = (rounds(noisy).gains(1), rounds(noisy).gains(4));
        assert!(four[0].half_width() > 0.5 * one[0].half_width(), "{four:?}");
        assert!(four[0].half_width() < one[0].half_width(), "{four:?}");
    }

    #[test]
    fn one_round_leaves_all_doubt() {
        let gains = rounds(&[&[200.0, 100.0]]).gains(1);
        assert!((gains[0].estimate - 0.5).abs() < 1e-12);
        assert!(gains[0].low.is_infinite(), "{gains:?}");
    }
}
