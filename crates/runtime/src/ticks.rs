//! The processor's clock, which can be read in a few nanoseconds.
//!
//! Its rate is measured against the monotonic clock, with every sample of the first second, and told to the controller. Until then
//! no time is known. Some processors stop or slow theirs down: the balance of what was sampled and credited
//! ([`stretch`](crate::stretch)) makes up for it. Keeps no time of any thread: [`stopwatch`](crate::stopwatch) does.

use crate::memory::shared;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use wire::Nanos;

/// Nanoseconds per tick, in 2⁻²⁴; zero until it is known. Publishes nothing else.
static RATE: AtomicU64 = AtomicU64::new(0);
/// The reading at [`FIRST_TIME`], which publishes it.
static FIRST_TICKS: AtomicU64 = AtomicU64::new(0);
/// When the first sample was; zero before it. Publishes [`FIRST_TICKS`]: stored with Release, loaded with Acquire in [`measure`].
static FIRST_TIME: AtomicU64 = AtomicU64::new(0);
/// How long the clock is measured.
const MEASURED_FOR: u64 = 1_000_000_000;

/// A reading. Called from the signal handler.
#[inline]
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The time between two readings; `None` until the clock is known. Called from the signal handler.
#[inline]
pub fn between(from: u64, to: u64) -> Option<Nanos> {
    let rate = RATE.load(Relaxed);
    // What lies ahead, where clocks of CPUs differ or time was left out, is no time.
    let ticks = (to.wrapping_sub(from) as i64).clamp(0, 1 << 38);
    (rate != 0).then(|| Nanos(((ticks as u128 * u128::from(rate)) >> 24) as u64))
}

/// How many ticks `time` has, if the clock is known. Called from the signal handler.
pub fn of(time: Nanos) -> u64 {
    let rate = RATE.load(Relaxed).max(1);
    ((u128::from(time.0) << 24) / u128::from(rate)) as u64
}

/// Compares this clock with the monotonic one, which shows `time`. Called with every sample, from the signal handler.
pub fn measure(time: Nanos) {
    let first = FIRST_TIME.load(Acquire);
    if first == 0 {
        FIRST_TICKS.store(now(), Relaxed);
        FIRST_TIME.store(time.0, Release);
        let header = &shared().header;
        header.clock_ticks.store(FIRST_TICKS.load(Relaxed), Relaxed);
        header.clock_time.store(time.0, Relaxed);
        return;
    }
    let passed = time.0.saturating_sub(first);
    if passed > 1_000_000 && (passed < MEASURED_FOR || RATE.load(Relaxed) == 0) {
        let ticks = now().wrapping_sub(FIRST_TICKS.load(Relaxed)).max(1);
        let rate = ((u128::from(passed) << 24) / u128::from(ticks)) as u64;
        RATE.store(rate, Relaxed);
        shared().header.clock_rate.store(rate, Relaxed);
    }
}
