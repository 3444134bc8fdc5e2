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
pub const MAX_TABLES: usize = length(1024, 2);
/// Rows of all tables together. The memory is sparse: those that are not used cost nothing.
pub const MAX_ROWS: usize = length(4 << 20, 4);

const WORD: u64 = 8;

/// How to get from a frame to its caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether the CFA is counted from the frame pointer; otherwise from the stack pointer.
    pub from_frame_pointer: bool,
    /// How many bytes above it the CFA is: a multiple of 8.
    pub offset: u64,
    /// How many bytes below the CFA the caller's frame pointer was saved; it is still in its register if it was not.
    pub saved: Option<u64>,
}

/// A row of a table: the beginning of a piece of code, as bytes from the table's base, and its rule; `None` where nobody
/// knows, or there is no caller.
pub type Row = (u32, Option<Rule>);

impl Rule {
    const KNOWN: u64 = 1;
    const FROM_FRAME_POINTER: u64 = 2;
    const OFFSET_SHIFT: u32 = 2;
    const OFFSET_BITS: u64 = 0xffff;
    const SAVED_SHIFT: u32 = 18;
    const SAVED_BITS: u64 = 0x3fff;

    /// In 32 bits; nothing known if a number is too large or crooked.
    fn packed(rule: Option<Self>) -> u64 {
        let words =
            |bytes: u64, most: u64| Some(bytes / WORD).filter(|n| bytes.is_multiple_of(WORD) && *n <= most);
        let pack = |rule: Self| {
            let offset = words(rule.offset, Self::OFFSET_BITS)?;
            let saved = words(rule.saved.unwrap_or(0), Self::SAVED_BITS)?;
            let base = if rule.from_frame_pointer { Self::FROM_FRAME_POINTER } else { 0 };
            Some(Self::KNOWN | base | offset << Self::OFFSET_SHIFT | saved << Self::SAVED_SHIFT)
        };
        rule.and_then(pack).unwrap_or(0)
    }

    fn unpacked(bits: u64) -> Option<Self> {
        let saved = (bits >> Self::SAVED_SHIFT & Self::SAVED_BITS) * WORD;
        (bits & Self::KNOWN != 0).then(|| Self {
            from_frame_pointer: bits & Self::FROM_FRAME_POINTER != 0,
            offset: (bits >> Self::OFFSET_SHIFT & Self::OFFSET_BITS) * WORD,
            saved: (saved != 0).then_some(saved),
        })
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
    /// Tables so far: Release by the controller, Acquire by the runtime; publishes a table and its rows.
    count: AtomicU32,
    used: AtomicU32,
    tables: [Table; MAX_TABLES],
    /// Place and rule, 32 bits each.
    rows: [AtomicU64; MAX_ROWS],
}

impl Unwind {
    /// Adds the table of the code from `start` to `end`, whose `rows` are ascending and count from `base`. False if
    /// there is no room. One thread of the controller calls this.
    pub fn add(&self, (start, end): (Address, Address), base: Address, rows: &[Row]) -> bool {
        let (nth, first) = (self.count.load(Relaxed) as usize, self.used.load(Relaxed) as usize);
        if nth >= MAX_TABLES || first + rows.len() > MAX_ROWS {
            return false;
        }
        for ((place, rule), row) in rows.iter().zip(&self.rows[first..]) {
            row.store(u64::from(*place) << 32 | Rule::packed(*rule), Relaxed);
        }
        let table = &self.tables[nth];
        table.start.store(start.0, Relaxed);
        table.end.store(end.0, Relaxed);
        table.base.store(base.0, Relaxed);
        table.first.store(first as u32, Relaxed);
        table.rows.store(rows.len() as u32, Relaxed);
        self.used.store((first + rows.len()) as u32, Relaxed);
        self.count.store(nth as u32 + 1, Release);
        true
    }

    /// Gives the table of the code at `start` up: something else may be mapped there.
    pub fn retire(&self, start: Address) {
        let count = self.count.load(Relaxed) as usize;
        for table in self.tables[..count].iter().filter(|table| table.start.load(Relaxed) == start.0) {
            table.end.store(0, Relaxed);
        }
    }

