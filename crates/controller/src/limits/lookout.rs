//! Lookout: looks at the program and its machine while experiments are made, and has these end when a guard holds.

use super::guard::{Judge, Past, Reading, Spot};
use super::{Limits, Why};
use crate::now::monotonic;
use crate::points::Points;
use kernel::cpu::CpuUse;
use profile::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::SharedMemory;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// The kernel counts CPU time in ticks of 10 ms.
const LOOK_AT_CPUS: Nanos = Nanos::from_millis(100);

/// So long a point may take to be there.
const PATIENCE: Nanos = Nanos::from_millis(2_000);
/// As many points are named.
const NAMED: usize = 5;

/// Looks until a guard holds or `stop` says that experiments are over.
pub fn look_out(limits: &Limits, points: &Points, memory: &SharedMemory, stop: &AtomicBool) {
    if limits.guards.is_empty() {
        return limits.halt.make_ready();
    }
    kernel::clock::sleep_precisely();
    let mut judges: Vec<Judge> = limits.guards.iter().cloned().map(Judge::new).collect();
    let longest = limits.guards.iter().map(super::Guard::longest).max().unwrap_or(Nanos::ZERO);
    let about_cpus = limits.guards.iter().any(super::Guard::is_about_cpus);
    let begin = monotonic();
    let mut looked = None;
    let mut cpu = None;
    let mut past = Past::default();
    while !stop.load(Ordering::Relaxed) && !limits.halt.is_asked() {
        let time = monotonic();
        if about_cpus && looked.is_none_or(|before| time.saturating_sub(before) >= LOOK_AT_CPUS) {
            looked = Some(time);
            cpu = CpuUse::of_machine().ok().map(|machine| (machine.busy.0, machine.passed.0));
        }
        let counts = points.counts();
        let reading = Reading {
            time,
            required: Nanos::new(memory.required.load().delay().0) + limits.delayed(),
            visits: counts.visits,
            paired: counts.paired.iter().map(|paired| (paired.count, paired.time)).collect(),
            cpu,
        };
        past.add(reading, longest);
        let spots: Vec<Spot> =
            points.list().into_iter().map(|point| Spot { name: point.name, kind: point.kind }).collect();
        for judge in &mut judges {
            if let Some(seen) = judge.look(&past, &spots) {
                limits.halt.ask(Why::Breach { guard: judge.guard().text.clone(), seen, at: monotonic() });
                return;
            }
        }
        if time.saturating_sub(begin) > PATIENCE
            && let Some(judge) = judges.iter().find(|judge| !judge.has_point(&spots))
        {
            let names: Vec<String> = spots.iter().map(|spot| spot.name.clone()).collect();
            let there = crate::failure::list(&names, NAMED);
            let guard = &judge.guard().text;
            return limits.halt.ask(Why::Ordered(format!(
                "--guard '{guard}' is about a progress point that is not there; there are: {there}"
            )));
        }
        if judges.iter().all(Judge::is_ready) {
            limits.halt.make_ready();
        }
        std::thread::park_timeout(LOOK);
    }
}
