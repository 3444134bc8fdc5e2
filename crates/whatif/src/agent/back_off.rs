//! Back-off: for how long a service is left alone after something went wrong: twice as long each time, and less again when things go well. Pure.

use std::time::Duration;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackOff {
    first: Duration,
    longest: Duration,
    /// How often it went wrong, less how often it went well since.
    steps: u32,
    until: Option<Duration>,
}

impl BackOff {
    /// Nothing went wrong yet.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, steps: 0, until: None }
    }

    /// As an agent before has left it.
    pub fn resume(&mut self, steps: u32, left: Duration) {
        self.steps = steps;
        self.until = Some(left.min(self.longest)).filter(|left| !left.is_zero());
    }

    /// It went wrong now; how long nothing is done.
    pub fn fail(&mut self, now: Duration) -> Duration {
        let wait = self.first.saturating_mul(2_u32.saturating_pow(self.steps.min(30))).min(self.longest);
        self.steps = self.steps.saturating_add(1).min(31);
        self.until = Some(now + wait);
        wait
    }

    /// It went well.
    pub fn succeed(&mut self) {
        self.steps = self.steps.saturating_sub(1);
        self.until = None;
    }

    /// For how long nothing is to be done; none if something may be.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(now)).filter(|left| !left.is_zero())
    }

    pub fn steps(&self) -> u32 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_twice_as_long_each_time_and_not_without_end() {
        let seconds = Duration::from_secs;
        let mut back_off = BackOff::new(seconds(300), seconds(86_400));
        assert_eq!(back_off.left(seconds(0)), None);
        let waits: Vec<u64> = (0..10).map(|_| back_off.fail(seconds(0)).as_secs()).collect();
        assert_eq!(waits, [300, 600, 1200, 2400, 4800, 9600, 19_200, 38_400, 76_800, 86_400]);
        assert_eq!(
            (back_off.left(seconds(400)), back_off.left(seconds(86_400))),
            (Some(seconds(86_000)), None)
        );
        // One that goes well makes it half as long again, and not short at once.
        back_off.succeed();
        back_off.succeed();
        assert_eq!((back_off.left(seconds(0)), back_off.fail(seconds(0))), (None, seconds(76_800)));
        let mut next = BackOff::new(seconds(300), seconds(86_400));
        next.resume(2, seconds(50));
        assert_eq!((next.left(seconds(20)), next.left(seconds(60))), (Some(seconds(30)), None));
        assert_eq!(next.fail(seconds(60)), seconds(1200));
    }
}
