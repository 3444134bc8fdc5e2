//! The collector: opens the events, reads what the kernel writes, counts.

use crate::calibration::cost_of_a_sample;
use crate::cut::Cut;
use crate::hash::mix;
use crate::images::{ImageIndex, Images};
use crate::jit::Generated;
use crate::kernel::{Kernel, kernel_build_id};
use crate::labels::{LabelIndex, Labels};
use crate::merge::drain;
use crate::meter::{Meter, Tally};
use crate::processes::{Processes, pids};
use crate::stacks::{Frame, Stacks, chain};
use crate::trace::Traced;
use perf::clock::{monotonic, process_cpu_time, sleep_until};
use perf::stream::{Cpu, Record, Sample, Scope, Setup, Source, Unit};
use profile::continuous::UnixSeconds;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};
use wire::{Address, Nanos};

/// What is collected.
#[derive(Clone, Debug)]
pub struct Options {
    /// Samples per second and CPU.
    pub rate_hz: f64,
    /// What is sampled; the first one is what everything else is compared with.
    pub sources: Vec<Source>,
    /// Only one of the sources after the first is on at a time.
    pub rotate: bool,
    /// Callchains, or only the instruction.
    pub stacks: bool,
    /// The whole machine, or the processes of this user.
    pub machine: bool,
    /// Room for the kernel to write into, for each CPU, in bytes.
    pub ring_bytes: usize,
    /// Of all random choices.
    pub seed: u64,
}

/// Why nothing can be collected.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel does not allow it.
    #[error("the kernel does not allow to sample {what}: {source}\n  {advice}")]
    NotAllowed {
        /// Whose code.
        what: &'static str,
        /// What to do.
        advice: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// This machine does not have such an event.
    #[error(
        "this machine has no event {event}: {source}\n  \
         a virtual machine often has no hardware counters; without --events the clock is used"
    )]
    NoEvent {
        /// Its name.
        event: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something else.
    #[error("cannot sample: {source}\n  `whatif doctor` says what this machine allows")]
    Other {
        /// What the kernel said.
        source: io::Error,
    },
}

const ADVICE_MACHINE: &str = "run it as root, or as a service with just the capabilities it needs: whatif collect --print unit; \
     --own samples your own processes without";
const ADVICE_OWN: &str = "allow it with: sudo sysctl kernel.perf_event_paranoid=2 (in a container, its seccomp profile must allow perf_event_open)";

impl StartError {
    fn of(error: io::Error, machine: bool, event: Option<Source>) -> Self {
        match (error.kind(), event) {
            (io::ErrorKind::PermissionDenied, _) if machine => {
                Self::NotAllowed { what: "the whole machine", advice: ADVICE_MACHINE, source: error }
            }
            (io::ErrorKind::PermissionDenied, _) => {
                Self::NotAllowed { what: "your processes", advice: ADVICE_OWN, source: error }
            }
            (io::ErrorKind::NotFound | io::ErrorKind::Unsupported, Some(event)) => {
                Self::NoEvent { event: event.name(), source: error }
            }
            _ => Self::Other { source: error },
        }
    }

    /// Whether somebody with more rights could.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::NotAllowed { .. })
    }
}

/// A record may be written this long after the time that is in it.
const LATE: Nanos = Nanos(5_000_000);
/// About so long a period stays the same, but for no less than so many samples: what has passed since the last one is
/// given up.
const LEAST_SAMPLES: u64 = 50;
/// See above.
const INTERVAL: Nanos = Nanos(1_000_000_000);
/// Periods differ from their mean by up to this part of it.
const JITTER: f64 = 0.1;
/// Names of processes and cgroups that are kept between two cuts.
const MOST_LABELS: usize = 4096;
/// Time between two looks at everything that runs, after records were lost.
const RESCAN: Nanos = Nanos(10_000_000_000);
/// Room that is enough for a while, in bytes.
const LEAST_RING: usize = 1 << 16;
/// Time after which processes that have gone unnoticed are forgotten.
const REAP: Nanos = Nanos(300_000_000_000);

/// See the module.
#[derive(Debug)]
pub struct Collector {
    cpus: Vec<Cpu>,
    state: State,
    options: Options,
    rate_hz: f64,
    /// By CPU: how long it has been idle since the start of the machine.
    idle: Vec<Nanos>,
    /// By CPU: when the periods of its events were set.
    renewed: Vec<Nanos>,
    /// Which of the sources after the first is on, if they take turns.
    turn: usize,
    random: fastrand::Rng,
    next_interval: Nanos,
    next_look: Nanos,
    next_reap: Nanos,
    own_before: Nanos,
    begun: (SystemTime, Nanos),
    /// What the kernel takes for a sample of the first source.
    cost: Option<Nanos>,
    watched: Vec<u32>,
}

