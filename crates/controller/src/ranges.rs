//! Ranges of addresses.

use std::ops::Range;
use wire::Address;

/// Sorted ranges with neighbours joined, as the runtime takes them.
pub fn joined(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<(Address, Address)> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined.into_iter().map(ends).collect()
}

/// The begin and the end of a range, as the runtime takes them.
pub fn ends(range: Range<u64>) -> (Address, Address) {
    (Address(range.start), Address(range.end))
}
