//! Watching the program: draining samples, finding out whose they are, and telling the runtime which
//! code is in scope.
//!
//! Debug information is read lazily. The first sample in a function has that function, and no other,
//! cut into pieces with the same frames; a region is a set of pieces. What was never sampled is never
//! looked at, so a large program costs no more than its hot functions.

use crate::arguments::Granularity;
use crate::calls::Names;
use crate::circles::{Circles, Source};
use crate::embedded;
use crate::finer::Finer;
use crate::first_functions::FirstFunctions;
use crate::follow::Used;
use crate::images::{Images, Located, Spot};
use crate::naming::Naming;
use crate::options::{Options, Survey};
use crate::owner::{Code, Owner, Question, Selection, Which, matching, outside, owner};
use crate::ranges::ends;
use crate::region::{RegionIndex, RegionSpec};
use crate::stacks::Stacks;
use crate::unwind_tables::UnwindTables;
use kernel::visits;
use profile::{Nanos, Region, RegionKind};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::{Index, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use symbols::Frame;
use wire::{
    Address, SharedMemory,
    files::BEYOND,
    ring::{Judgement, Sample},
    slot::mark,
    unwind::Caller,
};

/// Samples that the next region is chosen from: so many of the most recent ones in scope.
const OFFERS: usize = 64;
/// Lines of code whose samples are counted.
const MOST_LINES: usize = 1 << 16;
/// Samples that the next region is chosen from are not older than this.
const OFFER_AGE: Nanos = Nanos::from_millis(250);
/// Telling the runtime which code is in scope never takes more than this part of the time, as a divisor.
const MOST_SHARE: u32 = 100;

impl Index<RegionIndex> for [Known] {
    type Output = Known;

    fn index(&self, RegionIndex(index): RegionIndex) -> &Known {
        &self[index]
    }
}

/// Code with the same frames from its first to its last byte.
#[derive(Debug)]
struct Piece {
    end: u64,
    /// What it is to regions.
    code: Arc<Code<RegionIndex>>,
    /// The functions and lines of all its frames in scope, if stacks are of interest.
    frames: Vec<RegionIndex>,
}

/// What was seen of a function or line on stacks.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    /// Samples with it on their stack.
    pub samples: u64,
    /// The threads that these samples are of.
    pub threads: HashSet<usize>,
}

/// A region as far as it is known: its code grows with the functions that are sampled.
#[derive(Debug)]
pub struct Known {
    pub region: Region,
    /// Whether the user asked for it.
    pub named: bool,
    /// Samples of the whole run, and the CPU time they stand for.
    pub samples: u64,
    pub weight: Nanos,
    /// Of a line that is only of interest if its function is: that function.
    pub inside: Option<RegionIndex>,
    /// Of a function without any caller in scope, where callers matter.
    alone: bool,
    /// Of a function as another one calls it: both.
    path: Option<(RegionIndex, RegionIndex)>,
}

impl Known {
    /// A region of which nothing has been seen.
    fn new(region: Region) -> Self {
        Self { region, named: false, samples: 0, weight: Nanos::ZERO, inside: None, alone: false, path: None }
    }
}

