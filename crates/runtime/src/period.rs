//! The time from one sample of a thread to the next: random, so that it cannot alias with the program.
//!
//! Uniform in half to one and a half of its mean, because a program whose phases are a whole number of milliseconds
//! would alias with a fixed one. Draws; what is drawn is set in [`sampler`](crate::sampler).

use crate::memory::shared;
use crate::random;
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::slot::Slot;

/// The shortest time to a thread's first sample. An event repeats its period until it is told another: with one as
/// short as an interrupt takes (20 µs on a virtual machine), the handler would never get so far.
const SOON: Nanos = Nanos(100_000);

/// The mean that the controller asks for.
fn mean() -> u64 {
    shared().header.period.load(Relaxed).max(1000)
}

/// Whether the controller has asked for another mean since the thread's period was drawn. Called from the signal handler.
pub fn is_outdated(slot: &Slot) -> bool {
    slot.mean_period.load(Relaxed) != mean()
}

/// A whole period, uniform in [1/2, 3/2] of the mean. Called from the signal handler.
pub fn next(slot: &Slot) -> Nanos {
    rest(slot, Nanos::ZERO)
}

/// How long ago the last sample was at a random first look: the age of a renewal process that has gone on for
/// long. Ten thousand threads that each end before their first period would never have a sample otherwise; what the first
/// sample is worth too much, the time after a thread's last sample makes up for.
pub fn some_age(slot: &Slot) -> Nanos {
    let mean = mean();
    let (half, one, other) =
        (random::draw(slot) % (mean / 2), random::draw(slot) % mean, random::draw(slot) % mean);
    Nanos(if random::draw(slot).is_multiple_of(2) { half } else { mean / 2 + one.min(other) })
}

/// What is left of a period, uniform in [1/2, 3/2] of the mean, of which `gone` has passed.
pub fn rest(slot: &Slot, gone: Nanos) -> Nanos {
    let mean = mean();
    slot.mean_period.store(mean, Relaxed);
    let least = gone.0.max(mean / 2);
    let most = mean + mean / 2;
    let period = least + random::draw(slot) % most.saturating_sub(least).max(1);
    // A timer expires once.
    Nanos(period - gone.0).max(if slot.timer.load(Relaxed) >= 0 { Nanos(1) } else { SOON })
}
