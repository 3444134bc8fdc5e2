//! Address ranges with a value each, searchable by address; ranges may nest and overlap.

use std::ops::Range;

/// One range and what it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Entry<T> {
    pub range: Range<u64>,
    pub value: T,
}

/// Sorted ranges. Of several that contain an address, the one that starts last wins, then the
/// shortest, then the one added last.
#[derive(Debug)]
pub(crate) struct RangeIndex<T> {
    entries: Vec<Entry<T>>,
    /// `reach[i]`: the largest end among `entries[..=i]`; where a backward search may stop.
    reach: Vec<u64>,
}

impl<T> RangeIndex<T> {
    pub fn new(mut entries: Vec<Entry<T>>) -> Self {
        entries.retain(|entry| entry.range.start < entry.range.end);
        entries.sort_by_key(|entry| (entry.range.start, std::cmp::Reverse(entry.range.end)));
        let mut furthest = 0;
        let reach = entries
            .iter()
            .map(|entry| {
                furthest = entry.range.end.max(furthest);
                furthest
            })
            .collect();
        RangeIndex { entries, reach }
    }

    pub fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    /// The innermost range that contains `address`.
    pub fn containing(&self, address: u64) -> Option<&Entry<T>> {
        self.overlapping(address..address.checked_add(1)?).next()
    }

    /// All ranges that share an address with `range`, last start first.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &Entry<T>> {
        let after = self.entries.partition_point(|entry| entry.range.start < range.end);
        self.entries[..after]
            .iter()
            .zip(&self.reach[..after])
            .rev()
            .take_while(move |(_, reach)| **reach > range.start)
            .map(|(entry, _)| entry)
            .filter(move |entry| entry.range.end > range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_wins_and_gaps_are_gaps() {
        let index = RangeIndex::new(
            [
                (10..100, "outer"),
                (20..30, "inner"),
                (20..25, "innermost"),
                (200..210, "far"),
                (5..5, "empty"),
            ]
            .map(|(range, value)| Entry { range, value })
            .to_vec(),
        );
        let at = |address| index.containing(address).map(|entry| entry.value);
        assert_eq!(at(9), None);
        assert_eq!(at(10), Some("outer"));
        assert_eq!(at(22), Some("innermost"));
        assert_eq!(at(27), Some("inner"));
        assert_eq!(at(30), Some("outer"));
        assert_eq!(at(100), None);
        assert_eq!(at(205), Some("far"));
        assert_eq!(at(u64::MAX), None);
        let mut all: Vec<_> = index.overlapping(24..201).map(|entry| entry.value).collect();
        all.sort();
        assert_eq!(all, ["far", "inner", "innermost", "outer"]);
    }
}
