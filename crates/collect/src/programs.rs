//! Code that the kernel generates while it runs: BPF programs, and trampolines to them.

use std::collections::BTreeMap;
use wire::Address;

/// What there is now.
#[derive(Debug, Default)]
pub struct Programs {
    /// By first address: the first address behind it, and its name.
    ranges: BTreeMap<u64, (u64, String)>,
}

/// A kernel has thousands at most; what comes then has no name.
const MOST: usize = 1 << 14;
/// Bytes of a name that are kept; the kernel's own are shorter.
const LONGEST: usize = 128;

impl Programs {
    /// There is another one, in the place of what was there.
    pub fn add(&mut self, start: Address, length: u64, name: &str) {
        let end = start.0.saturating_add(length);
        while let Some((&before, _)) =
            self.ranges.range(..end).next_back().filter(|(_, (end, _))| *end > start.0)
        {
            self.ranges.remove(&before);
        }
        if self.ranges.len() < MOST && length > 0 {
            self.ranges.insert(start.0, (end, name[..name.floor_char_boundary(LONGEST)].to_owned()));
        }
    }

    /// One is gone.
    pub fn remove(&mut self, start: Address) {
        self.ranges.remove(&start.0);
    }

    /// The name of the one at an address.
    pub fn find(&self, address: Address) -> Option<&str> {
        let (_, (end, name)) = self.ranges.range(..=address.0).next_back()?;
        (address.0 < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_kept_than_a_kernel_has() {
        let mut programs = Programs::default();
        let name = "é".repeat(LONGEST);
        (0..2 * MOST as u64).for_each(|at| programs.add(Address(16 * at), 16, &name));
        assert_eq!(programs.ranges.len(), MOST);
        assert_eq!(programs.find(Address(16)).map(str::len), Some(LONGEST));
        assert_eq!(programs.find(Address(16 * (MOST as u64 + 1))), None);
        // Where there is one already, another one takes its place.
        programs.add(Address(16), 16, "other");
        assert_eq!(programs.find(Address(16)), Some("other"));
    }

    #[test]
    fn programs_come_and_go() {
        let mut programs = Programs::default();
        programs.add(Address(0x1000), 0x100, "one");
        programs.add(Address(0x1100), 0x100, "two");
        programs.add(Address(0x1300), 0, "nothing");
        for (address, name) in [
            (0xfff, None),
            (0x1000, Some("one")),
            (0x10ff, Some("one")),
            (0x11ff, Some("two")),
            (0x1200, None),
        ] {
            assert_eq!(programs.find(Address(address)), name, "{address:x}");
        }
        // Its end was lost, or was not reported.
        programs.add(Address(0x1080), 0x100, "three");
        assert_eq!(
            [0x1000, 0x1080, 0x1180].map(|at| programs.find(Address(at))),
            [None, Some("three"), None]
        );
        programs.remove(Address(0x1080));
        programs.remove(Address(0x1080));
        assert_eq!(programs.find(Address(0x1080)), None);
    }
}
