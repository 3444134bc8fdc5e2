//! How long pieces of work take, by the threads' own clocks: their distribution, and the pieces that have begun and not ended.
//!
//! A piece of work is known by itself where its beginning and its end can be paired: both in one thread, one after the other (`Slot::open`),
//! or with the same key, whatever threads they are in ([`Begun`]). Without either only the mean is known ([`stamps`](crate::stamps)).

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    length,
};
use crate::{Epoch, Nanos};

/// The unit of times, as a power of two of nanoseconds.
const UNIT: u32 = 6;
/// Cells for each doubling of the time, as a power of two: a cell is at most 3 % wide.
const FINE: u32 = 5;
/// Doublings beyond the cells that are a unit wide: up to an hour.
const DOUBLINGS: u32 = 30;
/// Cells of a distribution.
pub const CELLS: usize = ((DOUBLINGS + 2) << FINE) as usize;
/// Distributions of one program: points with an end.
pub const MAX_DISTRIBUTIONS: usize = length(16, 1);

/// How many pieces of work took how long.
#[derive(Debug)]
#[repr(C)]
pub struct Distribution([AtomicU32; CELLS]);

/// All of them.
#[derive(Debug)]
#[repr(C)]
pub struct Distributions {
    taken: AtomicU32,
    reserved: AtomicU32,
    all: [Distribution; MAX_DISTRIBUTIONS],
}

/// The cell of a time.
fn cell(time: Nanos) -> usize {
    let units = time.0 >> UNIT;
    if units < 2 << FINE {
        return units as usize;
    }
    let doubling = units.ilog2() - FINE;
    let within = (units >> doubling) - (1 << FINE);
    ((((doubling + 1) as usize) << FINE) + within as usize).min(CELLS - 1)
}

/// The time in the middle of a cell.
#[must_use]
pub fn middle(cell: usize) -> Nanos {
    let (whole, within) = (cell >> FINE, cell as u64 & ((1 << FINE) - 1));
    let (first, width) = match whole.checked_sub(1) {
        None => (within, 1),
        Some(doubling) => (((1 << FINE) + within) << doubling, 1 << doubling),
    };
    Nanos((first << UNIT) + (width << UNIT) / 2)
}

impl Distribution {
    /// Adds a piece of work. Relaxed: it publishes nothing but itself.
    pub fn add(&self, time: Nanos) {
        self.0[cell(time)].fetch_add(1, Relaxed);
    }

    /// What each cell has by now; numbers wrap around.
    pub fn counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|count| count.load(Relaxed))
    }
}

impl Distributions {
    /// The distribution that `number` stands for: zero is none yet, and takes the next one if there is one left.
    pub fn of(&self, number: &AtomicU32) -> Option<&Distribution> {
        let mut known = number.load(Relaxed);
        if known == 0 {
            known = 1 + self.taken.fetch_add(1, Relaxed).min(u32::MAX / 2);
            // Another thread may have been first: its distribution counts, and ours stays empty.
            known = number.compare_exchange(0, known, Relaxed, Relaxed).map_or_else(|other| other, |_| known);
        }
        self.get(known)
    }

    /// The distribution with this number.
    pub fn get(&self, number: u32) -> Option<&Distribution> {
        self.all.get((number as usize).checked_sub(1)?)
    }
}

/// Pieces of work that have begun with a key.
const ENTRIES: usize = length(4096, 2);
/// How many places are tried for one.
const PROBES: usize = length(8, 2);

/// Pieces of work with keys that have begun and not ended.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Begun([Entry; ENTRIES]);

/// One of them.
#[derive(Debug, Default)]
#[repr(C)]
struct Entry {
    /// What it is: a point and a key, mixed. Zero: none.
    what: AtomicU64,
    /// When it began.
    time: AtomicU64,
    /// The epoch in which it began.
    epoch: AtomicU32,
    reserved: AtomicU32,
}

/// An entry that a thread is filling in. No [`mixed`] number is even.
const TAKEN: u64 = 2;

/// A point and a key as one odd number. Two of the same number are one in 2⁶⁰ or so.
fn mixed(point: u32, key: u64) -> u64 {
    let mut x = key.wrapping_add(u64::from(point).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) | 1
}

impl Begun {
    fn places(&self, what: u64) -> impl Iterator<Item = &Entry> {
        let first = (what >> 1) as usize;
        (0..PROBES).map(move |probe| &self.0[first.wrapping_add(probe) % ENTRIES])
    }

