//! How to find a function's caller where there is no frame pointer: the controller makes tables of what compilers have
//! written down for exceptions (`.eh_frame`), and the runtime looks up one row for each frame.
//!
//! Tables are only ever added (and given up, when a library has been unloaded). A row says, from its place in the code
//! to the next row's: where the frame ends (the *canonical frame address*, CFA: the stack pointer or the frame
//! pointer, and how many words), and where the caller's frame pointer was saved, if it was. The return address is the word
//! below the CFA.

use crate::Address;
use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    length,
};

/// Tables, one for each mapped image in which samples have been taken.
pub const MAX_TABLES: usize = length(4096, 2);
/// Rows of all tables together. The memory is sparse: those that are not used cost nothing.
pub const MAX_ROWS: usize = length(4 << 20, 4);
/// Rows that are remembered because they were looked up lately: a search through the rows of a large program misses the caches
/// a dozen times.
const RECENT: usize = length(1 << 14, 2);

const WORD: u64 = 8;

/// How to get from a frame to its caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwindRule {
    /// Whether the CFA is counted from the frame pointer; otherwise from the stack pointer.
    pub from_frame_pointer: bool,
    /// How many bytes above it the CFA is: a multiple of 8.
    pub offset: u64,
    /// How many bytes below the CFA the caller's frame pointer was saved; it is still in its register if it was not.
    pub saved: Option<u64>,
}

/// What is known of the caller of some code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// Nothing: there may be a frame pointer.
    #[default]
    Unknown,
    /// There is none: a thread begins here.
    Nobody,
    /// It is found by this rule.
    By(UnwindRule),
}

/// A row of a table: the beginning of a piece of code, as bytes from the table's base, and its caller; 32 bits each, since
/// large programs have millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row(u64);

impl Row {
    /// The code from `place` on has this caller.
    pub fn new(place: u32, caller: Caller) -> Self {
        Self(u64::from(place) << 32 | caller.packed())
    }

    /// Whether it says nothing.
    pub fn is_unknown(self) -> bool {
        Caller::unpacked(self.0) == Caller::Unknown
    }
}

impl UnwindRule {
    const KNOWN: u64 = 1;
    const FROM_FRAME_POINTER: u64 = 2;
    const OFFSET_SHIFT: u32 = 2;
    const OFFSET_BITS: u64 = 0xffff;
    const SAVED_SHIFT: u32 = 18;
    const SAVED_BITS: u64 = 0x3fff;

    /// In 32 bits; nothing if a number is too large or crooked.
    fn packed(self) -> Option<u64> {
        let words =
            |bytes: u64, most: u64| Some(bytes / WORD).filter(|n| bytes.is_multiple_of(WORD) && *n <= most);
        let offset = words(self.offset, Self::OFFSET_BITS)?;
        let saved = words(self.saved.unwrap_or(0), Self::SAVED_BITS)?;
        let base = if self.from_frame_pointer { Self::FROM_FRAME_POINTER } else { 0 };
        Some(Self::KNOWN | base | offset << Self::OFFSET_SHIFT | saved << Self::SAVED_SHIFT)
    }

    fn unpacked(bits: u64) -> Self {
        let saved = (bits >> Self::SAVED_SHIFT & Self::SAVED_BITS) * WORD;
        Self {
            from_frame_pointer: bits & Self::FROM_FRAME_POINTER != 0,
            offset: (bits >> Self::OFFSET_SHIFT & Self::OFFSET_BITS) * WORD,
            saved: (saved != 0).then_some(saved),
        }
    }
}

impl Caller {
    /// Not [`UnwindRule::KNOWN`].
    const NOBODY: u64 = 2;

    fn packed(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Nobody => Self::NOBODY,
            Self::By(rule) => rule.packed().unwrap_or(0),
        }
    }

    fn unpacked(bits: u64) -> Self {
        match bits & u64::from(u32::MAX) {
            bits if bits & UnwindRule::KNOWN != 0 => Self::By(UnwindRule::unpacked(bits)),
            Self::NOBODY => Self::Nobody,
            _ => Self::Unknown,
        }
    }
}

#[derive(Debug, Default)]
#[repr(C)]
struct Table {
    start: AtomicU64,
    /// Below `start` when it was given up.
    end: AtomicU64,
    base: AtomicU64,
    first: AtomicU32,
    rows: AtomicU32,
}

/// All tables.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Unwind {
    /// Tables so far: the controller's own.
    count: AtomicU32,
    used: AtomicU32,
    /// Tables that there was no room for: written and read by the controller.
    refused: AtomicU32,
    tables: [Table; MAX_TABLES],
    /// The numbers of the tables that have not been given up, by their beginnings: the one in use, and the one before it or
    /// after it. A thread that was interrupted while two came may find the wrong table, which does not hold its address.
    order: [[AtomicU32; MAX_TABLES]; 2],
    /// Which order is in use, and twice its length: Release by the controller, Acquire by the runtime; publishes the tables and
    /// their rows.
    in_use: AtomicU32,
    /// See [`Row`].
    rows: [AtomicU64; MAX_ROWS],
    /// Numbers of rows, by the places that were looked up, for all threads. Any may be there, so a row is only taken if the place lies in it.
    recent: [AtomicU32; RECENT],
}

