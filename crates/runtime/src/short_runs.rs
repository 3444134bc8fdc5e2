//! Which threads a timer samples: those that get and lose their CPU very often.
//!
//! An event sets a timer of the kernel's each time the thread gets its CPU, and takes it back when the thread loses it. On a virtual machine both are exits to the
//! hypervisor, 10 µs and more where one runs inside another. A server whose threads run for 10 µs at a time loses more than half of its speed to that. A timer of CPU time
//! is looked at with the kernel's tick and costs nothing in between. It is as coarse as that tick, but what such threads do between two calls is credited by what
//! samples have taught, not by samples ([`stretch`](crate::stretch)).
//!
//! Decides; the change itself is in [`sampler`](crate::sampler).

use crate::memory::shared;
use crate::{cpus, sampler};
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::slot::Slot;

/// Samples between two looks at how long a thread runs at a time.
const SAMPLES: u64 = 16;
/// Samples by its event come again when the thread runs so many times as long as is short.
const LONG: u64 = 4;

/// CPU time without a sample after which a timer has missed the thread: it runs in step with the kernel's tick, so that no tick ever finds it.
const MISSED: Nanos = Nanos(50_000_000);

/// How long a thread runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Short,
    Long,
    /// Neither: what was chosen stays.
    Between,
}

/// Looks now and then, behind a sample that stands for the CPU time `since` the one before. `spins`: whether it found the thread waiting by spinning, whose waits are known by
/// samples alone. Called from the signal handler.
pub fn look(slot: &Slot, (cpu, since): (Nanos, Nanos), spins: bool) {
    let short = Nanos(shared().header.short_run.load(Relaxed));
    if short == Nanos::ZERO || !sampler::may_choose(slot) {
        return;
    }
    if spins {
        slot.spun.store(1, Relaxed);
    }
    let by_timer = sampler::has_both(slot);
    if by_timer && since >= MISSED {
        slot.missed.store(1, Relaxed);
    }
    let is_due = slot.books.samples.load(Relaxed).is_multiple_of(SAMPLES);
    let run = match (by_timer, is_due) {
        (true, _) if spins || slot.missed.load(Relaxed) != 0 => Run::Long,
        (_, true) => latest(slot, cpu, short),
        _ => Run::Between,
    };
    if run != Run::Between {
        sampler::choose(slot, run == Run::Short);
    }
}

/// How long the thread has run at a time since the last look.
fn latest(slot: &Slot, cpu: Nanos, short: Nanos) -> Run {
    let Some(times) = cpus::times_run() else { return Run::Between };
    let before = slot.times_run.swap(times, Relaxed);
    let since = cpu.0.checked_sub(slot.looked_at.swap(cpu.0, Relaxed));
    let must = slot.spun.swap(0, Relaxed) != 0 || slot.missed.load(Relaxed) != 0;
    match since {
        _ if must => Run::Long,
        Some(since) if before != 0 => judge(Nanos(since), times.saturating_sub(before), short),
        _ => Run::Between,
    }
}

/// `times`: how often the thread got a CPU while it used so much CPU time.
fn judge(cpu: Nanos, times: u64, short: Nanos) -> Run {
    match cpu.0 / times.max(1) {
        mean if mean < short.0 => Run::Short,
        mean if mean > LONG * short.0 => Run::Long,
        _ => Run::Between,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_often_switched_has_short_runs() {
        let (short, cpu) = (Nanos(250_000), Nanos(16_000_000));
        let judged = [0, 1, 15, 16, 40, 64, 65, 1600].map(|times| judge(cpu, times, short));
        use Run::{Between, Long, Short};
        assert_eq!(judged, [Long, Long, Long, Between, Between, Between, Short, Short]);
    }
}
