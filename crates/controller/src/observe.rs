//! Watching the program: draining samples, finding out whose they are, and telling the runtime which
//! code is in scope.
//!
//! Debug information is read lazily. The first sample in a function has that function, and no other,
//! cut into pieces with the same frames; a region is a set of pieces. What was never sampled is never
//! looked at, so a large program costs no more than its hot functions.

use crate::arguments::Granularity;
use crate::callers::Callers;
use crate::circles::Circles;
use crate::finer::Finer;
use crate::images::{Images, Located};
use crate::look::Look;
use crate::naming::Naming;
use crate::options::Options;
use crate::region::{Request, request_region};
use crate::series::Spot;
use profile::{Nanos, Region, RegionKind};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use symbols::Frame;
use wire::{
    Address, SharedMemory,
    ring::{Judgement, Sample},
};

/// Samples that the next region is chosen from: so many of the most recent ones in scope.
const OFFERS: usize = 64;
/// Samples that the next region is chosen from are not older than this.
const OFFER_AGE: Nanos = Nanos::from_millis(250);
/// Code with the same frames from its first to its last byte.
#[derive(Debug)]
struct Piece {
    end: u64,
    in_scope: bool,
    /// The function and the line that a sample here belongs to, if in scope.
    function: Option<usize>,
    line: Option<usize>,
    /// The requested regions that any of its frames belongs to.
    requested: Vec<usize>,
    /// The requested regions whose caller it is in.
    calling: Vec<usize>,
    /// The sampled points that it is in.
    sampled: Vec<usize>,
    /// The functions and lines of all its frames in scope, if stacks are of interest.
    frames: Vec<usize>,
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
    pub requested: bool,
    /// Samples of the whole run, and the CPU time they stand for.
    pub samples: u64,
    pub weight: Nanos,
    /// Of a line that is only of interest if its function is: that function.
    pub inside: Option<usize>,
    /// Of a function without any caller in scope, where callers matter.
    alone: bool,
    /// Of a function as another one calls it: both.
    path: Option<(usize, usize)>,
    pieces: Vec<u64>,
    /// The code of the caller that was asked for.
    callers: Vec<u64>,
}

impl Known {
    /// A region of which nothing has been seen.
    fn new(region: Region) -> Self {
        Self {
            region,
            requested: false,
            samples: 0,
            weight: Nanos::ZERO,
            inside: None,
            alone: false,
            path: None,
            pieces: Vec::new(),
            callers: Vec::new(),
        }
    }
}

/// Everything learnt from samples.
pub struct Observer {
    memory: &'static SharedMemory,
    images: Images,
    callers: Callers,
    circles: Circles,
    finer: Finer,
    requests: Vec<Request>,
    /// Points to which every sample is a visit.
    sampled: Vec<(Request, Arc<AtomicU64>)>,
    granularity: Granularity,
    naming: Naming,
    pieces: BTreeMap<u64, Piece>,
    regions: Vec<Known>,
    index: HashMap<(RegionKind, String, Option<String>, usize), usize>,
    /// Functions as others call them.
    paths: HashMap<(usize, usize), usize>,
    offers: VecDeque<(u64, usize)>,
    samples: u64,
    weight: Nanos,
    /// Samples whose stack was deeper than there is room for.
    cut: u64,
    in_scope: u64,
    /// Out-of-scope images that samples fell in, for the message when nothing was in scope.
    elsewhere: HashMap<String, u64>,
    unpublished: bool,
    /// The region of the window under way, and the samples since it was asked for.
    watched: Option<usize>,
    watch: Vec<Watched>,
    /// What is on stacks, if that is of interest.
    chains: Option<HashMap<usize, Chains>>,
}

/// A sample while a window is under way.
#[derive(Clone, Copy, Debug)]
struct Watched {
    time: Nanos,
    weight: Nanos,
    hit: bool,
    /// Whether the stack was deeper than there is room for.
    cut: bool,
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
    /// Samples whose stack was cut.
    pub cut: Nanos,
}

