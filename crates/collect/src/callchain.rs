//! Callchains as the kernel writes them (perf_event.h): addresses, and marks that say whose addresses follow.

use kernel::stream::Sample;
use wire::Address;

/// Why callers are missing at the outer end of a callchain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// There are more than are taken.
    Deep,
    /// The stack was not copied that far.
    Short,
    /// Nothing says who has called the code.
    Unknown,
    /// The thread waits, and nothing says where.
    Waits,
}

impl Cut {
    const ALL: [Self; 4] = [Self::Deep, Self::Short, Self::Unknown, Self::Waits];

    /// The end of a callchain that is cut: none of the kernel's marks.
    pub fn mark(self) -> u64 {
        Sample::MARKS + 1 + self as u64
    }

    /// Whether a callchain is cut.
    pub fn of(callchain: &[u64]) -> Option<Self> {
        let last = *callchain.last()?;
        Self::ALL.into_iter().find(|cut| cut.mark() == last)
    }
}

/// Frames that the kernel takes of a stack.
pub fn deepest() -> usize {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    text.trim().parse().unwrap_or(127)
}

/// How many frames the kernel has taken.
pub fn frames_of(sample: &Sample<'_>) -> usize {
    sample.callchain.iter().filter(|word| **word < Sample::MARKS).count()
}

/// Frames that are taken of a stack, whatever a file says.
const DEEPEST: usize = 1024;

/// Whether the sampled instruction is the kernel's.
pub fn is_in_kernel(sample: &Sample<'_>) -> bool {
    match sample.callchain.first() {
        Some(&Sample::KERNEL) => true,
        Some(&Sample::USER) => false,
        _ => sample.address.0 >> 63 != 0,
    }
}

/// The frames of a sample, innermost first, and whether each is in the kernel. Addresses that calls return to become those of the calls.
pub fn frames(sample: &Sample<'_>) -> impl Iterator<Item = (Address, bool)> {
    let is_in_kernel = is_in_kernel(sample);
    let mut in_kernel = is_in_kernel;
    // The first address after a mark is an instruction, all others are where a call returns to.
    let mut returns = 0;
    let known = sample.callchain.iter().map_while(move |&value| match value {
        Sample::KERNEL | Sample::USER => {
            (in_kernel, returns) = (value == Sample::KERNEL, 0);
            Some(None)
        }
        // What follows is the code of hypervisors or guests.
        Sample::MARKS.. => None,
        address => {
            let address = Address(address.saturating_sub(returns));
            returns = 1;
            Some(Some((address, in_kernel)))
        }
    });
    let mut known = known.flatten().take(DEEPEST).peekable();
    let alone = known.peek().is_none().then_some((sample.address, is_in_kernel));
    known.chain(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callchains_say_whose_addresses_follow() {
        let frames = |callchain: &[u64], address| {
            let sample = Sample { id: 0, address: Address(address), pid: 1, tid: 1, callchain, stack: None };
            super::frames(&sample)
                .map(|(Address(address), in_kernel)| (address, in_kernel))
                .collect::<Vec<_>>()
        };
        const IN_KERNEL: u64 = 0xffff_ffff_8100_0010;
        assert_eq!(
            frames(&[Sample::KERNEL, 0xffff_0010, 0xffff_0020, Sample::USER, 0x1010, 0x1020], 0xffff_0010),
            [(0xffff_0010, true), (0xffff_001f, true), (0x1010, false), (0x101f, false)]
        );
        assert_eq!(frames(&[], 0x1010), [(0x1010, false)]);
        assert_eq!(frames(&[], IN_KERNEL), [(IN_KERNEL, true)]);
        assert_eq!(frames(&[Sample::USER], 0x1010), [(0x1010, false)]);
        const GUEST: u64 = -2048_i64 as u64;
        assert_eq!(frames(&[Sample::USER, 0x1010, GUEST, 0x2020], 0x1010), [(0x1010, false)]);
        assert_eq!(frames(&vec![1; 5000], 1).len(), DEEPEST);
    }
}
