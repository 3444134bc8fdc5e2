//! The collector: opens the events, reads what the kernel writes, counts.

use crate::calibration::Calibration;
use crate::collected::Collected;
use crate::merge::drain;
use crate::naming::NamesRead;
use crate::off_cpu::{Costs, OffCpu};
use crate::own::{RESERVE, Watch, own_processes};
use crate::reader::Reader;
use crate::sink::SampleSink;
use crate::start::{Callers, JITTER, Opened, Options, StartError, open_all, period_of};
use archive::UnixSeconds;
use kernel::clock::{monotonic, process_cpu_time, sleep_until};
use kernel::stack_copies::StackCopies;
use kernel::stream::{
    Cpu, Scope, Source, Unit, add_threads, descriptors_left, is_out_of_descriptors, threads,
};
use std::time::{Duration, SystemTime};
use wire::Nanos;

/// A record may be written this long after the time that is in it.
const LATE: Nanos = Nanos(5_000_000);
/// A period stays the same for at least this many samples: what has passed since the last one is given up.
const LEAST_SAMPLES: u64 = 50;
/// About how long it stays the same otherwise; and the time between two looks at one's own processes.
const INTERVAL: Nanos = Nanos(1_000_000_000);
/// The counters of a CPU are read within some microseconds. If it takes this long, we were held up.
const HELD_UP: u64 = 100_000;
/// The same for each descriptor (of one's own threads there may be thousands).
const HELD_UP_BY_ONE: u64 = 20_000;
/// How often we try to read them in all, if we are held up.
const TRIES: u32 = 5;
/// Time after which processes that have gone unnoticed are forgotten.
const REAP: Nanos = Nanos(300_000_000_000);

/// See the module.
#[derive(Debug)]
pub struct Collector {
    cpus: Vec<Cpu>,
    /// The period that each source has on each CPU just now.
    periods: Vec<Vec<u64>>,
    reader: Reader,
    options: Options,
    rate_hz: f64,
    /// By CPU: how long it has been idle since the start of the machine.
    idle: Vec<Nanos>,
    /// Which of the sources after the first is on, if they take turns.
    turn: usize,
    random: fastrand::Rng,
    next_interval: Nanos,
    next_look: Nanos,
    next_reap: Nanos,
    own_before: Nanos,
    begun: (SystemTime, Nanos),
    /// How callers are found; by copies of stacks, perhaps, and why not by BPF.
    callers: Callers,
    copies: Option<std::io::Result<StackCopies>>,
    /// What the kernel takes for a sample of the first source.
    calibration: Option<Calibration>,
    /// Why time off the CPU is not collected, if it should be.
    no_off_cpu: Option<std::io::Error>,
    /// What that had cost the kernel when counts were last handed over.
    off_cpu_before: Nanos,
    /// It costs too much.
    off_cpu_ends: bool,
    /// Which of one's own processes are sampled.
    watch: Watch,
    /// Numbers of the descriptors that were closed when they were last looked at.
    closed: Vec<u64>,
}

/// How much a collector knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Processes that are followed.
    pub processes: usize,
    /// Images that something that runs has mapped, or that samples are in.
    pub images: usize,
}

