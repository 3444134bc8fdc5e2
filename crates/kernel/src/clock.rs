//! The monotonic clock, which both processes share.

use rustix::io::Errno;
use rustix::thread::{
    ClockId as Sleeper, clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack,
};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wire::Nanos;

/// Now, on `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Now, on `CLOCK_BOOTTIME`: as the monotonic clock, but it goes on while the machine is suspended.
#[must_use]
pub fn since_boot() -> Nanos {
    nanos(clock_gettime(ClockId::Boottime))
}

/// The processor's clock, in ticks, and the monotonic one at the same moment: the two readings of several that are closest to each other.
#[must_use]
pub fn with_ticks() -> (u64, Nanos) {
    // SAFETY: every x86-64 processor has it.
    let ticks = || unsafe { core::arch::x86_64::_rdtsc() };
    let readings = (0..8).map(|_| {
        let (before, time, after) = (ticks(), monotonic(), ticks());
        let took = after.wrapping_sub(before);
        (took, before.wrapping_add(took / 2), time)
    });
    let (_, ticks, time) = readings.min_by_key(|(took, ..)| *took).expect("there are eight");
    (ticks, time)
}

/// CPU time of the calling thread, for measuring what the controller itself costs.
#[must_use]
pub fn thread_cpu_time() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of this process, all threads together.
#[must_use]
pub fn process_cpu_time() -> Nanos {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// Sleeps until `deadline`. Signals do not cut it short.
pub fn sleep_until(deadline: Nanos) {
    while sleep_once(deadline) == Err(Errno::INTR) {}
}

/// Sleeps until `deadline`, or until a signal arrives *in this thread* with `stop` set. Returns whether
/// the deadline was reached.
pub fn sleep_until_stopped(deadline: Nanos, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Acquire) {
        if sleep_once(deadline) != Err(Errno::INTR) {
            return true;
        }
    }
    false
}

/// Lets the timers of the calling thread, and of the threads it creates from now on, fire within a
/// nanosecond of their time; the kernel's default is 50 µs late. Programs started by
/// [`child::spawn`](crate::child::spawn) are not affected.
pub fn sleep_precisely() {
    if let Ok(slack) = current_timer_slack() {
        // Only the first one is what we were started with.
        let _ = INHERITED_SLACK.compare_exchange(0, slack, Ordering::Relaxed, Ordering::Relaxed);
    }
    // Real-time threads have no slack and refuse to be given any; nothing is lost.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// The slack in nanoseconds that this process was started with; zero as long as it has not been changed.
static INHERITED_SLACK: AtomicU64 = AtomicU64::new(0);

/// A forked child inherits its creator's slack, and would sleep differently because of us. Called between
/// `fork` and `exec`: makes a system call and nothing else.
pub(crate) fn restore_inherited_slack() {
    if let Some(slack) = NonZeroU64::new(INHERITED_SLACK.load(Ordering::Relaxed)) {
        let _ = set_current_timer_slack(Some(slack));
    }
}

fn sleep_once(deadline: Nanos) -> Result<(), Errno> {
    let deadline =
        Timespec { tv_sec: (deadline.0 / 1_000_000_000) as i64, tv_nsec: (deadline.0 % 1_000_000_000) as _ };
    clock_nanosleep_absolute(Sleeper::Monotonic, &deadline)
}

fn nanos(time: Timespec) -> Nanos {
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_at_least_until_the_deadline() {
        sleep_precisely();
        let deadline = monotonic() + Nanos(3_000_000);
        sleep_until(deadline);
        assert!(monotonic() >= deadline);
        sleep_until(Nanos::ZERO);
    }

    #[test]
    fn does_not_begin_to_sleep_when_stopped() {
        let far = monotonic() + Nanos(3_600_000_000_000);
        assert!(!sleep_until_stopped(far, &AtomicBool::new(true)));
        assert!(sleep_until_stopped(monotonic(), &AtomicBool::new(false)));
    }

    #[test]
    fn a_thread_that_sleeps_leaves_its_cpu() {
        let left = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let left = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            left.trim().parse::<u64>().unwrap()
        };
        let before = left();
        // A thread that waits for a CPU until then need not sleep.
        crate::until::until(|| {
            sleep_until(monotonic() + Nanos(20_000_000));
            left() > before
        });
    }
}
