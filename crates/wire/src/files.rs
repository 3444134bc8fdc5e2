//! The code of files, in addresses that all processes of an experiment share.
//!
//! The first program and its forked children have the same code at the same addresses, and those are what regions, scope and unwind tables
//! are about. A program that one of them executes has addresses of its own, so its runtime translates them before it uses them: code that the first
//! program had when it began is where that one has it, and the code of any other file is at an address that no process can have.
//!
//! All pieces of one file are as far from each other as in the file. Entries are only ever added, by any process, and no code has two: a process that adds one looks at those that were begun before. One that takes too long (its thread
//! has lost its CPU, or its process has ended) is declared void, and begins anew if it goes on.

use crate::Address;
use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    length, spin_loop,
};

/// Pieces of files that can be told apart. More are nowhere: samples in them belong to no code.
pub const MAX_FILES: usize = length(4096, 3);
/// Bytes of a file's name that are kept.
pub const LONGEST_NAME: usize = length(512, 8);

/// The first address that no process on x86-64 has, unless it asks for five levels of page tables.
pub const BEYOND: Address = Address(1 << 47);
/// Where an address of an executed program is that is in no code.
pub const NOWHERE: Address = Address(1 << 63);

/// Addresses for each file.
pub(crate) const ROOM: u64 = 1 << 36;
/// How often an entry that is being written is looked at until it is declared void.
const LOOKS: usize = length(1000, 1);
/// How often an entry that was declared void is begun anew.
const ATTEMPTS: usize = 4;

/// A stretch of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The device, in any form that is the same for all.
    pub device: u64,
    /// The number of its inode; zero for what the kernel maps into every process.
    pub inode: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
}

impl Stretch {
    /// How far into this one the other begins, if it lies in it.
    fn distance(self, other: Self) -> Option<u64> {
        let same_file = (self.device, self.inode) == (other.device, other.inode);
        let distance = other.offset.checked_sub(self.offset).filter(|_| same_file)?;
        (distance.checked_add(other.length)? <= self.length).then_some(distance)
    }
}

/// An entry has not been written yet.
const EMPTY: u32 = 0;
/// It has.
const READY: u32 = 1;
/// It never will be.
const VOID: u32 = 2;

/// Where a stretch of a file is.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Entry {
    /// Release when all else has been written, Acquire before it is read.
    state: AtomicU32,
    process: AtomicU32,
    device: AtomicU64,
    inode: AtomicU64,
    offset: AtomicU64,
    length: AtomicU64,
    start: AtomicU64,
    name_length: AtomicU64,
    name: [AtomicU64; LONGEST_NAME / 8],
}

impl Entry {
    fn is_ready(&self) -> bool {
        self.state.load(Acquire) == READY
    }

    /// Where this stretch is, if it is in this one.
    fn place(&self, stretch: Stretch) -> Option<Address> {
        let distance = if self.is_ready() { self.stretch().distance(stretch)? } else { return None };
        Some(Address(self.start().0 + distance))
    }

    /// Where it is, if this one is another piece of its file.
    fn place_beside(&self, stretch: Stretch) -> Option<Address> {
        let own = if self.is_ready() { self.stretch() } else { return None };
        let is_same_file = (own.device, own.inode) == (stretch.device, stretch.inode);
        let beginning = self.start().0.wrapping_sub(own.offset);
        is_same_file.then(|| Address(beginning.wrapping_add(stretch.offset)))
    }

    /// Waits until it has been written or never will be.
    fn settle(&self) {
        for _ in 0..LOOKS {
            if self.state.load(Acquire) != EMPTY {
                return;
            }
            spin_loop();
        }
        self.end_with(VOID);
    }

    /// Whether it is that now, because it was not anything else before.
    fn end_with(&self, state: u32) -> bool {
        self.state.compare_exchange(EMPTY, state, Release, Acquire).is_ok()
    }

    /// The stretch.
    pub fn stretch(&self) -> Stretch {
        Stretch {
            device: self.device.load(Relaxed),
            inode: self.inode.load(Relaxed),
            offset: self.offset.load(Relaxed),
            length: self.length.load(Relaxed),
        }
    }

    /// Where it begins.
    pub fn start(&self) -> Address {
        Address(self.start.load(Relaxed))
    }

    /// The process that has found it.
    pub fn process(&self) -> u32 {
        self.process.load(Relaxed)
    }

    /// The file's name, as that process saw it; none if it was too long.
    pub fn name<'a>(&self, buffer: &'a mut [u8; LONGEST_NAME]) -> Option<&'a [u8]> {
        for (bytes, word) in buffer.chunks_exact_mut(8).zip(&self.name) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        buffer.get(..usize::try_from(self.name_length.load(Relaxed)).ok()?)
    }

    /// False if it was declared void.
    fn write(&self, stretch: Stretch, start: Address, process: u32, name: &[u8]) -> bool {
        self.process.store(process, Relaxed);
        self.device.store(stretch.device, Relaxed);
        self.inode.store(stretch.inode, Relaxed);
        self.offset.store(stretch.offset, Relaxed);
        self.length.store(stretch.length, Relaxed);
        self.start.store(start.0, Relaxed);
        self.name_length.store(name.len() as u64, Relaxed);
        for (word, bytes) in self.name.iter().zip(name.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), Relaxed);
        }
        self.end_with(READY)
    }
}

/// All of them.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Files {
    /// Entries that were begun, those included for which there was no room.
    count: AtomicU32,
    /// Files that have a place behind [`BEYOND`].
    taken: AtomicU32,
    entries: [Entry; MAX_FILES],
}