impl Collector {
    /// Begins to collect.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: Options) -> Result<Self, StartError> {
        let scope = match options.machine {
            true => Scope::Machine,
            false => Scope::Threads(threads(std::process::id())),
        };
        let machine = options.machine;
        let mut random = fastrand::Rng::with_seed(options.seed);
        let opened = open_all(&scope, &options, &mut random)?;
        let callers = opened.callers();
        let Opened { cpus, periods, setup, copies } = opened;
        if !machine && descriptors_left() < RESERVE {
            return Err(StartError::no_reserve());
        }
        let now = monotonic();
        let is_clock = |source: &Source| options.machine && source.name() == "cpu-clock";
        let clocks = options.sources.iter().map(is_clock).collect();
        let mut reader = Reader::new(cpus.len(), clocks, machine, options.limits, now);
        reader.follower.processes.particulars.with_commands = options.commands;
        let calibrate = |source: &Source| Calibration::start(*source, setup, callers == Callers::Copies);
        let calibration = options.sources.first().map(calibrate);
        let mut collector = Self {
            no_off_cpu: None,
            off_cpu_before: Nanos::ZERO,
            off_cpu_ends: false,
            callers,
            copies,
            idle: vec![Nanos::ZERO; cpus.len()],
            cpus,
            periods,
            reader,
            rate_hz: options.rate_hz,
            options,
            turn: 0,
            random,
            next_interval: now + INTERVAL,
            next_look: now + INTERVAL,
            next_reap: now + REAP,
            own_before: process_cpu_time(),
            begun: (SystemTime::now(), now),
            calibration,
            watch: Watch::new(if machine { 0 } else { descriptors_left() }),
            closed: Vec::new(),
        };
        if let Some(names) = collector.options.names.clone() {
            collector.reader.follower.naming.keep(names);
        }
        collector.learn_ids();
        collector.reader.follower.unwinding.is_on = matches!(callers, Callers::Copies | Callers::CopiesOfAll);
        collector.reader.follower.python.is_on = collector.reads_interpreters();
        if !machine {
            let others = own_processes().into_iter().filter(|pid| *pid != std::process::id()).collect();
            collector.watch(others);
            // We are from the beginning.
            let follower = &mut collector.reader.follower;
            follower.processes.get(std::process::id(), &mut follower.images);
        }
        // Measures what that costs, and gives up what is in the rings then.
        collector.start_off_cpu();
        // Those that start meanwhile are in the rings.
        collector.reader.follower.scan();
        collector.take_turns();
        // What was counted while we were starting is discarded.
        collector.collect();
        Ok(collector)
    }

    /// Waits until there is something to do, or for `timeout`, or for a signal.
    pub fn wait(&self, timeout: Duration) {
        kernel::stream::wait(&self.cpus, timeout);
    }

    /// Reads and counts what the kernel has written.
    pub fn tick(&mut self) {
        let now = monotonic();
        if now >= self.next_interval {
            self.end_intervals(false);
            self.next_interval = now + Nanos((INTERVAL.0 as f64 * self.random_factor(0.2)) as u64);
            self.reader.follower.processes.tend();
            if let Some(off_cpu) = &mut self.reader.off_cpu {
                off_cpu.look(now);
            }
        }
        self.drain(None);
        self.reader.follower.naming.tend();
        if now >= self.next_look {
            self.next_look = now + INTERVAL;
            self.watch_more();
        }
        self.reader.scan_if_confused(now);
        self.reader.follower.forget_if_many();
        if now >= self.next_reap {
            self.next_reap = now + REAP;
            self.reader.follower.reap();
        }
    }

    /// Everything since the last time, to the sample.
    pub fn collect(&mut self) -> Collected {
        let ends = self.end_intervals(false);
        sleep_until(monotonic() + LATE + Nanos(1_000_000));
        self.drain(Some(&ends));
        if let Some(off_cpu) = &mut self.reader.off_cpu {
            let end = ends.iter().copied().min().unwrap_or_else(monotonic);
            off_cpu.go_on(&mut self.reader.follower, end);
        }
        let (frames, counts, legend) = self.reader.follower.counted(monotonic());
        let books = self.reader.books();
        let of_events = books.iter().take(self.options.sources.len());
        let taken: u64 = of_events.map(|books| books.stored + books.unknown).sum();
        let mut events = self.options.sources.clone();
        events.extend(self.reader.off_cpu.as_ref().map(|_| Source::OFF_CPU));
        let off_cpu = self.cost_of_off_cpu();
        let off_cpu = off_cpu.saturating_sub(std::mem::replace(&mut self.off_cpu_before, off_cpu));
        if self.off_cpu_ends {
            // Nothing that is counted from now on is of it.
            (self.reader.off_cpu, self.off_cpu_before) = (None, Nanos::ZERO);
        }
        let now = (SystemTime::now(), monotonic());
        let own = process_cpu_time();
        let length = now.1.saturating_sub(self.begun.1);
        let start = self.begun.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let collected = Collected {
            start: UnixSeconds(i64::try_from(start.as_secs()).unwrap_or(i64::MAX)),
            length: storage::Nanos::new(length.0),
            frames,
            counts,
            legend,
            events,
            books,
            own_cpu: storage::Nanos::new(own.saturating_sub(self.own_before).0),
            kernel_cpu: storage::Nanos::new(
                self.cost_of_a_sample().map_or(0, |cost| cost.0 * taken) + off_cpu.0,
            ),
            unwound: self.reader.follower.unwinding.take(),
            lapses: self.reader.follower.processes.take_lapses(),
            interpreted: self.reader.follower.python.take(),
            resident: resident(),
            cpus: self.cpus.len() as u32,
        };
        self.begun = now;
        self.own_before = own;
        kernel::heap::give_back();
        collected
    }

    /// Takes this many samples per second and CPU from now on. Of one's own processes the rate cannot be changed: the kernel
    /// does not tell events that were inherited.
    pub fn set_rate(&mut self, rate_hz: f64) {
        self.rate_hz = rate_hz;
        self.end_intervals(true);
    }

    /// Whether the rate can be changed.
    #[must_use]
    pub fn has_a_governor(&self) -> bool {
        self.options.machine
    }

    /// How callers are found, and why not by BPF, if it is not to be had.
    #[must_use]
    pub fn callers(&self) -> (Callers, Option<&std::io::Error>) {
        (self.callers, self.copies.as_ref().and_then(|copies| copies.as_ref().err()))
    }

    /// Whether time off the CPU is collected, and why not, if it should be.
    #[must_use]
    pub fn off_cpu(&self) -> (bool, Option<&std::io::Error>) {
        (self.reader.off_cpu.is_some(), self.no_off_cpu.as_ref())
    }

    /// What collecting time off the CPU has cost the kernel since it began.
    #[must_use]
    pub fn cost_of_off_cpu(&self) -> Nanos {
        self.reader.off_cpu.as_ref().map_or(Nanos::ZERO, OffCpu::cost)
    }

    /// Ends collecting time off the CPU, with the next [`collect`](Self::collect).
    pub fn end_off_cpu(&mut self) {
        self.off_cpu_ends = true;
    }

    /// What a switch and a record cost the kernel, if time off the CPU is collected.
    #[must_use]
    pub fn costs_of_off_cpu(&self) -> Option<Costs> {
        self.reader.off_cpu.as_ref().map(OffCpu::costs)
    }

    /// Whether the frames of Python's interpreter are read with samples.
    #[must_use]
    pub fn reads_interpreters(&self) -> bool {
        matches!(&self.copies, Some(Ok(copies)) if copies.reads_interpreters())
    }

    /// Processes that are not sampled just now, because no more descriptors may be opened.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.watch.missed()
    }

    /// What became of the names of the files that were sampled.
    #[must_use]
    pub fn names_read(&self) -> NamesRead {
        self.reader.follower.naming.read()
    }

    /// Waits, for a moment at most, until the names of the files that were sampled have been read.
    pub fn settle_names(&mut self, most: Duration) {
        let end = monotonic() + Nanos(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        let naming = &mut self.reader.follower.naming;
        naming.tend();
        while !naming.is_idle() && monotonic() < end {
            sleep_until(monotonic() + Nanos(5_000_000));
            naming.tend();
        }
    }

    /// Samples so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.reader.taken
    }

    /// What the kernel takes for one sample, where it could be measured.
    #[must_use]
    pub fn cost_of_a_sample(&self) -> Option<Nanos> {
        self.calibration.as_ref().and_then(Calibration::cost)
    }

    /// Measures that again, if it is time to, which takes 25 ms. One's own processes leave no descriptors for it.
    pub fn calibrate(&mut self) {
        if let Some(calibration) = self.calibration.as_mut().filter(|_| self.options.machine) {
            calibration.again_if_due(monotonic());
        }
    }

    /// Whether counting takes as much memory as it may until the next time.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.reader.follower.bytes() > self.options.limits.counts
    }

    /// How much is known.
    #[must_use]
    pub fn known(&self) -> Known {
        let follower = &self.reader.follower;
        Known { processes: follower.processes.len(), images: follower.images.len() }
    }

    /// The CPUs that are sampled.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// Gives each sample to `sink` as well, from now on.
    pub fn tell(&mut self, sink: Box<dyn SampleSink>) {
        self.reader.follower.sink = Some(sink);
    }

    fn random_factor(&mut self, spread: f64) -> f64 {
        1.0 + spread * (2.0 * self.random.f64() - 1.0)
    }

    /// Ends the intervals of all meters, and gives events another period whose turn it is, or (`all`) all of them; returns when,
    /// for each CPU.
    fn end_intervals(&mut self, all: bool) -> Vec<Nanos> {
        let mut ends = Vec::with_capacity(self.cpus.len());
        let idle = kernel::cpu::idle();
        for place in 0..self.cpus.len() {
            let cpu = &self.cpus[place];
            let read = || (0..self.options.sources.len()).map(|event| cpu.reading(event)).collect::<Vec<_>>();
            let most = Nanos(HELD_UP.max(HELD_UP_BY_ONE * cpu.descriptors() as u64));
            // One time for all events of the CPU: up to here samples are in this interval, no matter which event took them.
            let (now, readings) = at_once(most, monotonic, read);
            let slept = {
                let idle = idle.get(&self.cpus[place].number()).copied().unwrap_or_default();
                let before = std::mem::replace(&mut self.idle[place], idle);
                idle.saturating_sub(before)
            };
            for (event, reading) in readings.into_iter().enumerate() {
                let factor = self.random_factor(JITTER);
                let period = &mut self.periods[place][event];
                let source = self.options.sources[event];
                let meter = &mut self.reader.meters[place][event];
                // Inherited events are not told.
                let renew =
                    self.options.machine && (all || is_worn(source.unit(), meter.due(reading, *period)));
                meter.end_interval(
                    now,
                    reading,
                    *period,
                    renew,
                    if self.reader.clocks[event] { slept } else { Nanos::ZERO },
                );
                if renew {
                    *period = (period_of(source, self.rate_hz) * factor).max(1.0) as u64;
                    self.cpus[place].set_period(event, *period);
                }
            }
            ends.push(now);
        }
        if self.options.rotate {
            self.turn += 1;
            self.take_turns();
        }
        ends
    }

    fn start_off_cpu(&mut self) {
        if !self.options.off_cpu {
            return;
        }
        let started = match self.options {
            Options { machine: false, .. } => {
                Err(std::io::Error::other("it takes the right to sample the whole machine"))
            }
            Options { stacks: false, .. } => {
                Err(std::io::Error::other("it takes callers, and so no --pc-only"))
            }
            _ => {
                let event = self.options.sources.len() as u32;
                let (seed, now) = (self.random.u64(..), monotonic());
                OffCpu::start(
                    &mut self.cpus,
                    event,
                    self.options.rate_hz,
                    self.options.limits.waits,
                    seed,
                    now,
                )
            }
        };
        match started {
            Ok(off_cpu) => {
                off_cpu.scan(monotonic());
                self.reader.off_cpu = Some(off_cpu);
            }
            Err(error) => self.no_off_cpu = Some(error),
        }
    }

    fn take_turns(&mut self) {
        let others = self.options.sources.len().saturating_sub(1);
        if !self.options.rotate || others < 2 {
            return;
        }
        for cpu in &mut self.cpus {
            for other in 0..others {
                cpu.enable(1 + other, other == self.turn % others);
            }
        }
    }

    fn drain(&mut self, ends: Option<&[Nanos]>) {
        let now = monotonic();
        let until: Vec<Nanos> = match ends {
            Some(ends) => ends.to_vec(),
            None => vec![now.saturating_sub(LATE); self.cpus.len()],
        };
        let reader = &mut self.reader;
        drain(&mut self.cpus, &until, |cpu, time, record| reader.take(cpu, time, record));
        until.iter().enumerate().for_each(|(cpu, until)| reader.has_read(cpu, *until));
        reader.follower.refresh(now);
        if let Some(off_cpu) = &mut reader.off_cpu {
            off_cpu.has_read(now);
        }
        let wanted = std::mem::take(&mut reader.follower.unwinding.wanted);
        if let Some(Ok(copies)) = &self.copies {
            wanted.into_iter().for_each(|(pid, bytes)| copies.want(pid, bytes));
            let wanted = std::mem::take(&mut reader.follower.python.wanted);
            wanted.iter().for_each(|(pid, interpreter)| copies.follow(*pid, interpreter.as_ref()));
        }
    }

    /// Of one's own processes: those that were started by others since, and those that have ended.
    fn watch_more(&mut self) {
        if self.options.machine {
            return;
        }
        // What they wrote has been read by now.
        for id in self.closed.drain(..) {
            self.reader.ids.remove(&id);
        }
        self.closed.extend(self.cpus.iter_mut().flat_map(Cpu::close_ended));
        self.watch.closed(self.closed.len());
        let due = self.watch.due(own_processes(), |pid| self.reader.follower.processes.is_sampled(pid));
        self.watch(due);
    }

    /// Samples these processes as well, as far as there are descriptors.
    fn watch(&mut self, pids: Vec<u32>) {
        for pid in pids {
            let threads = threads(pid);
            if !self.watch.has_room(pid, threads.len() * self.cpus.len() * self.options.sources.len()) {
                continue;
            }
            match add_threads(&mut self.cpus, &threads) {
                Ok(ids) => {
                    self.watch.opened(ids.len());
                    self.reader.ids.extend(ids.into_iter().map(|(id, event)| (id, event as u32)));
                }
                // Another process has taken them, or fewer are allowed than before.
                Err(error) if is_out_of_descriptors(&error) => {
                    self.watch.miss(pid);
                    continue;
                }
                // Nothing that would be different later.
                Err(_) => {}
            }
            let follower = &mut self.reader.follower;
            let _ = follower.processes.get(pid, &mut follower.images);
        }
    }

    /// The numbers of everything that is open.
    fn learn_ids(&mut self) {
        for cpu in &self.cpus {
            for event in 0..self.options.sources.len() {
                self.reader.ids.extend(cpu.ids(event).map(|id| (id, event as u32)));
            }
        }
    }
}

