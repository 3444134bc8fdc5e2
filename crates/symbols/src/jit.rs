//! Code that a program makes while it runs, as its runtime writes it down for profilers: `/tmp/perf-PID.map`, a line for each
//! function with address, size (both hexadecimal) and name (Linux, tools/perf/Documentation/jit-interface.txt).

use std::ops::Range;

use crate::address::Svma;
use crate::function_name::FunctionName;
use crate::range_index::{Entry, RangeIndex};

/// The functions of such a file.
#[derive(Debug)]
pub struct JitMap(RangeIndex<FunctionName>);

impl JitMap {
    /// Reads the text; what is not understood is passed over. Of several functions at one place the last one counts.
    pub fn parse(text: &str) -> JitMap {
        let entry = |line: &str| {
            let mut words = line.trim().splitn(3, ' ');
            let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (start, size) = (number()?, number()?);
            let name = words.next()?.trim();
            let value = FunctionName::from_demangled(name);
            (!name.is_empty()).then_some(Entry { range: start..start.checked_add(size)?, value })
        };
        JitMap(RangeIndex::new(text.lines().filter_map(entry).collect()))
    }

    /// Whether it has no function.
    pub fn is_empty(&self) -> bool {
        self.0.entries().is_empty()
    }

    /// The function at a process address, and where it is.
    pub fn containing(&self, address: u64) -> Option<(Range<Svma>, FunctionName)> {
        let entry = self.0.containing(address)?;
        Some((Svma(entry.range.start)..Svma(entry.range.end), entry.value.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_and_nonsense_is_not() {
        let map = JitMap::parse(
            "7f0010 20 LazyCompile:*hot /a b.js:3\n0x7f0100 0x8 Interpreter\n\nzz 1 x\n7f0200 4\n7f0300 ffffffffffffffff end\n\
             7f0010 20 again\n",
        );
        let name = |address| map.containing(address).map(|(_, name)| name.full().to_owned());
        assert_eq!(name(0x7f0010).as_deref(), Some("again"));
        assert_eq!(name(0x7f002f).as_deref(), Some("again"));
        assert_eq!((name(0x7f0030), name(0x7f0200), name(0x7f0300)), (None, None, None));
        let (range, _) = map.containing(0x7f0104).unwrap();
        assert_eq!(range, Svma(0x7f0100)..Svma(0x7f0108));
        assert!(JitMap::parse("").is_empty() && !map.is_empty());
    }
}