    /// A piece of work begins. False where one of the same key has begun in this epoch and not ended, or where there is no room for it.
    pub fn begin(&self, point: u32, key: u64, epoch: Epoch, time: Nanos) -> bool {
        let what = mixed(point, key);
        let again = self.places(what).find(|entry| entry.what.load(Relaxed) == what);
        let overtaken = again.is_some_and(|entry| entry.epoch.load(Relaxed) == epoch.0);
        let takes = |entry: &&Entry| {
            let now = entry.what.load(Relaxed);
            let is_old = now == 0 || (now != TAKEN && entry.epoch.load(Relaxed) != epoch.0);
            is_old && entry.what.compare_exchange(now, TAKEN, Relaxed, Relaxed).is_ok()
        };
        let Some(entry) = again.or_else(|| self.places(what).find(takes)) else { return false };
        entry.time.store(time.0, Relaxed);
        entry.epoch.store(epoch.0, Relaxed);
        // Release pairs with the Acquire in `end`.
        entry.what.store(what, Release);
        !overtaken
    }

    /// A piece of work ends; the epoch in which it began, and when. `None` where it has not begun.
    pub fn end(&self, point: u32, key: u64) -> Option<(Epoch, Nanos)> {
        let what = mixed(point, key);
        let entry = self.places(what).find(|entry| entry.what.load(Acquire) == what)?;
        let began = (Epoch(entry.epoch.load(Relaxed)), Nanos(entry.time.load(Relaxed)));
        entry.what.compare_exchange(what, 0, Relaxed, Relaxed).is_ok().then_some(began)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn zeroed<T>() -> Box<T> {
        let mut memory = Box::<T>::new_uninit();
        // SAFETY: all-zero bytes are a valid value of every atomic in the structs of this file.
        unsafe {
            memory.as_mut_ptr().write_bytes(0, 1);
            memory.assume_init()
        }
    }

    #[test]
    fn the_middle_of_a_cell_is_near_the_time() {
        for nanos in (0..45).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit) / 3]) {
            if nanos >= 1 << 41 {
                assert_eq!(cell(Nanos(1 << 45)), CELLS - 1);
                continue;
            }
            let near = middle(cell(Nanos(nanos))).0;
            assert!(near.abs_diff(nanos) <= 32 + nanos / 60, "{nanos} became {near}");
        }
        let cells: Vec<usize> = (0..CELLS).map(|at| cell(middle(at))).collect();
        assert!(cells.iter().enumerate().all(|(at, found)| at == *found), "{cells:?}");
    }

    #[test]
    fn every_point_has_a_distribution_while_there_are_any() {
        let all = zeroed::<Distributions>();
        let numbers: Vec<AtomicU32> = (0..=MAX_DISTRIBUTIONS).map(|_| AtomicU32::new(0)).collect();
        all.of(&numbers[0]).unwrap().add(Nanos(1000));
        all.of(&numbers[1]).unwrap().add(Nanos(5_000_000));
        all.of(&numbers[0]).unwrap().add(Nanos(1000));
        assert_eq!(all.get(1).unwrap().counts().max(), Some(2));
        assert_eq!(all.get(2).unwrap().counts().sum::<u32>(), 1);
        let found = numbers.iter().filter(|number| all.of(number).is_some()).count();
        assert_eq!(found, MAX_DISTRIBUTIONS);
        assert!(all.get(0).is_none());
    }

    #[test]
    fn work_is_paired_by_its_key() {
        let begun = zeroed::<Begun>();
        let epoch = Epoch(7);
        assert!(begun.begin(1, 10, epoch, Nanos(100)));
        assert!(begun.begin(1, 11, epoch, Nanos(200)), "it overtakes the other");
        assert!(begun.begin(2, 10, Epoch(8), Nanos(300)), "another point");
        assert_eq!(begun.end(1, 11), Some((epoch, Nanos(200))));
        assert_eq!(begun.end(1, 10), Some((epoch, Nanos(100))));
        assert_eq!(begun.end(1, 10), None);
        assert_eq!(begun.end(2, 10), Some((Epoch(8), Nanos(300))));
        assert!(begun.begin(1, 12, epoch, Nanos(1)) && !begun.begin(1, 12, epoch, Nanos(2)), "begun twice");
    }

    #[test]
    fn what_never_ends_makes_room_in_the_next_epoch() {
        let begun = zeroed::<Begun>();
        let full = (0..3 * ENTRIES as u64).filter(|key| !begun.begin(1, *key, Epoch(1), Nanos(5))).count();
        assert!(full > ENTRIES, "there is no room for all");
        for key in 0..ENTRIES as u64 / 8 {
            assert!(begun.begin(1, key, Epoch(2), Nanos(7)));
            assert_eq!(begun.end(1, key), Some((Epoch(2), Nanos(7))));
        }
    }
}
