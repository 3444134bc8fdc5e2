//! How many threads of other programs want the CPUs.
//!
//! Threads that want a CPU cannot be counted from here: of the program's own, the runtime knows what they were doing
//! last, but not whether one has been woken meanwhile, and the kernel does not say whose those are that it counts. What
//! all of them *get* is known. Where all CPUs are busy, it is divided fairly: if `n` threads of the program get `a` CPUs
//! and others get `u`, there are `n u / a` others. Where a CPU is idle, every thread that wants one has one.

use kernel::cpu::{CpuUse, ProgramUse};
use std::sync::atomic::Ordering::Relaxed;
use wire::layout::THREAD;
use wire::slot::Activity;
use wire::{Nanos, SharedMemory};

/// The kernel counts CPU time in ticks of 10 ms: what is looked at must be much longer.
const INTERVAL: Nanos = Nanos(200_000_000);
/// The part of the difference by which every interval moves the mean.
const SMOOTHING: f64 = 0.3;
/// CPUs that must be idle, in parts of all of them, for no thread to wait.
const IDLE: f64 = 0.05;
/// More others than that are as good as none of the machine.
const MOST: f64 = 64.0;

/// A running mean, and what it is made of.
#[derive(Debug, Default)]
pub struct Strangers {
    mean: f64,
    program: ProgramUse,
    before: Option<CpuUse>,
    since: Nanos,
    /// Threads of the program that could run, summed over so many looks.
    able: f64,
    looks: f64,
}

impl Strangers {
    /// Looks once more at the program, which is these processes and what they have started, and tells its runtime.
    pub fn count(&mut self, memory: &SharedMemory, roots: impl FnOnce() -> Vec<u32>) {
        let now = kernel::clock::monotonic();
        let runs = |slot: &&wire::slot::Slot| slot.can_run(now) && !slot.is_doing(Activity::Pausing);
        self.able += memory.slots.used().iter().filter(runs).count() as f64;
        self.looks += 1.0;
        if now < self.since + INTERVAL {
            return;
        }
        let is_profiled = |pid| memory.slots.has_process(pid);
        let Ok(used) = self.program.now(&roots(), &is_profiled) else { return };
        if let Some(before) = self.before {
            let cpus = f64::from(memory.header.machine_cpus.load(Relaxed));
            self.mean += (others(before, used, cpus, self.able / self.looks) - self.mean) * SMOOTHING;
            memory.header.strangers.store((self.mean * f64::from(THREAD)) as u32, Relaxed);
        }
        (self.before, self.since) = (Some(used), now);
        (self.able, self.looks) = (0.0, 0.0);
    }
}

/// How many others there were between two moments, on `cpus` CPUs that `able` threads of the program wanted.
fn others(before: CpuUse, after: CpuUse, cpus: f64, able: f64) -> f64 {
    let part = |of: fn(&CpuUse) -> Nanos| {
        let passed = after.passed.saturating_sub(before.passed).0.max(1) as f64;
        cpus * of(&after).saturating_sub(of(&before)).0 as f64 / passed
    };
    let (busy, taken, ours) = (part(|c| c.busy), part(|c| c.taken), part(|c| c.ours));
    // A tick is charged to the thread that runs when it falls.
    let others = (busy - taken - ours).max(0.0);
    let shared = busy >= cpus * (1.0 - IDLE);
    if shared && ours > 0.0 { (others * able / ours).clamp(others, MOST.max(others)) } else { others }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(busy: u64, taken: u64, ours: u64) -> CpuUse {
        CpuUse { passed: Nanos(200), busy: Nanos(busy), taken: Nanos(taken), ours: Nanos(ours) }
    }

    #[test]
    fn others_are_counted_by_what_they_get() {
        let others = |busy, taken, ours, able| others(CpuUse::default(), after(busy, taken, ours), 2.0, able);
        assert_eq!(others(200, 0, 200, 4.0), 0.0);
        assert_eq!(others(150, 0, 100, 1.0), 0.5, "no thread waits");
        assert_eq!(others(200, 0, 100, 2.0), 2.0);
        assert_eq!(others(200, 0, 50, 1.0), 3.0);
        assert_eq!(others(200, 100, 100, 2.0), 0.0, "a hypervisor is no thread");
        assert_eq!(others(200, 0, 1, 1.0), MOST);
        assert_eq!(others(200, 0, 0, 0.0), 2.0, "the program sleeps");
    }
}