/// What records are about.
#[derive(Debug)]
struct State {
    processes: Processes,
    images: Images,
    kernel: Kernel,
    generated: Generated,
    stacks: Stacks,
    /// By CPU and source.
    meters: Vec<Vec<Meter>>,
    /// The period that each source has on each CPU just now.
    periods: Vec<Vec<u64>>,
    /// By source: whether it is a clock, which goes on while nobody runs.
    clocks: Vec<bool>,
    /// Which source the kernel means by its number.
    ids: HashMap<u64, u32>,
    /// Samples so far.
    taken: u64,
    /// Everything that runs has to be looked at again.
    confused: bool,
    scanned: Nanos,
    located: Vec<(ImageIndex, u64)>,
    trace: Option<Vec<Traced>>,
}

impl Collector {
    /// Begins to collect.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: Options) -> Result<Self, StartError> {
        let setup = Setup { stacks: options.stacks, kernel: true, ring_bytes: options.ring_bytes };
        let watched = if options.machine { Vec::new() } else { own_processes() };
        let scope = match options.machine {
            true => Scope::Machine,
            false => Scope::Threads(watched.iter().flat_map(|&pid| perf::stream::threads(pid)).collect()),
        };
        let mut random = fastrand::Rng::with_seed(options.seed);
        let (mut cpus, mut setup) = (Vec::new(), setup);
        let numbers = perf::cpu::numbers();
        let mut place = 0;
        while let Some(&number) = numbers.get(place) {
            match open(number, &scope, setup, &options, &mut random) {
                Ok(opened) => cpus.push(opened),
                // More memory would be locked than is allowed (`perf_event_mlock_kb`, `ulimit -l`), perhaps.
                Err(error) if error.is_permission() && setup.ring_bytes > LEAST_RING => {
                    setup.ring_bytes /= 2;
                    cpus.clear();
                    place = 0;
                    continue;
                }
                // Somebody without privileges may sample without the kernel's code.
                Err(error) if !options.machine && error.is_permission() && setup.kernel => {
                    setup.kernel = false;
                    setup.ring_bytes = options.ring_bytes;
                    cpus.clear();
                    place = 0;
                    continue;
                }
                Err(error) => return Err(error),
            }
            place += 1;
        }
        let (cpus, periods): (Vec<Cpu>, Vec<Vec<u64>>) = cpus.into_iter().unzip();
        let now = monotonic();
        let mut state = State {
            processes: Processes::new(),
            images: Images::new(&kernel_build_id()),
            kernel: Kernel::read(),
            generated: Generated::default(),
            stacks: Stacks::default(),
            meters: cpus.iter().map(|_| options.sources.iter().map(|_| Meter::default()).collect()).collect(),
            periods,
            clocks: options
                .sources
                .iter()
                .map(|source| options.machine && source.name() == "cpu-clock")
                .collect(),
            ids: HashMap::new(),
            taken: 0,
            confused: false,
            scanned: now,
            located: Vec::new(),
            trace: None,
        };
        // Those that start meanwhile are in the rings.
        state.processes.scan(&mut state.images);
        let cost = options.sources.first().and_then(|source| cost_of_a_sample(*source, setup));
        let mut collector = Self {
            idle: vec![Nanos::ZERO; cpus.len()],
            renewed: vec![now; cpus.len()],
            cpus,
            state,
            rate_hz: options.rate_hz,
            options,
            turn: 0,
            random,
            next_interval: now + INTERVAL,
            next_look: now + INTERVAL,
            next_reap: now + REAP,
            own_before: process_cpu_time(),
            begun: (SystemTime::now(), now),
            cost,
            watched,
        };
        collector.learn_ids();
        collector.take_turns();
        // What was counted while we were starting is nobody's.
        collector.cut();
        Ok(collector)
    }

    /// Waits until there is something to do, or for `timeout`, or for a signal.
    pub fn wait(&self, timeout: Duration) {
        perf::stream::wait(&self.cpus, timeout);
    }

    /// Reads and counts what the kernel has written.
    pub fn tick(&mut self) {
        let now = monotonic();
        if now >= self.next_interval {
            self.end_intervals();
            self.next_interval = now + Nanos((INTERVAL.0 as f64 * self.random_factor(0.2)) as u64);
            self.state.processes.tend();
        }
        self.drain(None);
        if now >= self.next_look {
            self.next_look = now + INTERVAL;
            self.watch_more();
        }
        if std::mem::take(&mut self.state.confused) {
            if now.saturating_sub(self.state.scanned) > RESCAN {
                self.state.scanned = now;
                self.state.processes.scan(&mut self.state.images);
            } else {
                self.state.confused = true;
            }
        }
        if now >= self.next_reap {
            self.next_reap = now + REAP;
            for pid in self.state.processes.reap() {
                self.state.generated.forget(pid);
            }
        }
    }

    /// Everything since the last cut, to the sample.
    pub fn cut(&mut self) -> Cut {
        let ends = self.end_intervals();
        sleep_until(monotonic() + LATE + Nanos(1_000_000));
        self.drain(Some(&ends));
        let (frames, counts) = self.state.stacks.take();
        let books: Vec<Tally> = (0..self.options.sources.len())
            .map(|event| {
                let mut sum = Tally::default();
                self.state.meters.iter_mut().for_each(|meters| sum.add(meters[event].take()));
                sum
            })
            .collect();
        let taken: u64 = books.iter().map(|books| books.stored + books.unknown).sum();
        let now = (SystemTime::now(), monotonic());
        let own = process_cpu_time();
        let length = now.1.saturating_sub(self.begun.1);
        let start = self.begun.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let cut = Cut {
            start: UnixSeconds(i64::try_from(start.as_secs()).unwrap_or(i64::MAX)),
            length: profile::Nanos::new(length.0),
            frames,
            counts,
            books,
            own_cpu: profile::Nanos::new(own.saturating_sub(self.own_before).0),
            kernel_cpu: profile::Nanos::new(self.cost.map_or(0, |cost| cost.0 * taken)),
            resident: resident(),
            cpus: self.cpus.len() as u32,
        };
        self.begun = now;
        self.own_before = own;
        perf::heap::give_back();
        cut
    }

    /// Takes so many samples per second and CPU from now on. Of one's own processes the rate cannot be changed: the kernel
    /// would not tell events that were inherited.
    pub fn set_rate(&mut self, rate_hz: f64) {
        self.rate_hz = rate_hz;
        self.renewed.fill(Nanos::ZERO);
        self.end_intervals();
    }

    /// Whether the rate can be changed.
    #[must_use]
    pub fn has_a_governor(&self) -> bool {
        self.options.machine
    }

    /// Samples so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.state.taken
    }

    /// Everything that was cut has been stored: forgets names that nobody needs any more, if there are many.
    pub fn stored(&mut self) {
        if self.state.processes.labels().len() > MOST_LABELS {
            self.state.processes.renumber();
        }
        self.state.generated.forget_names();
    }

    /// What the kernel takes for one sample, where it could be measured.
    #[must_use]
    pub fn cost_of_a_sample(&self) -> Option<Nanos> {
        self.cost
    }

    /// Memory that counting takes until the next cut, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state.stacks.bytes()
    }

    /// The CPUs that are sampled.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// Keeps each sample by itself as well, from now on, and returns those that were kept.
    pub fn trace(&mut self) -> Vec<Traced> {
        self.state.trace.replace(Vec::new()).unwrap_or_default()
    }

    /// What images, labels and names there are.
    pub(crate) fn names(&self) -> Names<'_> {
        let State { processes, images, kernel, generated, .. } = &self.state;
        Names { images, labels: processes.labels(), kernel, generated, sources: &self.options.sources }
    }

    fn random_factor(&mut self, spread: f64) -> f64 {
        1.0 + spread * (2.0 * self.random.f64() - 1.0)
    }

    /// Ends the intervals of all meters, and gives all events another period; returns when, for each CPU.
    fn end_intervals(&mut self) -> Vec<Nanos> {
        let mut ends = Vec::with_capacity(self.cpus.len());
        let idle = perf::cpu::idle();
        for place in 0..self.cpus.len() {
            // One for all events of the CPU: up to here samples are in this interval, whoever took them.
            let now = monotonic();
            let slept = {
                let idle = idle.get(&self.cpus[place].number()).copied().unwrap_or_default();
                let before = std::mem::replace(&mut self.idle[place], idle);
                idle.saturating_sub(before)
            };
            let age = now.saturating_sub(self.renewed[place]).0;
            let mut renewed_any = false;
            for event in 0..self.options.sources.len() {
                let factor = self.random_factor(JITTER);
                let cpu = &mut self.cpus[place];
                let reading = cpu.reading(event);
                let period = &mut self.state.periods[place][event];
                // What is counted by occurrence is not in step with any clock, and takes a sample at once when its period is
                // set; and inherited events are not told.
                let source = self.options.sources[event];
                let renew = self.options.machine
                    && (source.unit() == Unit::Nanos && age / LEAST_SAMPLES > *period
                        || self.renewed[place] == Nanos::ZERO);
                self.state.meters[place][event].end_interval(
                    now,
                    reading,
                    *period,
                    renew,
                    if self.state.clocks[event] { slept } else { Nanos::ZERO },
                );
                if renew {
                    *period = (period_of(source, self.rate_hz) * factor).max(1.0) as u64;
                    cpu.set_period(event, *period);
                    renewed_any = true;
                }
            }
            if renewed_any {
                self.renewed[place] = now;
            }
            ends.push(now);
        }
        if self.options.rotate {
            self.turn += 1;
            self.take_turns();
        }
        ends
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
        let safe = monotonic().saturating_sub(LATE);
        let until: Vec<Nanos> = match ends {
            Some(ends) => ends.to_vec(),
            None => vec![safe; self.cpus.len()],
        };
        let state = &mut self.state;
        drain(&mut self.cpus, &until, |cpu, time, record| state.take(cpu, time, record));
        for (cpu, until) in until.iter().enumerate() {
            for event in 0..state.meters[cpu].len() {
                state.reached(cpu, event, Nanos(until.0 + 1));
            }
        }
        for pid in state.generated.take_grown() {
            state.processes.refresh(pid);
        }
    }

    /// Of one's own processes: those that were started by others since.
    fn watch_more(&mut self) {
        if self.options.machine {
            return;
        }
        let all = own_processes();
        for &pid in &all {
            // Seen twice, and nobody whom we watch has started it.
            if self.watched.contains(&pid) && !self.state.processes.contains(pid) {
                let threads = perf::stream::threads(pid);
                // It may end meanwhile, or there are too many.
                self.cpus.iter_mut().for_each(|cpu| drop(cpu.add_threads(&threads)));
                let _ = self.state.processes.get(pid, &mut self.state.images);
                self.learn_ids();
            }
        }
        self.watched = all;
    }

    fn learn_ids(&mut self) {
        for cpu in &self.cpus {
            for event in 0..self.options.sources.len() {
                self.state.ids.extend(cpu.ids(event).map(|id| (id, event as u32)));
            }
        }
    }
}

