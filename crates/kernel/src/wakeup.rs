//! What it takes until a thread that is woken runs, on a CPU that slept.

use crate::clock;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::Nanos;

/// How often a thread is woken to find out.
const TIMES: usize = 31;
/// How long it has slept each time: longer than the kernel, or a hypervisor, lets an idle CPU wait awake.
const ASLEEP: Duration = Duration::from_micros(200);

/// No longer is tried: the machine is busy.
const LONGEST: Duration = Duration::from_millis(100);

/// The median time from waking a thread that had slept for a while until it runs, on this machine. Measured by the first call, which
/// takes about 10 ms, and should not compete with anything. `None` if no thread can be started, or none runs soon.
pub fn cost() -> Option<Nanos> {
    static COST: OnceLock<Option<Nanos>> = OnceLock::new();
    *COST.get_or_init(measure)
}

fn measure() -> Option<Nanos> {
    let until = Instant::now() + LONGEST;
    let woken_at = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let mut costs: Vec<Nanos> = std::thread::scope(|scope| {
        let sleeper = std::thread::Builder::new().spawn_scoped(scope, || {
            while !done.load(Ordering::Acquire) {
                std::thread::park();
                woken_at.store(clock::monotonic().0, Ordering::Release);
            }
        });
        let Ok(sleeper) = sleeper else { return Vec::new() };
        let wake = |_| {
            std::thread::sleep(ASLEEP);
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
        let costs = (0..TIMES).map_while(wake).collect();
        done.store(true, Ordering::Release);
        sleeper.thread().unpark();
        costs
    });
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_waking_a_thread_is_measured_once() {
        let first = cost();
        assert_ne!(first, Some(Nanos::ZERO));
        assert_eq!(cost(), first);
    }
}
