//! What it takes to switch from one thread to another.

use crate::clock::process_cpu_time;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{Read as _, Write as _};
use wire::Nanos;

/// Measurements, of which the shortest counts: whatever else happens makes them longer.
const ROUNDS: usize = 9;

/// The CPU time of a switch between two threads of this process that wake each other, on one CPU, with all that is done meanwhile. Other threads must
/// not run. They take turns so often in each measurement, and `prepare` is called before it. `None` where threads cannot be started or held on one CPU.
#[must_use]
pub fn cost_of_a_switch(turns: usize, mut prepare: impl FnMut()) -> Option<Nanos> {
    let all = sched_getaffinity(None).ok()?;
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu))?;
    let mut one = CpuSet::new();
    one.set(first);
    // What this thread starts is held there as well.
    sched_setaffinity(None, &one).ok()?;
    let costs: Option<Vec<u64>> = (0..ROUNDS)
        .map(|_| {
            prepare();
            take_turns(turns)
        })
        .collect();
    let _ = sched_setaffinity(None, &all);
    costs?.into_iter().min().map(Nanos)
}

fn take_turns(turns: usize) -> Option<u64> {
    let ((mut ours, mut theirs), (mut back, mut forth)) = (std::io::pipe().ok()?, std::io::pipe().ok()?);
    std::thread::scope(|scope| {
        let answer = std::thread::Builder::new().spawn_scoped(scope, move || {
            let mut byte = [0];
            while back.read(&mut byte).is_ok_and(|length| length == 1) && theirs.write_all(&byte).is_ok() {}
        });
        answer.ok()?;
        let before = process_cpu_time();
        let mut byte = [0];
        for _ in 0..turns {
            forth.write_all(&byte).ok()?;
            ours.read_exact(&mut byte).ok()?;
        }
        let passed = process_cpu_time().saturating_sub(before);
        drop(forth);
        Some(passed.0 / (2 * turns.max(1) as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_takes_some_time_and_threads_may_run_everywhere_afterwards() {
        let before = sched_getaffinity(None).unwrap();
        let Some(cost) = cost_of_a_switch(1000, || ()) else {
            return eprintln!("skipped: no CPU can be chosen here");
        };
        assert_ne!(cost, Nanos::ZERO);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
