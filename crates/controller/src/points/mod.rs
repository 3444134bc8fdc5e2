//! Progress points: those that the program registers, and those that the user places from outside, in a program that
//! knows nothing of them.

mod beginning;
mod counting_code;
mod executed;
mod guard;
mod known;
mod place;
mod rate;

pub use beginning::Why;
pub use counting_code::Function;
pub use place::PointSpec;
pub use rate::{CallRate, Meter, Site, could_count_itself, name_of};

use crate::images::{Images, Spot};
use crate::region::RegionSpec;
use anyhow::{Result, anyhow, bail, ensure};
use counting_code::{Patcher, Runs, Word};
use guard::Guard;
use kernel::cpu::ProcessStat;
use kernel::visits::{self, Counter, Instruction, Means};
use place::Place;
use profile::{Point, PointKind};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use symbols::Scope;
use wire::arrivals::{Kind, Source};
use wire::counter::VISIT;
use wire::layout::Hold;
use wire::stamps::Stamps;
use wire::{Address, Nanos, SharedMemory};

/// A point that has been placed.
#[derive(Debug)]
struct Placed {
    point: Point,
    place: Place,
    /// Of a begin or an end: where the runtime notes visits itself, by the visiting thread's own clock.
    noted: Option<&'static wire::counter::Counter>,
    /// Those of libraries come and go with them.
    counters: Mutex<Vec<Watch>>,
    /// Those in programs that were executed, and where they count.
    executed: Mutex<Vec<(Spread, Counting)>>,
    /// Where these have breakpoints.
    spots: Mutex<BTreeSet<Spot>>,
    /// What was counted by those that are gone.
    past: AtomicU64,
    /// Samples, of a point that is sampled.
    samples: Arc<AtomicU64>,
    /// Why it could not be counted when its library was loaded.
    refused: OnceLock<String>,
    /// Why the program cannot count it itself, if it could have.
    why: OnceLock<Why>,
}

/// Where in executed programs an instruction is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spread {
    /// In one of them, by its number, and what it forks; it goes with them. The file of a guarded one, and where it is in it.
    Program(u32, Option<(PathBuf, u64)>),
    /// In all processes that execute this file, so many bytes from its beginning.
    File((PathBuf, u64)),
}

impl Spread {
    fn is_of_program(&self, program: u32) -> bool {
        matches!(self, Self::Program(of, _) if *of == program)
    }

    /// Whether it counts a guarded instruction of this file.
    fn is_of(&self, file: &(PathBuf, u64)) -> bool {
        matches!(self, Self::Program(_, Some(of)) | Self::File(of) if of == file)
    }
}

/// What counts, and the instruction that it counts; nowhere for system calls and requests.
#[derive(Clone, Debug)]
struct Watch {
    address: Option<Address>,
    /// Its file, and where it is in that.
    file: Option<(PathBuf, u64)>,
    counter: Arc<Counting>,
}

/// What counts.
#[derive(Debug)]
enum Counting {
    Kernel(Counter),
    /// The same of a guarded one, which it switches on.
    Guarded(Counter, #[expect(dead_code, reason = "counts down when it is dropped")] Guard),
    /// The program does.
    Itself(Word),
    /// The runtime does, where it sees answers.
    Requests(CountingRequests),
}

impl Counting {
    fn count(&self) -> u64 {
        match self {
            Self::Kernel(counter) | Self::Guarded(counter, _) => counter.count(),
            Self::Itself(word) => word.count(),
            Self::Requests(requests) => requests.count(),
        }
    }

