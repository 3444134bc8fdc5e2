//! The files mapped into the program: which of them are candidates, and where their code is.

use crate::code_scope::CodeScope;
use crate::embedded;
use crate::follow::Programs;
use crate::made::Made;
use crate::points::{Function, Why};
use crate::unwind_tables::{Code, UnwindTables};
use kernel::visits::{Guard, Instruction};
use profile::Image as Named;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use symbols::{Frame, Image, NameSource, Scope, Segment, Svma};
use wire::files::{BEYOND, Entry, LONGEST_NAME};
use wire::{Address, SharedMemory};

/// Where code is: an image, and an address as its file has it.
pub type Spot = (String, u64);

/// After this time the list of mappings is read again in any case.
const STALE: Duration = Duration::from_millis(250);
/// After this time the list of mappings is read again when an address is unknown.
const REFRESH: Duration = Duration::from_millis(100);
/// After this time the list of mappings is read again while a library is waited for.
const EAGER: Duration = Duration::from_millis(20);
/// Reading the list of mappings never takes more than this part of the time, as a divisor.
const MOST_SHARE: u32 = 100;

/// A candidate image: one whose code may become a region.
struct Candidate {
    image: Arc<Image>,
    named: Named,
    bias: u64,
    /// Whether nothing of it has a source file that could be in scope: then functions without any are. Found out with the
    /// first sample, because it takes debug information to know.
    by_function: OnceLock<bool>,
    /// Its source files in scope, if they are not those of all programs.
    sources: Option<Scope>,
    /// Executable ranges in the process.
    code: Vec<Range<u64>>,
}

/// The index of code that the program has made while it runs, which has no image.
const WITHOUT_IMAGE: usize = usize::MAX;
/// What such code is called, for messages.
pub const MADE: &str = "code made at run time";
/// What gives it names.
pub const NAMES_OF_MADE: &str = "have its runtime write names for it (node --perf-basic-prof; python3.12 -X perf; java with an agent that writes /tmp/perf-PID.map)";

/// An address of a candidate image, or of code that the program has made.
#[derive(Clone, Copy, Debug)]
pub struct Located {
    /// Index of the image.
    pub image: usize,
    address: Svma,
    bias: u64,
}

/// What an address is to stacks.
#[derive(Debug)]
pub enum Position<'a> {
    /// The code of a file, and how many bytes from the beginning of the file it is.
    File(&'a Code, u64),
    /// Code that the program has made, and what it says of it, innermost first.
    Made(Vec<Frame>),
    /// Other memory: what it is called.
    Memory(String),
}

/// What there is besides the first program.
pub struct Executed {
    pub memory: &'static SharedMemory,
    pub programs: Arc<Programs>,
}

impl Executed {
    /// Nothing was executed.
    #[cfg(test)]
    pub fn nothing() -> Self {
        let memory = kernel::SharedMapping::create().unwrap().memory();
        Self { memory, programs: Arc::default() }
    }

    /// The code of files that the first program had when it began, as it has told itself.
    fn of_first(&self) -> impl Iterator<Item = kernel::Mapping> {
        self.memory.files.all().filter(|entry| entry.start() < BEYOND).filter_map(mapping)
    }

    /// The code of files that the first program did not have when it began, by the addresses that all processes share.
    fn mappings(&self) -> impl Iterator<Item = kernel::Mapping> {
        self.memory.files.all().filter(|entry| entry.start() >= BEYOND).filter_map(mapping)
    }
}

/// An entry as a line of the list of mappings.
fn mapping(entry: &Entry) -> Option<kernel::Mapping> {
    let (start, stretch) = (entry.start(), entry.stretch());
    let mut buffer = [0; LONGEST_NAME];
    let name = entry.name(&mut buffer).filter(|name| !name.is_empty())?;
    let existing = name.strip_suffix(b" (deleted)");
    Some(kernel::Mapping {
        start,
        end: Address(start.0.checked_add(stretch.length)?),
        offset: kernel::maps::FileOffset(stretch.offset),
        executable: true,
        path: Some(PathBuf::from(OsStr::from_bytes(existing.unwrap_or(name)))),
        deleted: existing.is_some(),
        file: kernel::maps::FileId {
            device: ((stretch.device >> 32) as u32, stretch.device as u32),
            inode: stretch.inode,
        },
    })
}

