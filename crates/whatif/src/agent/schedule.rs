//! Schedule: when a service is attached to, and for how long. Pure.
//!
//! Time between sessions is exponential, so that the moment of the next one says nothing about the service and cannot be guessed: sessions are what a Poisson process with a mean number in an
//! hour brings, of which those count that come while none is under way (Wolff, "Poisson Arrivals See Time Averages", 1982). Its mean follows from what sessions have really taken so far,
//! with all that attaching and letting go takes, so that the part of the time comes out that was asked for.

use std::time::Duration;

/// A session that ends before it has begun counts as if it had taken this part of a usual one, so that others do not follow at once.
const LEAST: f64 = 0.25;

/// See the module.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The part of the time that sessions take, from 0 to 1.
    duty: f64,
    /// The mean length that was asked for, in seconds.
    mean: f64,
    /// What sessions have taken, in seconds, and how many there were.
    taken: f64,
    sessions: u32,
}

impl Schedule {
    pub fn new(duty: f64, mean: Duration) -> Self {
        Self { duty, mean: mean.as_secs_f64(), taken: 0.0, sessions: 0 }
    }

    /// What a session and the time after it take together, on average.
    pub fn cycle(&self) -> Duration {
        Duration::from_secs_f64(self.mean / self.duty)
    }

    /// Time until the next session may begin.
    pub fn wait(&self, random: &mut fastrand::Rng) -> Duration {
        // What was asked for counts as one session.
        let each = (self.mean + self.taken) / f64::from(self.sessions + 1);
        let mean = each * (1.0 - self.duty) / self.duty;
        // In (0, 1], so that there is a logarithm.
        Duration::from_secs_f64(-mean * (1.0 - random.f64()).ln())
    }

    /// How long the next session is to be: between a half and one and a half of the mean, each length as likely as any other.
    pub fn length(&self, random: &mut fastrand::Rng) -> Duration {
        Duration::from_secs_f64(self.mean * (0.5 + random.f64()))
    }

    /// A session has ended, which has taken so long.
    pub fn ended(&mut self, taken: Duration) {
        self.taken += taken.as_secs_f64().max(LEAST * self.mean);
        self.sessions = self.sessions.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The begin of each session and what it took, where that is its length and so much more.
    fn simulated(duty: f64, seed: u64, count: usize, took: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let (mut schedule, mut random) =
            (Schedule::new(duty, Duration::from_secs(30)), fastrand::Rng::with_seed(seed));
        let mut now = 0.0;
        let mut session = || {
            now += schedule.wait(&mut random).as_secs_f64();
            let (begin, taken) = (now, took(schedule.length(&mut random).as_secs_f64()));
            now += taken;
            schedule.ended(Duration::from_secs_f64(taken));
            (begin, taken)
        };
        (0..count).map(|_| session()).collect()
    }

    #[test]
    fn sessions_take_the_part_of_the_time_that_was_asked_for() {
        for (duty, took) in [
            (0.02, &(|length| length) as &dyn Fn(f64) -> f64),
            (0.02, &|length| length + 2.5),
            // Half of them end early.
            (0.05, &|length: f64| if length < 30.0 { 10.0 } else { length }),
            (0.5, &|length| length),
        ] {
            for seed in 0..3 {
                let sessions = simulated(duty, seed, 20_000, took);
                let (last, taken) = *sessions.last().unwrap();
                let spent: f64 = sessions.iter().map(|(_, taken)| taken).sum::<f64>() / (last + taken);
                // The standard error of 20,000 exponential waits is 0.7 %.
                assert!((spent / duty - 1.0).abs() < 0.03, "{duty} {seed}: {spent}");
            }
        }
        // What fails at once takes less than was asked for, and is not tried again at once.
        let sessions = simulated(0.02, 1, 2_000, |_| 0.1);
        let (last, _) = *sessions.last().unwrap();
        assert!(last / 2_000.0 > 300.0, "one in {} s", last / 2_000.0);
    }

    #[test]
    fn waits_are_exponential() {
        let sessions = simulated(0.02, 4, 20_000, |_| 30.0);
        let waits: Vec<f64> = sessions.windows(2).map(|pair| pair[1].0 - pair[0].0 - pair[0].1).collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        assert!((mean / 1470.0 - 1.0).abs() < 0.03, "{mean}");
        // The largest distance between the two distributions (Kolmogorov-Smirnov): 1.63/√n at one in a hundred.
        let mut sorted = waits;
        sorted.sort_by(f64::total_cmp);
        let of = sorted.len() as f64;
        let far = sorted.iter().enumerate().map(|(nth, wait)| {
            let expected = 1.0 - (-wait / mean).exp();
            (expected - nth as f64 / of).abs().max((expected - (nth + 1) as f64 / of).abs())
        });
        let far = far.fold(0.0, f64::max);
        assert!(far < 1.63 / of.sqrt(), "{far}");
    }

    #[test]
    fn lengths_have_the_mean_that_was_asked_for() {
        let (schedule, mut random) =
            (Schedule::new(0.02, Duration::from_secs(30)), fastrand::Rng::with_seed(2));
        let lengths: Vec<f64> = (0..10_000).map(|_| schedule.length(&mut random).as_secs_f64()).collect();
        let mean = lengths.iter().sum::<f64>() / 10_000.0;
        assert!((29.5..30.5).contains(&mean) && lengths.iter().all(|length| (15.0..=45.0).contains(length)));
        assert_eq!(schedule.cycle(), Duration::from_secs(1500));
    }
}
