//! Judged: what to call the worth of many regions, so that chance is not called an effect.

use super::Worth;
use crate::discovery;
use crate::estimate::{
    MethodErrors, Reach, Verdict, WORTH, arrivals_limit, beyond, verdict_of, verdict_without_effect,
};

impl Worth {
    /// How often chance alone would show so large a slope where there is none worth having (below 0.02).
    pub fn chance(&self) -> f64 {
        let beyond_worth = (self.estimate.value.abs() - WORTH).max(0.0);
        if self.estimate.se > 0.0 { beyond(beyond_worth / self.estimate.se, self.freedom) } else { 1.0 }
    }

    /// The same where what arrives limits throughput, whatever the code costs: a loss is none, and what was measured stays in the interval.
    #[must_use]
    pub fn limited(mut self) -> Worth {
        self.estimate = arrivals_limit(self.estimate);
        self.of_noise = arrivals_limit(self.of_noise);
        self
    }
}

/// The verdicts on all that was tried, each with the part of its method's error that stands for doubts: those of one recording
/// ([`Verdict`]), with the calls taken back that could well be chance among so many.
pub fn verdicts(all: &[(&Worth, f64)]) -> Vec<Verdict> {
    let mut chances: Vec<f64> = all.iter().map(|(worth, _)| worth.chance()).collect();
    chances.sort_unstable_by(f64::total_cmp);
    let called = discovery::called(&chances);
    let last = called.checked_sub(1).map_or(-1.0, |last| chances[last]);
    let of = |(worth, doubt): &(&Worth, f64)| {
        let errors = MethodErrors::either_way(worth.method_error, *doubt);
        let verdict = verdict_of(&worth.of_noise, errors, Reach::default(), worth.blocks);
        let is_call = matches!(verdict, Verdict::Helps | Verdict::Hurts);
        if is_call && worth.chance() > last {
            verdict_without_effect(&worth.of_noise, errors, Reach::default())
        } else {
            verdict
        }
    };
    all.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta_analysis::fleet::tests::{even, worth};

    #[test]
    fn verdicts_are_those_of_a_recording() {
        let helps = worth(&even(&[0.39, 0.4, 0.41, 0.4], 1e-4));
        let nothing = worth(&even(&[0.001, -0.001, 0.0, 0.0], 1e-4));
        let hurts = worth(&even(&[-0.39, -0.4, -0.41, -0.4], 1e-4));
        let noisy = worth(&even(&[0.9, -0.5, 0.2, 0.4], 0.1));
        let of = verdicts(&[(&helps, 0.0), (&nothing, 0.0), (&hurts, 0.0), (&noisy, 0.0)]);
        assert_eq!(of, [Verdict::Helps, Verdict::NoEffect, Verdict::Hurts, Verdict::NotEnoughData]);
        // As much doubt as that leaves room for an effect.
        assert_eq!(verdicts(&[(&nothing, 0.2)]), [Verdict::NotEnoughData]);
    }

    #[test]
    fn of_many_the_one_that_may_be_chance_is_not_called() {
        // An interval that just leaves out what is not worth having, beside hundreds in which there is nothing.
        let call = worth(&even(&[0.05, 0.09, 0.07, 0.05, 0.1, 0.06], 1e-5));
        let nothing = worth(&even(&[0.001, -0.02, 0.02, 0.0, -0.01, 0.01], 1e-5));
        assert_eq!(verdicts(&[(&call, 0.0)]), [Verdict::Helps]);
        let mut many = vec![(&nothing, 0.0); 400];
        many.push((&call, 0.0));
        assert_eq!(verdicts(&many).pop(), Some(Verdict::NotEnoughData));
    }

    #[test]
    fn a_loss_is_none_where_arrivals_are_the_limit() {
        let worth = worth(&even(&[-0.1, -0.3, -0.2], 1e-3));
        let limited = worth.clone().limited();
        assert!(limited.estimate.value.abs() < 1e-12 && limited.estimate.lo == worth.estimate.lo);
    }
}
