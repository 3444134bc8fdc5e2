//! Budget: for how long the threads of a service may be delayed. Pure.
//!
//! A part of the time comes in as time passes, and sessions spend it. One may borrow what comes in during one cycle (a session and the time after it), and no more than that of two is saved up. So in any span of
//! time no more is spent than its part, that of three cycles, and what the last experiment of a session takes more than it should.

use std::time::Duration;

/// A session is not worth its attaching if less than this part of a cycle's delay is left.
const LEAST: f64 = 0.1;

/// See the module. All in seconds.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The part of the time that may be spent, from 0 to 1.
    part: f64,
    cycle: f64,
    /// What is there, or owed if below zero, at the last look; and when that was.
    balance: f64,
    looked: f64,
}

impl Budget {
    /// `owed`: what an agent before has left.
    pub fn new(part: f64, cycle: Duration, owed: Duration) -> Self {
        Self { part, cycle: cycle.as_secs_f64(), balance: -owed.as_secs_f64(), looked: 0.0 }
    }

    fn come_in(&mut self, now: Duration) {
        let now = now.as_secs_f64();
        let most = self.part * self.cycle;
        self.balance = (self.balance + self.part * (now - self.looked).max(0.0)).min(most);
        self.looked = now;
    }

    /// What a session may spend that begins now (since the begin of the agent); none if that is too little.
    pub fn allows(&mut self, now: Duration) -> Option<Duration> {
        self.come_in(now);
        let borrowed = self.part * self.cycle;
        let allowed = self.balance + borrowed;
        (allowed >= LEAST * borrowed).then(|| Duration::from_secs_f64(allowed))
    }

    /// A session has spent so much.
    pub fn spend(&mut self, now: Duration, spent: Duration) {
        self.come_in(now);
        self.balance -= spent.as_secs_f64();
    }

    /// What is owed.
    pub fn owed(&self) -> Duration {
        Duration::from_secs_f64((-self.balance).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn no_more_is_spent_than_comes_in() {
        let mut random = fastrand::Rng::with_seed(3);
        for eagerness in [0.5, 1.0, 3.0] {
            let mut budget = Budget::new(0.002, seconds(1500.0), Duration::ZERO);
            let (mut now, mut spent, mut begun, mut refused) = (0.0, 0.0, 0, 0);
            while begun < 3_000 {
                now += 1500.0 * 2.0 * random.f64();
                let Some(allowed) = budget.allows(seconds(now)) else {
                    refused += 1;
                    continue;
                };
                begun += 1;
                // A session ends with the experiment in which it is spent, which may take a second more.
                let wanted = eagerness * 3.0 * 2.0 * random.f64();
                let takes = if wanted < allowed.as_secs_f64() {
                    wanted
                } else {
                    allowed.as_secs_f64() + random.f64()
                };
                budget.spend(seconds(now), seconds(takes));
                spent += takes;
                assert!(spent <= 0.002 * (now + 2.0 * 1500.0) + 1.0, "{spent} by {now}");
            }
            let part = spent / now;
            match eagerness {
                0.5 => assert!((0.0009..0.0011).contains(&part) && refused < 30, "{part} {refused}"),
                3.0 => assert!((0.0018..0.00201).contains(&part) && refused > 100, "{part} {refused}"),
                _ => assert!(part < 0.00201, "{part}"),
            }
        }
    }

    #[test]
    fn what_an_agent_before_has_spent_is_owed() {
        let mut budget = Budget::new(0.002, seconds(1500.0), seconds(3.0));
        assert_eq!((budget.allows(seconds(10.0)), budget.owed() > seconds(2.9)), (None, true));
        assert!(budget.allows(seconds(750.0)).is_some_and(|allowed| allowed > seconds(1.4)));
        // A year later no more is there than that of two cycles.
        assert_eq!(budget.allows(seconds(3e7)), Some(seconds(6.0)));
        assert_eq!(budget.owed(), Duration::ZERO);
    }
}
