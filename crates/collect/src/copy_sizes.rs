//! How much is copied of stacks of threads that wait, by process: as much as walking them has taken.

use crate::hash::Mixed;
use kernel::stream::MOST_COPIED;
use kernel::waits::USUALLY;
use std::collections::HashMap;

/// Stacks after which it is decided how much is copied from then on.
const WINDOW: u32 = 16;
/// Copies that were too short in a window, after which more is copied at once.
const FEW: u32 = 2;
/// Least that is copied, in bytes.
const LEAST: u32 = 1 << 10;
/// Processes that are remembered.
const MOST: usize = 1 << 13;

/// See the module.
#[derive(Debug, Default)]
pub struct CopySizes {
    by_process: HashMap<u32, Size, Mixed>,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u32,
    stacks: u32,
    short: u32,
    /// Most that was used, in bytes.
    most: u32,
}

impl CopySizes {
    /// A stack of a process was walked: whether its copy was too short, and how much of it that took. Returns how much is to be copied from now on, if that
    /// is something else.
    pub fn walked(&mut self, pid: u32, is_short: bool, took: u32) -> Option<u32> {
        if self.by_process.len() >= MOST && !self.by_process.contains_key(&pid) {
            self.by_process.clear();
        }
        let size =
            self.by_process.entry(pid).or_insert(Size { bytes: USUALLY, stacks: 0, short: 0, most: 0 });
        size.stacks += 1;
        size.short += u32::from(is_short);
        size.most = size.most.max(took);
        if size.stacks < WINDOW && size.short <= FEW {
            return None;
        }
        let before = size.bytes;
        let bytes = match size.most.saturating_add(size.most / 2).next_power_of_two().max(LEAST) {
            _ if size.short > FEW => (2 * before).min(MOST_COPIED),
            enough if size.short == 0 => enough.min(before),
            _ => before,
        };
        *size = Size { bytes, stacks: 0, short: 0, most: 0 };
        (bytes != before).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_copied_as_stacks_take() {
        let mut sizes = CopySizes::default();
        let mut walked = |is_short, took, times| {
            (0..times).filter_map(|_| sizes.walked(7, is_short, took)).collect::<Vec<_>>()
        };
        assert_eq!(walked(false, 300, WINDOW - 1), [0_u32; 0]);
        assert_eq!(walked(false, 300, 1), [LEAST]);
        assert_eq!(walked(false, 900, WINDOW), [0_u32; 0], "no more than it was");
        assert_eq!(walked(true, 1000, FEW + 1), [2 << 10]);
        assert_eq!(walked(true, 1000, 100).last(), Some(&MOST_COPIED));
        for pid in 0..100_000 {
            sizes.walked(pid, false, 1);
        }
        assert!(sizes.by_process.len() <= MOST);
    }
}
