//! Are the CPUs short? Rules 7 and 8 depend on it.
//!
//! Threads of the *program* that wait for one another's CPUs would wait less if what runs there were faster: such
//! waits are credited. Others' programs make CPUs slower: a thread that waits for one of theirs takes longer for
//! what it does, so its samples stand for the wait as well, and it would take proportionally less if it had less
//! to do. In both cases a pausing thread keeps its CPU: otherwise the rest of the program would have more of the
//! machine than it would have had.

use crate::memory::shared;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::layout::THREAD;

/// Slots that are looked at; where there are more, the controller counts.
const LOOKED_AT: usize = 64;

/// Once, when the runtime attaches.
pub fn prepare() {
    shared().header.cpus.store(sys::usable_cpus(), Relaxed);
}

/// Whether more threads of the program can run than there are CPUs for them.
pub fn are_short() -> bool {
    able_to_run() > shared().header.cpus.load(Relaxed)
}

/// Threads of the program that can run.
fn able_to_run() -> u32 {
    let slots = shared().slots.used();
    if slots.len() > LOOKED_AT {
        return shared().header.running.load(Relaxed);
    }
    let now = sys::now();
    slots.iter().filter(|slot| slot.can_run(now)).count() as u32
}

/// Whether there are more threads than CPUs at all.
pub fn may_become_short() -> bool {
    if are_shared() {
        return true;
    }
    let cpus = shared().header.cpus.load(Relaxed);
    let slots = shared().slots.used();
    slots.len() > cpus as usize && slots.iter().filter(|slot| slot.is_taken()).nth(cpus as usize).is_some()
}

/// Strangers that matter.
const SOME: u32 = THREAD / 4;

/// Threads of others that want a CPU, in parts of [`THREAD`]. It is unknown for which CPUs they wait when the
/// program may not use all of them.
fn strangers() -> u32 {
    let header = &shared().header;
    let all = header.cpus.load(Relaxed) == header.machine_cpus.load(Relaxed);
    if all { header.strangers.load(Relaxed) } else { 0 }
}

/// Whether others want the CPUs that the program would use.
pub fn are_shared() -> bool {
    strangers() >= SOME
}

/// Whether a thread waits for the CPU that a pausing thread would give up. The kernel knows how many threads of the
/// whole machine can run (`/proc/loadavg`, 3 µs). Our own count stands in where that cannot be read, or does not
/// concern the CPUs that the program may use; it misses threads that have been woken and have no CPU yet.
pub fn are_wanted() -> bool {
    let header = &shared().header;
    let machine = header.machine_cpus.load(Relaxed);
    let all = if header.cpus.load(Relaxed) == machine { runnable() } else { None };
    may_become_short() && all.map_or_else(|| are_short() || are_shared(), |all| all > machine)
}

/// Who had the CPUs that a thread waited for, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Other threads of the program.
    pub for_program: Nanos,
    /// Other programs.
    pub for_strangers: Nanos,
}

/// Divides a wait for a CPU.
pub fn whose(wait: Nanos) -> Queued {
    let cpus = u64::from(shared().header.cpus.load(Relaxed));
    divide(wait, u64::from(able_to_run()), cpus, u64::from(strangers()))
}

/// `strangers` in parts of [`THREAD`].
fn divide(wait: Nanos, threads: u64, cpus: u64, strangers: u64) -> Queued {
    const ONE: u64 = THREAD as u64;
    let wanting = threads * ONE + strangers;
    let part = if threads > cpus {
        // On CPUs that are slower by (n + h) / n, n threads would take turns as they do.
        (ONE * strangers * cpus).checked_div(threads * wanting.saturating_sub(cpus * ONE))
    } else {
        (wanting > cpus * ONE && strangers >= u64::from(SOME)).then_some(ONE)
    };
    let part = part.unwrap_or(0).min(ONE);
    let for_strangers = wait.part(Nanos(part), Nanos(ONE));
    // A thread that lost its CPU lost it to another one, even if no more threads than CPUs could run when we counted.
    Queued { for_program: wait.saturating_sub(for_strangers), for_strangers }
}

/// How long the calling thread has waited for CPUs so far, those waits included that came after it was woken: the kernel counts
/// them (`/proc/thread-self/schedstat`, 2 µs). `None` where that cannot be read.
pub fn waited() -> Option<Nanos> {
    scheduled(1).map(Nanos)
}

/// How often the calling thread has got a CPU so far, by the same file.
pub fn times_run() -> Option<u64> {
    scheduled(2)
}

/// A number of that file, by its place.
fn scheduled(place: usize) -> Option<u64> {
    let mut buffer = [0_u8; 64];
    number(sys::read_file(c"/proc/thread-self/schedstat", &mut buffer), place)
}

/// The number in a line of numbers, by its place.
fn number(line: &[u8], place: usize) -> Option<u64> {
    let field = line.split(|byte| *byte == b' ').nth(place)?;
    core::str::from_utf8(field).ok()?.trim_ascii().parse().ok()
}

/// Threads of the whole machine that run or wait for a CPU.
fn runnable() -> Option<u32> {
    let mut buffer = [0_u8; 128];
    parse(sys::read_file(c"/proc/loadavg", &mut buffer))
}

/// From a line such as `0.20 0.18 0.12 1/80 11206`.
fn parse(line: &[u8]) -> Option<u32> {
    let field = line.split(|byte| *byte == b' ').nth(3)?;
    let digits = field.split(|byte| *byte == b'/').next()?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_divided_as_on_slower_cpus() {
        let wait = Nanos(1 << 20);
        let strangers = |threads, cpus, count: u64| {
            let Queued { for_program, for_strangers } =
                divide(wait, threads, cpus, count * u64::from(THREAD));
            (for_program.0 * 4 / wait.0, for_strangers.0 * 4 / wait.0)
        };
        assert_eq!(strangers(4, 2, 0), (4, 0));
        // Six on two CPUs wait twice as long as they run; one and a half times slower CPUs are a quarter of that.
        assert_eq!(strangers(4, 2, 2), (3, 1));
        assert_eq!(strangers(2, 2, 2), (0, 4));
        assert_eq!(
            strangers(1, 2, 1),
            (4, 0),
            "there is a CPU for each of them now, so it was a thread that has ended"
        );
    }

    #[test]
    fn waits_for_cpus_are_the_second_number() {
        assert_eq!(number(b"461053 45053 1\n", 1), Some(45053));
        assert_eq!(number(b"461053 45053 17\n", 2), Some(17));
        assert_eq!(number(b"461053", 1), None);
        assert_eq!(number(b"", 1), None);
    }

    #[test]
    fn the_fourth_field_is_read() {
        assert_eq!(parse(b"0.20 0.18 0.12 13/80 11206\n"), Some(13));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"0.20 0.18 0.12 x/80 1\n"), None);
    }
}
