//! The experiment that the controller has published: which code counts as faster, and by how much.
//!
//! Two descriptions take turns (by the parity of the epoch), so a thread that still reads the last one
//! is not disturbed by the writing of the next. The controller fills the description of the coming
//! epoch and then calls [`SharedAccount::begin`](crate::SharedAccount::begin), which publishes it. A
//! reader that was preempted for two whole epochs may read a mixture; its credit then fails on the epoch.

use crate::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, length};
use crate::code::CodeMap;
use crate::{Address, Epoch, Nanos, Speedup};

/// Address ranges that a region may consist of. A longer list is cut.
pub const MAX_RANGES: usize = length(8192, 1);

/// One half-open address range.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Range {
    start: AtomicU64,
    end: AtomicU64,
}

impl Range {
    pub(crate) fn set(&self, start: Address, end: Address) {
        self.start.store(start.0, Relaxed);
        self.end.store(end.0, Relaxed);
    }
}

/// Whether one of the first `count` of the sorted, disjoint `ranges` contains `address`.
pub(crate) fn contains(ranges: &[Range], count: usize, address: Address) -> bool {
    let ranges = &ranges[..count.min(ranges.len())];
    let after = ranges.partition_point(|range| range.start.load(Relaxed) <= address.0);
    after > 0 && address.0 < ranges[after - 1].end.load(Relaxed)
}

/// A published experiment. All fields relaxed: they are published by the epoch (see the module).
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Experiment {
    speedup: AtomicU32,
    inclusive: AtomicU32,
    deadline: AtomicU64,
    count: AtomicU32,
    /// Ranges of callers, behind those of the region.
    callers: AtomicU32,
    /// Whether callers count at all.
    called: AtomicU32,
    region: AtomicU32,
    ranges: [Range; MAX_RANGES],
}

impl Experiment {
    /// Describes the experiment of a coming epoch. `ranges` must be sorted and disjoint, as must `callers`; returns how
    /// many of them found room. `inclusive`: a sample counts when *any* frame of its callchain lies in the
    /// ranges, not only the first one in scope. If there are `callers`, that frame or one that it was called from must lie in
    /// them too. After `deadline` (monotonic clock) the runtime treats the
    /// experiment as over, so that a controller that was killed does not slow its program down forever.
    ///
    /// `region` tells regions apart, for what threads have learnt about one; zero is none.
    pub fn describe(
        &self,
        region: u32,
        speedup: Speedup,
        inclusive: bool,
        deadline: Nanos,
        ranges: impl IntoIterator<Item = (Address, Address)>,
        callers: impl IntoIterator<Item = (Address, Address)>,
    ) -> usize {
        self.region.store(region, Relaxed);
        self.speedup.store(speedup.0, Relaxed);
        self.inclusive.store(u32::from(inclusive), Relaxed);
        self.deadline.store(deadline.0, Relaxed);
        let fill = |list: &mut dyn Iterator<Item = (Address, Address)>, slots: &[Range]| {
            let filled = list.zip(slots).map(|((start, end), slot)| slot.set(start, end)).count();
            filled as u32
        };
        let count = fill(&mut ranges.into_iter(), &self.ranges);
        let mut callers = callers.into_iter().peekable();
        self.called.store(u32::from(callers.peek().is_some()), Relaxed);
        let callers = fill(&mut callers, &self.ranges[count as usize..]);
        self.count.store(count, Relaxed);
        self.callers.store(callers, Relaxed);
        (count + callers) as usize
    }

    /// By how much the region is virtually sped up.
    pub fn speedup(&self) -> Speedup {
        Speedup(self.speedup.load(Relaxed))
    }

    /// The region's number, or zero.
    pub fn region(&self) -> u32 {
        self.region.load(Relaxed)
    }

    /// Whether any frame counts, or only the first in scope.
    pub fn inclusive(&self) -> bool {
        self.inclusive.load(Relaxed) != 0
    }

    /// Moves that on: the controller is still there.
    pub fn set_deadline(&self, deadline: Nanos) {
        self.deadline.store(deadline.0, Relaxed);
    }

    /// When the experiment is over even if no one ends it.
    pub fn deadline(&self) -> Nanos {
        Nanos(self.deadline.load(Relaxed))
    }

    /// Whether `address` lies in the region.
    pub fn selects(&self, address: Address) -> bool {
        contains(&self.ranges, self.count.load(Relaxed) as usize, address)
    }

    /// Whether it counts who called the region.
    pub fn has_callers(&self) -> bool {
        self.called.load(Relaxed) != 0
    }

    /// Whether `address` lies in a caller that counts.
    pub fn is_caller(&self, address: Address) -> bool {
        let behind = self.ranges.get(self.count.load(Relaxed) as usize..).unwrap_or_default();
        contains(behind, self.callers.load(Relaxed) as usize, address)
    }

    /// Whether a sample belongs to the region: by the first frame in scope, or by any frame; and by who called it,
    /// if that counts. Called from the signal handler.
    pub fn owns(&self, code: &CodeMap, callchain: &[Address]) -> bool {
        let mut frames = callchain.iter();
        let found = if self.inclusive() {
            frames.position(|frame| self.selects(*frame))
        } else {
            let first = frames.position(|frame| !code.is_outside(*frame));
            first.filter(|nth| self.selects(callchain[*nth]))
        };
        let Some(nth) = found else { return false };
        if !self.has_callers() {
            return true;
        }
        if self.inclusive() {
            // A function that was inlined has the frame of its caller.
            return callchain[nth..].iter().any(|frame| self.is_caller(*frame));
        }
        // The nearest other function in scope.
        let other = |frame: &&Address| !code.is_outside(**frame) && !self.selects(**frame);
        callchain[nth + 1..].iter().find(other).is_some_and(|frame| self.is_caller(*frame))
    }
}

/// The two descriptions that take turns.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Experiments([Experiment; 2]);

impl Experiments {
    /// The description that belongs to `epoch`.
    pub fn of(&self, epoch: Epoch) -> &Experiment {
        &self.0[epoch.0 as usize & 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open() {
        let ranges: [Range; 3] = Default::default();
        ranges[0].set(Address(10), Address(20));
        ranges[1].set(Address(20), Address(21));
        ranges[2].set(Address(40), Address(50));
        let inside = |a| contains(&ranges, 3, Address(a));
        for (address, expected) in [
            (9, false),
            (10, true),
            (19, true),
            (20, true),
            (21, false),
            (39, false),
            (49, true),
            (50, false),
        ] {
            assert_eq!(inside(address), expected, "{address}");
        }
        assert!(!contains(&ranges, 0, Address(10)));
    }
}
