//! Keeping CPUs from falling asleep for a moment.
//!
//! A kernel that runs in a virtual machine takes a CPU that has halted for one that its host has taken away, and wakes
//! no thread there (`vcpu_is_preempted`). Two threads that have once come to share a CPU then go on sharing it while the
//! other one sleeps. A program that nobody disturbs hardly gets there; one whose threads have been paused does, and stays.
//! While no CPU sleeps, woken threads find the ones that are free.

use crate::clock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use wire::Nanos;

/// On larger machines an idle CPU more or less decides nothing.
const MOST_CPUS: usize = 64;

/// A thread for each CPU, which runs there when it is asked to and nobody else wants the CPU. None where there is no
/// hypervisor.
#[derive(Debug, Default)]
pub struct Awake {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    until: AtomicU64,
    over: AtomicBool,
}

impl Awake {
    /// Starts the threads.
    #[must_use]
    pub fn new() -> Self {
        let mut awake = Self::default();
        let Ok(usable) = rustix::thread::sched_getaffinity(None) else { return awake };
        let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu));
        for cpu in cpus.take(if is_virtual() { MOST_CPUS } else { 0 }) {
            let shared = Arc::clone(&awake.shared);
            let run = move || {
                // At any other priority it would be in the program's way.
                if stay_on(cpu).is_ok() && give_way().is_ok() {
                    shared.run();
                }
            };
            awake.threads.extend(Builder::new().name("awake".into()).spawn(run));
        }
        awake
    }

    /// Keeps the CPUs awake for `time` from now on. Returns at once.
    pub fn keep(&self, time: Nanos) {
        self.shared.until.store((clock::monotonic() + time).0, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.keep(Nanos::ZERO);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        while !self.over.load(Ordering::Relaxed) {
            while clock::monotonic().0 < self.until.load(Ordering::Relaxed) {
                (0..100).for_each(|_| std::hint::spin_loop());
                // A scheduler that gave it a turn after all would otherwise ask at its next tick only.
                std::thread::yield_now();
            }
            std::thread::park();
        }
    }
}

/// Whether this machine is a virtual one.
fn is_virtual() -> bool {
    const HYPERVISOR: u32 = 1 << 31;
    std::arch::x86_64::__cpuid(1).ecx & HYPERVISOR != 0
}

fn stay_on(cpu: usize) -> io::Result<()> {
    let mut only = rustix::thread::CpuSet::new();
    only.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &only)?)
}

/// Everybody else goes first from now on.
fn give_way() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: a valid parameter, for the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states of the threads, as `/proc` has them.
    fn states() -> Vec<char> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        stats.filter_map(|stat| stat.split_once("(awake) ")?.1.chars().next()).collect()
    }

    /// Waits until all of them are in `state`; gives up after a long time.
    fn are_all(state: char, threads: usize) -> bool {
        let end = clock::monotonic() + Nanos(30_000_000_000);
        while clock::monotonic() < end {
            if states() == vec![state; threads] {
                return true;
            }
            clock::sleep_until(clock::monotonic() + Nanos(1_000_000));
        }
        false
    }

    #[test]
    fn cpus_are_kept_awake_for_a_while_and_no_longer() {
        let awake = Awake::new();
        let threads = awake.threads.len();
        if threads == 0 {
            println!("skipped: this machine is not a virtual one, or its affinity cannot be read");
            return;
        }
        assert!(are_all('S', threads), "{:?}", states());
        awake.keep(Nanos(3_600_000_000_000));
        assert!(are_all('R', threads), "{:?}", states());
        awake.keep(Nanos::ZERO);
        assert!(are_all('S', threads), "{:?}", states());
        drop(awake);
        assert_eq!(states(), []);
    }
}