impl Unwind {
    /// Adds the table of the code from `start` to `end`, whose `rows` are ascending and count from `base`. False if
    /// there is no room. One thread of the controller calls this.
    pub fn add(&self, (start, end): (Address, Address), base: Address, rows: &[Row]) -> bool {
        let (nth, first) = (self.count.load(Relaxed) as usize, self.used.load(Relaxed) as usize);
        if nth >= MAX_TABLES || first + rows.len() > MAX_ROWS {
            self.refused.fetch_add(1, Relaxed);
            return false;
        }
        for (row, to) in rows.iter().zip(&self.rows[first..]) {
            to.store(row.0, Relaxed);
        }
        let table = &self.tables[nth];
        table.start.store(start.0, Relaxed);
        table.end.store(end.0, Relaxed);
        table.base.store(base.0, Relaxed);
        table.first.store(first as u32, Relaxed);
        table.rows.store(rows.len() as u32, Relaxed);
        self.used.store((first + rows.len()) as u32, Relaxed);
        self.count.store(nth as u32 + 1, Relaxed);
        self.put_in_order(Some(nth as u32));
        true
    }

    /// Makes an order of the tables that have not been given up, and the table `new`.
    fn put_in_order(&self, new: Option<u32>) {
        let now = self.in_use.load(Relaxed);
        let (before, after) = (&self.order[(now & 1) as usize], &self.order[1 - (now & 1) as usize]);
        let start = |number: u32| self.tables[number as usize].start.load(Relaxed);
        let (mut new, mut length) = (new, 0);
        let mut put = |number: u32| {
            after[length].store(number, Relaxed);
            length += 1;
        };
        for number in before[..(now >> 1) as usize].iter().map(|number| number.load(Relaxed)) {
            if let Some(new) = new.take_if(|new| start(*new) < start(number)) {
                put(new);
            }
            if start(number) < self.tables[number as usize].end.load(Relaxed) {
                put(number);
            }
        }
        new.into_iter().for_each(&mut put);
        self.in_use.store((length as u32) << 1 | (1 - (now & 1)), Release);
    }

    /// How many tables there was no room for.
    pub fn refused(&self) -> u32 {
        self.refused.load(Relaxed)
    }

    /// Gives the table of the code at `start` up: something else may be mapped there.
    pub fn retire(&self, start: Address) {
        let count = (self.count.load(Relaxed) as usize).min(MAX_TABLES);
        for table in self.tables[..count].iter().filter(|table| table.start.load(Relaxed) == start.0) {
            table.end.store(0, Relaxed);
        }
        self.put_in_order(None);
    }

    /// Who has called the code at `address`, as far as a table knows. Called from the signal handler.
    pub fn caller(&self, address: Address) -> Caller {
        self.find(address).unwrap_or_default()
    }

    fn find(&self, address: Address) -> Option<Caller> {
        let in_use = self.in_use.load(Acquire);
        let order = self.order[(in_use & 1) as usize].get(..(in_use >> 1) as usize)?;
        let number = |number: &AtomicU32| number.load(Relaxed) as usize % MAX_TABLES;
        // Of several the latest: what was there before may not have been given up yet.
        let after = order.partition_point(|it| self.tables[number(it)].start.load(Relaxed) <= address.0);
        let table = &self.tables[number(&order[after.checked_sub(1)?])];
        if address.0 >= table.end.load(Relaxed) || address.0 < table.start.load(Relaxed) {
            return None;
        }
        let place = u32::try_from(address.0.wrapping_sub(table.base.load(Relaxed))).ok()?;
        let first = table.first.load(Relaxed) as usize;
        let rows = self.rows.get(first..first + table.rows.load(Relaxed) as usize)?;
        let recent = &self.recent[mixed(address.0) % RECENT];
        let begins = |row: usize| rows.get(row).map(|row| (row.load(Relaxed) >> 32) as u32);
        let known = (recent.load(Relaxed) as usize).wrapping_sub(first);
        let has_place = |row: usize| {
            begins(row).is_some_and(|begin| begin <= place) && begins(row + 1).is_none_or(|next| place < next)
        };
        let row = if has_place(known) {
            known
        } else {
            let row =
                rows.partition_point(|row| row.load(Relaxed) >> 32 <= u64::from(place)).checked_sub(1)?;
            recent.store((first + row) as u32, Relaxed);
            row
        };
        Some(Caller::unpacked(rows[row].load(Relaxed)))
    }
}

