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
    /// How long before `time` the growth began and ended, in nanoseconds: 32 bits each.
    accrued: AtomicU64,
}

/// The growths of `required`.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct History {
    next: AtomicU64,
    entries: [Entry; ENTRIES],
}

/// How long ago a growth began and ended: a sample tells of what has happened before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accrued {
    /// Not less than `ended`.
    pub began: Nanos,
    /// Zero if it went on until now.
    pub ended: Nanos,
}

/// What an entry says.
struct Growth {
    time: Nanos,
    account: Account,
    began: Nanos,
    ended: Nanos,
}

impl Growth {
    /// The part of it that accrued since `from`, of `all` of it.
    fn since(&self, from: Nanos, all: Nanos) -> Nanos {
        if self.began >= from {
            return all;
        }
        all.part(self.ended.saturating_sub(from), self.ended.saturating_sub(self.began))
    }

    /// The part of it that accrued between two moments. (In less time than it amounts to nothing accrues.)
    fn between(&self, begin: Nanos, end: Nanos, all: Nanos) -> Nanos {
        let began = self.began.min(self.ended.saturating_sub(all));
        let together = end.min(self.ended).saturating_sub(begin.max(began));
        all.part(together, self.ended.saturating_sub(began))
    }
}

impl History {
    /// Notes that `required` is `account` at `time` (monotonic clock), and when it grew to that.
    pub fn note(&self, time: Nanos, account: Account, accrued: Accrued) {
        let number = self.next.fetch_add(1, Relaxed);
        let entry = &self.entries[number as usize % ENTRIES];
        entry.number.store(0, Relaxed);
        fence(Release);
        let short = |ago: Nanos| ago.0.min(u64::from(u32::MAX));
        entry.time.store(time.0, Relaxed);
        entry.account.store(account.to_bits(), Relaxed);
        entry.accrued.store(short(accrued.began) << 32 | short(accrued.ended), Relaxed);
        entry.number.store(number + 1, Release);
    }

    /// The entry with a running number, unless it is being written or has been overwritten.
    fn read(&self, number: u64) -> Option<Growth> {
        let entry = &self.entries[number as usize % ENTRIES];
        if entry.number.load(Acquire) != number + 1 {
            return None;
        }
        let time = Nanos(entry.time.load(Relaxed));
        let account = Account::from_bits(entry.account.load(Relaxed));
        let accrued = entry.accrued.load(Relaxed);
        fence(Acquire);
        let ago = |ago: u64| time.saturating_sub(Nanos(ago));
        (entry.number.load(Relaxed) == number + 1).then(|| Growth {
            time,
            account,
            began: ago(accrued >> 32),
            ended: ago(accrued & u64::from(u32::MAX)),
        })
    }

    /// By how much `required`, which is `now` now, grew between two moments, as far as was known at the second one.
    /// Nothing of another epoch counts. What is no longer remembered counts as not grown.
    pub fn growth(&self, from: Nanos, until: Nanos, now: Account) -> Nanos {
        let mut sum = Nanos::ZERO;
        self.walk(from, now, |growth, all| {
            if growth.time <= until {
                sum += all;
            }
        });
        sum
    }

    /// How much of what was noted after `from` had accrued before `then`: it was due then, but not known yet. Otherwise as
    /// [`growth`](Self::growth).
    pub fn was_due(&self, then: Nanos, from: Nanos, now: Account) -> Nanos {
        let mut sum = Nanos::ZERO;
        self.walk(from, now, |growth, all| sum += all.saturating_sub(growth.since(then, all)));
        sum
    }

    /// How much of what was noted after `from` and until `until` accrued between two moments. Otherwise as [`growth`](Self::growth).
    pub fn accrued(
        &self,
        (from, until): (Nanos, Nanos),
        (begin, end): (Nanos, Nanos),
        now: Account,
    ) -> Nanos {
        let mut sum = Nanos::ZERO;
        self.walk(from, now, |growth, all| {
            if growth.time <= until {
                sum += growth.between(begin, end, all);
            }
        });
        sum
    }