/// What tells a file from another one of the same name; and whether it is that of a program that was executed, which has its code elsewhere.
type Key = (PathBuf, kernel::maps::FileId, bool);

fn key(path: &Path, file: kernel::maps::FileId, start: u64) -> Key {
    (path.to_owned(), file, start >= BEYOND.0)
}

/// The mapped files of one process and of its forked children, which have the same addresses; and those of the programs that they have executed, by the
/// addresses that all of them share ([`wire::files`]).
pub struct Images {
    pid: u32,
    /// What `/proc/PID/exe` leads to. When that changes, the process has executed another program.
    runs: Option<PathBuf>,
    program: PathBuf,
    executed: Executed,
    /// The list of mappings of the first program, as it was last.
    own: Vec<kernel::Mapping>,
    /// How many pieces of code of executed programs are known.
    executed_code: usize,
    scope: CodeScope,
    candidates: Vec<Candidate>,
    /// Code that programs make, which is of interest unless the user has named files.
    made: Option<Made>,
    /// Executable mappings that are not candidates, for messages.
    others: Vec<(Range<u64>, String)>,
    /// All executable mappings of files, ascending, and whether the callers of their code have been asked for.
    mapped: Vec<(Code, bool)>,
    /// Which of the candidates a file is, if any. Another file may get the name of one that is gone.
    known: HashMap<Key, Option<usize>>,
    new: Vec<Code>,
    gone: Vec<Range<u64>>,
    /// When the list was read, and how long that took.
    read: Option<(Instant, Duration)>,
    eager: bool,
    /// How often a candidate has come, has moved or has gone.
    arrivals: usize,
    /// How often any code has come, has moved or has gone.
    changes: usize,
    problems: Vec<String>,
    /// What is looked into besides, because much of the time is there.
    besides: Vec<PathBuf>,
    /// Code that is not as it is in the file, because functions count their visits: process addresses.
    changed: Mutex<Vec<Range<u64>>>,
    /// The first program, where it is no candidate and points were looked for in it.
    beside: OnceLock<Option<Arc<Image>>>,
}

impl Images {
    /// What code that the program has made is called instead of a file.
    pub const MADE: &str = "[made at run time]";

    /// What is in `scope`, in the process `pid`, which runs `program`, and in what that executes.
    pub fn new(pid: u32, program: PathBuf, scope: &CodeScope, executed: Executed) -> Self {
        let has_made = scope.is_default && scope.binaries.is_none();
        let made = has_made.then(|| Made::new(pid, executed.memory));
        let mut images = Self {
            pid,
            runs: program_of(pid),
            program,
            executed,
            own: Vec::new(),
            executed_code: 0,
            scope: scope.clone(),
            candidates: Vec::new(),
            made,
            others: Vec::new(),
            mapped: Vec::new(),
            known: HashMap::new(),
            new: Vec::new(),
            gone: Vec::new(),
            read: None,
            eager: false,
            arrivals: 0,
            changes: 0,
            problems: Vec::new(),
            besides: Vec::new(),
            changed: Mutex::default(),
            beside: OnceLock::new(),
        };
        images.refresh();
        images
    }

    /// Reads the list of mappings again. Of a process that has ended the last one stays: there are samples left, and
    /// the program may be run again.
    fn refresh(&mut self) {
        let begin = Instant::now();
        let mut mappings = kernel::maps(self.pid).unwrap_or_default();
        if mappings.is_empty() && self.go_on_with_forked() {
            mappings = kernel::maps(self.pid).unwrap_or_default();
        }
        // Looked at afterwards: the list may be that of another program since.
        let mut own = !mappings.is_empty() && program_of(self.pid) == self.runs && !self.has_executed();
        if own {
            self.own = mappings;
        } else if self.own.is_empty() {
            // It ended before it was looked at; what it has executed may go on.
            self.own = self.executed.of_first().collect();
            own = true;
        }
        let executed: Vec<kernel::Mapping> = self.executed.mappings().collect();
        self.read = Some((begin, begin.elapsed()));
        if self.own.is_empty() || !own && executed.len() == self.executed_code {
            return;
        }
        self.executed_code = executed.len();
        let of_first = self.own.len();
        let mut mappings = std::mem::take(&mut self.own);
        mappings.extend(executed);
        self.others.clear();
        self.map(&mappings);
        self.made.iter_mut().for_each(|made| made.map(&mappings));
        let were_mapped: Vec<bool> =
            self.candidates.iter().map(|candidate| !candidate.code.is_empty()).collect();
        for candidate in &mut self.candidates {
            candidate.code.clear();
        }
        for mapping in mappings.iter().filter(|mapping| mapping.executable) {
            let Some(path) = mapping.path.as_deref() else { continue };
            let (start, end) = (mapping.start.0, mapping.end.0);
            match self.candidate((path, mapping.file), start, mapping.offset.0) {
                Some(index) => {
                    let candidate = &mut self.candidates[index];
                    // It may have been loaded again elsewhere.
                    let bias = candidate.image.bias(start, symbols::FileOffset(mapping.offset.0));
                    if let Some(bias) = bias.filter(|bias| *bias != candidate.bias) {
                        candidate.bias = bias;
                        self.arrivals += 1;
                    }
                    candidate.code.push(start..end);
                }
                None => {
                    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                    self.others.push((start..end, name));
                }
            }
        }
        let gone = self.candidates.iter().zip(were_mapped).filter(|(now, was)| *was && now.code.is_empty());
        self.arrivals += gone.count();
        mappings.truncate(of_first);
        self.own = mappings;
    }