    /// What is known of the code at `address`: `None` if there is no table of it, `Some(None)` if the table does not
    /// know. Called from the signal handler.
    pub fn rule(&self, address: Address) -> Option<Option<Rule>> {
        let count = (self.count.load(Acquire) as usize).min(MAX_TABLES);
        let here = |table: &&Table| (table.start.load(Relaxed)..table.end.load(Relaxed)).contains(&address.0);
        let table = self.tables[..count].iter().find(here)?;
        let Ok(place) = u32::try_from(address.0.wrapping_sub(table.base.load(Relaxed))) else {
            return Some(None);
        };
        let first = table.first.load(Relaxed) as usize;
        let rows = self.rows.get(first..first + table.rows.load(Relaxed) as usize)?;
        let after = rows.partition_point(|row| row.load(Relaxed) >> 32 <= u64::from(place));
        Some(after.checked_sub(1).and_then(|nth| Rule::unpacked(rows[nth].load(Relaxed))))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;

    fn unwind() -> &'static Unwind {
        let layout = std::alloc::Layout::new::<Unwind>();
        // SAFETY: all-zero words are valid, as in fresh shared memory.
        unsafe { &*std::alloc::alloc_zeroed(layout).cast::<Unwind>() }
    }

    fn rule(offset: u64) -> Rule {
        Rule { from_frame_pointer: false, offset, saved: None }
    }

    #[test]
    fn rules_survive_being_packed() {
        for rule in [
            rule(8),
            Rule { from_frame_pointer: true, offset: 16, saved: Some(16) },
            Rule { from_frame_pointer: false, offset: 0xffff * 8, saved: Some(0x3fff * 8) },
        ] {
            assert_eq!(Rule::unpacked(Rule::packed(Some(rule))), Some(rule));
        }
        for unknown in
            [None, Some(rule(12)), Some(rule(8 << 16)), Some(Rule { saved: Some(1 << 17), ..rule(8) })]
        {
            assert_eq!(Rule::packed(unknown), 0, "{unknown:?}");
        }
    }

    #[test]
    fn the_row_at_or_before_an_address_counts() {
        let unwind = unwind();
        let at = |address| unwind.rule(Address(address));
        assert_eq!(at(0x1010), None);
        let rows = [(0x10, Some(rule(8))), (0x14, Some(rule(16))), (0x20, None), (0x30, Some(rule(24)))];
        assert!(unwind.add((Address(0x1000), Address(0x2000)), Address(0x1000), &rows));
        assert!(unwind.add((Address(0x5000), Address(0x6000)), Address(0x4000), &[(0x1000, Some(rule(32)))]));
        for (address, expected) in [
            (0xfff, None),
            (0x1000, Some(None)),
            (0x1010, Some(Some(rule(8)))),
            (0x1013, Some(Some(rule(8)))),
            (0x1014, Some(Some(rule(16)))),
            (0x1020, Some(None)),
            (0x1fff, Some(Some(rule(24)))),
            (0x2000, None),
            (0x5123, Some(Some(rule(32)))),
        ] {
            assert_eq!(at(address), expected, "{address:#x}");
        }
        unwind.retire(Address(0x1000));
        assert_eq!((at(0x1010), at(0x5000)), (None, Some(Some(rule(32)))));
        // Something else is loaded there.
        assert!(unwind.add((Address(0x1000), Address(0x1800)), Address(0x1000), &[(0, Some(rule(40)))]));
        assert_eq!(at(0x1010), Some(Some(rule(40))));
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let unwind = unwind();
        let rows: Box<[Row]> = (0..MAX_ROWS as u32 - 1).map(|place| (place, None)).collect();
        let code = (Address(0), Address(1 << 40));
        assert!(unwind.add(code, Address(0), &rows));
        assert!(!unwind.add(code, Address(0), &[(0, None), (1, None)]));
    }
}