    /// What the kernel counts by.
    fn means(&self) -> Option<Means> {
        match self {
            Self::Kernel(counter) | Self::Guarded(counter, _) => Some(counter.means()),
            Self::Itself(_) | Self::Requests(_) => None,
        }
    }
}

impl Watch {
    fn of(instruction: &Instruction, counting: Counting) -> Self {
        let file = Some(instruction.file.clone());
        Self { address: Some(instruction.address), file, counter: Arc::new(counting) }
    }
}

impl Placed {
    /// What counts system calls or requests is there at once; what counts instructions comes when they have been found.
    fn new(memory: &'static SharedMemory, spec: &PointSpec, pid: u32) -> Result<Self> {
        let counting = match &spec.place {
            Place::SystemCall(name) => Some(Counting::Kernel(place::system_call(pid, name)?)),
            Place::Requests(port) => Some(Counting::Requests(CountingRequests::new(memory, *port))),
            _ => None,
        };
        let watch = |counting| Watch { address: None, file: None, counter: Arc::new(counting) };
        let counters = counting.map(watch).into_iter().collect::<Vec<_>>();
        let (point, place) = (spec.point.clone(), spec.place.clone());
        let kind = match point.kind {
            PointKind::Throughput => None,
            PointKind::Begin => Some(wire::counter::Kind::Begin),
            PointKind::End => Some(wire::counter::Kind::End),
        };
        // No program calls a point like that.
        let name = format!("\u{1}{}", point.name);
        let noted = kind.filter(|_| place.is_in_image());
        let noted = noted.and_then(|kind| memory.counters.get(kind, name.as_bytes()));
        let (past, samples, refused, why) = (0.into(), Arc::default(), OnceLock::new(), OnceLock::new());
        let (executed, spots) = (Mutex::default(), Mutex::default());
        let counters = counters.into();
        Ok(Self { point, place, noted, counters, executed, spots, past, samples, refused, why })
    }

    fn counters(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the runtime notes all visits.
    fn is_noted(&self) -> bool {
        let is_trap = |counter: &Counting| counter.means() == Some(Means::Trap);
        self.noted.is_some()
            && self.counters().iter().all(|watch| is_trap(&watch.counter))
            && self.executed().iter().all(|(_, counter)| is_trap(counter))
    }

    /// Whether the program counts all visits itself, which costs it next to nothing.
    fn is_counted_by_itself(&self) -> bool {
        let counters = self.counters();
        let in_first = !counters.is_empty() && counters.iter().all(|watch| watch.counter.means().is_none());
        in_first && self.executed().is_empty()
    }

    fn executed(&self) -> MutexGuard<'_, Vec<(Spread, Counting)>> {
        self.executed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self) -> u64 {
        let (counters, executed) = (self.counters(), self.executed());
        let now = counters.iter().map(|watch| watch.counter.count());
        let now = now.chain(executed.iter().map(|(_, counter)| counter.count()));
        now.fold(self.past.load(Ordering::Relaxed), u64::wrapping_add)
    }

    /// Whether its visits are counted anywhere, or were.
    fn is_somewhere(&self) -> bool {
        self.past.load(Ordering::Relaxed) > 0 || !self.counters().is_empty() || !self.executed().is_empty()
    }
}

/// All progress points of a program: the placed ones first, then the registered ones in the order of their
/// registration, so that an index stays what it is.
#[derive(Debug)]
pub struct Points {
    memory: &'static SharedMemory,
    pid: u32,
    placed: Vec<Placed>,
    /// The programs that were executed, as far as points were looked for in them.
    executed: Mutex<executed::Known>,
    /// What changes the first program while it runs; none if that is impossible.
    patcher: OnceLock<Option<Patcher>>,
    /// A place that was chosen while the program runs, which marks no point and has none that the user has placed.
    chosen: OnceLock<(PointSpec, Placed)>,
}

/// Requests of other programs, which the runtime counts when they are answered, as long as this lives.
#[derive(Debug)]
pub struct CountingRequests {
    memory: &'static SharedMemory,
    /// Where they come, if not all of them count.
    port: Option<u16>,
}

impl CountingRequests {
    fn new(memory: &'static SharedMemory, port: Option<u16>) -> Self {
        memory.header.counting_requests.fetch_add(1, Ordering::Relaxed);
        Self { memory, port }
    }

