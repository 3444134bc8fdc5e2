//! What it takes until a thread that is woken runs, on a CPU that slept.

use crate::clock;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::Nanos;

/// How often a thread is woken to find out, after either time.
const TIMES: usize = 31;
/// How long it has slept: so short that its CPU hardly sleeps, and longer than the kernel, or a hypervisor, lets an idle CPU wait awake.
const SLEPT: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(200)];

/// No longer is tried, after either time: the machine is busy.
const LONGEST: Duration = Duration::from_millis(100);

/// The median time from waking a thread until it runs, on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// After either time for which it has slept.
    after: [Nanos; 2],
}

impl Cost {
    /// Measured by the first call, which takes about 10 ms, and should not compete with anything. `None` if no thread can be started, or none runs soon.
    pub fn known() -> Option<Self> {
        static COST: OnceLock<Option<Cost>> = OnceLock::new();
        *COST.get_or_init(measure)
    }

    /// After threads have slept for so long in the mean. Between both times it grows with their logarithm, so it is hardly more in the mean than after the mean time.
    #[must_use]
    pub fn after(self, slept: Duration) -> Nanos {
        let [short, long] = SLEPT.map(|time| (time.as_nanos() as f64).ln());
        let part = ((slept.as_nanos().max(1) as f64).ln() - short) / (long - short);
        let [least, most] = self.after.map(|cost| cost.0 as f64);
        Nanos((least + part.clamp(0.0, 1.0) * (most - least).max(0.0)) as u64)
    }
}

fn measure() -> Option<Cost> {
    let woken_at = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleeper = std::thread::Builder::new().spawn_scoped(scope, || {
            while !done.load(Ordering::Acquire) {
                std::thread::park();
                woken_at.store(clock::monotonic().0, Ordering::Release);
            }
        });
        let sleeper = sleeper.ok()?;
        let wake = |after: Duration, until: Instant| {
            wait(after);
            woken_at.store(0, Ordering::Release); // of one that came too late
            let before = clock::monotonic();
            sleeper.thread().unpark();
            loop {
                match woken_at.swap(0, Ordering::AcqRel) {
                    0 if Instant::now() > until => return None,
                    0 => std::thread::yield_now(),
                    after => return Some(Nanos(after).saturating_sub(before)),
                }
            }
        };
        let median = |after: Duration| {
            let until = Instant::now() + LONGEST;
            let mut costs: Vec<Nanos> = (0..TIMES).map_while(|_| wake(after, until)).collect();
            costs.sort_unstable();
            costs.get(costs.len() / 2).copied()
        };
        let [short, long] = SLEPT.map(median);
        done.store(true, Ordering::Release);
        sleeper.thread().unpark();
        Some(Cost { after: [short.or(long)?, long.or(short)?] })
    })
}

/// Without sleeping where that would take longer than asked for.
fn wait(time: Duration) {
    const SLACK: Duration = Duration::from_micros(100);
    let until = Instant::now() + time;
    if time > SLACK {
        std::thread::sleep(time);
    }
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_waking_a_thread_is_measured_once() {
        let first = Cost::known();
        assert_eq!(Cost::known(), first);
    }

    #[test]
    fn waking_costs_more_the_longer_a_thread_has_slept() {
        let cost = Cost { after: [Nanos(24_000), Nanos(44_000)] };
        let after =
            [0, 20_000, 63_246, 200_000, 5_000_000].map(|slept| cost.after(Duration::from_nanos(slept)).0);
        assert_eq!(after, [24_000, 24_000, 34_000, 44_000, 44_000]);
        let noisy = Cost { after: [Nanos(30_000), Nanos(20_000)] };
        assert_eq!(noisy.after(Duration::from_micros(50)), Nanos(30_000));
    }
}
