//! The processor's clock, which can be read in a few nanoseconds.
//!
//! The controller has compared it with the monotonic clock when it made the shared memory; samples of the first second, of whichever
//! process, compare the two again and so measure its rate, which programs that are executed later begin with. Until it is measured no
//! time is known. Some processors stop or slow theirs down: the balance of what was sampled and credited
//! ([`stretch`](crate::stretch)) makes up for it. Keeps no time of any thread: [`stopwatch`](crate::stopwatch) does.

use crate::memory::shared;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Nanos;

/// Nanoseconds per tick, in 2⁻²⁴; zero until it is known: what [`Header::clock_rate`](wire::Header) was at the last sample. Publishes
/// nothing else.
static RATE: AtomicU64 = AtomicU64::new(0);
/// How long the clock is measured.
const MEASURED_FOR: Nanos = Nanos(1_000_000_000);
/// So much must have passed at least.
const LEAST: Nanos = Nanos(1_000_000);
/// Both clocks are read within so many ticks, or the thread was interrupted in between: 20 µs or so.
const AT_ONCE: u64 = 1 << 16;

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

/// Compares this clock with the monotonic one, unless that was done for long enough. Called with every sample, which was at `time`,
/// from the signal handler.
pub fn measure(time: Nanos) {
    let header = &shared().header;
    let (ticks, begin) = (header.clock_ticks.load(Relaxed), Nanos(header.clock_time.load(Relaxed)));
    let known = header.clock_rate.load(Relaxed);
    if known != 0 && time.saturating_sub(begin) >= MEASURED_FOR {
        learn(known);
        return;
    }
    let (before, time, after) = (now(), sys::now(), now());
    let since = |reading: u64| reading.wrapping_sub(ticks);
    if let Some(rate) = rate(time.saturating_sub(begin), since(before), since(after)) {
        header.clock_rate.store(rate, Relaxed);
        learn(rate);
    }
}

/// Nanoseconds per tick, in 2⁻²⁴, where time has `passed` between these two readings, in ticks since the same moment.
fn rate(passed: Nanos, before: u64, after: u64) -> Option<u64> {
    let took = after.wrapping_sub(before);
    let ticks = u128::from(before.wrapping_add(took / 2)).max(1);
    (passed >= LEAST && took <= AT_ONCE).then(|| ((u128::from(passed.0) << 24) / ticks) as u64)
}

/// The rate is what other processes have measured. Called when this one joins.
pub fn begin() {
    learn(shared().header.clock_rate.load(Relaxed));
}

fn learn(rate: u64) {
    // It changes seldom, and all threads read it.
    if rate != 0 && RATE.load(Relaxed) != rate {
        RATE.store(rate, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readings_at_once_measure_the_clock() {
        let (second, ticks) = (MEASURED_FOR, 2_000_000_000);
        assert_eq!(rate(second, ticks - 200, ticks + 200), Some(1 << 23));
        assert_eq!(rate(second, ticks - 200, ticks + AT_ONCE), None, "interrupted");
        assert_eq!(rate(Nanos(LEAST.0 - 1), 1000, 1200), None, "too soon");
        // Within 2 % at worst.
        let least = rate(LEAST, 2_000_000 - AT_ONCE, 2_000_000).unwrap();
        assert!(least.abs_diff(1 << 23) * 50 < 1 << 23, "{least}");
    }
}
