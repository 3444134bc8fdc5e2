//! Samples more often where threads spin, and hardly at all while it is measured what sampling costs.
//!
//! **Does:** shorten the period of sampling while samples find threads waiting by spinning, and lengthen it while it is asked to. **Does not:** decide whether a thread
//! spins; the runtime does. **Constraints:** never more samples than the controller can take, and never shorter where `--period` was given.
//!
//! When a wait by spinning begins and ends is only known from samples, to about a period; what is credited for a wait of a
//! millisecond is mostly chance with samples a millisecond apart, and debts are paid a phase too late. (`mosaic seed=426844481`,
//! two threads at a barrier, R0 at 100 %, true 73: 51 with 1 ms, 65 with 0.25 ms, 73 with 0.1 ms.)

use profile::Nanos;
use std::sync::atomic::Ordering;
use wire::SharedMemory;
use wire::layout::Sampler;
use wire::ring::{Judgement, Sample};

/// Samples that must have found a thread spinning before the period is shortened.
const ENOUGH: u64 = 50;
/// One of so many samples must have found a thread spinning before the period is shortened.
const SHARE: u64 = 33;
/// The shorter period: a sample costs up to 20 µs, which is a tenth of it.
const FINE: Nanos = Nanos::from_micros(200);
/// Samples a second, of all threads together, that the controller takes at most.
const RATE: u64 = 20_000;

/// How many times as long the period is while threads are hardly sampled: long enough to cost little, and so short that samples soon come as usual again.
const SELDOM: u64 = 8;

/// What samples have shown so far.
#[derive(Debug)]
pub struct Finer {
    /// The period to begin with.
    usual: Nanos,
    /// Whether it may be shortened.
    may_shorten: bool,
    /// Whether threads are hardly to be sampled.
    seldom: bool,
    samples: u64,
    spinning: u64,
}

impl Finer {
    /// `usual`: the period that threads are sampled with. `may_shorten`: whether it may be shorter where threads spin.
    pub fn new(usual: Nanos, may_shorten: bool) -> Self {
        Self { usual, may_shorten, seldom: false, samples: 0, spinning: 0 }
    }

    /// Whether threads are hardly to be sampled from their next sample on.
    pub fn sample_seldom(&mut self, seldom: bool) {
        self.seldom = seldom;
    }

    pub fn count(&mut self, sample: &Sample) {
        self.samples += 1;
        self.spinning += u64::from(sample.judgement.has(Judgement::SPINNING));
    }

    /// Sets the period of a program of which so many threads run.
    pub fn set(&mut self, memory: &SharedMemory, running: u32) {
        // A timer is no finer than the kernel's tick.
        let is_fine = matches!(memory.header.sampler(), Sampler::Perf | Sampler::PerfUser);
        memory.header.period.store(self.period(running, is_fine).get(), Ordering::Relaxed);
    }

    /// Samples were lost: from now on they come as seldom as they did at first.
    pub fn give_up(&mut self) {
        self.may_shorten = false;
    }

    /// `is_fine`: whether samples can come as often as is wanted.
    fn period(&self, running: u32, is_fine: bool) -> Nanos {
        let spins = self.spinning >= ENOUGH && self.spinning * SHARE >= self.samples;
        let period = if self.may_shorten && is_fine && spins {
            let least = u64::from(running) * 1_000_000_000 / RATE;
            FINE.max(Nanos::new(least)).min(self.usual)
        } else {
            self.usual
        };
        if self.seldom { Nanos::new(period.get() * SELDOM) } else { period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Nanos = Nanos::from_millis(1);

    fn seen(samples: u64, spinning: u64) -> Finer {
        Finer { samples, spinning, ..Finer::new(USUAL, true) }
    }

    #[test]
    fn threads_that_spin_are_sampled_more_often() {
        assert_eq!(seen(100, 0).period(2, true), USUAL);
        assert_eq!(seen(100, 49).period(2, true), USUAL, "too few to tell");
        assert_eq!(seen(10_000, 60).period(2, true), USUAL, "a spin now and then");
        assert_eq!(seen(1000, 60).period(2, true), FINE);
    }

    #[test]
    fn the_controller_can_take_all_samples() {
        assert_eq!(seen(1000, 600).period(8, true), Nanos::from_micros(400));
        assert_eq!(seen(1000, 600).period(64, true), USUAL);
    }

    #[test]
    fn the_period_stays_where_it_must() {
        assert_eq!(seen(1000, 60).period(2, false), USUAL, "by a timer");
        let mut finer = seen(1000, 60);
        finer.give_up();
        assert_eq!(finer.period(2, true), USUAL, "samples were lost");
        assert_eq!(
            Finer { may_shorten: false, ..seen(1000, 60) }.period(2, true),
            USUAL,
            "--period was given"
        );
    }

    #[test]
    fn threads_are_hardly_sampled_while_that_is_asked_for() {
        let mut finer = seen(1000, 60);
        finer.sample_seldom(true);
        assert_eq!(finer.period(2, true), Nanos::from_micros(1600));
        assert_eq!(Finer { may_shorten: false, ..finer }.period(2, false), Nanos::from_millis(8));
    }
}