    /// The first process has ended: one that was forked from it has the same addresses. Whether there is one.
    fn go_on_with_forked(&mut self) -> bool {
        let is_same = |slot: &&wire::slot::Slot| {
            slot.is_taken() && !slot.is_executed() && slot.executing.load(Ordering::Relaxed) == 0
        };
        let of_slots = self.executed.memory.slots.used().iter().filter(is_same);
        let mut pids = of_slots.map(|slot| slot.pid.load(Ordering::Relaxed)).filter(|pid| *pid != self.pid);
        let runs_it = |pid: &u32| {
            let runs = program_of(*pid);
            runs.is_some() && (runs == self.runs || self.runs.is_none())
        };
        let Some(pid) = pids.find(runs_it) else { return false };
        (self.pid, self.runs) = (pid, program_of(pid));
        self.made.iter_mut().for_each(|made| made.go_on_with(pid));
        true
    }

    /// Whether the first process executes, or has executed, another program, or its own again.
    fn has_executed(&self) -> bool {
        let slots = self.executed.memory.slots.used().iter();
        let mut own = slots.filter(|slot| slot.pid.load(Ordering::Relaxed) == self.pid);
        own.any(|slot| slot.is_executed() || slot.executing.load(Ordering::Relaxed) != 0)
    }

    /// Takes over the list of mappings; what was known of those that are still there stays.
    fn map(&mut self, mappings: &[kernel::Mapping]) {
        let before = std::mem::take(&mut self.mapped);
        let are_same = |(one, _): &(Code, bool), (other, _): &(Code, bool)| {
            (one.start, one.end, one.offset, one.file) == (other.start, other.end, other.offset, other.file)
        };
        let executable = mappings.iter().filter(|mapping| mapping.executable && mapping.is_file());
        self.mapped = executable
            .filter_map(|mapping| {
                let (start, end, offset) = (mapping.start.0, mapping.end.0, mapping.offset.0);
                let path = mapping.path.clone()?;
                // What was deleted, or replaced by another build, is still there, but can no longer be read.
                let code = Code { path, start, end, offset, file: mapping.file, deleted: mapping.deleted };
                Some((code, mapping.deleted))
            })
            .collect();
        self.mapped.sort_by_key(|(code, _)| code.start);
        let is_same = before.len() == self.mapped.len()
            && before.iter().zip(&self.mapped).all(|(one, other)| are_same(one, other));
        self.changes += usize::from(!is_same);
        let is_new = |code: &&Code| !self.known.contains_key(&key(&code.path, code.file, code.start));
        self.new.extend(self.mapped.iter().map(|(code, _)| code).filter(is_new).cloned());
        for (old, asked) in before {
            let at = self.mapped.binary_search_by_key(&old.start, |(new, _)| new.start);
            match at.ok().map(|at| &mut self.mapped[at]).filter(|(new, _)| new.file == old.file) {
                Some((_, now)) => *now |= asked,
                None => self.gone.push(old.start..old.end),
            }
        }
    }

