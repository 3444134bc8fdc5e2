//! What it takes until a thread that is woken runs, on a CPU that slept.

use crate::clock;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::Nanos;

/// How often a thread is woken to find out.
const TIMES: usize = 31;
/// How long it has slept each time: longer than the kernel, or a hypervisor, lets an idle CPU wait awake.
const ASLEEP: Duration = Duration::from_micros(200);

/// The median time from waking a thread that had slept for a while until it runs, on this machine. Measured by the first call, which
/// takes about 10 ms, and should not compete with anything. `None` if no thread can be started.
pub fn cost() -> Option<Nanos> {
    static COST: OnceLock<Option<Nanos>> = OnceLock::new();
    *COST.get_or_init(measure)
}

fn measure() -> Option<Nanos> {
    let woken_at = AtomicU64::new(0);
    let mut costs: Vec<Nanos> = std::thread::scope(|scope| {
        let sleeper = std::thread::Builder::new().spawn_scoped(scope, || {
            for _ in 0..TIMES {
                while woken_at.load(Ordering::Acquire) != 0 {
                    std::hint::spin_loop();
                }
                std::thread::park();
                woken_at.store(clock::monotonic().0, Ordering::Release);
            }
        });
        let Ok(sleeper) = sleeper else { return Vec::new() };
        let wake = |_| {
            let began = Instant::now();
            while began.elapsed() < ASLEEP {
                std::hint::spin_loop();
            }
            let before = clock::monotonic();
            sleeper.thread().unpark();
            let after = loop {
                match woken_at.swap(0, Ordering::AcqRel) {
                    0 => std::thread::yield_now(),
                    after => break Nanos(after),
                }
            };
            after.saturating_sub(before)
        };
        (0..TIMES).map(wake).collect()
    });
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_a_thread_takes_some_time() {
        let cost = cost().expect("a thread can be started");
        assert!(cost > Nanos::ZERO);
        assert_eq!(super::cost(), Some(cost), "measured once");
    }
}
