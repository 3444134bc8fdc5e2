//! The records of all CPUs, in the order of their times.
//!
//! What a process maps is written by the CPU it runs on; the sample that needs it may be on another one. So no record is
//! taken before all that are older, wherever they are.

use kernel::stream::{Cpu, Record};
use wire::Nanos;

/// Room that is given back to the kernel at a time, in bytes.
const RELEASE: u64 = 1 << 15;

/// Calls `take` with the number of the CPU (in `cpus`), the time and the record, for all that are not younger than
/// `until` says for their CPU.
pub fn drain(cpus: &mut [Cpu], until: &[Nanos], mut take: impl FnMut(usize, Nanos, Record<'_>)) {
    for cpu in &mut *cpus {
        cpu.ring().refresh();
    }
    while let Some((cpu, limit)) = next(cpus, until) {
        let ring = cpus[cpu].ring();
        let mut left = ring.backlog();
        while let Some(time) = ring.time().filter(|time| *time <= limit) {
            if let Some(record) = ring.record() {
                take(cpu, time, record);
            }
            ring.next();
            if left - ring.backlog() >= RELEASE {
                ring.release();
                left = ring.backlog();
            }
        }
        ring.release();
    }
}

/// The CPU with the oldest record, and up to which time its records come before all others.
fn next(cpus: &mut [Cpu], until: &[Nanos]) -> Option<(usize, Nanos)> {
    let (mut oldest, mut second) = (None::<(Nanos, usize)>, Nanos(u64::MAX));
    for (number, cpu) in cpus.iter_mut().enumerate() {
        let Some(time) = cpu.ring().time().filter(|time| *time <= until[number]) else { continue };
        match oldest {
            Some((before, _)) if before <= time => second = second.min(time),
            _ => {
                second = oldest.map_or(second, |(before, _)| second.min(before));
                oldest = Some((time, number));
            }
        }
    }
    oldest.map(|(_, number)| (number, second.min(until[number])))
}
