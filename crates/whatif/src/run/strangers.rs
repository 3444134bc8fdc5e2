//! How many threads of other programs want the CPUs.

use std::sync::atomic::Ordering::Relaxed;
use wire::SharedMemory;
use wire::loadavg::THREAD;
use wire::slot::Activity;

/// The part of the difference by which every count moves the mean: a tenth of a second, counted every ten
/// milliseconds.
const SMOOTHING: f64 = 0.1;

/// A running mean.
#[derive(Debug, Default)]
pub struct Strangers {
    mean: f64,
}

impl Strangers {
    /// Counts once more, and tells the runtime.
    pub fn count(&mut self, memory: &SharedMemory) {
        let Some(all) = perf::cpu::runnable() else { return };
        let now = perf::clock::monotonic();
        let runs = |slot: &&wire::slot::Slot| slot.can_run(now) && !slot.is_doing(Activity::Pausing);
        let ours = memory.slots.used().iter().filter(runs).count() + 1; // this thread
        // Not cut off at zero: where ours are counted a little wrong, that evens out.
        self.mean += (f64::from(all) - ours as f64 - self.mean) * SMOOTHING;
        memory.header.strangers.store((self.mean.max(0.0) * f64::from(THREAD)) as u32, Relaxed);
    }
}
