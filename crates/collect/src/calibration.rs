//! What it costs the kernel to take a sample on this machine: measured on ourselves, because the kernel does not account for it.
//!
//! Measured at the start, and again while the collector runs: a machine that is busy at the start, or whose CPUs run slower later, would
//! otherwise have a wrong estimate for ever. The estimate is the median of the last rounds, which one odd round does not move.

use kernel::clock::monotonic;
use kernel::stack_copies::StackCopies;
use kernel::stream::{Cpu, Record, Scope, Setup, Source};
use std::collections::VecDeque;
use wire::Nanos;

/// How long one measurement takes.
const LENGTH: Nanos = Nanos(12_000_000);
/// The period at which samples are taken during a measurement.
const PERIOD: Nanos = Nanos(150_000);
/// A pause between two looks at the clock that is longer than this is an interruption.
const PAUSE: u64 = 1_500;
/// Rounds at the start.
const ROUNDS: usize = 5;
/// Rounds that count, the last ones.
const KEPT: usize = 7;
/// Time between two rounds: soon after the start more often, so that rounds of a busy start are outvoted within two minutes. Later a
/// round, of twice [`LENGTH`], costs less than a ten-thousandth of a CPU.
const SOON: [Nanos; 4] =
    [Nanos(10_000_000_000), Nanos(20_000_000_000), Nanos(30_000_000_000), Nanos(60_000_000_000)];
const LATER: Nanos = Nanos(300_000_000_000);

/// See the module.
#[derive(Debug)]
pub struct Calibration {
    source: Source,
    setup: Setup,
    /// Whether samples have copies of stacks; those, once they were loaded.
    with_copies: bool,
    copies: Option<StackCopies>,
    rounds: Rounds,
    next: Nanos,
    /// Rounds since the start.
    again: usize,
}

impl Calibration {
    /// Measures the time from an interruption until the program goes on, with a copy of the stack if `with_copies`.
    pub fn start(source: Source, setup: Setup, with_copies: bool) -> Self {
        let (rounds, copies, next) = (Rounds::default(), None, Nanos::ZERO);
        let mut calibration = Self { source, setup, with_copies, copies, rounds, next, again: 0 };
        calibration.measure(ROUNDS);
        calibration.next = monotonic() + SOON[0];
        calibration
    }

    /// The estimate; nothing where it cannot be measured.
    pub fn cost(&self) -> Option<Nanos> {
        self.rounds.median().map(|cost| Nanos(cost.clamp(100.0, 200_000.0) as u64))
    }

    /// Measures another round, if it is time to. A machine that did not allow it at the start is not asked again.
    pub fn again_if_due(&mut self, now: Nanos) {
        if now < self.next || self.rounds.0.is_empty() {
            return;
        }
        self.measure(1);
        self.again += 1;
        self.next = monotonic() + SOON.get(self.again).copied().unwrap_or(LATER);
    }

    fn measure(&mut self, rounds: usize) {
        let Some(mut cpus) = self.open() else { return };
        if self.with_copies && self.copies.is_none() {
            self.copies = StackCopies::to_measure(&cpus).ok();
        }
        if let Some(copies) = &mut self.copies {
            let _ = copies.attach(&mut cpus);
        }
        for cost in (0..rounds).filter_map(|_| measure(&mut cpus)) {
            self.rounds.add(cost);
        }
        if let Some(copies) = &mut self.copies {
            copies.detach();
        }
    }

    /// Events of this thread alone.
    fn open(&self) -> Option<Vec<Cpu>> {
        let scope = Scope::Threads(vec![kernel::stream::own_thread()]);
        let ring_bytes = if self.with_copies || self.setup.copies { 1 << 20 } else { 1 << 16 };
        let setup = Setup { ring_bytes, ..self.setup };
        let mut cpus = Vec::new();
        for number in kernel::cpu::numbers() {
            let mut cpu = Cpu::open(number, &scope, setup).ok()?;
            cpu.add(self.source, PERIOD.0, &scope).ok()?;
            cpus.push(cpu);
        }
        Some(cpus)
    }
}

