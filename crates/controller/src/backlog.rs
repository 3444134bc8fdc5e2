//! Has the program caught up, after an experiment, with what comes at a time of its own?
//!
//! **Does:** find out whether work is left that delays have put off. **Does not:** wait for it. **Constraints:** only asked where
//! something let a thread go that does not wait for the program (`Slot::behind`): elsewhere nothing is put off.
//!
//! Such work is done when a thread meets its deadlines in time again, and when that thread has handed it on, also the others: all of them wait at one moment,
//! or their points have been visited as often as in the time before.

use profile::Nanos;
use std::sync::atomic::Ordering;
use wire::slot::{Activity, Slot};
use wire::{Epoch, SharedMemory};

/// A rate is known after this long.
const KNOWN: Nanos = Nanos::from_millis(200);

/// Beginnings that are remembered: the rate is that of the last second or more.
const KEPT: usize = 6;

/// How often points had been visited at a time.
#[derive(Clone, Debug)]
pub struct Counted {
    pub time: Nanos,
    pub visits: Vec<u64>,
}

/// How often points are visited, experiments and what comes after them together.
#[derive(Debug, Default)]
pub struct Backlog {
    /// The last beginnings of an experiment, so far apart that a rate is known.
    begins: Vec<Counted>,
}

impl Backlog {
    /// An experiment begins, and nothing is put off.
    pub fn begins(&mut self, now: &Counted) {
        let is_apart = |last: &Counted| now.time.saturating_sub(last.time) >= KNOWN;
        if self.begins.last().is_none_or(is_apart) {
            self.begins.push(now.clone());
            let most = self.begins.len().saturating_sub(KEPT);
            self.begins.drain(..most);
        }
    }

    /// Whether points have been visited since `begin` as often as before. Those that were not visited before do not count.
    pub fn is_made_up(&self, begin: &Counted, now: &Counted) -> bool {
        let is_apart = |first: &&Counted| begin.time.saturating_sub(first.time) >= KNOWN;
        let Some(first) = self.begins.iter().find(is_apart) else { return false };
        let (before, since) = (begin.time.saturating_sub(first.time), now.time.saturating_sub(begin.time));
        let count = |of: &Counted, point: usize| of.visits.get(point).copied().unwrap_or_default() as f64;
        let is_made_up = |point| {
            let rate = (count(begin, point) - count(first, point)) / before.as_secs_f64();
            count(now, point) - count(begin, point) >= rate * since.as_secs_f64() - 1.0
        };
        (0..now.visits.len()).all(is_made_up)
    }
}

/// Whether something with a time of its own has let a thread go in an experiment, and the thread has not caught up.
pub fn is_behind(memory: &SharedMemory, epoch: Epoch) -> bool {
    let is_behind = |slot: &Slot| slot.is_taken() && slot.behind.load(Ordering::Relaxed) == epoch.0;
    memory.slots.used().iter().any(is_behind)
}

/// Whether every thread waits.
pub fn is_idle(memory: &SharedMemory) -> bool {
    let waits =
        |slot: &Slot| slot.is_doing(Activity::WaitingForThread) || slot.is_doing(Activity::WaitingForWorld);
    memory.slots.used().iter().filter(|slot| slot.is_taken()).all(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_that_were_put_off_are_made_up_for() {
        let at =
            |millis, visits: [u64; 2]| Counted { time: Nanos::from_millis(millis), visits: visits.to_vec() };
        let mut backlog = Backlog::default();
        let first = at(1000, [50, 0]);
        assert!(!backlog.is_made_up(&first, &first));
        backlog.begins(&first);
        assert!(!backlog.is_made_up(&at(1100, [60, 0]), &at(1200, [90, 0])), "no rate is known yet");
        let begin = at(2000, [150, 0]);
        backlog.begins(&begin);
        assert!(!backlog.is_made_up(&begin, &at(2200, [160, 0])));
        assert!(backlog.is_made_up(&begin, &at(2200, [169, 0])));
    }
}