/// A poisoned lock means that the other thread has panicked and the run is over anyway.
pub fn lock(observer: &Mutex<Observer>) -> MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything learnt from samples.
pub struct Observer {
    memory: &'static SharedMemory,
    images: Images,
    tables: UnwindTables,
    circles: Circles,
    finer: Finer,
    specs: Arc<[RegionSpec]>,
    /// Points to which every sample is a visit.
    sampled: Vec<(RegionSpec, Arc<AtomicU64>)>,
    granularity: Granularity,
    naming: Naming,
    scope: symbols::Scope,
    stacks: Stacks,
    /// [`Images::changes`] when callchains were looked at last.
    changes: usize,
    pieces: BTreeMap<u64, Piece>,
    regions: Vec<Known>,
    index: HashMap<(RegionKind, String, Option<String>, usize), RegionIndex>,
    /// Functions as others call them.
    paths: HashMap<(RegionIndex, RegionIndex), RegionIndex>,
    offers: VecDeque<(u64, RegionIndex)>,
    samples: u64,
    weight: Nanos,
    /// Samples whose stack was deeper than there is room for.
    deep: u64,
    /// Samples that a timer has taken.
    timed: u64,
    in_scope: u64,
    /// Out-of-scope images that samples fell in, for the message when nothing was in scope.
    elsewhere: HashMap<String, u64>,
    unpublished: bool,
    /// When it may be told again.
    next_publication: Instant,
    /// The region of the window under way, and the samples since it was asked for.
    watched: Option<RegionIndex>,
    watch: Vec<Watched>,
    /// What is on stacks, if that is of interest.
    chains: Option<HashMap<RegionIndex, Chains>>,
    /// Samples by the line of code (of [`visits::LINE`] bytes) that they were taken in, of the first that there were.
    lines: HashMap<u64, u64>,
    /// Samples by the file that the innermost frame is in, as long as stacks are of interest.
    innermost: HashMap<String, u64>,
    first_functions: FirstFunctions,
}

/// A sample while a window is under way.
#[derive(Clone, Copy, Debug)]
struct Watched {
    time: Nanos,
    weight: Nanos,
    hit: bool,
    /// Whether the stack was deeper than there is room for.
    deep: bool,
    /// What the runtime made of it.
    judgement: Judgement,
}

/// Samples of a window: how many, and the CPU time they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub region: (u64, Nanos),
    pub all: (u64, Nanos),
    /// Samples in the region for which the runtime credited nothing because the thread spins.
    pub spinning: Nanos,
    /// Samples in the region for which the runtime credited nothing because they came too late.
    pub late: Nanos,
    /// Samples in the region for which the runtime credited nothing because it did not know the code.
    pub unknown_code: Nanos,
    /// Samples outside the region that the runtime took for samples in it.
    pub extra: Nanos,
    /// Samples whose stack was deeper than there is room for.
    pub deep: Nanos,
}

impl Observer {
    pub fn new(
        memory: &'static SharedMemory,
        images: Images,
        options: &Options,
        sampled: Vec<(RegionSpec, Arc<AtomicU64>)>,
    ) -> Self {
        let mut observer = Self {
            memory,
            images,
            tables: UnwindTables::new(memory),
            circles: Circles::new(memory),
            finer: Finer::new(options.period, !options.fixed_period),
            specs: options.regions.as_slice().into(),
            sampled,
            granularity: options.granularity,
            naming: options.naming(),
            scope: options.scope.sources.clone(),
            stacks: Stacks::default(),
            changes: 0,
            pieces: BTreeMap::new(),
            regions: Vec::new(),
            index: HashMap::new(),
            paths: HashMap::new(),
            offers: VecDeque::new(),
            samples: 0,
            weight: Nanos::ZERO,
            deep: 0,
            timed: 0,
            in_scope: 0,
            elsewhere: HashMap::new(),
            unpublished: true,
            next_publication: Instant::now(),
            watched: None,
            watch: Vec::new(),
            chains: (options.survey == Some(Survey::Points) || options.looks_for_point()).then(HashMap::new),
            lines: HashMap::new(),
            innermost: HashMap::new(),
            first_functions: FirstFunctions::default(),
        };
        for spec in &*options.regions {
            observer.regions.push(Known { named: true, ..Known::new(spec.region()) });
        }
        observer
    }

    /// Whether threads are hardly to be sampled.
    pub fn sample_seldom(&mut self, seldom: bool) {
        self.finer.sample_seldom(seldom);
        self.drain();
    }