impl Observer {
    pub fn new(
        memory: &'static SharedMemory,
        images: Images,
        options: &Options,
        sampled: Vec<(Request, Arc<AtomicU64>)>,
    ) -> Self {
        let mut observer = Self {
            memory,
            images,
            callers: Callers::new(memory),
            circles: Circles::new(memory),
            finer: Finer::new((!options.fixed_period).then_some(options.period)),
            requests: options.requests.clone(),
            sampled,
            granularity: options.granularity,
            naming: options.naming(),
            pieces: BTreeMap::new(),
            regions: Vec::new(),
            index: HashMap::new(),
            paths: HashMap::new(),
            offers: VecDeque::new(),
            samples: 0,
            weight: Nanos::ZERO,
            cut: 0,
            in_scope: 0,
            elsewhere: HashMap::new(),
            unpublished: true,
            watched: None,
            watch: Vec::new(),
            chains: (options.look == Some(Look::Points)).then(HashMap::new),
        };
        for request in &observer.requests {
            observer.regions.push(Known { requested: true, ..Known::new(request_region(request)) });
        }
        observer
    }

    /// Takes all samples that have come in, and publishes what they taught about the scope.
    pub fn drain(&mut self) {
        let memory = self.memory;
        let (mut running, mut lost) = (0, 0);
        let now = kernel::clock::monotonic();
        for (thread, slot) in memory.slots.used().iter().enumerate() {
            running += u32::from(slot.can_run(now));
            lost += slot.ring.lost();
            let pid = slot.pid.load(Ordering::Relaxed);
            while let Some(sample) = slot.ring.pop() {
                if let Some(address) = sample.callchain().first() {
                    self.circles.look_at(pid, address.0);
                }
                self.finer.count(&sample);
                self.observe(&sample);
                self.note_stack(thread, &sample);
            }
        }
        self.images.keep_up();
        for code in self.images.new_code() {
            self.callers.look_into(code);
        }
        self.follow_mappings();
        memory.header.running.store(running, Ordering::Relaxed);
        if lost > 0 {
            self.finer.give_up(memory);
        }
        self.finer.set(memory, running);
        self.circles.publish();
        if std::mem::take(&mut self.unpublished) {
            self.publish();
        }
    }

    /// Forgets the code that has gone, before anything is learnt of what has come there.
    fn follow_mappings(&mut self) {
        for (start, end) in self.images.unmapped() {
            self.callers.forget(start);
            self.forget(start, end);
        }
        for (start, end) in self.images.remade() {
            self.forget(start, end);
        }
    }

    /// What is known of the code from `start` to `end`: something else is there, or will be.
    fn forget(&mut self, start: u64, end: u64) {
        self.circles.forget(start, end);
        let reaches_in = |(_, piece): &(&u64, &Piece)| piece.end > start;
        let first =
            self.pieces.range(..start).next_back().filter(reaches_in).map_or(start, |(first, _)| *first);
        let gone: Vec<u64> = self.pieces.range(first..end.max(first)).map(|(piece, _)| *piece).collect();
        if gone.is_empty() {
            return;
        }
        gone.iter().for_each(|piece| drop(self.pieces.remove(piece)));
        let stays = |piece: &u64| gone.binary_search(piece).is_err();
        for known in &mut self.regions {
            known.pieces.retain(stays);
            known.callers.retain(stays);
        }
        self.unpublished = true;
    }

    fn observe(&mut self, sample: &Sample) {
        let weight = Nanos::new(sample.weight.0);
        self.samples += 1;
        self.weight += weight;
        self.cut += u64::from(sample.cut);
        self.follow_mappings();
        // Callers are looked for from the inside: where the chain ends, the next table is missing.
        for frame in sample.callchain() {
            self.images.learn_callers(frame.0, &self.callers);
        }
        let mut owner = None;
        let mut caller = None;
        let mut requested: Vec<usize> = Vec::new();
        // Those whose caller has not been met yet.
        let mut uncalled: Vec<usize> = Vec::new();
        let mut sampled: Vec<usize> = Vec::new();
        let paths = self.granularity == Granularity::Path;
        for frame in sample.callchain() {
            let Some(start) = self.piece_at(frame.0) else { continue };
            let piece = &self.pieces[&start];
            match owner {
                None if piece.in_scope => owner = Some((piece.function, piece.line)),
                Some((function, _)) if caller.is_none() && piece.function != function => {
                    caller = piece.function
                }
                _ => {}
            }
            for index in &piece.requested {
                let list = if self.requests[*index].has_caller() { &mut uncalled } else { &mut requested };
                list.push(*index);
            }
            requested.extend(piece.calling.iter().filter(|index| uncalled.contains(index)));
            sampled.extend(&piece.sampled);
            let found = owner.is_some() && (!paths || caller.is_some());
            if found && self.requests.is_empty() && self.sampled.is_empty() {
                break;
            }
        }
        for indices in [&mut requested, &mut sampled] {
            indices.sort_unstable();
            indices.dedup();
        }
        for point in sampled {
            self.sampled[point].1.fetch_add(1, Ordering::Relaxed);
        }
        let (function, line) = owner.unwrap_or_default();
        let path =
            function.zip(caller).filter(|_| paths).map(|(function, caller)| self.path(function, caller));
        for region in requested.iter().copied().chain(function).chain(line).chain(path) {
            let known = &mut self.regions[region];
            known.samples += 1;
            known.weight += weight;
        }
        if let Some(region) = self.watched {
            let own = [function, line, path].contains(&Some(region));
            let hit = own || requested.contains(&region);
            let (time, judgement) = (Nanos::new(sample.time.0), sample.judgement);
            self.watch.push(Watched { time, weight, hit, cut: sample.cut, judgement });
        }
        match owner {
            Some(_) => self.in_scope += 1,
            None => {
                if let Some(first) = sample.callchain().first() {
                    let name = self.images.name_of(first.0);
                    *self.elsewhere.entry(name).or_default() += 1;
                }
            }
        }
        let mut offer = |region: usize| {
            self.offers.push_back((sample.time.0, region));
            if self.offers.len() > OFFERS {
                self.offers.pop_front();
            }
        };
        if self.requests.is_empty() {
            let (function, line) = match self.granularity {
                Granularity::Auto => (function, line),
                Granularity::Function => (function, None),
                Granularity::Line => (if line.is_some() { None } else { function }, line),
                Granularity::Path => {
                    if let (None, Some(function)) = (path, function) {
                        self.regions[function].alone = true;
                    }
                    (path.or(function), None)
                }
                Granularity::Module => (function, None),
            };
            function.into_iter().chain(line).for_each(&mut offer);
        } else {
            requested.into_iter().for_each(&mut offer);
        }
    }

