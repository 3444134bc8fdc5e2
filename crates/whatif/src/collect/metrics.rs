//! Metrics: what the collector counts of itself for other programs that watch it. One writer, the collector, which never waits for
//! longer than a copy takes; `exporter` reads.

use collect::{Collected, Tally, Unwound};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Events that are counted by themselves; there are never as many.
const MOST_EVENTS: usize = 64;

/// What is known now. Counts are those since the process began, whatever epochs there were.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// By event.
    pub events: BTreeMap<String, Tally>,
    pub unwound: Unwound,
    /// Nanoseconds, estimated.
    pub kernel_cpu_ns: u64,
    pub flushes: u64,
    pub failures: u64,
    /// Epochs that were begun.
    pub epochs: u64,
    /// Samples that there was no room to keep in memory, of all epochs that are over and of this one.
    given_up: (u64, u64),
    pub last_flush_unix: Option<i64>,
    pub waiting: u64,
    pub rate_hz: f64,
    pub rate_asked_hz: f64,
    pub max_cpu: f64,
    pub is_held_back: bool,
    /// Changes of the rate.
    pub rate_changes: u64,
    pub a_sample_ns: Option<u64>,
    pub processes: u64,
    pub images: u64,
}

impl Counts {
    /// Samples that were given up.
    pub fn given_up(&self) -> u64 {
        self.given_up.0 + self.given_up.1
    }

    /// A new epoch.
    pub fn begin(&mut self) {
        self.epochs += 1;
        self.given_up = (self.given_up(), 0);
    }

    /// What an interval brought.
    pub fn add(&mut self, collected: &Collected) {
        for (event, books) in collected.books_by_event() {
            if self.events.len() < MOST_EVENTS || self.events.contains_key(event) {
                self.events.entry(event.to_owned()).or_default().add(*books);
            }
        }
        self.unwound += collected.unwound;
        self.kernel_cpu_ns += collected.kernel_cpu.get();
    }

    /// What became of a write.
    pub fn written(&mut self, unix: i64, is_stored: bool, waiting: usize, given_up: u64) {
        self.flushes += 1;
        if is_stored {
            self.last_flush_unix = Some(unix);
        } else {
            self.failures += 1;
        }
        (self.waiting, self.given_up.1) = (waiting as u64, given_up);
    }
}

/// Where both sides meet.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Counts>);

impl Metrics {
    /// Changes what is known.
    pub fn change(&self, body: impl FnOnce(&mut Counts)) {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A copy of what is known.
    pub fn get(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
