//! Keeping CPUs from falling asleep for a moment.
//!
//! A kernel that runs in a virtual machine takes a CPU that has halted for one that its host has taken away, and
//! wakes no thread there (`vcpu_is_preempted`): two threads then share a CPU for as long as the other one sleeps. A
//! program that is not disturbed hardly gets into that state; one whose threads have been paused does.

use crate::clock;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use wire::Nanos;

/// Threads that run on CPUs nobody else wants, one for each, when they are asked to.
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
    /// Starts a thread for each CPU that this process may use.
    pub fn new() -> Awake {
        let mut awake = Awake::default();
        let Ok(set) = rustix::thread::sched_getaffinity(None) else { return awake };
        for cpu in (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)) {
            let shared = Arc::clone(&awake.shared);
            let run = move || {
                if keep_to(cpu) && step_back().is_ok() {
                    shared.run();
                }
            };
            awake.threads.extend(Builder::new().name("awake".into()).spawn(run));
        }
        awake
    }

    /// Keeps all CPUs awake for `time` from now on.
    pub fn keep(&self, time: Nanos) {
        self.shared.until.store(clock::monotonic().0 + time.0, Ordering::Relaxed);
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
                for _ in 0..100 {
                    std::hint::spin_loop();
                }
                // Whoever else can run here goes first: the scheduler alone would only ask at its next tick.
                std::thread::yield_now();
            }
            std::thread::park();
        }
    }
}

fn keep_to(cpu: usize) -> bool {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// Everybody else goes first.
fn step_back() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: a valid parameter; the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