    /// Takes all samples that have come in, and publishes what they taught about the scope.
    pub fn drain(&mut self) {
        let memory = self.memory;
        let (mut running, mut lost) = (0, 0);
        let now = kernel::clock::monotonic();
        let mut used: HashMap<u16, Used> = HashMap::new();
        for (thread, slot) in memory.slots.used().iter().enumerate() {
            running += u32::from(slot.can_run(now));
            lost += slot.ring.lost();
            let pid = slot.pid.load(Ordering::Relaxed);
            let program = mark(slot.program.load(Ordering::Relaxed));
            let executed = slot.is_executed();
            while let Some(sample) = slot.ring.pop() {
                let of_program = used.entry(sample.program).or_default();
                of_program.has_sample(Nanos::new(sample.weight.0));
                if sample.program == program {
                    of_program.has_process(pid);
                }
                if let Some(&Address(address)) = sample.callchain().first() {
                    let images = &mut self.images;
                    self.circles.look_at(address, || match executed || address >= BEYOND.0 {
                        true => images.file_at(address).map(|(path, offset)| Source::File(path, offset)),
                        false => Some(Source::Process(pid)),
                    });
                }
                self.finer.count(&sample);
                self.observe(&sample);
                self.note_stack(thread, &sample);
                self.look_at_beginning(thread, slot.tid.load(Ordering::Relaxed), &sample);
            }
        }
        self.images.programs().count(used);
        self.images.keep_up();
        for code in self.images.new_code() {
            self.tables.look_into(code);
        }
        self.follow_mappings();
        memory.header.running.store(running, Ordering::Relaxed);
        if lost > 0 {
            self.finer.give_up();
        }
        self.finer.set(memory, running);
        self.circles.publish();
        if self.unpublished && Instant::now() >= self.next_publication {
            self.publish();
        }
    }

    /// Finds out what a thread was started to do, while that is not known.
    fn look_at_beginning(&mut self, slot: usize, tid: u32, sample: &Sample) {
        if !self.first_functions.wants(slot, tid) {
            return;
        }
        // A table says that nothing called the code, or how it was called, and the stack has ended: a library has begun the thread.
        let begins = |&Address(outermost): &Address| match self.memory.unwind.caller(Address(outermost)) {
            Caller::Nobody => true,
            Caller::By(_) => self.images.locate(outermost).is_none(),
            Caller::Unknown => false,
        };
        let is_whole = !sample.cut && sample.callchain().last().is_some_and(begins);
        let images = &mut self.images;
        let functions_at = |address| images.functions_in_scope(address);
        let found = is_whole.then(|| self.first_functions.first_of(sample, functions_at));
        self.first_functions.note(slot, tid, found);
    }

    /// Forgets the code that has gone, before anything is learnt of what has come there.
    fn follow_mappings(&mut self) {
        for gone in self.images.unmapped() {
            self.tables.forget(gone.start);
            self.forget(gone);
        }
        for remade in self.images.remade() {
            self.forget(remade);
        }
    }

    /// What is known of the code in a range: something else is there, or will be.
    fn forget(&mut self, range: Range<u64>) {
        self.circles.forget(&range);
        let Range { start, end } = range;
        let reaches_in = |(_, piece): &(&u64, &Piece)| piece.end > start;
        let first =
            self.pieces.range(..start).next_back().filter(reaches_in).map_or(start, |(first, _)| *first);
        let gone: Vec<u64> = self.pieces.range(first..end.max(first)).map(|(piece, _)| *piece).collect();
        self.unpublished |= !gone.is_empty();
        self.first_functions.forget_code();
        gone.iter().for_each(|piece| drop(self.pieces.remove(piece)));
    }

    fn observe(&mut self, sample: &Sample) {
        let weight = Nanos::new(sample.weight.0);
        self.samples += 1;
        self.weight += weight;
        self.deep += u64::from(sample.cut);
        self.timed += u64::from(sample.judgement.has(Judgement::TIMED));
        self.count_line(sample);
        self.follow_mappings();
        let owner = self.owner(sample);
        self.count_stack(sample);
        for point in &owner.sampled {
            self.sampled[*point].1.fetch_add(1, Ordering::Relaxed);
        }
        let path = self.path_of(&owner);
        let own = owner.function.into_iter().chain(owner.line).chain(path);
        for region in owner.named.iter().copied().map(RegionIndex).chain(own) {
            let known = &mut self.regions[region.0];
            known.samples += 1;
            known.weight += weight;
        }
        if let Some(region) = self.watched {
            let (time, judgement) = (Nanos::new(sample.time.0), sample.judgement);
            let hit = owner.is(self.which(region));
            self.watch.push(Watched { time, weight, hit, deep: sample.cut, judgement });
        }
        match (owner.function, sample.callchain().first()) {
            (Some(_), _) => self.in_scope += 1,
            (None, Some(first)) => *self.elsewhere.entry(self.images.name_of(first.0)).or_default() += 1,
            (None, None) => {}
        }
        for region in self.candidates(&owner, path) {
            self.offers.push_back((sample.time.0, region));
        }
        let most = self.offers.len().saturating_sub(OFFERS);
        self.offers.drain(..most);
    }