    fn candidate(
        &mut self,
        (path, file): (&Path, kernel::maps::FileId),
        start: u64,
        offset: u64,
    ) -> Option<usize> {
        let key = key(path, file, start);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let index = self.is_of_interest(path).then(|| self.open(path, start, offset)).flatten();
        self.known.insert(key, index);
        index
    }

    /// The first program, and those that were executed.
    pub fn programs(&self) -> &Programs {
        &self.executed.programs
    }

    /// The name of a program that another one has executed; none for the first one, and for libraries.
    pub fn executed_name<'p>(&self, path: &'p str) -> Option<&'p str> {
        let path = Path::new(path);
        let is_other = path != self.program && self.executed.programs.has(path);
        path.file_name().filter(|_| is_other)?.to_str()
    }

    /// Whether a file is a candidate: what the user has named, or a program that is profiled.
    pub fn is_of_interest(&self, path: &Path) -> bool {
        match &self.scope.binaries {
            Some(globs) => {
                let name = path.file_name().unwrap_or_default();
                !embedded::is_runtime_at(path)
                    && (globs.is_match(path)
                        || globs.is_match(name)
                        || self.executed.programs.is_named(path, |name| globs.is_match(name)))
            }
            None => {
                path == self.program
                    || self.besides.iter().any(|other| other == path)
                    || self.executed.programs.has(path)
            }
        }
    }

    /// Whether progress points are looked for in a file: in candidates, and in all programs that are profiled.
    pub fn may_have_points(&self, path: &Path) -> bool {
        self.is_of_interest(path) || path == self.program || self.executed.programs.has(path)
    }

    fn open(&mut self, path: &Path, start: u64, offset: u64) -> Option<usize> {
        match Image::open(path) {
            Ok(image) => {
                let bias = image.bias(start, symbols::FileOffset(offset))?;
                let named = Named { path: path.to_string_lossy().into_owned(), build_id: image.build_id() };
                let by_function = OnceLock::new();
                let name = path.file_name().unwrap_or_default();
                let sources = self.scope.sources_of(|glob| {
                    glob.is_match(name) || self.executed.programs.is_named(path, |name| glob.is_match(name))
                });
                let image = Arc::new(image);
                if self.candidates.is_empty() {
                    // The first sample will ask.
                    let soon = Arc::clone(&image);
                    let _ = std::thread::Builder::new().name("images".into()).spawn(move || soon.prepare());
                }
                self.candidates.push(Candidate {
                    image,
                    named,
                    bias,
                    by_function,
                    sources,
                    code: Vec::new(),
                });
                self.arrivals += 1;
                Some(self.candidates.len() - 1)
            }
            Err(error) => {
                self.problems.push(error.to_string());
                None
            }
        }
    }

    /// Looks into the mapped file of this name as well; whether it can.
    pub fn widen(&mut self, name: &str) -> bool {
        let is_it = |code: &&Code| code.path.file_name().is_some_and(|file| file.to_string_lossy() == name);
        let found = self.mapped.iter().map(|(code, _)| code).find(is_it);
        let Some(code) = found.cloned() else { return false };
        let key = key(&code.path, code.file, code.start);
        if self.known.get(&key).is_some_and(Option::is_some) {
            return false;
        }
        let index = self.open(&code.path, code.start, code.offset);
        self.known.insert(key, index);
        self.besides.push(code.path);
        self.refresh();
        index.is_some()
    }

    /// Sees to it that the callers of the code at `address` become known.
    pub fn learn_callers(&mut self, address: u64, tables: &UnwindTables) {
        let Some((code, asked)) = self.mapping_at(address).map(|nth| &mut self.mapped[nth]) else { return };
        if !std::mem::replace(asked, true) {
            tables.learn(code.clone());
        }
    }

    /// Reads the list of mappings now and then: something else may be where something was.
    pub fn keep_up(&mut self) {
        self.made.iter_mut().for_each(Made::keep_up);
        self.refresh_after(if self.eager { EAGER } else { STALE });
    }

    /// A number that changes whenever a candidate comes, goes, or is somewhere else than before.
    pub fn arrivals(&self) -> usize {
        self.arrivals
    }

    /// Sets whether a library that is yet to be loaded is waited for.
    pub fn be_eager(&mut self, eager: bool) {
        self.eager = eager;
    }

    /// Reads the list again if that has been so long ago; whether it did.
    fn refresh_after(&mut self, time: Duration) -> bool {
        let due = self.read.is_none_or(|(read, took)| read.elapsed() > time.max(took * MOST_SHARE));
        if due {
            self.refresh();
        }
        due
    }

    /// The code of files that have been mapped for the first time since this was asked last.
    pub fn new_code(&mut self) -> Vec<Code> {
        std::mem::take(&mut self.new)
    }

    /// Whether programs have made more functions than have names.
    pub fn has_too_many_made(&self) -> bool {
        self.made.as_ref().is_some_and(Made::is_full)
    }

    /// A number that changes whenever something else may be at an address than before.
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// Where programs have made code since this was asked last.
    pub fn remade(&mut self) -> Vec<Range<u64>> {
        let remade = self.made.as_mut().map(Made::remade).unwrap_or_default();
        self.changes += usize::from(!remade.is_empty());
        remade
    }

    /// The mappings that have gone since this was asked last.
    pub fn unmapped(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.gone)
    }

    /// Finds the candidate image that is mapped at `address`.
    pub fn locate(&mut self, address: u64) -> Option<Located> {
        if let Some(made) = self.made(address) {
            return Some(made);
        }
        let found = self.find(address);
        if found.is_none() && !self.is_elsewhere(address) && self.refresh_after(REFRESH) {
            return self.made(address).or_else(|| self.find(address));
        }
        found
    }

    /// Whether an address is in memory that is known to be of no candidate, or in that of executed programs, which no list of mappings that is read here has.
    fn is_elsewhere(&self, address: u64) -> bool {
        address >= wire::made::BEGIN.0 || self.others.iter().any(|(range, _)| range.contains(&address))
    }

    /// What is at an address, whether it is of a candidate or not.
    pub fn position(&mut self, address: u64) -> Position<'_> {
        if let Some(made) = self.made.as_mut().and_then(|made| made.find(address)) {
            let here = made.into_iter().find(|piece| piece.range.contains(&Svma(address)));
            return Position::Made(here.map(|piece| piece.frames).unwrap_or_default());
        }
        if self.mapping_at(address).is_none() && !self.is_elsewhere(address) {
            self.refresh_after(REFRESH);
        }
        match self.mapping_at(address).map(|nth| &self.mapped[nth].0) {
            Some(code) => Position::File(code, address - code.start + code.offset),
            None => Position::Memory(self.name_of(address)),
        }
    }

    /// The file that is at an address, and how many bytes from its beginning.
    pub fn file_at(&mut self, address: u64) -> Option<(PathBuf, u64)> {
        match self.position(address) {
            Position::File(code, offset) => Some((code.path.clone(), offset)),
            _ => None,
        }
    }

    /// Which of `mapped` an address is in.
    fn mapping_at(&self, address: u64) -> Option<usize> {
        let after = self.mapped.partition_point(|(code, _)| code.start <= address);
        after.checked_sub(1).filter(|nth| address < self.mapped[*nth].0.end)
    }

    /// The candidate that a file is, with its debug information as far as it was read.
    pub fn candidate_of(&self, code: &Code) -> Option<(&Arc<Image>, &Named)> {
        let index = (*self.known.get(&key(&code.path, code.file, code.start))?)?;
        let Candidate { image, named, .. } = &self.candidates[index];
        Some((image, named))
    }

    /// Where the function that a program has made at an address begins.
    fn made(&mut self, address: u64) -> Option<Located> {
        let first = self.made.as_mut()?.find(address)?.into_iter().next()?;
        Some(Located { image: WITHOUT_IMAGE, address: first.range.start, bias: 0 })
    }

    fn find(&self, address: u64) -> Option<Located> {
        let here = |candidate: &Candidate| candidate.code.iter().any(|range| range.contains(&address));
        let image = self.candidates.iter().position(here)?;
        let bias = self.candidates[image].bias;
        Some(Located { image, address: Svma(address.wrapping_sub(bias)), bias })
    }

    /// An address as another run of the program will find it.
    pub fn spot(&self, address: u64) -> Option<Spot> {
        let located = self.find(address)?;
        Some((self.candidates[located.image].named.path.clone(), located.address.0))
    }

    /// Where it is in this one, if the image is mapped yet.
    pub fn address(&self, (path, address): &Spot) -> Option<u64> {
        let here = |candidate: &&Candidate| candidate.named.path == *path && !candidate.code.is_empty();
        let image = self.candidates.iter().find(here)?;
        Some(address.wrapping_add(image.bias))
    }

    /// The first program, and by how much its addresses differ from those in its file, where it is no candidate.
    fn program_beside(&self) -> Option<(&Image, u64)> {
        self.scope.binaries.as_ref()?;
        let is_it = |code: &Code| code.path == self.program && code.start < BEYOND.0 && !code.deleted;
        let code = self.mapped.iter().map(|(code, _)| code).find(|code| is_it(code))?;
        if self.candidate_of(code).is_some() {
            return None;
        }
        let image = self.beside.get_or_init(|| Image::open(&code.path).ok().map(Arc::new)).as_deref()?;
        Some((image, image.bias(code.start, symbols::FileOffset(code.offset))?))
    }

    /// The instructions of the first program, and of all candidates that it has mapped, that `entries` finds in each of them, each with the word that guards it.
    pub fn instructions(&self, entries: impl Fn(&Image) -> Vec<(Svma, Option<Svma>)>) -> Vec<Instruction> {
        let mut found = Vec::new();
        let of_first = |range: &Range<u64>| range.start < BEYOND.0;
        let mapped = self.candidates.iter().filter(|candidate| candidate.code.iter().any(of_first));
        let mapped = mapped.map(|Candidate { image, bias, .. }| (&**image, *bias));
        for (image, bias) in mapped.chain(self.program_beside()) {
            found.extend(entries(image).into_iter().filter_map(|entry| instruction(image, bias, entry)));
        }
        found
    }

    /// This code is not as it is in the file any more.
    pub fn note_changed(&self, changed: Vec<Range<u64>>) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).extend(changed);
    }

    /// Whether an instruction is not as it is in the file: no probe may be put there.
    pub fn is_changed(&self, Address(address): Address) -> bool {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.iter().any(|range| range.contains(&address))
    }

    /// The function that begins at an address.
    ///
    /// # Errors
    /// Why it cannot count its visits itself.
    pub fn function_from(&self, Address(address): Address) -> Result<Function, Why> {
        let mapped = self.candidates.iter().filter(|candidate| !candidate.code.is_empty());
        let mapped = mapped.map(|Candidate { image, bias, .. }| (&**image, *bias));
        let mut why = Why::NoFunction;
        for (image, bias) in mapped.chain(self.program_beside()) {
            match Function::of(image, Svma::from_process(address, bias), bias) {
                Ok(function) => return Ok(function),
                // Of another image.
                Err(Why::NoFunction) => {}
                Err(other) => why = other,
            }
        }
        Err(why)
    }

    /// The function around an address, in pieces with the same frames: process addresses.
    pub fn pieces(&mut self, located: &Located) -> Vec<(Range<u64>, Vec<Frame>)> {
        if located.image == WITHOUT_IMAGE {
            let made = self.made.as_mut().and_then(|made| made.find(located.address.0));
            let piece = |Segment { range, frames }: Segment| (range.start.0..range.end.0, frames);
            return made.into_iter().flatten().map(piece).collect();
        }
        let Candidate { image, by_function, sources, .. } = &self.candidates[located.image];
        let sources = sources.as_ref().unwrap_or(&self.scope.sources);
        let container =
            image.container(located.address).unwrap_or(located.address..Svma(located.address.0 + 1));
        let mut pieces: Vec<(Range<u64>, Vec<Frame>)> = image
            .segments(container, sources)
            .into_iter()
            .map(|segment| {
                let start = segment.range.start.0.wrapping_add(located.bias);
                (start..segment.range.end.0.wrapping_add(located.bias), segment.frames)
            })
            .filter(|(range, _)| !range.is_empty())
            .collect();
        let address = located.address.0.wrapping_add(located.bias);
        if *by_function.get_or_init(|| self.scope.is_default && !image.has_line_info_in(sources)) {
            let frames = pieces.iter_mut().flat_map(|(_, frames)| frames);
            frames.filter(|frame| frame.file.is_none()).for_each(|frame| frame.in_scope = true);
        }
        if !pieces.iter().any(|(range, _)| range.contains(&address)) {
            // Code that no table covers: a piece without frames, so that it is not looked up again and again.
            pieces.push((address..address + 1, Vec::new()));
        }
        pieces
    }

    /// The functions at an address that could be changed, the outermost first, what is inlined there included.
    pub fn functions_in_scope(&mut self, address: u64) -> Vec<String> {
        let Some(located) = self.locate(address) else { return Vec::new() };
        let here = self.pieces(&located).into_iter().find(|(range, _)| range.contains(&address));
        let frames = here.map(|(_, frames)| frames).unwrap_or_default();
        frames.iter().rev().filter(|frame| frame.in_scope).map(|frame| frame.function.to_string()).collect()
    }

    /// The executable ranges of all candidates, sorted.
    pub fn code_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> =
            self.candidates.iter().flat_map(|candidate| candidate.code.iter().cloned()).collect();
        ranges.extend(self.made.iter().flat_map(Made::ranges));
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges
    }

    /// How an image is named in the recording.
    pub fn image(&self, located: &Located) -> Named {
        match self.candidates.get(located.image) {
            Some(candidate) => candidate.named.clone(),
            None => Named { path: Self::MADE.to_owned(), build_id: None },
        }
    }

    /// All candidates that are mapped.
    pub fn named(&self) -> impl Iterator<Item = &Named> {
        self.candidates.iter().map(|candidate| &candidate.named)
    }

    /// Candidates with samples of which only functions are known, and where their names are from.
    pub fn by_function(&self) -> impl Iterator<Item = (&Path, NameSource)> {
        let blind = self.candidates.iter().filter(|candidate| candidate.by_function.get() == Some(&true));
        blind.map(|candidate| (candidate.image.path(), candidate.image.name_source()))
    }

    /// The debug information of the candidates, for messages and snippets.
    pub fn opened(&self) -> impl Iterator<Item = &Image> {
        self.candidates.iter().map(|candidate| &*candidate.image)
    }

    /// The file that is mapped at an address, for messages.
    pub fn name_of(&self, address: u64) -> String {
        self.others
            .iter()
            .find(|(range, _)| range.contains(&address))
            .map(|(_, name)| name.clone())
            .or_else(|| {
                let located = self.find(address)?;
                let path = &self.candidates[located.image].named.path;
                Some(path.rsplit('/').next().unwrap_or(path).to_owned())
            })
            .unwrap_or_else(|| MADE.to_owned())
    }

    /// Images that could not be read.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// An instruction of an image, and the word that guards it if one does, where a process has them that has loaded the image with `bias`.