    /// How many have been answered so far.
    pub fn count(&self) -> u64 {
        let is_asked = |source: &&Source| match source.kind() {
            Some((Kind::Accepted | Kind::Datagrams, port)) => self.port.is_none_or(|wanted| port == wanted),
            _ => false,
        };
        let sources = self.memory.arrivals.used().filter(is_asked);
        sources.map(|source| source.answered.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

impl Drop for CountingRequests {
    fn drop(&mut self) {
        self.memory.header.counting_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Points {
    /// Has the program count requests that come from other programs.
    pub fn count_requests(&self) -> CountingRequests {
        CountingRequests::new(self.memory, None)
    }
}

/// How often all points have been visited, and when.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Visits, one number per point.
    pub visits: Vec<u64>,
    /// What the runtime knows of the times of visits, per point; nothing of points that only the kernel counts.
    pub stamps: Vec<Option<Stamps>>,
    /// What is known of pieces of work whose beginning and end could be paired.
    pub paired: Vec<Paired>,
}

/// Visits to an end that belong to a beginning in the same thread; see [`wire::counter::Paired`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paired {
    pub count: u64,
    /// In nanoseconds.
    pub time: u64,
    pub strays: u64,
}

impl Paired {
    fn of(counter: &wire::counter::Counter) -> Self {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let paired = &counter.paired;
        Self { count: load(&paired.count), time: load(&paired.time), strays: load(&paired.strays) }
    }
}

/// How long what ended took so far, by the index of the end point.
pub type Distributions = HashMap<usize, Distribution>;

/// How many pieces of work took how long, at one moment; see [`wire::latency::Distribution`].
#[derive(Clone, Debug)]
pub struct Distribution(Vec<u32>);

impl Distribution {
    /// The times that occurred since `before`, and how often.
    pub fn since(&self, before: Option<&Self>) -> Vec<(profile::Nanos, u32)> {
        let before = before.into_iter().flat_map(|before| before.0.iter().copied());
        let counts = self.0.iter().zip(before.chain(std::iter::repeat(0)));
        let counts = counts.map(|(now, before)| now.wrapping_sub(before)).enumerate();
        let time = |cell| profile::Nanos::new(wire::latency::middle(cell).0);
        counts.filter(|(_, count)| *count > 0).map(|(cell, count)| (time(cell), count)).collect()
    }
}

/// Whether visits can be counted here at all: better said before the program runs. What a breakpoint costs, where
/// there are any.
pub fn check(specs: &[PointSpec]) -> Result<Option<Nanos>> {
    if !specs.iter().any(|spec| spec.place.is_in_image()) {
        return Ok(None);
    }
    match visits::cost(Means::Breakpoint) {
        Ok(cost) => Ok(Some(cost)),
        Err(error) => match visits::cost(Means::Uprobe) {
            Ok(_) => Ok(None),
            Err(_) => Err(refused(error)),
        },
    }
}

/// What a visit costs that the visiting thread notes itself, besides noting it: where there are beginnings and ends of latencies.
pub fn noting_cost(specs: &[PointSpec]) -> Option<Nanos> {
    specs.iter().any(PointSpec::is_of_latency).then(visits::trap_cost)?.ok()
}

/// Why visits cannot be counted, and what to do.
fn refused(error: std::io::Error) -> anyhow::Error {
    let advice = match error.raw_os_error() {
        Some(code) if code == Errno::NOSPC.raw_os_error() => {
            "cannot count visits: the CPU has four breakpoints, and further points need uprobes (root, or CAP_PERFMON); \
             place fewer points, mark some in the source, count requests (-p net:requests), or let samples be visits: -p sampled:PLACE"
        }
        _ => {
            "cannot count visits: this needs perf events; allow them with sudo sysctl kernel.perf_event_paranoid=2 (in a \
             container also the seccomp profile), mark points in the source, count requests (-p net:requests), or let samples be visits: -p \
             sampled:PLACE"
        }
    };
    anyhow::Error::from(error).context(advice)
}

/// The program waits, and goes on waiting until this is dropped, while its code is changed.
struct Changing<'a>(&'a AtomicU32);

impl<'a> Changing<'a> {
    /// `None` if it does not wait.
    fn begin(memory: &'a SharedMemory) -> Option<Self> {
        let (waits, changing) = (Hold::Waits as u32, Hold::Changing as u32);
        let hold = &memory.header.hold;
        let waited = hold.compare_exchange(waits, changing, Ordering::AcqRel, Ordering::Relaxed);
        waited.is_ok().then_some(Self(hold))
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.store(Hold::Waits as u32, Ordering::Release);
    }
}

impl Points {
    /// Places what was asked for in the program that has just been mapped. What is not there yet may be in a library that
    /// it loads later, where `later` says so.
    pub fn place(
        memory: &'static SharedMemory,
        specs: &[PointSpec],
        images: &Images,
        pid: u32,
        scope: &Scope,
        later: bool,
    ) -> Result<Self> {
        let placed = specs.iter().map(|spec| Placed::new(memory, spec, pid)).collect::<Result<_>>()?;
        let mut points = Self {
            memory,
            pid,
            placed,
            executed: Mutex::default(),
            patcher: OnceLock::new(),
            chosen: OnceLock::new(),
        };
        let changing = Changing::begin(memory);
        let may_count = changing.is_some() && specs.iter().any(PointSpec::may_count_itself);
        let entries = |spec: &PointSpec| images.instructions(|image| spec.entries(image, scope));
        let watched = specs.iter().flat_map(entries).map(|instruction| instruction.address.0);
        let patcher = if may_count { Patcher::new(pid, Runs::NotYet, watched) } else { None };
        for (nth, spec) in specs.iter().enumerate() {
            match points.find(&points.placed[nth], spec, images, scope, patcher.as_ref()) {
                // There may be no breakpoint left.
                Err(error) if spec.can_be_sampled() && error.root_cause().is::<std::io::Error>() => {
                    points.placed[nth].place = spec.place.sampled();
                }
                found => found?,
            }
            let may_come = later || spec.is_in_named_program();
            if !may_come && points.placed[nth].place.is_in_image() && points.placed[nth].counters().is_empty()
            {
                bail!(spec.missing(None));
            }
        }
        drop(changing);
        images.note_changed(patcher.map(|patcher| patcher.changed()).unwrap_or_default());
        Ok(points)
    }

    /// Places what libraries have that were loaded since, and gives up what was in those that are gone.
    pub fn follow(&self, specs: &[PointSpec], images: &Images, scope: &Scope) {
        let chosen = self.chosen.get().map(|(spec, placed)| (placed, spec));
        for (placed, spec) in self.placed.iter().zip(specs).chain(chosen) {
            if let Err(error) = self.find(placed, spec, images, scope, None) {
                let _ = placed.refused.set(format!("{}: {error:#}", spec.place));
            }
        }
    }

    /// Counts visits to a place as progress, in a program that runs and has no point so far. `by_itself`: all of them are to be counted by the program itself.
    ///
    /// # Errors
    /// Why that cannot be had.
    pub fn choose(&self, place: &str, by_itself: bool, images: &Images, scope: &Scope) -> Result<()> {
        let spec = PointSpec::throughput(place)?;
        let placed = Placed::new(self.memory, &spec, self.pid())?;
        let patcher = if by_itself { self.patcher_of_running() } else { None };
        let found = match (by_itself, patcher) {
            (true, None) => Err(anyhow!("the program cannot be changed while it runs")),
            _ => self.find(&placed, &spec, images, scope, patcher),
        };
        self.find_in_executed((&placed, &spec), images, scope);
        let is_enough = found.is_ok() && (!by_itself || placed.is_counted_by_itself());
        if let Some(patcher) = patcher.filter(|_| !is_enough) {
            patcher.restore(|_| true);
        }
        images.note_changed(patcher.map(Patcher::changed).unwrap_or_default());
        found?;
        if !placed.is_somewhere() {
            bail!(spec.missing(None));
        }
        ensure!(is_enough, "not all visits to it can be counted like that");
        // What is executed from now on waits until it is placed there.
        let waits = spec.is_in_image();
        let _ = self.chosen.set((spec, placed));
        self.memory.header.placing.store(u32::from(waits), Ordering::Relaxed);
        Ok(())
    }

    /// What changes the program while it runs. None if it is several processes, which may have memories of their own.
    fn patcher_of_running(&self) -> Option<&Patcher> {
        let &[pid] = &self.pids()[..] else { return None };
        let patcher = self.patcher.get_or_init(|| Patcher::new(pid, Runs::Already, []));
        patcher.as_ref().filter(|patcher| patcher.is_of(pid))
    }

    /// Has the program count its visits to these functions itself, each where that is safe, until [`counts_no_longer`](Self::counts_no_longer).
    fn counts_itself(&self, functions: &[&Function]) -> Vec<Option<Word>> {
        let none = || vec![None; functions.len()];
        let Some(patcher) = self.patcher_of_running() else { return none() };
        let word = |function: &&Function| self.word(function.start());
        let Some(words) = functions.iter().map(word).collect::<Option<Vec<_>>>() else { return none() };
        let wanted: Vec<_> = functions.iter().copied().zip(words).collect();
        let counters = self.all().flat_map(|placed| placed.counters().clone());
        let watched: Vec<u64> = counters.filter_map(|watch| Some(watch.address?.0)).collect();
        let is_watched =
            |function: &Function| watched.iter().any(|address| function.taken().contains(address));
        if functions.iter().any(|function| is_watched(function)) {
            return none();
        }
        patcher.count(&wanted, self.memory)
    }

    /// Has it count them no longer.
    fn counts_no_longer(&self, functions: &[&Function]) {
        // Also if it is several processes by now.
        if let Some(Some(patcher)) = self.patcher.get() {
            patcher.restore(|function| functions.contains(&function));
        }
    }

    /// Lets threads go that were to stop, and have only now.
    pub fn release_late(&self) {
        if let Some(Some(patcher)) = self.patcher.get() {
            patcher.release_late();
        }
    }

    /// Where visits to an instruction are counted if the program does it itself.
    fn word(&self, address: u64) -> Option<&'static AtomicU64> {
        // No program calls a point like that, and no two functions share one.
        let name = format!("\u{1}{address:x}");
        Some(&self.memory.counters.get(wire::counter::Kind::Throughput, name.as_bytes())?.count)
    }

    /// All that are counted from outside.
    fn all(&self) -> impl Iterator<Item = &Placed> {
        self.placed.iter().chain(self.chosen.get().map(|(_, placed)| placed))
    }

    /// Whether there is anything whose visits can be progress by now; places in libraries that are not loaded yet do not count.
    pub fn is_any(&self) -> bool {
        let is_there = |placed: &Placed| placed.is_somewhere() || !placed.place.is_in_image();
        self.all().any(is_there) || self.registered().next().is_some()
    }

    /// Watches the instructions of a place where they are now. `patcher`: of a program that waits for us, or may be changed while it runs.
    fn find(
        &self,
        placed: &Placed,
        spec: &PointSpec,
        images: &Images,
        scope: &Scope,
        patcher: Option<&Patcher>,
    ) -> Result<()> {
        if !placed.place.is_in_image() {
            return Ok(());
        }
        let found = images.instructions(|image| spec.entries(image, scope));
        spec.check_copies(found.len())?;
        let there = placed.counters().clone();
        let known = |instruction: &Instruction| {
            there.iter().find(|watch| watch.address == Some(instruction.address)).cloned()
        };
        let patcher = patcher.filter(|_| spec.may_count_itself());
        let by_itself = |instruction: &Instruction| {
            let counts = self.by_itself(instruction, images, patcher?);
            let counts = counts.inspect_err(|why| drop(placed.why.set(why.clone()))).ok()?;
            Some(Watch::of(instruction, Counting::Itself(counts)))
        };
        let watch = |instruction| {
            let there = known(instruction).or_else(|| by_itself(instruction));
            there.map_or_else(|| self.watch(placed, instruction), Ok)
        };
        let watches = found.iter().map(watch).collect::<Result<Vec<_>>>()?;
        let mut counters = placed.counters();
        let is_gone = |watch: &&Watch| !watches.iter().any(|now| now.address == watch.address);
        let past = counters.iter().filter(is_gone).map(|watch| watch.counter.count());
        placed.past.fetch_add(past.fold(0, u64::wrapping_add), Ordering::Relaxed);
        let before = std::mem::replace(&mut *counters, watches);
        // The kernel takes its time to do away with them, and another thread may want to count.
        drop(counters);
        drop(before);
        Ok(())
    }

    /// Has the program count its visits to a function itself, where that is safe.
    fn by_itself(&self, instruction: &Instruction, images: &Images, patcher: &Patcher) -> Result<Word, Why> {
        let function = images.function_from(instruction.address)?;
        let word = self.word(instruction.address.0).ok_or(Why::NotNow)?;
        patcher.count(&[(&function, word)], self.memory).pop().flatten().ok_or(Why::NotNow)
    }

    /// A begin or an end is noted by the thread that visits it, where it can be. Two points at one place share what counts there otherwise.
    fn watch(&self, placed: &Placed, instruction: &Instruction) -> Result<Watch> {
        let address = Some(instruction.address);
        if let Some(noted) = placed.noted
            && !(instruction.guard.is_some() && guard::prefers_uprobes())
            && !self.all().any(|other| other.counters().iter().any(|watch| watch.address == address))
        {
            let pid = self.pid();
            let trap = || self.trap(pid, instruction.address, noted);
            if let Ok(counting) = self.guarded(0, &[pid], instruction, trap) {
                return Ok(Watch::of(instruction, counting));
            }
        }
        let counts = |watch: &&Watch| watch.address == address && watch.counter.means() != Some(Means::Trap);
        let same = |placed: &Placed| placed.counters().iter().find(counts).cloned();
        match self.all().find_map(same) {
            Some(watch) => Ok(watch),
            None => {
                let counting = self.count(&self.pids(), instruction).map_err(refused)?;
                Ok(Watch::of(instruction, counting))
            }
        }
    }

    /// Counts visits in the first program: those to a guarded instruction by a breakpoint or a uprobe, whichever is better and is to be had.
    fn count(&self, pids: &[u32], instruction: &Instruction) -> std::io::Result<Counting> {
        if instruction.guard.is_none() {
            return Counter::new(pids, instruction).map(Counting::Kernel);
        }
        let by_uprobe = || Counter::by(Means::Uprobe, pids, instruction).map(Counting::Kernel);
        let by_breakpoint = || Counter::by(Means::Breakpoint, pids, instruction);
        if guard::prefers_uprobes()
            && let Ok(counting) = by_uprobe()
        {
            return Ok(counting);
        }
        self.guarded(0, pids, instruction, by_breakpoint).or_else(|error| by_uprobe().map_err(|_| error))
    }

    /// What `count` makes, in processes of a program (zero for the first one) in which the instruction is switched on before if it is guarded.
    fn guarded(
        &self,
        program: u32,
        pids: &[u32],
        instruction: &Instruction,
        count: impl FnOnce() -> std::io::Result<Counter>,
    ) -> std::io::Result<Counting> {
        let Some(guard) = instruction.guard else { return count().map(Counting::Kernel) };
        let guard = Guard::raise(self.memory, program, pids, guard.address)?;
        Ok(Counting::Guarded(count()?, guard))
    }

    /// Has the threads of a process note their visits to an instruction themselves.
    fn trap(&self, pid: u32, address: Address, noted: &wire::counter::Counter) -> std::io::Result<Counter> {
        // The runtime takes samples as signals of the same number, unless a debugger would stop at each.
        if self.memory.header.traps.load(Ordering::Relaxed) == 0 {
            return Err(std::io::ErrorKind::Unsupported.into());
        }
        let place = self.memory.counters.place(noted) as u64;
        Counter::trap(pid, address, VISIT | place)
    }

    /// The processes that the program is by now, the first one first. Those that have executed another one have other addresses.
    pub fn pids(&self) -> Vec<u32> {
        let is_same = |slot: &&wire::slot::Slot| slot.is_taken() && !slot.is_executed();
        let of_slots = self.memory.slots.used().iter().filter(is_same);
        let mut others: Vec<u32> = of_slots.map(|slot| slot.pid.load(Ordering::Relaxed)).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|pid| *pid != self.pid && *pid != 0);
        let mut all: Vec<u32> = std::iter::once(self.pid).chain(others).collect();
        let runs = |pid: &u32| ProcessStat::of(*pid).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'));
        if all.iter().any(runs) {
            all.retain(runs);
        }
        all
    }