    /// Counts the line that a sample was taken in.
    fn count_line(&mut self, sample: &Sample) {
        let Some(address) = sample.callchain().first() else { return };
        let line = address.0 / visits::LINE;
        if let Some(samples) = self.lines.get_mut(&line) {
            *samples += 1;
        } else if self.lines.len() < MOST_LINES {
            self.lines.insert(line, 1);
        }
    }

    /// The share of all samples that were taken in the lines of these instructions.
    pub fn beside<'i>(&self, instructions: impl IntoIterator<Item = &'i Address>) -> f64 {
        let lines: HashSet<u64> = instructions.into_iter().map(|address| address.0 / visits::LINE).collect();
        let samples: u64 = lines.iter().filter_map(|line| self.lines.get(line)).sum();
        samples as f64 / self.samples.max(1) as f64
    }

    /// Counts the stack of a sample.
    fn count_stack(&mut self, sample: &Sample) {
        let changes = self.images.changes();
        if std::mem::replace(&mut self.changes, changes) != changes {
            self.stacks.forget_addresses();
        }
        if self.stacks.again(sample) {
            return;
        }
        // Callers are looked for from the inside: where the chain ends, the next table is missing.
        for frame in sample.callchain() {
            self.images.learn_callers(frame.0, &self.tables);
        }
        self.stacks.first(sample, &mut self.images, &self.memory.unwind);
    }

    /// The stacks of the run with names, which takes its time.
    pub fn named_stacks(&self) -> profile::Stacks {
        let names = Names {
            images: &self.images,
            unwind: &self.memory.unwind,
            scope: &self.scope,
            naming: self.naming,
        };
        names.of(&self.stacks)
    }

    /// What a sample belongs to. Code that is new is looked up, as far as it takes to say so.
    fn owner(&mut self, sample: &Sample) -> Owner<RegionIndex> {
        let specs = Arc::clone(&self.specs);
        let question = Question {
            specs: &specs,
            points: !self.sampled.is_empty(),
            caller: self.granularity == Granularity::Path,
        };
        let code = |frame: &Address| {
            let start = self.piece_at(frame.0)?;
            Some(Arc::clone(&self.pieces[&start].code))
        };
        owner(sample.callchain().iter().filter_map(code), question)
    }

    /// The region of the function as its caller calls it, where callers matter.
    fn path_of(&mut self, owner: &Owner<RegionIndex>) -> Option<RegionIndex> {
        let pair = owner.function.zip(owner.caller);
        let (function, caller) = pair.filter(|_| self.granularity == Granularity::Path)?;
        Some(self.path(function, caller))
    }

    /// The regions of a sample that an experiment may be about.
    fn candidates(&mut self, owner: &Owner<RegionIndex>, path: Option<RegionIndex>) -> Vec<RegionIndex> {
        if !self.specs.is_empty() {
            return owner.named.iter().copied().map(RegionIndex).collect();
        }
        let Owner { function, line, .. } = *owner;
        if let (Granularity::Path, None, Some(function)) = (self.granularity, path, function) {
            self.regions[function.0].alone = true;
        }
        let (first, second) = match self.granularity {
            Granularity::Auto => (function, line),
            Granularity::Function | Granularity::Module => (function, None),
            Granularity::Line => (line.or(function), None),
            Granularity::Path => (path.or(function), None),
        };
        first.into_iter().chain(second).collect()
    }

    /// Notes down what is on the stack of a sample, if stacks are of interest.
    fn note_stack(&mut self, thread: usize, sample: &Sample) {
        if self.chains.is_none() {
            return;
        }
        if let Some(first) = sample.callchain().first() {
            *self.innermost.entry(self.images.name_of(first.0)).or_default() += 1;
        }
        let mut on_stack: Vec<RegionIndex> = Vec::new();
        for frame in sample.callchain() {
            if let Some(start) = self.piece_at(frame.0) {
                on_stack.extend(&self.pieces[&start].frames);
            }
        }
        on_stack.sort_unstable();
        on_stack.dedup();
        let Some(chains) = &mut self.chains else { return };
        for region in on_stack {
            let seen = chains.entry(region).or_default();
            seen.samples += 1;
            seen.threads.insert(thread);
        }
    }

    /// Whether a library is waited for.
    pub fn be_eager(&mut self, eager: bool) {
        self.images.be_eager(eager);
    }

    /// What was on stacks, if that was of interest.
    pub fn chains(&self) -> Option<&HashMap<RegionIndex, Chains>> {
        self.chains.as_ref()
    }

    /// From here on it is of interest what is on stacks.
    pub fn note_stacks(&mut self) {
        if self.chains.is_none() {
            self.chains = Some(HashMap::new());
            // What is known of code so far is known without all of its frames.
            for start in std::mem::take(&mut self.pieces).into_keys() {
                self.piece_at(start);
            }
        }
    }

    /// What is on stacks is of no interest any more.
    pub fn forget_stacks(&mut self) {
        self.chains = None;
    }

    /// Looks into the file of this name as well, from now on; whether there is one that can be looked into.
    pub fn widen(&mut self, name: &str) -> bool {
        self.unpublished = true;
        self.images.widen(name)
    }

    /// The key of the piece that holds `address`, which is looked up when it is new. `None` when no
    /// candidate image is mapped there.
    fn piece_at(&mut self, address: u64) -> Option<u64> {
        if let Some((start, piece)) = self.pieces.range(..=address).next_back()
            && address < piece.end
        {
            return Some(*start);
        }
        let located = self.images.locate(address)?;
        self.unpublished = true;
        for (range, frames) in self.images.pieces(&located) {
            self.add_piece(&located, range, &frames);
        }
        self.pieces
            .range(..=address)
            .next_back()
            .filter(|(_, piece)| address < piece.end)
            .map(|(start, _)| *start)
    }

    fn add_piece(&mut self, located: &Located, range: Range<u64>, frames: &[Frame]) {
        let specs = Arc::clone(&self.specs);
        let mut code = Code::new(frames, &specs, |kind, frame| self.region_of(kind, frame, located));
        code.sampled = matching(self.sampled.iter().map(|(spec, _)| spec), frames);
        if let (Some(line), Granularity::Auto) = (code.line, self.granularity) {
            self.regions[line.0].inside = code.function;
        }
        for nth in &code.named {
            self.place_named(*nth, &specs[*nth], frames, located);
        }
        let frames = self.all_regions(frames, located);
        self.pieces.insert(range.start, Piece { end: range.end, code: Arc::new(code), frames });
    }

    /// What the user named gets the place that it was found at.
    fn place_named(&mut self, nth: usize, spec: &RegionSpec, frames: &[Frame], located: &Located) {
        let Some(found) = frames.iter().find(|frame| spec.matches(frame)) else { return };
        let region = &mut self.regions[nth].region;
        region.function.get_or_insert_with(|| found.function.to_string());
        if region.file.is_none() {
            region.file = found.file.as_deref().map(str::to_owned);
        }
        if region.kind == RegionKind::Function {
            region.line = region.line.into_iter().chain(found.line).min();
        }
        if region.image.path.is_empty() {
            region.image = self.images.image(located);
        }
    }

    /// The functions and lines of all frames in scope, if stacks are of interest.
    fn all_regions(&mut self, frames: &[Frame], located: &Located) -> Vec<RegionIndex> {
        let mut regions = Vec::new();
        if self.chains.is_some() {
            for frame in frames.iter().filter(|frame| frame.in_scope) {
                regions.push(self.region_of(RegionKind::Function, frame, located));
                if frame.line.is_some() {
                    regions.push(self.region_of(RegionKind::Line, frame, located));
                }
            }
        }
        regions
    }

    fn region_of(&mut self, kind: RegionKind, frame: &Frame, located: &Located) -> RegionIndex {
        let (name, file) = self.naming.of(kind, frame);
        let key = (kind, name.clone(), file.clone(), located.image);
        if let Some(index) = self.index.get(&key) {
            let region = &mut self.regions[index.0].region;
            if kind == RegionKind::Function {
                // The debug information of a piece has its line; the smallest is closest to the head.
                region.line = region.line.into_iter().chain(frame.line.filter(|line| *line > 0)).min();
            }
            return *index;
        }
        let region = Region {
            kind,
            inclusive: false,
            name,
            function: Some(frame.function.to_string()),
            file,
            line: frame.line,
            image: self.images.image(located),
        };
        let index = self.add(Known::new(region));
        self.index.insert(key, index);
        index
    }

    /// The region of a function as another one calls it.
    fn path(&mut self, function: RegionIndex, caller: RegionIndex) -> RegionIndex {
        if let Some(index) = self.paths.get(&(function, caller)) {
            return *index;
        }
        let callee = &self.regions[function.0].region;
        let name = format!("{}@{}", callee.name, self.regions[caller.0].region.name);
        let region = Region { name, ..callee.clone() };
        let index = self.add(Known { path: Some((function, caller)), ..Known::new(region) });
        self.paths.insert((function, caller), index);
        index
    }

    fn add(&mut self, known: Known) -> RegionIndex {
        self.regions.push(known);
        RegionIndex(self.regions.len() - 1)
    }

    /// Tells the runtime which code of the candidate images is known to be outside the scope.
    fn publish(&mut self) {
        let begin = Instant::now();
        let images = self.images.code_ranges().into_iter().map(ends);
        self.memory.code.publish(images, outside(self.code()));
        self.unpublished = false;
        self.next_publication = begin + begin.elapsed() * MOST_SHARE;
    }

    /// All code that is known, in the order of its addresses.
    fn code(&self) -> impl Iterator<Item = (Range<u64>, &Code<RegionIndex>)> + Clone {
        self.pieces.iter().map(|(start, piece)| (*start..piece.end, &*piece.code))
    }

    /// The regions that threads have been running just before `now`, one entry per sample.
    pub fn offers(&self, now: Nanos) -> impl Iterator<Item = RegionIndex> {
        let oldest = now.saturating_sub(OFFER_AGE).get();
        self.offers.iter().filter(move |(time, _)| *time >= oldest).map(|(_, region)| *region)
    }

    /// What the runtime is to be told of a region.
    pub fn selection(&self, region: RegionIndex) -> Selection {
        Selection::new(self.code(), self.which(region))
    }

    fn which(&self, region: RegionIndex) -> Which<RegionIndex> {
        let known = &self.regions[region.0];
        match known.path {
            Some((function, caller)) => Which::Path(function, caller),
            // Those that the user names come first, in their order.
            None if known.named => Which::Named(region.0),
            None => Which::Own(region),
        }
    }

    /// The code that is known, for [`know`](Self::know).
    pub fn spots(&mut self) -> Vec<Spot> {
        self.pieces.keys().filter_map(|start| self.images.spot(*start)).collect()
    }

    /// Knows code that an earlier run of the program has run.
    pub fn know(&mut self, spots: &[Spot]) {
        for spot in spots {
            if let Some(address) = self.images.address(spot) {
                self.piece_at(address);
            }
        }
        if self.unpublished {
            self.publish();
        }
    }

    /// The regions that experiments may be about, those that ran most first.
    pub fn most_run(&self) -> Vec<RegionIndex> {
        let chosen = |known: &Known| match (self.specs.is_empty(), self.granularity) {
            (false, _) => known.named,
            (true, Granularity::Auto) => true,
            (true, Granularity::Function | Granularity::Module) => known.region.kind == RegionKind::Function,
            (true, Granularity::Line) => known.region.kind == RegionKind::Line,
            (true, Granularity::Path) => known.path.is_some() || known.alone,
        };
        let mut ran: Vec<RegionIndex> = self
            .numbered()
            .filter(|(_, known)| known.samples > 0 && chosen(known))
            .map(|(index, _)| index)
            .collect();
        ran.sort_by_key(|index| std::cmp::Reverse(self.regions[index.0].weight));
        ran
    }

    /// A window on `region` is about to begin.
    pub fn watch(&mut self, region: RegionIndex) {
        self.watch.clear();
        self.watched = Some(region);
    }

    /// The samples of the window, which lasted from `start` for `elapsed`.
    pub fn seen(&self, start: Nanos, elapsed: Nanos) -> Seen {
        let mut seen = Seen::default();
        let inside = |watched: &&Watched| watched.time >= start && watched.time < start + elapsed;
        for watched in self.watch.iter().filter(inside) {
            seen.all.0 += 1;
            seen.all.1 += watched.weight;
            let judged = |judgement| watched.judgement.has(judgement);
            if watched.hit {
                seen.region.0 += 1;
                seen.region.1 += watched.weight;
                if judged(Judgement::SPINNING) {
                    seen.spinning += watched.weight;
                } else if judged(Judgement::LATE) {
                    seen.late += watched.weight;
                } else if !judged(Judgement::HIT) {
                    seen.unknown_code += watched.weight;
                }
            } else if judged(Judgement::HIT) && !judged(Judgement::SPINNING) && !judged(Judgement::LATE) {
                seen.extra += watched.weight;
            }
            if watched.deep {
                seen.deep += watched.weight;
            }
        }
        seen
    }

    pub fn regions(&self) -> &[Known] {
        &self.regions
    }

    /// The same with their indices.
    pub fn numbered(&self) -> impl Iterator<Item = (RegionIndex, &Known)> {
        self.regions.iter().enumerate().map(|(index, known)| (RegionIndex(index), known))
    }

    /// Samples of the whole run, and the CPU time they stand for.
    pub fn totals(&self) -> (u64, Nanos) {
        (self.samples, self.weight)
    }

    /// How many of them a timer has taken.
    pub fn timed(&self) -> u64 {
        self.timed
    }

    /// Samples whose stack was deeper than there is room for.
    pub fn deep(&self) -> u64 {
        self.deep
    }

    /// The files that samples were taken in while stacks were of interest, no matter who called them, most first, with how many there were; ours
    /// is none of the program's.
    pub fn innermost(&self) -> Vec<(&str, u64)> {
        most_first(&self.innermost)
    }

    /// Samples that belonged to code in scope.
    pub fn in_scope(&self) -> u64 {
        self.in_scope
    }

    /// Where samples out of scope fell, most first.
    pub fn elsewhere(&self) -> Vec<String> {
        self.elsewhere_counted().into_iter().map(|(name, _)| name.to_owned()).collect()
    }

    /// The same with how many they were.
    pub fn elsewhere_counted(&self) -> Vec<(&str, u64)> {
        most_first(&self.elsewhere)
    }

    pub fn images(&self) -> &Images {
        &self.images
    }

    /// The function that a thread began with, as far as its samples agree on one.
    pub fn first_function(&self, slot: usize, tid: u32) -> Option<&str> {
        self.first_functions.of(slot, tid)
    }
}

/// The files of the program with how often they were seen, most first.
fn most_first(seen: &HashMap<String, u64>) -> Vec<(&str, u64)> {
    let theirs = |(name, _): &(&String, &u64)| !embedded::is_runtime(name);
    let mut files: Vec<(&String, &u64)> = seen.iter().filter(theirs).collect();
    files.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    files.into_iter().map(|(name, count)| (name.as_str(), *count)).collect()
}