/// What numbers stand for.
pub(crate) struct Names<'a> {
    pub images: &'a Images,
    pub labels: &'a Labels,
    pub kernel: &'a Kernel,
    pub generated: &'a Generated,
    pub sources: &'a [Source],
}

impl State {
    fn take(&mut self, cpu: usize, time: Nanos, record: Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(cpu, time, &sample),
            Record::Map { pid, start, length, offset, build_id, path } => {
                self.processes.map(pid, start, length, offset, build_id, path, &mut self.images);
            }
            Record::Name { pid, tid, executes, name } => {
                self.processes.rename(pid, tid, executes, name, &mut self.images);
                if executes {
                    self.generated.forget(pid);
                }
            }
            Record::Fork { pid, parent } => self.processes.fork(pid, parent, &mut self.images),
            Record::Exit { pid } => {
                if self.processes.exit(pid) {
                    self.generated.forget(pid);
                }
            }
            Record::Lost { records } => {
                self.confused |= records > 0;
            }
            Record::Throttled | Record::Other => {}
        }
    }

    fn sample(&mut self, cpu: usize, time: Nanos, sample: &Sample<'_>) {
        let event = self.ids.get(&sample.id).copied().unwrap_or(0);
        self.taken += 1;
        let idle = sample.pid == 0 && sample.address.0 >> 63 != 0 && self.kernel.is_idle(sample.address);
        let known = if idle { self.idle(event, 1) } else { self.busy(cpu, time, sample, event) };
        self.reached(cpu, event as usize, time);
        self.meters[cpu][event as usize].sample(known, idle);
    }

    /// No sample before `time` comes any more.
    fn reached(&mut self, cpu: usize, event: usize, time: Nanos) {
        let slept = self.meters[cpu][event].reached(time);
        if slept > 0 {
            // There has been one, or it would not be known to sleep; but perhaps before the last cut.
            self.idle(event as u32, u32::try_from(slept).unwrap_or(u32::MAX));
        }
    }

    /// So many samples of a CPU that has nothing to do.
    fn idle(&mut self, event: u32, count: u32) -> bool {
        let chain = chain(u64::MAX, &[event.into()]);
        let mut left = count;
        if self.stacks.again(chain).is_none() {
            let node = self.stacks.node(Frame { parent: Stacks::ROOT, image: Images::IDLE, offset: 0 });
            let (_, label) = self.processes.get(0, &mut self.images);
            self.stacks.first(chain, node, label, event);
        }
        left -= 1;
        self.stacks.more(chain, left);
        true
    }

    /// Whether its image is known.
    fn busy(&mut self, cpu: usize, time: Nanos, sample: &Sample<'_>, event: u32) -> bool {
        let (space, label) = match self.processes.known_keys(sample.pid) {
            Some(keys) => keys,
            None => {
                let (space, label) = self.processes.get(sample.pid, &mut self.images);
                (space.id, label)
            }
        };
        let seed = mix(space, u64::from(label.0) << 32 | u64::from(event));
        let chain = match sample.callchain {
            [] => chain(seed, &[sample.address.0]),
            callchain => chain(seed, callchain),
        };
        let node = match self.stacks.again(chain) {
            Some(node) => node,
            None => {
                let node = self.resolve(time, sample, label);
                self.stacks.first(chain, node, label, event);
                node
            }
        };
        let frame = self.stacks.frame(node);
        if let Some(trace) = &mut self.trace {
            let Frame { image, offset, .. } = frame;
            let (pid, address) = (sample.pid, sample.address);
            trace.push(Traced { cpu: cpu as u32, pid, address, image, offset, chain, node });
        }
        frame.image != Images::UNKNOWN
    }

    /// The node of a callchain that is new.
    fn resolve(&mut self, time: Nanos, sample: &Sample<'_>, label: LabelIndex) -> u32 {
        let (space, _) = self.processes.get(sample.pid, &mut self.images);
        let mut located = std::mem::take(&mut self.located);
        located.clear();
        let only = [sample.address.0];
        let chain = if sample.callchain.is_empty() { &only[..] } else { sample.callchain };
        let mut in_kernel = sample.address.0 >> 63 != 0;
        // The first address after a mark is an instruction, all others are where a call returns to.
        let mut returns = 0;
        for &address in chain {
            if address >= Sample::MARKS {
                in_kernel = address == Sample::KERNEL;
                returns = 0;
                continue;
            }
            let address = Address(address.saturating_sub(returns));
            returns = 1;
            let place = if in_kernel {
                Some(self.kernel.locate(address, &mut self.images))
            } else {
                match space.find(address) {
                    Some((Images::MEMORY, _)) => {
                        let name = &self.processes.labels().get(label).process;
                        let generated =
                            self.generated.locate(sample.pid, name, address, time, &mut self.images);
                        // Addresses of memory that nobody names mean nothing to anybody later.
                        Some(generated.unwrap_or((Images::MEMORY, 0)))
                    }
                    place => place,
                }
            };
            match place {
                Some(place) => located.push(place),
                // Callers that are nowhere: the stack has no frame pointers there.
                None if !located.is_empty() => {}
                None => located.push((Images::UNKNOWN, 0)),
            }
        }
        if located.is_empty() {
            located.push((Images::UNKNOWN, 0));
        }
        let node = located
            .iter()
            .rev()
            .fold(Stacks::ROOT, |parent, &(image, offset)| self.stacks.node(Frame { parent, image, offset }));
        self.located = located;
        node
    }
}