    /// The first of them: the first program's, or one that was forked from it when that has ended.
    fn pid(&self) -> u32 {
        self.pids()[0]
    }

    /// Whether any is a place in code that is watched.
    pub fn are_in_images(&self) -> bool {
        self.all().any(|placed| placed.place.is_in_image())
    }

    /// Points that are nowhere yet.
    pub fn waiting(&self) -> impl Iterator<Item = &str> {
        let waits = |placed: &&Placed| {
            placed.place.is_in_image() && !placed.is_somewhere() && placed.refused.get().is_none()
        };
        self.all().filter(waits).map(|placed| placed.point.name.as_str())
    }

    /// Points whose visits were asked for, but that are sampled.
    pub fn not_counted(&self) -> impl Iterator<Item = &str> {
        let sampled = |placed: &&Placed| {
            matches!(placed.place, Place::Sampled(_)) && placed.point.name != placed.place.to_string()
        };
        self.all().filter(sampled).map(|placed| placed.point.name.as_str())
    }

    /// Why places that appeared late could not be counted.
    pub fn refused(&self) -> impl Iterator<Item = &str> {
        self.all().filter_map(|placed| placed.refused.get()).map(String::as_str)
    }

    /// The points so far. One that the program registers under the name of a placed one is told apart.
    pub fn list(&self) -> Vec<Point> {
        let mut points: Vec<Point> = self.all().map(|placed| placed.point.clone()).collect();
        for counter in self.registered() {
            let kind = match counter.kind() {
                Some(wire::counter::Kind::Begin) => PointKind::Begin,
                Some(wire::counter::Kind::End) => PointKind::End,
                _ => PointKind::Throughput,
            };
            let mut name = String::from_utf8_lossy(&counter.name().collect::<Vec<u8>>()).into_owned();
            if self.all().any(|placed| placed.point.name == name && placed.point.kind == kind) {
                name.push_str(" (in the source)");
            }
            points.push(Point { name, kind });
        }
        points
    }