pub fn instruction(image: &Image, bias: u64, (entry, guard): (Svma, Option<Svma>)) -> Option<Instruction> {
    let in_file = |Svma(address): Svma| {
        let holds = |load: &&symbols::Load| {
            (load.address.0..load.address.0.saturating_add(load.file_size)).contains(&address)
        };
        let load = image.loads().iter().find(holds)?;
        Some(address - load.address.0 + load.offset.0)
    };
    let there = |address: Svma| Address(address.to_process(bias));
    let guard = match guard {
        Some(guard) => Some(Guard { address: there(guard), in_file: in_file(guard)? }),
        None => None,
    };
    Some(Instruction { address: there(entry), file: (image.path().to_owned(), in_file(entry)?), guard })
}

/// The file of the program that a process runs.
fn program_of(process: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/exe")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        run: crate::arguments::Run,
    }

    #[test]
    fn code_of_a_program_that_has_ended_is_still_known() {
        let program = PathBuf::from("/bin/sleep").canonicalize().unwrap();
        let words = ["run", "--", "sleep", "1000"];
        let args = Typed::parse_from(words).run;
        let scope = CodeScope::new(&args).unwrap();
        let mut child = std::process::Command::new(&program).arg("1000").spawn().unwrap();
        let mut images = Images::new(child.id(), program, &scope, Executed::nothing());
        // The kernel lets the parent go on before the program is mapped.
        while images.candidates.is_empty() {
            images.refresh();
        }
        let address = images.candidates[0].code[0].start;
        let spot = images.spot(address).unwrap();
        images.unmapped();
        child.kill().unwrap();
        // Not waited for, as while its last samples are read.
        while kernel::maps(child.id()).is_ok_and(|maps| !maps.is_empty()) {
            std::thread::yield_now();
        }
        images.refresh();
        assert_eq!(images.spot(address), Some(spot.clone()));
        assert_eq!(images.address(&spot), Some(address));
        assert!(images.unmapped().is_empty());
        child.wait().unwrap();
        images.refresh();
        assert!(images.locate(address).is_some());
    }
}
