//! Ranges of addresses.

/// Sorted ranges with neighbours joined.
pub fn merged(ranges: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut result: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match result.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => result.push((start, end)),
        }
    }
    result
}