/// What is read, and when: so that less than `most` passes between the two, if possible, for a sample that is taken meanwhile is
/// counted in one interval and expected in the other.
fn at_once<T>(most: Nanos, mut clock: impl FnMut() -> Nanos, mut read: impl FnMut() -> T) -> (Nanos, T) {
    let mut left = TRIES;
    loop {
        left -= 1;
        let (now, found) = (clock(), read());
        if left == 0 || clock().saturating_sub(now) < most {
            return (now, found);
        }
    }
}

/// Whether an event gets another period, after this many samples were due with the one it has. Events of software take a sample
/// at once when their period is set; and what they count is not in step with any clock.
fn is_worn(unit: Unit, due: u64) -> bool {
    unit != Unit::Occurrences && due >= LEAST_SAMPLES
}

/// Memory that this process has resident, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * kernel::heap::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_of_clocks_and_cycles_are_renewed_when_enough_samples_were_due() {
        for (unit, due, renewed) in [
            (Unit::Nanos, 50, true),
            (Unit::Nanos, 49, false),
            (Unit::Cycles, 50, true),
            // A CPU that sleeps counts few: they are not given up again and again.
            (Unit::Cycles, 0, false),
            (Unit::Occurrences, 5000, false),
        ] {
            assert_eq!(is_worn(unit, due), renewed, "{unit:?}");
        }
    }

    #[test]
    fn a_reading_that_was_held_up_is_repeated() {
        let times = |delays: &[u64]| {
            let (time, mut delays) = (std::cell::Cell::new(0), delays.iter());
            let read = || time.set(time.get() + delays.next().expect("no more than it takes"));
            let (now, ()) = at_once(Nanos(10_000), || Nanos(time.get()), read);
            now.0
        };
        assert_eq!(times(&[5000]), 0);
        assert_eq!(times(&[2_000_000, 5000]), 2_000_000);
        assert_eq!(times(&[2_000_000, 3_000_000, 5000]), 5_000_000);
        assert_eq!(times(&[2_000_000; TRIES as usize]), 8_000_000, "enough is enough");
    }
}
