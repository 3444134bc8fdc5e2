//! Circles of code that only wait: the instructions of loops around a `pause`.
//!
//! The two bytes of `pause` (`f3 90`) also occur inside other instructions, so they say nothing by themselves. The
//! controller decodes the code around sampled addresses and publishes which instructions belong to a circle that runs through
//! a `pause`; the runtime's signal handler only looks addresses up.

use crate::Address;
use crate::experiment::{Range, contains};
use core::sync::atomic::{AtomicU32, Ordering};

/// Ranges that are published; the circles of further ones are not known.
pub const MAX_RANGES: usize = 1024;

/// One version of the list.
#[derive(Debug)]
#[repr(C)]
struct Version {
    count: AtomicU32,
    pauses: AtomicU32,
    ranges: [Range; MAX_RANGES],
    behind: [Range; MAX_RANGES],
}

/// Two versions that take turns; `generation` publishes one (Release, pairs with the Acquire in
/// [`find`](Self::find)).
#[derive(Debug)]
#[repr(C)]
pub struct Circles {
    generation: AtomicU32,
    reserved: AtomicU32,
    versions: [Version; 2],
}

/// Where in a circle an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In none that is known.
    Outside,
    /// In a circle that runs through a `pause`.
    Inside,
    /// At the `pause` itself or at the instruction behind it, where an interrupt finds a thread that pauses.
    Pause,
}

impl Circles {
    /// Publishes a new version: the instructions of all circles, and those at and behind a `pause`. Both lists must be
    /// sorted and disjoint. Called by the controller only, and not more often than every few milliseconds (a reader needs
    /// a microsecond).
    pub fn publish(&self, circles: &[(Address, Address)], pauses: &[(Address, Address)]) {
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        let version = &self.versions[next as usize & 1];
        let fill = |list: &[(Address, Address)], ranges: &[Range]| {
            let filled = list.iter().zip(ranges).map(|((start, end), range)| range.set(*start, *end));
            filled.count() as u32
        };
        version.count.store(fill(circles, &version.ranges), Ordering::Relaxed);
        version.pauses.store(fill(pauses, &version.behind), Ordering::Relaxed);
        self.generation.store(next, Ordering::Release);
    }

    /// Where `address` lies. Called from the signal handler.
    pub fn find(&self, address: Address) -> Place {
        let version = &self.versions[self.generation.load(Ordering::Acquire) as usize & 1];
        let (count, pauses) = (version.count.load(Ordering::Relaxed), version.pauses.load(Ordering::Relaxed));
        if contains(&version.behind, pauses as usize, address) {
            Place::Pause
        } else if contains(&version.ranges, count as usize, address) {
            Place::Inside
        } else {
            Place::Outside
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec;

    #[test]
    fn the_latest_version_counts() {
        let memory = vec![0_u64; size_of::<Circles>().div_ceil(8)].into_boxed_slice();
        // SAFETY: all-zero words are a valid list, and there are enough of them; the memory is never given back.
        let circles = unsafe { &*Box::leak(memory).as_ptr().cast::<Circles>() };
        assert_eq!(circles.find(Address(10)), Place::Outside);
        circles.publish(&[(Address(10), Address(20))], &[(Address(10), Address(14))]);
        let found = [9, 10, 13, 14, 19, 20].map(|at| circles.find(Address(at)));
        use Place::{Inside, Outside, Pause};
        assert_eq!(found, [Outside, Pause, Pause, Inside, Inside, Outside]);
        circles.publish(&[], &[]);
        assert_eq!(circles.find(Address(12)), Place::Outside);
    }
}