/// The mean period of a source.
fn period_of(source: Source, rate_hz: f64) -> f64 {
    match source.unit() {
        Unit::Nanos => 1e9 / rate_hz,
        // At about 2 GHz.
        Unit::Cycles => 2e9 / rate_hz,
        // At ten thousand a second; the same for all, so that samples of one source are worth the same.
        Unit::Occurrences => 1e4 / rate_hz,
    }
}

fn open(
    number: u32,
    scope: &Scope,
    setup: Setup,
    options: &Options,
    random: &mut fastrand::Rng,
) -> Result<(Cpu, Vec<u64>), StartError> {
    let mut cpu =
        Cpu::open(number, scope, setup).map_err(|error| StartError::of(error, options.machine, None))?;
    let mut periods = Vec::new();
    for &source in &options.sources {
        // CPUs should not be interrupted all at once.
        let period = (period_of(source, options.rate_hz) * (1.0 + JITTER * random.f64())).max(1.0) as u64;
        cpu.add(source, period, scope)
            .map_err(|error| StartError::of(error, options.machine, Some(source)))?;
        periods.push(period);
    }
    Ok((cpu, periods))
}

/// Processes of this user.
fn own_processes() -> Vec<u32> {
    // Not that of `/proc/self`, which is root's for programs with capabilities.
    let own = Some(perf::stream::own_user());
    let is_own =
        |pid: &u32| std::fs::metadata(format!("/proc/{pid}")).map(|metadata| metadata.uid()).ok() == own;
    pids().into_iter().filter(is_own).collect()
}

/// Memory that this process has resident, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * perf::heap::page_size()
}
