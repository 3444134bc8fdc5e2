//! When samples last found the selected region running, in any thread.
//!
//! A sample of one thread says what that thread is doing, and nothing of the others. Two samples of two threads that happen to be
//! taken at nearly the same moment say both: of those pairs threads learn what they do while the region runs elsewhere.

use crate::Nanos;
use crate::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, length};

/// Hits that are remembered.
const ENTRIES: usize = length(256, 2);
/// Bits of an entry that say whose hit it is; the rest is the time.
const OWNER_BITS: u32 = 15;
/// The unit of times in entries, as a power of two of nanoseconds: what is left of 64 bits lasts for a year.
const UNIT: u32 = 6;

/// The latest hits of all threads. Relaxed throughout: an entry is one word, and one that is missed does not matter.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Hits {
    next: AtomicU32,
    reserved: AtomicU32,
    entries: [AtomicU64; ENTRIES],
}

impl Hits {
    /// Notes that thread `owner` (a number below 2¹⁵) was found in the region at `time` (monotonic clock).
    pub fn note(&self, owner: u32, time: Nanos) {
        let at = self.next.fetch_add(1, Relaxed) as usize % ENTRIES;
        self.entries[at].store((time.0 >> UNIT) << OWNER_BITS | u64::from(owner), Relaxed);
    }

    /// How many hits there were of threads other than `owner` from `since` until `until`.
    pub fn of_others(&self, owner: u32, since: Nanos, until: Nanos) -> u32 {
        let next = self.next.load(Relaxed) as usize;
        let times = since.0 >> UNIT..=until.0 >> UNIT;
        let mut found = 0;
        for back in 1..=ENTRIES {
            let entry = self.entries[next.wrapping_sub(back) % ENTRIES].load(Relaxed);
            let time = entry >> OWNER_BITS;
            // Entries are nearly in the order of time.
            if time + (1_000_000 >> UNIT) < *times.start() {
                break;
            }
            let other = entry & ((1 << OWNER_BITS) - 1) != u64::from(owner);
            found += u32::from(other && times.contains(&time));
        }
        found
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn empty() -> Hits {
        Hits {
            next: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            entries: [const { AtomicU64::new(0) }; ENTRIES],
        }
    }

    #[test]
    fn hits_of_others_in_a_span_are_counted() {
        let hits = empty();
        let ms = |millis: u64| Nanos(1_000_000_000 + millis * 1_000_000);
        assert_eq!(hits.of_others(1, ms(0), ms(50)), 0);
        for millis in 0..1000 {
            hits.note(millis as u32 % 3, ms(millis));
        }
        assert_eq!(hits.of_others(7, ms(990), ms(999)), 10);
        assert_eq!(hits.of_others(0, ms(990), ms(999)), 6);
        assert_eq!(hits.of_others(7, ms(985), ms(990)), 6);
        assert_eq!(hits.of_others(7, ms(0), ms(999)), ENTRIES as u32);
    }
}