impl Files {
    /// A stretch that the first program has mapped at `start`. Not when it runs: code that it loads later may be where other code was.
    pub fn is_at(&self, stretch: Stretch, start: Address, process: u32, name: &[u8]) {
        self.add(stretch, process, name, start);
    }

    /// Where this stretch is, also if no process had it before; none if there is no room. Called from the signal handler.
    pub fn place(&self, stretch: Stretch, process: u32, name: &[u8]) -> Option<Address> {
        let known = self.begun().iter().find_map(|entry| entry.place(stretch));
        known.or_else(|| {
            // Further pieces of a file are beside its first one.
            let fits = stretch.offset.checked_add(stretch.length).is_some_and(|end| end <= ROOM);
            let beyond = BEYOND.0 + ROOM * u64::from(self.taken.fetch_add(1, Relaxed)) + stretch.offset;
            if fits { self.add(stretch, process, name, Address(beyond)) } else { None }
        })
    }

    /// Where the stretch is: at `start`, if no other process has begun an entry for it before.
    fn add(&self, stretch: Stretch, process: u32, name: &[u8], start: Address) -> Option<Address> {
        let name = if name.len() <= LONGEST_NAME { name } else { &[] };
        for _ in 0..ATTEMPTS {
            let nth = self.count.fetch_add(1, Relaxed) as usize;
            let Some(entry) = self.entries.get(nth) else {
                // Never begins anew.
                self.count.fetch_min(u32::MAX / 2, Relaxed);
                return None;
            };
            let before = &self.entries[..nth];
            before.iter().for_each(Entry::settle);
            if let Some(known) = before.iter().find_map(|entry| entry.place(stretch)) {
                entry.end_with(VOID);
                return Some(known);
            }
            let start = before.iter().find_map(|entry| entry.place_beside(stretch)).unwrap_or(start);
            if entry.write(stretch, start, process, name) {
                return Some(start);
            }
        }
        None
    }

    fn begun(&self) -> &[Entry] {
        &self.entries[..(self.count.load(Relaxed) as usize).min(MAX_FILES)]
    }

    /// All that have been written.
    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.begun().iter().filter(|entry| entry.is_ready())
    }

    /// Whether there is no room for another one, or was not.
    pub fn is_full(&self) -> bool {
        self.count.load(Relaxed) as usize > MAX_FILES
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn files() -> Box<Files> {
        // SAFETY: all zeros are an empty table.
        unsafe { Box::<Files>::new_zeroed().assume_init() }
    }

    fn stretch(inode: u64, offset: u64, length: u64) -> Stretch {
        Stretch { device: 8, inode, offset, length }
    }

    #[test]
    fn code_is_where_the_first_program_has_it_and_beyond_all_addresses_otherwise() {
        let files = files();
        files.is_at(stretch(1, 4096, 8192), Address(0x1000), 7, b"/bin/first");
        assert_eq!(files.place(stretch(1, 4096, 8192), 8, b"/bin/first"), Some(Address(0x1000)));
        assert_eq!(
            files.place(stretch(1, 8192, 4096), 8, b"/bin/first"),
            Some(Address(0x2000)),
            "a part of it"
        );
        let other = files.place(stretch(2, 0, 100), 8, b"/bin/other").unwrap();
        let third = files.place(stretch(3, 0, 100), 9, b"/bin/third").unwrap();
        assert!(other >= BEYOND && third > other, "{other:?} {third:?}");
        assert_eq!(
            files.place(stretch(1, 4096, 8193), 9, b"/bin/first"),
            Some(Address(0x1000)),
            "more of it"
        );
        assert_eq!(files.place(stretch(2, 4096, 1), 9, b"/bin/other"), Some(Address(other.0 + 4096)));
        assert_eq!(files.place(stretch(2, 0, 100), 10, b"x"), Some(other));
        let names: Vec<Vec<u8>> =
            files.all().skip(1).map(|entry| entry.name(&mut [0; LONGEST_NAME]).unwrap().into()).collect();
        let expected: [&[u8]; 4] = [b"/bin/other", b"/bin/third", b"/bin/first", b"/bin/other"];
        assert_eq!(names, expected);
        assert_eq!(files.all().skip(1).map(Entry::process).collect::<Vec<_>>(), [8, 9, 9, 9]);
    }

    #[test]
    fn a_full_table_refuses_and_counts() {
        let files = files();
        for inode in 0..MAX_FILES as u64 {
            assert!(files.place(stretch(inode + 1, 0, 1), 1, b"").is_some());
        }
        for inode in 0..3 {
            assert_eq!(files.place(stretch(u64::MAX - inode, 0, 1), 1, b""), None);
        }
        assert!(files.is_full() && files.all().count() == MAX_FILES);
        assert!(files.place(stretch(1, 0, 1), 2, b"").is_some(), "known ones stay");
    }

    #[test]
    fn all_threads_agree_on_one_place() {
        let files = files();
        let places: Vec<Vec<Address>> = std::thread::scope(|scope| {
            let ask = || (1..200).map(|inode| files.place(stretch(inode, 0, 64), 1, b"n").unwrap()).collect();
            let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let final_places: Vec<Address> =
            (1..200).map(|inode| files.place(stretch(inode, 0, 64), 1, b"n").unwrap()).collect();
        for own in &places {
            assert_eq!(*own, final_places);
        }
    }
}
