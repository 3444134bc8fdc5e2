//! Reading the records of all CPUs: they are followed, and books are kept of the samples among them.

use crate::follower::{Follower, Taken};
use crate::limits::Limits;
use crate::meter::{Meter, Tally};
use crate::off_cpu::OffCpu;
use kernel::clock::thread_cpu_time;
use kernel::stream::{Record, Sample};
use std::collections::HashMap;
use wire::Nanos;

/// Everything that runs is looked at again after records were lost; then not before this many times as long has passed as that took, nor before the
/// shorter of these times, and in any case after the longer one.
const REST: u64 = 250;
const RESCAN: (Nanos, Nanos) = (Nanos(1_000_000_000), Nanos(10_000_000_000));

/// See the module.
#[derive(Debug)]
pub struct Reader {
    pub follower: Follower,
    /// By CPU and source.
    pub meters: Vec<Vec<Meter>>,
    /// By source: whether it is a clock, which goes on while nothing runs.
    pub clocks: Vec<bool>,
    /// Which source the kernel means by its number.
    pub ids: HashMap<u64, u32>,
    /// Samples so far.
    pub taken: u64,
    /// Where threads wait, if that is collected.
    pub off_cpu: Option<OffCpu>,
    /// Everything that runs has to be looked at again.
    confused: bool,
    next_scan: Nanos,
}

impl Reader {
    /// For this many CPUs; `clocks` tells for each source whether it goes on while nothing runs, `follows_programs` whether the kernel
    /// reports the code it generates.
    pub fn new(cpus: usize, clocks: Vec<bool>, follows_programs: bool, limits: Limits, now: Nanos) -> Self {
        Self {
            follower: Follower::new(cpus, follows_programs, limits),
            meters: (0..cpus).map(|_| clocks.iter().map(|_| Meter::default()).collect()).collect(),
            clocks,
            ids: HashMap::new(),
            taken: 0,
            off_cpu: None,
            confused: false,
            next_scan: now,
        }
    }

    /// Looks at everything that runs, if records were lost and it is not too soon.
    pub fn scan_if_confused(&mut self, now: Nanos) {
        if self.confused && now >= self.next_scan {
            self.confused = false;
            let before = thread_cpu_time();
            self.follower.scan();
            let took = thread_cpu_time().saturating_sub(before);
            self.next_scan = now + Nanos((REST * took.0).clamp(RESCAN.0.0, RESCAN.1.0));
        }
    }

    /// All records of a CPU are taken up to `until`.
    pub fn has_read(&mut self, cpu: usize, until: Nanos) {
        for event in 0..self.meters[cpu].len() {
            self.reached(cpu, event, Nanos(until.0 + 1));
        }
    }

    /// What became of the samples of each source since the last call, and then of time off the CPU.
    pub fn books(&mut self) -> Vec<Tally> {
        let mut books = vec![Tally::default(); self.clocks.len()];
        for meters in &mut self.meters {
            meters.iter_mut().zip(&mut books).for_each(|(meter, books)| books.add(meter.take()));
        }
        books.extend(self.off_cpu.as_mut().map(OffCpu::books));
        books
    }

    /// A record of a CPU.
    pub fn take(&mut self, cpu: usize, time: Nanos, record: Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(cpu, time, &sample),
            Record::Stack { pid, tid, stack } => self.follower.stack(cpu, time, (pid, tid), &stack),
            Record::Interpreter { tid, frames, .. } => self.follower.interpreter(cpu, tid, &frames),
            Record::Throttled { id } => {
                let event = self.event(id);
                self.meters[cpu][event as usize].throttled();
            }
            Record::WaitBegins { .. } | Record::WaitEnds(_) => {
                if let Some(off_cpu) = &mut self.off_cpu {
                    off_cpu.take(&mut self.follower, cpu, time, &record);
                }
            }
            record => {
                self.confused |= matches!(record, Record::Lost { records: 1.. });
                self.follower.take(record);
                if let Record::Map { pid, start, .. } = record {
                    self.follower.mapped(pid, start, time);
                }
            }
        }
    }

    /// The event that the kernel calls so.
    fn event(&self, id: u64) -> u32 {
        self.ids.get(&id).copied().unwrap_or(0)
    }

    fn sample(&mut self, cpu: usize, time: Nanos, sample: &Sample<'_>) {
        let event = self.event(sample.id);
        self.taken += 1;
        let Taken { is_known, is_idle } = self.follower.sample(cpu, time, sample, event);
        self.reached(cpu, event as usize, time);
        self.meters[cpu][event as usize].sample(is_known, is_idle);
    }

    /// No sample before `time` comes any more.
    fn reached(&mut self, cpu: usize, event: usize, time: Nanos) {
        let slept = self.meters[cpu][event].reached(time);
        if slept > 0 {
            // There has been one, or it would not be known to sleep; but perhaps before the counts were last taken.
            self.follower.idle(event as u32, u32::try_from(slept).unwrap_or(u32::MAX));
        }
    }
}
