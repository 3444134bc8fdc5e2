//! What it costs the kernel to take a sample on this machine: measured on ourselves, because the kernel does not account for it.

use kernel::clock::monotonic;
use kernel::stack_copies::StackCopies;
use kernel::stream::{Cpu, Record, Scope, Setup, Source};
use wire::Nanos;

/// How long one measurement takes.
const LENGTH: Nanos = Nanos(12_000_000);
/// The period at which samples are taken during a measurement.
const PERIOD: Nanos = Nanos(150_000);
/// A pause between two looks at the clock that is longer than this is an interruption.
const PAUSE: u64 = 1_500;
const ROUNDS: usize = 5;

/// The time from the interruption until the program goes on, with a copy of the stack if there are `copies`; nothing where it cannot be
/// measured.
pub fn cost_of_a_sample(source: Source, setup: Setup, copies: bool) -> Option<Nanos> {
    let scope = Scope::Threads(vec![kernel::stream::own_thread()]);
    let setup = Setup { ring_bytes: if copies || setup.copies { 1 << 20 } else { 1 << 16 }, ..setup };
    let mut cpus = Vec::new();
    for number in kernel::cpu::numbers() {
        let mut cpu = Cpu::open(number, &scope, setup).ok()?;
        cpu.add(source, PERIOD.0, &scope).ok()?;
        cpus.push(cpu);
    }
    let _copies = copies.then(|| StackCopies::start(&mut cpus).ok()).flatten();
    let mut costs: Vec<f64> = (0..ROUNDS).filter_map(|_| measure(&mut cpus)).collect();
    costs.sort_by(f64::total_cmp);
    let median = costs.get(costs.len() / 2)?;
    Some(Nanos(median.clamp(100.0, 200_000.0) as u64))
}

/// Interruptions with samples, less those without, by sample.
fn measure(cpus: &mut [Cpu]) -> Option<f64> {
    let mut switch = |on: bool| cpus.iter_mut().for_each(|cpu| cpu.enable(0, on));
    switch(false);
    let without = interrupted();
    switch(true);
    let with = interrupted();
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
    (samples > 20).then(|| (with.0 as f64 - without.0 as f64) / f64::from(samples))
}

/// The time in [`LENGTH`] in which we did not run.
fn interrupted() -> Nanos {
    let begin = monotonic();
    let (mut last, mut sum) = (begin, 0);
    while last.saturating_sub(begin) < LENGTH {
        let now = monotonic();
        let gap = now.saturating_sub(last).0;
        // Longer: another program had the CPU.
        sum += if (PAUSE..500_000).contains(&gap) { gap } else { 0 };
        last = now;
    }
    Nanos(sum)
}
