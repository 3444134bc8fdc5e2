//! Code that executed programs make while they run (JIT compilers), in addresses that all processes of an experiment share.
//!
//! Such code is in no file, and two processes have different code at the same address. So each process that has any takes a number, and its addresses
//! are put behind those of [`files`](crate::files), in a space of that number: every address of the process has one place there, and says whose it is. The
//! first program, and what it forks, has such code where the process's own addresses say, as it has all of its code.
//!
//! Numbers are never given back: samples of a process may be read when it has ended.

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    length,
};
use crate::files::{MAX_FILES, NOWHERE, ROOM};
use crate::{Address, Nanos};

/// Processes that can be told apart. Code that further ones make is nowhere: samples in it belong to no code.
pub const MAX_MAKERS: usize = length(16_384, 2);

/// Addresses of a process: as many as one has on x86-64, unless it asks for five levels of page tables.
pub const SPACE: u64 = 1 << 47;
/// Where the first space begins, behind all files.
pub const BEGIN: Address = Address(4 * SPACE);

const _: () = assert!(crate::files::BEYOND.0 + MAX_FILES as u64 * ROOM <= BEGIN.0);
const _: () = assert!(BEGIN.0 + MAX_MAKERS as u64 * SPACE <= NOWHERE.0);

/// Where an address of the process with this number is; none if processes have no such address.
#[must_use]
pub fn place(number: u32, address: u64) -> Option<Address> {
    let fits = address < SPACE && (number as usize) < MAX_MAKERS;
    fits.then(|| Address(BEGIN.0 + u64::from(number) * SPACE + address))
}

/// The number of the process, and its address, that a place belongs to.
#[must_use]
pub fn origin(Address(place): Address) -> Option<(u32, u64)> {
    let within = place.checked_sub(BEGIN.0).filter(|within| within / SPACE < MAX_MAKERS as u64)?;
    Some(((within / SPACE) as u32, within % SPACE))
}

/// All places of the process with this number: begin and end.
#[must_use]
pub fn places(number: u32) -> (Address, Address) {
    let begin = BEGIN.0 + u64::from(number).min(MAX_MAKERS as u64 - 1) * SPACE;
    (Address(begin), Address(begin + SPACE))
}

/// A process that makes code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker {
    /// The process, by its own number.
    pub process: u32,
    /// The number here of the one that it was forked from, if that had such code: it has inherited that.
    pub parent: Option<u32>,
    /// When its program was executed, or it was forked (monotonic clock).
    pub since: Nanos,
}

/// One of them.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
struct Entry {
    /// The process, and the parent's number plus one in the upper half: zero until the entry has been written (Release; Acquire before the rest is read).
    process: AtomicU64,
    since: AtomicU64,
}

/// All of them.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Made {
    /// Numbers that were asked for, those included that there are not.
    count: AtomicU32,
    reserved: AtomicU32,
    entries: [Entry; MAX_MAKERS],
}

impl Made {
    /// A number for a process. Called from the signal handler.
    pub fn take(&self, maker: Maker) -> Option<u32> {
        let number = self.count.fetch_add(1, Relaxed);
        let Some(entry) = self.entries.get(number as usize) else {
            // Never begins anew.
            self.count.fetch_min(u32::MAX / 2, Relaxed);
            return None;
        };
        let parent = maker.parent.map_or(0, |parent| parent + 1);
        entry.since.store(maker.since.0, Relaxed);
        entry.process.store(u64::from(parent) << 32 | u64::from(maker.process), Release);
        Some(number)
    }

    /// Who has a number, as soon as that is known.
    pub fn get(&self, number: u32) -> Option<Maker> {
        let entry = self.entries.get(number as usize)?;
        let word = entry.process.load(Acquire);
        let parent = ((word >> 32) as u32).checked_sub(1);
        (word != 0).then(|| Maker { process: word as u32, parent, since: Nanos(entry.since.load(Relaxed)) })
    }

    /// How many numbers were taken.
    pub fn count(&self) -> usize {
        (self.count.load(Relaxed) as usize).min(MAX_MAKERS)
    }

    /// Whether a process has asked for one that there was not.
    pub fn is_full(&self) -> bool {
        self.count.load(Relaxed) as usize > MAX_MAKERS
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;

    fn made() -> Box<Made> {
        // SAFETY: all zeros are an empty table.
        unsafe { Box::<Made>::new_zeroed().assume_init() }
    }

    #[test]
    fn every_process_has_a_space_of_its_own() {
        let made = made();
        let maker = |process, parent| Maker { process, parent, since: Nanos(u64::from(process) + 1) };
        assert_eq!((made.take(maker(70, None)), made.take(maker(71, Some(0)))), (Some(0), Some(1)));
        assert_eq!((made.get(0), made.get(1)), (Some(maker(70, None)), Some(maker(71, Some(0)))));
        assert_eq!((made.get(2), made.count(), made.is_full()), (None, 2, false));
        let same = [place(0, 0x7f00), place(1, 0x7f00)].map(Option::unwrap);
        assert_ne!(same[0], same[1]);
        assert_eq!(same.map(origin), [Some((0, 0x7f00)), Some((1, 0x7f00))]);
        let last = place(MAX_MAKERS as u32 - 1, SPACE - 1).unwrap();
        assert!(last < NOWHERE && origin(last) == Some((MAX_MAKERS as u32 - 1, SPACE - 1)));
        assert_eq!((place(0, SPACE), place(MAX_MAKERS as u32, 0)), (None, None));
        assert_eq!((origin(NOWHERE), origin(Address(BEGIN.0 - 1))), (None, None));
        let (begin, end) = places(1);
        assert!(same[0] < begin && begin <= same[1] && same[1] < end && place(2, 0) == Some(end));
    }

    #[test]
    fn a_full_table_refuses_and_says_so() {
        let made = made();
        let maker = Maker { process: 7, parent: None, since: Nanos(1) };
        assert!((0..MAX_MAKERS).all(|_| made.take(maker).is_some()) && !made.is_full());
        assert_eq!((made.take(maker), made.is_full(), made.count()), (None, true, MAX_MAKERS));
        assert_eq!(made.get(u32::MAX), None);
    }
}
