//! Callchains as the kernel writes them (perf_event.h).

/// Stacks are not deeper, whatever a file says.
const DEEPEST: usize = 1024;
/// Values from here on are no addresses but say whose addresses follow.
const CONTEXT: u64 = -4095_i64 as u64;
const OF_THE_KERNEL: u64 = -128_i64 as u64;
const OF_THE_USER: u64 = -512_i64 as u64;

/// The frames of a callchain, innermost first, and whether each is in the kernel. Return addresses become those of the call.
pub fn frames(chain: &[u64], ip: u64, is_kernel: bool) -> Vec<(u64, bool)> {
    let mut frames = Vec::new();
    let mut in_kernel = is_kernel;
    for value in chain {
        match *value {
            OF_THE_KERNEL => in_kernel = true,
            OF_THE_USER => in_kernel = false,
            CONTEXT.. => break, // hypervisors and guests
            address if frames.is_empty() => frames.push((address, in_kernel)),
            address if frames.len() < DEEPEST => frames.push((address.saturating_sub(1), in_kernel)),
            _ => break,
        }
    }
    if frames.is_empty() {
        frames.push((ip, is_kernel));
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callchains_say_whose_addresses_follow() {
        assert_eq!(
            frames(
                &[OF_THE_KERNEL, 0xffff_0010, 0xffff_0020, OF_THE_USER, 0x1010, 0x1020],
                0xffff_0010,
                true
            ),
            [(0xffff_0010, true), (0xffff_001f, true), (0x100f, false), (0x101f, false)]
        );
        assert_eq!(frames(&[], 0x1010, false), [(0x1010, false)]);
        assert_eq!(frames(&[OF_THE_USER], 0x1010, false), [(0x1010, false)]);
        assert_eq!(frames(&vec![1; 5000], 1, false).len(), DEEPEST);
    }
}
