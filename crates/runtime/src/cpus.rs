//! Are the CPUs short? Rules 7 and 8 depend on it.
//!
//! What counts is whether threads of the *program* wait for one another's CPUs. A CPU that another program
//! has taken is the world's (rule 6): waiting for it excuses nothing, and giving it a CPU delays nobody.

use crate::attach::shared;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// Slots that are looked at; where there are more, the controller counts.
const LOOKED_AT: usize = 64;

/// Once, when the runtime attaches.
pub fn prepare() {
    shared().header.cpus.store(sys::usable_cpus(), Relaxed);
}

/// Whether more threads of the program can run than there are CPUs for them.
pub fn are_short() -> bool {
    let header = &shared().header;
    let cpus = header.cpus.load(Relaxed);
    let slots = shared().slots.used();
    if slots.len() > LOOKED_AT {
        return header.running.load(Relaxed) > cpus;
    }
    let now = sys::now();
    slots.iter().filter(|slot| slot.can_run(now)).nth(cpus as usize).is_some()
}

/// Whether there are more threads than CPUs at all.
pub fn may_become_short() -> bool {
    let cpus = shared().header.cpus.load(Relaxed);
    let slots = shared().slots.used();
    slots.len() > cpus as usize && slots.iter().filter(|slot| slot.is_taken()).nth(cpus as usize).is_some()
}

/// Whether a thread of the program waits for the CPU that a pausing one would give up: by our count and by
/// that of the kernel, which knows how many threads of the whole machine can run (`/proc/loadavg`, 3 µs).
pub fn are_wanted() -> bool {
    let machine = shared().header.machine_cpus.load(Relaxed);
    are_short()
        && (shared().header.cpus.load(Relaxed) < machine || runnable().is_none_or(|all| all > machine))
}

/// Threads that run or wait for a CPU, from a line such as `0.20 0.18 0.12 1/80 11206`.
fn runnable() -> Option<u32> {
    let mut buffer = [0_u8; 128];
    parse(sys::read_file(c"/proc/loadavg", &mut buffer))
}

fn parse(line: &[u8]) -> Option<u32> {
    let field = line.split(|byte| *byte == b' ').nth(3)?;
    let digits = field.split(|byte| *byte == b'/').next()?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_field_is_read() {
        assert_eq!(parse(b"0.20 0.18 0.12 13/80 11206\n"), Some(13));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"0.20 0.18 0.12 x/80 1\n"), None);
    }
}