    /// Visits what was noted after `from`, the latest first, with the amount of it.
    fn walk(&self, from: Nanos, now: Account, mut visit: impl FnMut(&Growth, Nanos)) {
        let next = self.next.load(Acquire);
        let mut complete = next <= ENTRIES as u64;
        // What came to an account is known once the entry before is.
        let mut later: Option<Growth> = None;
        let mut add = |later: &Option<Growth>, before: Nanos| {
            if let Some(growth) = later {
                visit(growth, growth.account.delay().saturating_sub(before));
            }
        };
        for number in (next.saturating_sub(ENTRIES as u64)..next).rev() {
            let Some(growth) = self.read(number) else {
                complete = false;
                continue;
            };
            if !growth.account.same_epoch(now) {
                // The epoch began here, with nothing required.
                return add(&later, Nanos::ZERO);
            }
            add(&later, growth.account.delay());
            if growth.time <= from {
                return;
            }
            later = Some(growth);
        }
        if complete {
            // There was nothing before.
            add(&later, Nanos::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Epoch;
    use std::{boxed::Box, vec};

    const AT_ONCE: Accrued = Accrued { began: Nanos(0), ended: Nanos(0) };

    fn empty() -> Box<History> {
        let memory = vec![0_u64; size_of::<History>() / 8].into_boxed_slice();
        // SAFETY: all-zero words are a valid history of the same size and alignment.
        unsafe { Box::from_raw(Box::into_raw(memory).cast::<History>()) }
    }

    fn account(epoch: u32, delay: u64) -> Account {
        Account::new(Epoch(epoch), Nanos(delay))
    }

    #[test]
    fn what_accrued_before_is_told_from_what_was_noted_since() {
        let history = empty();
        history.note(Nanos(1000), account(1, 80), Accrued { began: Nanos(800), ended: Nanos(0) });
        // A thread that has left the region since.
        history.note(Nanos(2000), account(1, 120), Accrued { began: Nanos(1000), ended: Nanos(600) });
        let due = |then| history.was_due(Nanos(then), Nanos(0), account(1, 120)).0;
        assert_eq!((due(0), due(600), due(1000)), (0, 40, 80));
        assert_eq!((due(1300), due(1400), due(2000)), (110, 120, 120));
        assert_eq!(history.was_due(Nanos(1300), Nanos(1500), account(1, 120)), Nanos(30));
        assert_eq!(history.was_due(Nanos(1300), Nanos(2000), account(1, 120)), Nanos(0));
        assert_eq!(history.growth(Nanos(1300), Nanos(2000), account(1, 120)), Nanos(40));
    }

    #[test]
    fn what_accrued_between_two_moments_is_a_part_of_what_was_noted_later() {
        let history = empty();
        history.note(Nanos(1000), account(1, 80), Accrued { began: Nanos(800), ended: Nanos(0) });
        // Many small growths that are noted together: only the last one's beginning is known.
        history.note(Nanos(2000), account(1, 480), Accrued { began: Nanos(10), ended: Nanos(0) });
        let accrued = |from, begin, end| {
            history.accrued((Nanos(from), Nanos(2000)), (Nanos(begin), Nanos(end)), account(1, 480)).0
        };
        assert_eq!((accrued(0, 0, 2000), accrued(1500, 0, 2000), accrued(2000, 0, 2000)), (480, 400, 0));
        assert_eq!((accrued(0, 400, 800), accrued(0, 1000, 1700), accrued(0, 1700, 1900)), (40, 100, 200));
    }

    #[test]
    fn growth_is_what_was_noted_in_between() {
        let history = empty();
        for step in 1..=10 {
            history.note(Nanos(step * 100), account(1, step * 7), AT_ONCE);
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
        history.note(Nanos(10), account(1, 500), AT_ONCE);
        history.note(Nanos(20), account(2, 3), AT_ONCE);
        history.note(Nanos(30), account(2, 5), AT_ONCE);
        assert_eq!(history.growth(Nanos(5), Nanos(40), account(2, 5)), Nanos(5));
        assert_eq!(history.growth(Nanos(25), Nanos(40), account(2, 5)), Nanos(2));
        assert_eq!(history.growth(Nanos(5), Nanos(40), account(3, 0)), Nanos::ZERO);
    }

    #[test]
    fn what_was_overwritten_is_not_credited() {
        let history = empty();
        let last = 3 * ENTRIES as u64;
        for step in 1..=last {
            history.note(Nanos(step), account(1, step), AT_ONCE);
        }
        let oldest = last - ENTRIES as u64;
        assert_eq!(history.growth(Nanos(1), Nanos(last), account(1, last)).0, last - oldest - 1);
        assert_eq!(history.growth(Nanos(1), Nanos(2), account(1, last)), Nanos::ZERO);
    }
}