    /// The points that the program has registered.
    fn registered(&self) -> impl Iterator<Item = &'static wire::counter::Counter> {
        // No program calls a point like that.
        let is_ours = |counter: &&wire::counter::Counter| counter.name().next() == Some(1);
        self.memory.counters.registered().filter(move |counter| !is_ours(counter))
    }

    /// How often each has been visited.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for placed in self.all() {
            let samples = placed.samples.load(Ordering::Relaxed);
            counts.visits.push(placed.counted().wrapping_add(samples));
            let noted = placed.noted.filter(|_| placed.is_noted());
            counts.stamps.push(noted.map(|noted| noted.stamps.load()));
            counts.paired.push(noted.map(Paired::of).unwrap_or_default());
        }
        for counter in self.registered() {
            counts.visits.push(counter.count.load(Ordering::Relaxed));
            counts.stamps.push(Some(counter.stamps.load()));
            counts.paired.push(Paired::of(counter));
        }
        counts
    }

    /// How long what ended took so far, where beginnings and ends can be paired.
    pub fn distributions(&self) -> Distributions {
        let noted = |placed: &Placed| placed.noted.filter(|_| placed.is_noted());
        let all = self.all().map(noted).chain(self.registered().map(Some));
        let of_counter = |counter: &wire::counter::Counter| {
            let found = self.memory.distributions.get(counter.distribution.load(Ordering::Relaxed))?;
            Some(Distribution(found.counts().collect()))
        };
        all.enumerate().filter_map(|(point, counter)| Some((point, of_counter(counter?)?))).collect()
    }

    /// Whether the kernel has to be asked for some.
    pub fn are_asked_for(&self) -> bool {
        self.all().any(|placed| !matches!(placed.place, Place::Sampled(_)))
    }

    /// The code whose samples are visits, and where they are counted.
    pub fn sampled(&self) -> Vec<(RegionSpec, Arc<AtomicU64>)> {
        let sampled = |placed: &Placed| match &placed.place {
            Place::Sampled(code) => Some((code.clone(), Arc::clone(&placed.samples))),
            _ => None,
        };
        self.all().filter_map(sampled).collect()
    }

    /// What visits to each point that is counted by breakpoints cost, as a share of `elapsed`. `cost` and `noting`: as for [`means`](Self::means).
    pub fn costs(
        &self,
        cost: Option<Nanos>,
        noting: Option<Nanos>,
        elapsed: profile::Nanos,
    ) -> Vec<(String, f64)> {
        let share = |(name, spent): (String, profile::Nanos)| {
            (name, spent.get() as f64 / elapsed.get().max(1) as f64)
        };
        self.spent(cost, noting).into_iter().map(share).collect()
    }

    /// The time that counting visits to each point has taken so far. `cost` and `noting`: as for [`means`](Self::means).
    pub fn spent(&self, cost: Option<Nanos>, noting: Option<Nanos>) -> Vec<(String, profile::Nanos)> {
        let spent = |placed: &Placed| {
            let is_free = matches!(placed.place, Place::SystemCall(_) | Place::Requests(_));
            let visits = if is_free { 0 } else { placed.counted() };
            let cost = match (placed.is_counted_by_itself(), placed.is_noted()) {
                (true, _) => Some(counting_code::COST),
                (_, true) => noting.or(cost),
                (_, false) => cost,
            };
            let cost = cost.unwrap_or(Nanos(0));
            (placed.point.name.clone(), profile::Nanos::new(visits.saturating_mul(cost.0)))
        };
        self.all().map(spent).collect()
    }

    /// The points that are counted by breakpoints, and where these are, by the addresses that all processes share.
    pub fn breakpoints(&self, images: &Images) -> impl Iterator<Item = (String, Address)> {
        let is_breakpoint =
            |watch: &Watch| matches!(watch.counter.means(), Some(Means::Breakpoint | Means::Trap));
        self.all().flat_map(move |placed| {
            let watches = placed.counters().clone().into_iter().filter(is_breakpoint);
            let spots = placed.spots.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let spots = spots.iter().filter_map(|spot| images.address(spot)).map(Address).collect::<Vec<_>>();
            let addresses = watches.filter_map(|watch| watch.address).chain(spots);
            addresses.map(|address| (placed.point.name.clone(), address))
        })
    }

    /// Counts no more visits to the points of this name.
    pub fn give_up(&self, name: &str) {
        for placed in self.all().filter(|placed| placed.point.name == name) {
            let counters = std::mem::take(&mut *placed.counters());
            let executed = std::mem::take(&mut *placed.executed());
            let counted = counters.iter().map(|watch| watch.counter.count());
            let counted = counted.chain(executed.iter().map(|(_, counter)| counter.count()));
            placed.past.fetch_add(counted.fold(0, u64::wrapping_add), Ordering::Relaxed);
        }
    }

    /// Whether a point of this name is a beginning or an end.
    pub fn is_of_latency(&self, name: &str) -> bool {
        self.all().any(|placed| placed.point.name == name && placed.point.kind != PointKind::Throughput)
    }

    /// Why the program cannot count visits to the function of this name itself, if that was tried.
    pub fn why_not_by_itself(&self, name: &str) -> Option<Why> {
        self.all().filter(|placed| placed.point.name == name).find_map(|placed| placed.why.get().cloned())
    }

    /// How the placed points are watched, if there are any: for people. `cost`: of a breakpoint; `noting`: of one at which the thread notes the visit.
    pub fn means(&self, cost: Option<Nanos>, noting: Option<Nanos>) -> Option<String> {
        let mut seen = HashSet::new();
        let counters = self.all().flat_map(|placed| placed.counters().clone());
        let counters = counters.map(|watch| watch.counter);
        let different: Vec<_> = counters.filter(|counter| seen.insert(Arc::as_ptr(counter))).collect();
        let by = |means| different.iter().filter(|counter| counter.means() == means).count();
        let is_of_requests = |counter: &&Arc<Counting>| matches!(***counter, Counting::Requests(_));
        let requests = different.iter().filter(is_of_requests).count();
        let by_itself = by(None) - requests;
        let by = |means| by(Some(means));
        let several = |number: usize, what: &str| {
            (number > 0).then(|| format!("{number} {what}{}", if number == 1 { "" } else { "s" }))
        };
        // A hundred visits: what takes less has other requests' visits in it to more than some per cent.
        let short = noting.map_or_else(String::new, |cost| {
            let millis = cost.0 as f64 * 100.0 / 1e6;
            format!(
                " (latencies below {millis:.1} ms are measured as too long, and their intervals are wider: mark such points in the source)"
            )
        });
        let cost = cost.map_or_else(String::new, |cost| format!(" ({:.1} µs a visit)", cost.0 as f64 / 1e3));
        let parts = [
            several(by_itself, "function")
                .map(|text| text + " that the program counts itself (some ns a visit)"),
            several(requests, "kind of request").map(|text| text + " that the runtime counts when it is answered"),
            several(by(Means::Breakpoint), "hardware breakpoint").map(|text| text + &cost),
            several(by(Means::Trap), "hardware breakpoint")
                .map(|text| text + " at which threads note the time of each visit" + &short),
            several(by(Means::Uprobe), "uprobe").map(|text| text + " (which count in all processes)"),
            several(by(Means::Tracepoint), "tracepoint"),
            several(self.sampled().len(), "sampled place"),
            several(self.waiting().count(), "place")
                .map(|text| text + " whose library is not loaded, or whose program is not executed, yet (then by hardware breakpoints)"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let why = |placed: &Placed| {
            Some(format!("; {} cannot count its visits itself: {}", placed.point.name, placed.why.get()?))
        };
        let whys: String = self.all().filter_map(why).collect();
        (!parts.is_empty()).then(|| parts.join(" and ") + &whys)
    }
}
