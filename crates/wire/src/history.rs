//! What `required` was at a moment that has passed.
//!
//! A thread learns only afterwards when it had been without a CPU (rule 7). What it is credited with then is
//! what `required` grew between two moments in the past, so every growth is noted down with its time.
//!
//! A ring that all threads write to. An entry carries its running number, written last: a reader that finds
//! another number there skips the entry, which is being written or has been overwritten.

use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence, length,
};
use crate::{Account, Nanos};

/// Growths that are remembered: half a second of those of eight busy threads.
pub const ENTRIES: usize = length(4096, 2);

#[derive(Debug, Default)]
#[repr(C)]
struct Entry {
    /// One more than the running number, so that zero is no entry.
    number: AtomicU64,
    time: AtomicU64,
    account: AtomicU64,
}

/// The growths of `required`.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct History {
    next: AtomicU64,
    entries: [Entry; ENTRIES],
}

impl History {
    /// Notes that `required` was `account` from `time` (monotonic clock) on.
    pub fn note(&self, time: Nanos, account: Account) {
        let number = self.next.fetch_add(1, Relaxed);
        let entry = &self.entries[number as usize % ENTRIES];
        entry.number.store(0, Relaxed);
        fence(Release);
        entry.time.store(time.0, Relaxed);
        entry.account.store(account.to_bits(), Relaxed);
        entry.number.store(number + 1, Release);
    }

    /// By how much `required`, which is `now` now, grew between two moments. Nothing of another epoch
    /// counts. What is no longer remembered counts as not grown.
    pub fn growth(&self, from: Nanos, until: Nanos, now: Account) -> Nanos {
        let (mut at_end, mut at_start) = (None, None);
        let mut skipped = false;
        let next = self.next.load(Acquire);
        let mut earliest = now.delay();
        for number in (next.saturating_sub(ENTRIES as u64)..next).rev() {
            let entry = &self.entries[number as usize % ENTRIES];
            if entry.number.load(Acquire) != number + 1 {
                skipped = true;
                continue;
            }
            let (time, account) =
                (Nanos(entry.time.load(Relaxed)), Account::from_bits(entry.account.load(Relaxed)));
            fence(Acquire);
            if entry.number.load(Relaxed) != number + 1 {
                skipped = true;
                continue;
            }
            if !account.same_epoch(now) {
                // The epoch began here, with nothing required.
                earliest = Nanos::ZERO;
                break;
            }
            earliest = account.delay();
            if at_end.is_none() && time <= until {
                at_end = Some(earliest);
            }
            if time <= from {
                at_start = Some(earliest);
                break;
            }
        }
        if next <= ENTRIES as u64 && at_start.is_none() && !skipped {
            // All growths there ever were are later.
            earliest = Nanos::ZERO;
        }
        let start = at_start.unwrap_or(earliest);
        at_end.unwrap_or(start).saturating_sub(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Epoch;
    use std::{boxed::Box, vec};

    fn empty() -> Box<History> {
        let memory = vec![0_u64; size_of::<History>() / 8].into_boxed_slice();
        // SAFETY: all-zero words are a valid history of the same size and alignment.
        unsafe { Box::from_raw(Box::into_raw(memory).cast::<History>()) }
    }

    fn account(epoch: u32, delay: u64) -> Account {
        Account::new(Epoch(epoch), Nanos(delay))
    }

    #[test]
    fn growth_is_what_was_noted_in_between() {
        let history = empty();
        for step in 1..=10 {
            history.note(Nanos(step * 100), account(1, step * 7));
        }
        let grown = |from, until| history.growth(Nanos(from), Nanos(until), account(1, 70)).0;
        assert_eq!(grown(0, 2000), 70);
        assert_eq!(grown(300, 500), 14);
        assert_eq!(grown(350, 399), 0);
        assert_eq!(grown(399, 400), 7);
        assert_eq!(grown(50, 60), 0);
        assert_eq!(grown(1000, 5000), 0);
    }

    #[test]
    fn only_the_current_epoch_counts() {
        let history = empty();
        history.note(Nanos(10), account(1, 500));
        history.note(Nanos(20), account(2, 3));
        history.note(Nanos(30), account(2, 5));
        assert_eq!(history.growth(Nanos(5), Nanos(40), account(2, 5)), Nanos(5));
        assert_eq!(history.growth(Nanos(25), Nanos(40), account(2, 5)), Nanos(2));
        assert_eq!(history.growth(Nanos(5), Nanos(40), account(3, 0)), Nanos::ZERO);
    }

    #[test]
    fn what_was_overwritten_is_not_credited() {
        let history = empty();
        let last = 3 * ENTRIES as u64;
        for step in 1..=last {
            history.note(Nanos(step), account(1, step));
        }
        let oldest = last - ENTRIES as u64;
        assert_eq!(history.growth(Nanos(1), Nanos(last), account(1, last)).0, last - oldest - 1);
        assert_eq!(history.growth(Nanos(1), Nanos(2), account(1, last)), Nanos::ZERO);
    }
}
