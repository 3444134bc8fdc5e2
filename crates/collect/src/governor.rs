//! How often samples are taken: as asked, unless that costs more than it may.

use wire::Nanos;

/// What collecting may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Samples per second and CPU that were asked for.
    pub rate_hz: f64,
    /// CPU time that all of it may take: a part of the machine's.
    pub cpu: f64,
}

/// What it did cost in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The collector's own CPU time, as a part of the machine's.
    pub own: f64,
    /// The kernel's CPU time for taking samples, as a part of the machine's.
    pub kernel: f64,
}

/// Chooses rates.
#[derive(Clone, Copy, Debug)]
pub struct Governor {
    budget: Budget,
    rate_hz: f64,
    /// Looks in a row at which it cost too much, or much less than it may.
    above: u32,
    below: u32,
}

/// Fewer samples than this are not worth collecting.
const LEAST_HZ: f64 = 1.0;
/// How many looks in a row make a change: what happens once is not the rate's fault.
const LOOKS: u32 = 3;
/// Part of the budget that a new rate is to take.
const MARGIN: f64 = 0.95;
/// Times the budget that are not waited for.
const ALARMING: f64 = 3.0;
/// A rate is only raised when this part of the budget is free at the new rate.
const RESERVE: f64 = 0.2;

impl Governor {
    /// At the rate that was asked for, or at which samples cost what they may, if each costs the kernel `a_sample`.
    pub fn new(budget: Budget, a_sample: Option<Nanos>) -> Self {
        let possible =
            a_sample.map_or(f64::INFINITY, |each| MARGIN * budget.cpu * 1e9 / each.0.max(1) as f64);
        let rate_hz = budget.rate_hz.min(possible.max(LEAST_HZ));
        Self { budget, rate_hz, above: 0, below: 0 }
    }

    /// Whether something costs so much that it has to be looked at soon.
    pub fn is_alarming(&self, cost: Cost) -> bool {
        cost.own + cost.kernel > ALARMING * self.budget.cpu
    }

    /// Samples per second and CPU.
    pub fn rate_hz(&self) -> f64 {
        self.rate_hz
    }

    /// Whether it is lower than what was asked for.
    pub fn is_holding_back(&self) -> bool {
        self.rate_hz < self.budget.rate_hz
    }

    /// Says what it has cost lately; whether the rate is another one now.
    pub fn spent(&mut self, cost: Cost) -> bool {
        let part = (cost.own + cost.kernel) / self.budget.cpu;
        self.above = if part > 1.0 { self.above + 1 } else { 0 };
        let possible = (self.rate_hz * (1.0 - RESERVE) / part.max(0.01)).min(self.budget.rate_hz);
        self.below = if self.is_holding_back() && possible > 1.1 * self.rate_hz { self.below + 1 } else { 0 };
        let before = self.rate_hz;
        if self.above >= LOOKS {
            // What it costs is mostly in proportion to the rate.
            self.rate_hz = (self.rate_hz * MARGIN / part).max(LEAST_HZ.min(self.budget.rate_hz));
        } else if self.below >= LOOKS {
            self.rate_hz = possible;
        }
        if self.rate_hz != before {
            (self.above, self.below) = (0, 0);
        }
        self.rate_hz != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each sample costs `each` of a CPU.
    fn settle(mut governor: Governor, each: f64, looks: usize) -> f64 {
        for _ in 0..looks {
            let rate = governor.rate_hz();
            governor.spent(Cost { own: 0.2 * each * rate, kernel: 0.8 * each * rate });
        }
        governor.rate_hz()
    }

    #[test]
    fn the_rate_is_what_was_asked_for_or_what_it_may_cost() {
        let governor = Governor::new(Budget { rate_hz: 997.0, cpu: 0.01 }, None);
        // A microsecond, ten, a hundred.
        assert_eq!(settle(governor, 1e-6, 50), 997.0);
        assert!((900.0..=997.0).contains(&settle(governor, 1e-5, 50)));
        assert!((90.0..=100.0).contains(&settle(governor, 1e-4, 50)));
        assert_eq!(settle(governor, 1.0, 50), LEAST_HZ);
    }

    #[test]
    fn a_rate_that_costs_too_much_is_not_begun_with() {
        let rate = |rate_hz, each| Governor::new(Budget { rate_hz, cpu: 0.01 }, Some(Nanos(each))).rate_hz();
        assert_eq!(rate(97.0, 15_000), 97.0);
        assert!((600.0..640.0).contains(&rate(20_000.0, 15_000)));
        assert_eq!(rate(20_000.0, u64::MAX), LEAST_HZ);
        assert_eq!(rate(0.5, u64::MAX), 0.5);
    }

    #[test]
    fn a_single_peak_changes_nothing_and_better_times_come_again() {
        let mut governor = Governor::new(Budget { rate_hz: 97.0, cpu: 0.01 }, Some(Nanos(15_000)));
        let cost = |own| Cost { own, kernel: 0.0 };
        assert!(!governor.spent(cost(0.5)) && !governor.spent(cost(0.001)) && !governor.spent(cost(0.5)));
        assert!(!governor.is_holding_back());
        assert!(!governor.spent(cost(0.02)) && governor.spent(cost(0.02)));
        assert!(governor.is_holding_back() && governor.rate_hz() < 50.0);
        let looks = (0..20).find(|_| governor.spent(cost(0.0001))).unwrap();
        assert_eq!((looks, governor.rate_hz(), governor.is_holding_back()), (2, 97.0, false));
    }
}