/// The last rounds, in nanoseconds a sample.
#[derive(Debug, Default)]
struct Rounds(VecDeque<f64>);

impl Rounds {
    fn add(&mut self, cost: f64) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(cost);
    }

    fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}
/// What a sample takes, in a round.
fn measure(cpus: &mut [Cpu]) -> Option<f64> {
    let mut switch = |on: bool| cpus.iter_mut().for_each(|cpu| cpu.enable(0, on));
    switch(false);
    let without = pauses();
    switch(true);
    let with = pauses();
    switch(false);
    let mut samples = 0_u32;
    for cpu in cpus {
        let ring = cpu.ring();
        ring.refresh();
        while let Some(record) = ring.record() {
            samples += u32::from(matches!(record, Record::Sample(_)));
            ring.next();
        }
        ring.release();
    }
    cost(with, &without, samples)
}

/// Most pauses with samples are samples: the median of them is what one takes, whatever else the machine does meanwhile. If there are
/// less pauses than samples, those are too short to be seen one by one, and the sums are compared.
fn cost(mut with: Vec<u64>, without: &[u64], samples: u32) -> Option<f64> {
    if samples <= 20 {
        return None;
    }
    if with.len() >= samples as usize / 2 {
        with.sort_unstable();
        return Some(with[with.len() / 2] as f64);
    }
    let sum = |pauses: &[u64]| pauses.iter().sum::<u64>() as f64;
    Some(((sum(&with) - sum(without)) / f64::from(samples)).max(0.0))
}

/// The times within [`LENGTH`] in which we did not run, in nanoseconds.
fn pauses() -> Vec<u64> {
    let begin = monotonic();
    let mut last = begin;
    let mut pauses = Vec::with_capacity(1024);
    while last.saturating_sub(begin) < LENGTH {
        let now = monotonic();
        let gap = now.saturating_sub(last).0;
        // Longer: another program had the CPU.
        if (PAUSE..500_000).contains(&gap) {
            pauses.push(gap);
        }
        last = now;
    }
    pauses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_the_machine_does_is_no_cost_of_samples() {
        let samples = |count: usize| (0..count as u64).map(|nth| 15_000 + nth % 100).collect::<Vec<_>>();
        let ticks = [4000, 4100, 300_000, 250_000, 90_000].to_vec();
        let near = |found: Option<f64>| found.is_some_and(|found| (found - 15_050.0).abs() < 100.0);
        assert!(near(cost(samples(80), &[], 80)));
        assert!(near(cost([samples(80), ticks.clone()].concat(), &[], 80)));
        // More besides while there are no samples than while there are some.
        assert!(near(cost(samples(80), &[490_000; 8], 80)));
        assert_eq!(cost(samples(20), &[], 20), None, "too few");
        // Each too short to be seen.
        assert_eq!(cost(vec![4000, 84_000], &[4000], 80), Some(1050.0));
        assert_eq!(cost(vec![4000], &ticks, 80), Some(0.0));
    }

    #[test]
    fn a_busy_start_is_outvoted_soon() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.median(), None);
        (0..ROUNDS).for_each(|_| rounds.add(90_000.0));
        assert_eq!(rounds.median(), Some(90_000.0));
        // As many as there are in the first two minutes.
        SOON.iter().for_each(|_| rounds.add(15_000.0));
        assert_eq!(rounds.median(), Some(15_000.0));
        assert!(SOON.iter().map(|pause| pause.0).sum::<u64>() <= 120_000_000_000);
        // And one odd round changes nothing.
        rounds.add(200_000.0);
        assert_eq!(rounds.median(), Some(15_000.0));
        (0..100).for_each(|_| rounds.add(20_000.0));
        assert_eq!((rounds.median(), rounds.0.len()), (Some(20_000.0), KEPT));
    }
}