    /// Notes down what is on the stack of a sample, if stacks are of interest.
    fn note_stack(&mut self, thread: usize, sample: &Sample) {
        if self.chains.is_none() {
            return;
        }
        let mut on_stack: Vec<usize> = Vec::new();
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
    pub fn chains(&self) -> Option<&HashMap<usize, Chains>> {
        self.chains.as_ref()
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
        for (start, end, frames) in self.images.cut(&located) {
            self.add_piece(&located, start, end, &frames);
        }
        self.pieces
            .range(..=address)
            .next_back()
            .filter(|(_, piece)| address < piece.end)
            .map(|(start, _)| *start)
    }

    fn add_piece(&mut self, located: &Located, start: u64, end: u64, frames: &[Frame]) {
        let owner = frames.iter().find(|frame| frame.in_scope);
        let function = owner.map(|frame| self.region_of(RegionKind::Function, frame, located));
        let line = owner
            .filter(|frame| frame.line.is_some())
            .map(|frame| self.region_of(RegionKind::Line, frame, located));
        if let (Some(line), Granularity::Auto) = (line, self.granularity) {
            self.regions[line].inside = function;
        }
        let any = |request: &Request| frames.iter().any(|frame| request.matches(frame));
        let requested: Vec<usize> =
            (0..self.requests.len()).filter(|index| any(&self.requests[*index])).collect();
        let sampled = (0..self.sampled.len()).filter(|index| any(&self.sampled[*index].0)).collect();
        for index in &requested {
            // What the user named gets the place that it was found at.
            let request = &self.requests[*index];
            let found = frames.iter().find(|frame| request.matches(frame));
            let region = &mut self.regions[*index].region;
            if let Some(found) = found {
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
        }
        for region in function.into_iter().chain(line).chain(requested.iter().copied()) {
            self.regions[region].pieces.push(start);
        }
        let calling: Vec<usize> =
            (0..self.requests.len()).filter(|index| self.requests[*index].is_called_from(frames)).collect();
        for region in &calling {
            self.regions[*region].callers.push(start);
        }
        let mut on_stack = Vec::new();
        if self.chains.is_some() {
            for frame in frames.iter().filter(|frame| frame.in_scope) {
                on_stack.push(self.region_of(RegionKind::Function, frame, located));
                if frame.line.is_some() {
                    on_stack.push(self.region_of(RegionKind::Line, frame, located));
                }
            }
        }
        let piece = Piece {
            end,
            in_scope: owner.is_some(),
            function,
            line,
            requested,
            calling,
            sampled,
            frames: on_stack,
        };
        self.pieces.insert(start, piece);
    }

    fn region_of(&mut self, kind: RegionKind, frame: &Frame, located: &Located) -> usize {
        let (name, file) = self.naming.of(kind, frame);
        let key = (kind, name.clone(), file.clone(), located.image);
        if let Some(index) = self.index.get(&key) {
            let region = &mut self.regions[*index].region;
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
        self.regions.push(Known::new(region));
        self.index.insert(key, self.regions.len() - 1);
        self.regions.len() - 1
    }

    /// The region of a function as another one calls it.
    fn path(&mut self, function: usize, caller: usize) -> usize {
        if let Some(index) = self.paths.get(&(function, caller)) {
            return *index;
        }
        let callee = &self.regions[function].region;
        let name = format!("{}@{}", callee.name, self.regions[caller].region.name);
        let region = Region { name, ..callee.clone() };
        self.regions.push(Known { path: Some((function, caller)), ..Known::new(region) });
        self.paths.insert((function, caller), self.regions.len() - 1);
        self.regions.len() - 1
    }

    /// Tells the runtime which code of the candidate images is known to be outside the scope.
    fn publish(&self) {
        let outside = self.pieces.iter().filter(|(_, piece)| !piece.in_scope);
        let outside = merged(outside.map(|(start, piece)| (*start, piece.end)));
        let images = self.images.code_ranges();
        self.memory.code.publish(
            images.into_iter().map(|(start, end)| (Address(start), Address(end))),
            outside.into_iter().map(|(start, end)| (Address(start), Address(end))),
        );
    }

    /// The regions that threads have been running just before `now`, one entry per sample.
    pub fn offers(&self, now: Nanos) -> impl Iterator<Item = usize> {
        let oldest = now.saturating_sub(OFFER_AGE).get();
        self.offers.iter().filter(move |(time, _)| *time >= oldest).map(|(_, region)| *region)
    }

    /// The address ranges of a region, sorted and disjoint.
    pub fn ranges(&self, region: usize) -> Vec<(Address, Address)> {
        let known = &self.regions[region];
        self.ranges_of(known.path.map_or(&known.pieces, |(function, _)| &self.regions[function].pieces))
    }

    /// Those of the code that must have called it; none if that does not matter.
    pub fn callers(&self, region: usize) -> Vec<(Address, Address)> {
        let known = &self.regions[region];
        self.ranges_of(known.path.map_or(&known.callers, |(_, caller)| &self.regions[caller].pieces))
    }

    fn ranges_of(&self, pieces: &[u64]) -> Vec<(Address, Address)> {
        let mut starts = pieces.to_vec();
        starts.sort_unstable();
        merged(starts.into_iter().map(|start| (start, self.pieces[&start].end)))
            .into_iter()
            .map(|(start, end)| (Address(start), Address(end)))
            .collect()
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
        if std::mem::take(&mut self.unpublished) {
            self.publish();
        }
    }

    /// The regions that experiments may be about, those that ran most first.
    pub fn most_run(&self) -> Vec<usize> {
        let chosen = |known: &Known| match (self.requests.is_empty(), self.granularity) {
            (false, _) => known.requested,
            (true, Granularity::Auto) => true,
            (true, Granularity::Function | Granularity::Module) => known.region.kind == RegionKind::Function,
            (true, Granularity::Line) => known.region.kind == RegionKind::Line,
            (true, Granularity::Path) => known.path.is_some() || known.alone,
        };
        let mut ran: Vec<usize> = (0..self.regions.len())
            .filter(|index| self.regions[*index].samples > 0 && chosen(&self.regions[*index]))
            .collect();
        ran.sort_by_key(|index| std::cmp::Reverse(self.regions[*index].weight));
        ran
    }

    /// A window on `region` is about to begin.
    pub fn watch(&mut self, region: usize) {
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
            if watched.cut {
                seen.cut += watched.weight;
            }
        }
        seen
    }

    pub fn regions(&self) -> &[Known] {
        &self.regions
    }

    /// Samples of the whole run, and the CPU time they stand for.
    pub fn totals(&self) -> (u64, Nanos) {
        (self.samples, self.weight)
    }

    /// Samples whose stack was deeper than there is room for.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Samples that belonged to code in scope.
    pub fn in_scope(&self) -> u64 {
        self.in_scope
    }

    /// Where samples out of scope fell, most first.
    pub fn elsewhere(&self) -> Vec<String> {
        let mut images: Vec<(&String, &u64)> = self.elsewhere.iter().collect();
        images.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        images.into_iter().map(|(name, _)| name.clone()).collect()
    }

    pub fn images(&self) -> &Images {
        &self.images
    }
}

/// Sorted ranges with neighbours joined.
pub(super) fn merged(ranges: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut result: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match result.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => result.push((start, end)),
        }
    }
    result
}