/// Spreads addresses, which lie close together, over all numbers (Fibonacci hashing: Knuth, volume 3, section 6.4).
fn mixed(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn unwind() -> &'static Unwind {
        let layout = std::alloc::Layout::new::<Unwind>();
        // SAFETY: all-zero words are valid, as in fresh shared memory.
        unsafe { &*std::alloc::alloc_zeroed(layout).cast::<Unwind>() }
    }

    fn rule(offset: u64) -> UnwindRule {
        UnwindRule { from_frame_pointer: false, offset, saved: None }
    }

    fn by(offset: u64) -> Caller {
        Caller::By(rule(offset))
    }

    #[test]
    fn callers_survive_being_packed() {
        for caller in [
            Caller::Unknown,
            Caller::Nobody,
            by(8),
            Caller::By(UnwindRule { from_frame_pointer: true, offset: 16, saved: Some(16) }),
            Caller::By(UnwindRule { from_frame_pointer: false, offset: 0xffff * 8, saved: Some(0x3fff * 8) }),
        ] {
            assert_eq!(Caller::unpacked(caller.packed()), caller);
        }
        for crooked in [by(12), by(8 << 16), Caller::By(UnwindRule { saved: Some(1 << 17), ..rule(8) })] {
            assert_eq!(crooked.packed(), 0, "{crooked:?}");
        }
    }

    #[test]
    fn the_row_at_or_before_an_address_counts() {
        let unwind = unwind();
        let at = |address| unwind.caller(Address(address));
        assert_eq!(at(0x1010), Caller::Unknown);
        let rows = [(0x10, by(8)), (0x14, by(16)), (0x20, Caller::Nobody), (0x30, by(24))]
            .map(|(place, caller)| Row::new(place, caller));
        assert!(unwind.add((Address(0x1000), Address(0x2000)), Address(0x1000), &rows));
        assert!(unwind.add((Address(0x5000), Address(0x6000)), Address(0x4000), &[Row::new(0x1000, by(32))]));
        for (address, expected) in [
            (0xfff, Caller::Unknown),
            (0x1000, Caller::Unknown),
            (0x1010, by(8)),
            (0x1013, by(8)),
            (0x1014, by(16)),
            (0x1020, Caller::Nobody),
            (0x1fff, by(24)),
            (0x2000, Caller::Unknown),
            (0x5123, by(32)),
        ] {
            assert_eq!(at(address), expected, "{address:#x}");
        }
        unwind.retire(Address(0x1000));
        assert_eq!((at(0x1010), at(0x5000)), (Caller::Unknown, by(32)));
        // Something else is loaded there.
        assert!(unwind.add((Address(0x1000), Address(0x1800)), Address(0x1000), &[Row::new(0, by(40))]));
        assert_eq!(at(0x1010), by(40));
    }

    #[test]
    fn what_was_looked_up_before_is_no_more_than_a_hint() {
        let unwind = unwind();
        let tables = 3;
        let code = |table: u64| (Address(table << 20), Address((table + 1) << 20));
        let offset = |table: u64, row: u64| 8 * (1 + (table * 7 + row) % 1000);
        for table in 0..tables {
            let rows: Vec<Row> =
                (0..5000).map(|row| Row::new(row as u32 * 16, by(offset(table, row)))).collect();
            assert!(unwind.add(code(table), code(table).0, &rows));
        }
        // So many that they overwrite each other, in an order that is none, and each more than once.
        let mut state = 1_u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (table, place) = ((state >> 60) % tables, (state >> 33) % 80_000);
            let expected = by(offset(table, place / 16));
            assert_eq!(unwind.caller(Address(code(table).0.0 + place)), expected, "{table} {place:#x}");
        }
        // Whatever lies there.
        for (nth, recent) in unwind.recent.iter().enumerate() {
            recent.store(u32::MAX - nth as u32, Relaxed);
        }
        assert_eq!(unwind.caller(Address(code(1).0.0 + 17)), by(offset(1, 1)));
    }

    #[test]
    fn many_tables_in_any_order() {
        let unwind = unwind();
        let places = [5_u64, 3, 9, 1, 7, 2, 8, 4, 6, 0];
        let code = |place: u64| (Address(place << 12), Address((place << 12) + 0x800));
        for place in places {
            assert!(unwind.add(code(place), Address(place << 12), &[Row::new(0, by(8 * (place + 1)))]));
        }
        let at = |place: u64| unwind.caller(Address((place << 12) + 0x10));
        assert!(places.iter().all(|place| at(*place) == by(8 * (place + 1))));
        assert_eq!(unwind.caller(Address(0x3900)), Caller::Unknown);
        for place in [3, 0, 9] {
            unwind.retire(code(place).0);
        }
        for place in places {
            let expected = if [3, 0, 9].contains(&place) { Caller::Unknown } else { by(8 * (place + 1)) };
            assert_eq!(at(place), expected, "{place}");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let unwind = unwind();
        let nobody = |place| Row::new(place, Caller::Nobody);
        let rows: Box<[Row]> = (0..MAX_ROWS as u32 - 1).map(nobody).collect();
        let code = (Address(0), Address(1 << 40));
        assert!(unwind.add(code, Address(0), &rows));
        assert_eq!(unwind.refused(), 0);
        assert!(!unwind.add(code, Address(0), &[nobody(0), nobody(1)]));
        assert_eq!(unwind.refused(), 1);
    }
}
