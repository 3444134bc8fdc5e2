//! Puts the runtime into a program that runs, has its words lead to it, and back.
//!
//! One thread is stopped at a time, for as little as has to be done there: everything that can be found out or written from outside is done while the
//! program runs. See `runtime/src/late.rs` for the other half.

use super::hooked_program::HookedProgram;
use super::hooks::{Hook, SYSTEM_CALL};
use super::image::{PAGE, REAL_SIZE, RuntimeImage, WORD, WORD_OF_MUSL};
use super::objects::{self, Area, Link, Object, Start, Symbol};
use crate::embedded;
use crate::launch::{Go, Obstacle};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kernel::SharedMapping;
use kernel::cpu::{thread_state, threads};
use kernel::process_memory::TraceeMemory;
use kernel::tracee::{Late, Return, Tracee, Trouble, gets_signals_of_process};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::mem::offset_of;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};
use wire::SharedMemory;
use wire::late::{Entry, Phase, State, failure, go, name};
use wire::slot::Slot;

/// How long a thread may take to stop.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// Memory for the stack of our calls.
const ROOM: u64 = 256 << 10;
/// Where in it nothing is ever written: names are at its beginning, and the stack is at its end.
const ZEROS: u64 = PAGE;
const ENTRY: u64 = size_of::<Entry>() as u64;
/// The tables of all objects are no larger than this; against nonsense.
const MOST_TABLES: u64 = 2 << 30;
/// A thread that has used so much of a CPU, and called none of our functions, is interrupted to be registered.
const BUSY: u64 = 2_000_000;

/// System calls, by their numbers.
pub(super) mod call {
    pub const MMAP: i64 = 9;
    pub const MUNMAP: i64 = 11;
}

/// Arguments of mmap(2).
pub(super) mod map {
    pub const SHARED: u64 = 1;
    pub const PRIVATE: u64 = 2;
    pub const FIXED: u64 = 0x10;
    pub const ANONYMOUS: u64 = 0x20;
    pub const NORESERVE: u64 = 0x4000;
    pub const READ_WRITE: u64 = 3;
    pub const NO_FILE: u64 = u64::MAX;
}

/// See the module.
#[derive(Debug)]
pub struct Loader {
    pub(super) pid: u32,
    pub(super) memory: TraceeMemory,
    pub(super) image: RuntimeImage,
    /// Where the runtime is.
    pub(super) base: u64,
    /// Whether it has never run there.
    pub(super) is_new: bool,
    /// Whether it was forked from a process that was attached to before.
    is_forked: bool,
    /// Where our calls have their stack.
    pub(super) room: u64,
    /// A `syscall` instruction.
    instruction: u64,
    /// Where the new shared memory is mapped.
    mapped: u64,
    /// Lists of entries: where, and how many.
    lists: Vec<(u64, u64)>,
    /// Words that are in a list.
    listed: HashSet<u64>,
    /// Whether the program is in Go.
    go: Option<Go>,
    /// The program, if its own code is changed.
    pub(super) hooked_program: Option<HookedProgram>,
    /// Its functions that lead to the runtime, or are to.
    pub(super) hooks: Vec<Hook>,
    /// Where a thread has its word, from its thread pointer.
    word: u64,
    /// What it had loaded when that was looked through.
    links: Vec<Link>,
    /// Threads that did not stop in time, and are let go when they do; and when each was last seen running.
    stuck: Vec<(u32, Instant)>,
    /// Threads whose stacks are nowhere.
    unmeasured: HashSet<u32>,
    /// When the heap was looked at in which Go has its stacks.
    looked_at_heap: Instant,
    /// CPU time that threads without a slot had used when they were last looked at.
    used: HashMap<u32, u64>,
    /// How long a thread was stopped at most.
    pub longest: Duration,
}

impl Loader {
    /// For a process.
    ///
    /// # Errors
    /// Why it cannot be attached to. Nothing has been changed.
    pub fn new(pid: u32) -> Result<Self> {
        let memory = TraceeMemory::open(pid)
            .with_context(|| format!("the memory of process {pid} cannot be opened"))?;
        let image = RuntimeImage::parse(embedded::RUNTIME)?;
        let areas = objects::areas(pid)?;
        let mut loader = Self {
            pid,
            memory,
            image,
            base: 0,
            is_new: true,
            is_forked: false,
            room: 0,
            instruction: 0,
            mapped: 0,
            lists: Vec::new(),
            listed: HashSet::new(),
            go: None,
            hooked_program: None,
            hooks: Vec::new(),
            word: WORD,
            links: Vec::new(),
            stuck: Vec::new(),
            unmeasured: HashSet::new(),
            looked_at_heap: Instant::now(),
            used: HashMap::new(),
            longest: Duration::ZERO,
        };
        loader.find_former(&areas)?;
        let start = Start::of(pid, &loader.memory)?;
        loader.go = crate::launch::is_go(format!("/proc/{pid}/exe"));
        ensure!(loader.go != Some(Go::StaticWithC), "{}", Obstacle::StaticGoWithC);
        let is_pure = loader.go == Some(Go::WithoutC);
        if start.has_loader && !is_pure {
            let objects = loader.objects()?;
            ensure!(
                objects.iter().any(Object::is_libc) && objects.iter().any(Object::is_loader),
                "its C library is neither glibc nor musl; run it with: whatif run"
            );
            if objects.iter().any(Object::is_musl) {
                loader.word = WORD_OF_MUSL;
            }
        }
        let has_calls = loader.go.is_some() && loader.word != WORD_OF_MUSL;
        if !start.has_loader || has_calls {
            let names = loader.image.real_names(embedded::RUNTIME).into_iter();
            let needed = loader.image.needs().into_iter().map(str::to_owned);
            let program = HookedProgram::read(pid, start.entry, &names.chain(needed).collect(), loader.go);
            match program {
                Ok(program) => {
                    loader.word = program.word;
                    loader.hooked_program = Some(program);
                }
                // Its C code can be profiled.
                Err(_) if loader.go == Some(Go::WithC) => {}
                Err(failure) => return Err(failure),
            }
        }
        loader.instruction = loader.find_instruction(&areas)?;
        Ok(loader)
    }

    /// Whether the runtime is there already.
    pub fn has_run(&self) -> bool {
        self.base != 0
    }

    /// Whether it has no C library, or has that in itself: what its loader has loaded, if any has, is of no use to us.
    fn is_alone(&self) -> bool {
        self.hooked_program.as_ref().is_some_and(|program| !program.has_libc())
    }

    /// How threads of a program in Go without a C library can find out where they have their words: one of [`go`].
    ///
    /// # Errors
    /// They have a C library's there.
    fn thread_pointers_of_go(&mut self) -> Result<u32> {
        const HARDWARE: u64 = 26;
        const FSGSBASE: u64 = 2;
        let pointer = self.with_thread(|_, tracee| Ok(tracee.thread_pointer()))?;
        // `tcbhead_t` begins with its own address.
        let is_of_libc = self.memory.word(pointer).is_ok_and(|word| word == pointer);
        ensure!(!is_of_libc, "it is in Go, and its threads are those of a C library that it does not name");
        let told = kernel::process_memory::told_at_start(self.pid).unwrap_or_default();
        let has_it = told.iter().any(|(number, value)| *number == HARDWARE && value & FSGSBASE != 0);
        Ok(if has_it { go::READS } else { go::ASKS })
    }

    /// Whether it is in Go, and its calls are known.
    fn is_go(&self) -> bool {
        self.hooked_program.as_ref().is_some_and(|program| program.go.is_some())
    }

    fn links(&self) -> Result<Vec<Link>> {
        if self.is_alone() { Ok(Vec::new()) } else { objects::links(self.pid, &self.memory) }
    }

    fn objects(&self) -> Result<Vec<Object>> {
        objects::loaded(&self.links()?, &self.memory)
    }

    /// A runtime that is there already: that of a session that is over is used again.
    fn find_former(&mut self, areas: &[Area]) -> Result<()> {
        let runtime = areas.iter().find(|area| {
            let file = area.name.rsplit('/').next().unwrap_or_default();
            embedded::is_runtime(file)
        });
        let Some(runtime) = runtime else { return Ok(()) };
        ensure!(runtime.name.contains("memfd:"), "it runs under whatif already");
        ensure!(
            runtime.name.contains(embedded::FILE_NAME),
            "another version of whatif has profiled it; use that one, or restart the program"
        );
        self.base = runtime.start;
        let word = |field: usize| self.memory.word(self.state(field));
        let phase = word(offset_of!(State, phase))? as u32;
        let guardian = word(offset_of!(State, guardian))? as u32;
        let process = word(offset_of!(State, process))? as u32;
        // What was forked from one that was attached to has its words and its memory, but is left alone.
        let is_forked = phase != Phase::New as u32 && process != 0 && process != self.pid;
        ensure!(
            phase != Phase::Profiles as u32 || is_forked,
            "it is profiled by another whatif (process {guardian} looks after that)"
        );
        ensure!(
            self.is_whole()?,
            "another whatif was interrupted when it attached to it; restart the program"
        );
        let room = word(offset_of!(State, room))?;
        (self.is_new, self.is_forked, self.room) = (phase == Phase::New as u32, is_forked, room);
        Ok(())
    }

    /// Whether the code of the runtime that is there is ours.
    fn is_whole(&self) -> Result<bool> {
        for segment in self.image.segments.iter().filter(|segment| !segment.is_writable) {
            let code =
                &embedded::RUNTIME[segment.offset as usize..][..(segment.filled - segment.start) as usize];
            let mut there = vec![0; code.len()];
            self.memory.read(self.base + segment.start, &mut there)?;
            if there != code {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes a field of the runtime's state.
    pub(super) fn set(&self, field: usize, value: u32) -> Result<()> {
        Ok(self.memory.write(self.state(field), &value.to_ne_bytes())?)
    }

    /// Where a field of the runtime's state is.
    pub(super) fn state(&self, field: usize) -> u64 {
        self.base + self.image.export(name::STATE) + field as u64
    }

    fn find_instruction(&self, areas: &[Area]) -> Result<u64> {
        /// No C library is larger; what calls itself one may be.
        const MOST: u64 = 64 << 20;
        const PIECE: u64 = 1 << 16;
        let is_alone = self.is_alone();
        let is_libc = |area: &&Area| {
            let names = ["/libc", "/ld-musl-"];
            area.is_executable
                && (names.iter().any(|name| area.name.contains(name)) || is_alone && area.file != (0, 0))
        };
        for area in areas.iter().filter(is_libc).take(16) {
            let end = area.end.min(area.start.saturating_add(MOST));
            let mut start = area.start;
            while start < end {
                let mut bytes = vec![0; PIECE.min(end - start) as usize];
                if self.memory.read(start, &mut bytes).is_err() {
                    break;
                }
                if let Some(at) = bytes.windows(2).position(|pair| pair == SYSTEM_CALL) {
                    return Ok(start + at as u64);
                }
                start += PIECE;
            }
        }
        bail!("its C library makes no system calls that could be found")
    }

    /// Stops a thread, whichever can be, and does `work` with it: one system call or one function, so that it goes on soon.
    fn with_thread<T>(&mut self, work: impl FnOnce(&mut Self, &mut Tracee) -> Result<T>) -> Result<T> {
        /// A process of which so many threads do not stop is frozen.
        const MOST_STUCK: usize = 16;
        /// On a busy machine threads may have to wait for a CPU as long, on which they stop.
        const LONGEST: Duration = Duration::from_secs(2);
        let begin = Instant::now();
        let mut reason = anyhow!("it has no thread that can be stopped");
        loop {
            self.release_late_ones();
            let pid = self.pid;
            let all = threads_that_can_stop(pid);
            let gets_signals = |thread: u32| gets_signals_of_process(pid, thread);
            let best = all.iter().filter(|thread| !gets_signals(**thread)).map(|thread| (*thread, true));
            for (thread, is_best) in best.chain(all.iter().map(|thread| (*thread, false))) {
                if self.stuck.len() >= MOST_STUCK {
                    break;
                }
                if self.stuck.iter().any(|(stuck, _)| *stuck == thread) {
                    continue;
                }
                match Tracee::stop(thread, PATIENCE) {
                    // It has had a child only now.
                    Ok(tracee) if is_best && gets_signals(thread) => self.note(&tracee),
                    Ok(mut tracee) => {
                        // It may have executed another program meanwhile, which has nothing of what we know.
                        ensure!(self.is_there(), "it has executed another program");
                        let result = work(self, &mut tracee);
                        self.note(&tracee);
                        return result;
                    }
                    Err(trouble) => {
                        reason = self.explain(thread, trouble);
                        self.release_late_ones();
                    }
                }
            }
            if !self.has_late_ones() || begin.elapsed() > LONGEST {
                ensure!(
                    self.stuck.len() < MOST_STUCK,
                    "its threads do not stop (is it frozen, or does it wait for a device?)"
                );
                return Err(reason);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn system_call(&mut self, call: i64, arguments: [u64; 6]) -> Result<u64> {
        self.with_thread(|loader, tracee| Ok(tracee.system_call(loader.instruction, call, arguments)?))
    }

    /// Calls a function of the runtime.
    fn call(&mut self, name: &str, arguments: [u64; 3]) -> Result<i64> {
        let result = self.call_at(self.base + self.image.export(name), arguments);
        result.with_context(|| format!("{name} was called in it"))
    }

    pub(super) fn call_at(&mut self, function: u64, arguments: [u64; 3]) -> Result<i64> {
        self.with_thread(|loader, tracee| {
            Ok(tracee.call(&loader.memory, loader.returns(), function, arguments)?)
        })
    }

    /// What functions return to.
    fn returns(&self) -> Return {
        Return {
            code: self.base + self.image.export(name::DONE),
            done: self.state(offset_of!(State, done)),
            result: self.state(offset_of!(State, result)),
            stack: self.room + ROOM - 64,
        }
    }

    /// Whether the process still runs the program that it ran, and has not ended.
    pub fn is_there(&self) -> bool {
        self.memory.word(self.instruction & !7).is_ok()
    }

    pub(super) fn note(&mut self, tracee: &Tracee) {
        self.longest = self.longest.max(tracee.stopped_for());
    }

    pub(super) fn explain(&mut self, thread: u32, trouble: Trouble) -> anyhow::Error {
        if matches!(trouble, Trouble::Stuck) {
            self.stuck.push((thread, Instant::now()));
        }
        anyhow::Error::new(trouble).context(format!("thread {thread} cannot be stopped"))
    }

    /// Whether a thread may stop at any moment that has to be let go then.
    pub fn has_late_ones(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// Lets threads go that have stopped too late. How long each was stopped is known to the time between two calls of this.
    pub fn release_late_ones(&mut self) {
        let longest = &mut self.longest;
        self.stuck.retain_mut(|(thread, ran)| match kernel::tracee::release_if_stopped(*thread) {
            Late::Runs => {
                *ran = Instant::now();
                true
            }
            Late::LetGo => {
                *longest = ran.elapsed().max(*longest);
                false
            }
            Late::Ended => false,
        });
    }

    /// Maps the runtime, unless it is there, and a new shared memory, whose file is returned.
    ///
    /// # Errors
    /// Why that is not possible. At most a mapping is left that does nothing.
    pub fn put_in(&mut self) -> Result<OwnedFd> {
        const CLOEXEC_SEALING: u64 = 3;
        const NOEXEC: u64 = 8;
        self.have_runtime()?;
        let (file, number) = self.new_file("whatif", &[CLOEXEC_SEALING | NOEXEC, CLOEXEC_SEALING])?;
        self.map_shared(number)?;
        Ok(file.into())
    }

    /// Maps the runtime, unless it is there, and a memory that another process shares as well.
    ///
    /// # Errors
    /// As for [`Loader::put_in`].
    pub fn join(&mut self, memory: BorrowedFd<'_>) -> Result<()> {
        self.share(memory)?;
        self.set(offset_of!(State, joins), 1)
    }

    /// Maps the runtime, and a memory of which it is the first process.
    ///
    /// # Errors
    /// As for [`Loader::put_in`].
    pub fn share(&mut self, memory: BorrowedFd<'_>) -> Result<()> {
        self.have_runtime()?;
        let number = self.hand_over(memory).context("the memory of the session cannot be handed to it")?;
        self.map_shared(number)
    }

    fn have_runtime(&mut self) -> Result<()> {
        if self.base == 0 {
            self.map_runtime()?;
        }
        self.set(offset_of!(State, joins), 0)
    }

    pub(super) fn map(&mut self, arguments: [u64; 6]) -> Result<u64> {
        self.system_call(call::MMAP, arguments)
    }

    fn map_anonymous(&mut self, length: u64, protection: u64) -> Result<u64> {
        let flags = map::PRIVATE | map::ANONYMOUS | map::NORESERVE;
        self.map([0, length, protection, flags, map::NO_FILE, 0])
    }

    fn map_runtime(&mut self) -> Result<()> {
        const CLOEXEC: u64 = 1;
        const EXEC: u64 = 0x10;
        self.room = self.map_anonymous(ROOM, map::READ_WRITE).context("it has no memory to spare")?;
        let (file, number) = self.new_file(embedded::FILE_NAME, &[CLOEXEC | EXEC, CLOEXEC])?;
        let mapped = self.map_segments(number);
        self.close(number)?;
        self.base = mapped.context("it has no memory to spare for the runtime")?;
        self.fill(file)
    }

    fn map_segments(&mut self, file: u64) -> Result<u64> {
        let base = self.map_anonymous(self.image.size(), 0)?;
        for segment in self.image.segments.clone() {
            let (start, offset) = (segment.start & !(PAGE - 1), segment.offset & !(PAGE - 1));
            let filled = segment.filled.next_multiple_of(PAGE);
            let (at, protection) = (base + start, segment.protection());
            let flags = map::PRIVATE | map::FIXED;
            self.map([at, filled - start, protection, flags, file, offset])?;
            if segment.end > filled {
                let (at, length) = (base + filled, segment.end.next_multiple_of(PAGE) - filled);
                let flags = flags | map::ANONYMOUS | map::NORESERVE;
                self.map([at, length, protection, flags, map::NO_FILE, 0])?;
            }
        }
        Ok(base)
    }

    /// Maps a file that it has open, and closes that.
    fn map_shared(&mut self, number: u64) -> Result<()> {
        let size = SharedMemory::SIZE as u64;
        let mapped = self.map([0, size, map::READ_WRITE, map::SHARED, number, 0]);
        self.close(number)?;
        self.mapped =
            mapped.with_context(|| format!("it has no room for {} MB more (RLIMIT_AS?)", size >> 20))?;
        Ok(())
    }

    /// Writes the runtime where it has been mapped.
    fn fill(&self, mut file: File) -> Result<()> {
        file.write_all(embedded::RUNTIME).context("the runtime cannot be written into memory")?;
        // What is found out by calls comes later.
        self.write_data(&HashMap::new())
    }

    fn write_data(&self, symbols: &HashMap<String, Symbol>) -> Result<()> {
        for (start, bytes) in self.image.data(embedded::RUNTIME, (self.base, self.word), symbols) {
            self.memory.write(start, &bytes)?;
        }
        Ok(self.memory.write(self.state(offset_of!(State, room)), &self.room.to_ne_bytes())?)
    }

    /// Has the runtime find what it needs; then the words are listed that are to lead to it.
    ///
    /// # Errors
    /// Why that is not possible. The program runs as before.
    pub fn prepare(&mut self) -> Result<()> {
        let objects = self.objects()?;
        // A runtime that has run before has what it needs, and has changed some of the words since.
        if self.is_new {
            self.link(&objects)?;
        }
        self.set(offset_of!(State, is_musl), u32::from(self.word == WORD_OF_MUSL))?;
        let is_go = match self.go {
            None => 0,
            Some(Go::WithoutC) => self.thread_pointers_of_go()?,
            // Their handlers have stacks of their own, whether their calls are known or not.
            Some(Go::WithC | Go::StaticWithC) => go::HAS_C,
        };
        self.set(offset_of!(State, is_go), is_go)?;
        if let Some(program) = self.hooked_program.take() {
            // The program's own may be among those that are replaced.
            self.instruction = self.base + self.image.instruction(embedded::RUNTIME)?;
            let prepared = self.prepare_hooks(&program);
            self.hooked_program = Some(program);
            prepared?;
        }
        check(self.call(name::FIND, [self.room, self.room + ROOM, 0])?)?;
        let entries = self.new_entries(&objects)?;
        self.list(&entries)
    }

    /// Writes where in the program's libraries what the runtime needs is.
    fn link(&mut self, objects: &[Object]) -> Result<()> {
        let mut symbols = HashMap::new();
        for object in objects.iter().filter(|object| object.is_libc() || object.is_loader()) {
            symbols.extend(object.symbols(&self.memory, &self.image.needs())?);
        }
        if let Some(program) = &self.hooked_program {
            let known = self.image.needs().into_iter().filter_map(|name| Some((name, program.symbol(name)?)));
            symbols.extend(known.map(|(name, symbol)| (name.to_owned(), symbol)));
        }
        // What the loader tells debuggers; musl does not call it so, and a static program has no loader: there are zeros.
        let debug =
            if objects.is_empty() { self.room + ZEROS } else { Start::of(self.pid, &self.memory)?.debug };
        symbols.insert("_r_debug".to_owned(), Symbol { address: debug, is_indirect: false });
        for (name, own) in name::MEMORY_FUNCTIONS {
            let address = self.base + self.image.export(own);
            symbols.entry(name.to_owned()).or_insert(Symbol { address, is_indirect: false });
        }
        for symbol in symbols.values_mut().filter(|symbol| symbol.is_indirect) {
            symbol.address = self.call_at(symbol.address, [0; 3])?.cast_unsigned();
            symbol.is_indirect = false;
        }
        self.write_data(&symbols)
    }

    /// Functions of the C library that the runtime stands in front of: where they are, and where its own are.
    fn replaced(&self) -> Result<HashMap<String, (u64, u64)>> {
        let (start, length) = self.image.real;
        let mut table = vec![0; usize::try_from(length)?];
        self.memory.read(self.base + start, &mut table)?;
        let names = self.image.real_names(embedded::RUNTIME);
        let mut replaced = HashMap::new();
        for (entry, name) in table.chunks_exact(REAL_SIZE).zip(names) {
            let real = u64::from_ne_bytes(entry[..8].try_into().unwrap());
            let ours = self.image.export(&name);
            // 1: no library has it.
            if real > 1 && ours != 0 {
                replaced.insert(name, (real, self.base + ours));
            }
        }
        Ok(replaced)
    }

    /// Words that lead to one of these functions, or will with their first call, and are in no list yet.
    fn new_entries(&mut self, objects: &[Object]) -> Result<Vec<[u64; 5]>> {
        let replaced = self.replaced()?;
        let areas = objects::areas(self.pid)?;
        let size: u64 = objects.iter().map(Object::size_of_tables).sum();
        ensure!(size < MOST_TABLES, "the tables of what it has loaded are too large ({} MB)", size >> 20);
        /// More words than any program has.
        const MOST_WORDS: usize = 1 << 20;
        let mut entries = Vec::new();
        for object in objects.iter().filter(|object| !object.is_libc() && !object.is_loader()) {
            let Ok(words) = object.words(&self.memory, |name| replaced.contains_key(name)) else { continue };
            ensure!(entries.len() + words.len() < MOST_WORDS, "it calls the C library by too many words");
            for word in words {
                /// Of an [`Entry`], which has two halves here.
                const IS_REDIRECTED: u64 = 1 << 32;
                let (real, ours) = replaced[&word.name];
                let leads_there = word.value == real || word.is_lazy && object.is_at(word.value, &areas);
                let leads_to_us = word.value == ours;
                let Some(area) = areas.iter().find(|area| area.has(word.place)) else { continue };
                if (leads_there || leads_to_us) && self.listed.insert(word.place) {
                    let (before, state) = if leads_to_us { (real, IS_REDIRECTED) } else { (word.value, 0) };
                    entries.push([word.place, before, real, ours, state | u64::from(!area.is_writable)]);
                }
            }
        }
        // Pages are opened one after the other.
        entries.sort_unstable();
        Ok(entries)
    }

    /// Writes a list into the program.
    fn list(&mut self, entries: &[[u64; 5]]) -> Result<()> {
        let count = entries.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let length = (count * ENTRY).next_multiple_of(PAGE);
        let start = self.map_anonymous(length, map::READ_WRITE)?;
        let bytes: Vec<u8> = entries.as_flattened().iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.memory.write(start, &bytes)?;
        self.lists.push((start, count));
        Ok(())
    }

    /// The program is profiled from here on. How many words lead to the runtime.
    ///
    /// # Errors
    /// Why that is not possible. The program is to be let go then.
    pub fn start(&mut self) -> Result<i64> {
        if self.is_forked {
            self.forget_slot()?;
            self.close_copies()?;
        }
        let own = std::process::id();
        self.memory.write(self.state(offset_of!(State, guardian)), &own.to_ne_bytes())?;
        let (entries, count) = self.lists.first().copied().unwrap_or_default();
        if let Err(failure) = self.set_hooks() {
            self.undo();
            return Err(failure);
        }
        let redirected = self.call(name::START, [self.mapped, entries, count])?;
        if let Err(failure) = check(redirected) {
            // Nothing has begun: the memory is not in use.
            self.undo();
            return Err(failure);
        }
        self.let_calls_end();
        check(self.call(name::OPEN, [0; 3])?)?;
        Ok(redirected + self.hooks.len() as i64)
    }

    /// Waits until no thread is in a short call that does not lead to the runtime, but not for long: those that have slept, or used a CPU for a while, are in another one by now.
    fn let_calls_end(&mut self) {
        const LONGEST: Duration = Duration::from_millis(500);
        const ENOUGH: u64 = 100_000;
        let begin = Instant::now();
        let pid = self.pid;
        // Those that are stopped late were in the midst of something as well.
        let runs = |loader: &Self, thread: u32| {
            thread_state(pid, thread) == Some('R') || loader.stuck.iter().any(|(stuck, _)| *stuck == thread)
        };
        let running = threads(pid).into_iter().filter(|thread| runs(self, *thread));
        let mut running: Vec<_> = running.map(|thread| (thread, cpu_time(pid, thread))).collect();
        while !running.is_empty() && begin.elapsed() < LONGEST {
            self.release_late_ones();
            std::thread::sleep(Duration::from_millis(1));
            running
                .retain(|(thread, before)| runs(self, *thread) && cpu_time(pid, *thread) < before + ENOUGH);
        }
    }

    /// The first thread of a process that was forked has the slot of its parent's.
    fn forget_slot(&mut self) -> Result<()> {
        /// There is no other thread that could be stopped instead.
        const PATIENCE: Duration = Duration::from_secs(2);
        let tracee = match Tracee::stop(self.pid, PATIENCE) {
            Ok(tracee) => tracee,
            Err(trouble) => return Err(self.explain(self.pid, trouble)),
        };
        self.memory.write(tracee.thread_pointer() + self.word, &[0; 8])?;
        self.note(&tracee);
        Ok(())
    }

    /// Closes what a process that was forked has of its parent's descriptors for samples: those are out of the way of the program's own
    /// (`out_of_the_way` in `runtime/src/sys.rs`).
    fn close_copies(&mut self) -> Result<()> {
        const HIGH: u64 = 4096;
        let high = soft_limit(self.pid, "Max open files").map_or(HIGH, |limit| (limit / 2).min(HIGH));
        let folder = format!("/proc/{}/fd", self.pid);
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or(0);
            let is_event = || {
                std::fs::read_link(entry.path())
                    .is_ok_and(|link| link.as_os_str() == "anon_inode:[perf_event]")
            };
            if number >= high && is_event() {
                self.close(number)?;
            }
        }
        Ok(())
    }

    /// Looks for objects that were loaded since.
    ///
    /// # Errors
    /// The program has ended, or is about to.
    pub fn follow_objects(&mut self) -> Result<()> {
        let links = self.links()?;
        if links == self.links {
            return Ok(());
        }
        let objects = objects::loaded(&links, &self.memory)?;
        let entries = self.new_entries(&objects)?;
        let redirected = self.redirect(&entries);
        match &redirected {
            Ok(()) => self.links = links,
            // They are tried again.
            Err(_) => {
                for [place, ..] in &entries {
                    self.listed.remove(place);
                }
            }
        }
        redirected
    }

    fn redirect(&mut self, entries: &[[u64; 5]]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.list(entries)?;
        let Some((start, count)) = self.lists.last().copied() else { return Ok(()) };
        self.call(name::REDIRECT, [start, count, 0]).map(drop)
    }

    /// Registers threads that compute without calling anything.
    pub fn register_busy_ones(&mut self, shared: &SharedMapping) {
        let known: HashSet<u32> = self.slots(shared).map(|slot| slot.tid.load(Acquire)).collect();
        let mut used = HashMap::new();
        for thread in threads(self.pid).into_iter().filter(|thread| !known.contains(thread)) {
            let now = cpu_time(self.pid, thread);
            let before = self.used.get(&thread).copied().unwrap_or(now);
            if now >= before + BUSY && can_stop(self.pid, thread) {
                let _ = self.register(thread);
            } else {
                used.insert(thread, before);
            }
        }
        self.used = used;
    }

    /// Registers all threads of a program that has not begun yet: those that wait in a system call do so by themselves.
    pub fn register_all(&mut self) {
        for thread in threads(self.pid) {
            let _ = self.register(thread);
        }
    }

    fn register(&mut self, thread: u32) -> Result<()> {
        let mut tracee = match Tracee::stop(thread, PATIENCE) {
            Ok(tracee) => tracee,
            Err(trouble) => return Err(self.explain(thread, trouble)),
        };
        // In a system call it uses no CPU, and registers with its next call of ours.
        if !tracee.was_in_call() && self.is_there() {
            let page = tracee.stack_pointer() & !(PAGE - 1);
            let before = tracee.mask();
            let join = self.base + self.image.export(name::JOIN);
            let mask = tracee.call(&self.memory, self.returns(), join, [page, page + PAGE, before])?;
            if mask != -1 {
                tracee.set_mask(mask.cast_unsigned());
            }
        }
        self.note(&tracee);
        Ok(())
    }

    /// Writes down how far the stacks of threads reach that have registered since the last time: a stack is walked as far as that.
    pub fn measure_stacks(&mut self, shared: &SharedMapping) {
        if self.is_go() {
            return self.measure_heap_of_go(shared);
        }
        let is_new = |slot: &&Slot| {
            let (low, high) = (slot.stack_low.load(Relaxed), slot.stack_high.load(Relaxed));
            high.wrapping_sub(low) <= PAGE as usize && !self.unmeasured.contains(&slot.tid.load(Acquire))
        };
        let new: Vec<&Slot> = self.slots(shared).filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        let Ok(areas) = objects::areas(self.pid) else { return };
        for slot in new {
            let thread = slot.tid.load(Acquire);
            // The C library has what it knows of a thread above its stack, in the same piece of memory.
            let pointer = (slot.word.load(Relaxed) as u64).wrapping_sub(self.word);
            let stack = if thread == self.pid {
                let nth = areas.iter().position(|area| area.name == "[stack]");
                nth.map(|nth| (lowest_of_stack(self.pid, &areas[..=nth]), areas[nth].end))
            } else {
                let area = areas.iter().find(|area| area.has(pointer) && area.is_writable);
                area.map(|area| (area.start, pointer & !15))
            };
            if let Some((low, high)) = stack {
                slot.stack_high.store(high as usize, Relaxed);
                slot.stack_low.store(low as usize, Relaxed);
            } else {
                self.unmeasured.insert(thread);
            }
        }
    }

    /// Threads of Go without a C library end without a word: their slots are given back, and what is open for them is closed.
    pub fn forget_ended_threads(&mut self, shared: &SharedMapping) {
        if !self.is_go() || !self.is_alone() {
            return;
        }
        let alive: HashSet<u32> = threads(self.pid).into_iter().collect();
        let has_ended = |slot: &&Slot| {
            let thread = slot.tid.load(Acquire);
            thread != 0 && !alive.contains(&thread) && slot.pid.load(Relaxed) == self.pid
        };
        let ended: Vec<&Slot> = self.slots(shared).filter(has_ended).collect();
        for slot in ended {
            let (thread, nth) = (slot.tid.load(Acquire), u64::from(slot.number(&shared.memory().slots)));
            if self.call(name::SILENCE, [nth, nth + 1, 0]).is_ok() {
                shared.memory().slots.give_back_of(slot, thread);
            }
        }
    }

    /// In Go all stacks are in the heap, which grows from one address.
    fn measure_heap_of_go(&mut self, shared: &SharedMapping) {
        const HEAP: u64 = 0xc0_0000_0000;
        let is_new = |slot: &Slot| slot.stack_low.load(Relaxed) as u64 != HEAP;
        if !self.slots(shared).any(is_new) && self.looked_at_heap.elapsed() < Duration::from_secs(1) {
            return;
        }
        self.looked_at_heap = Instant::now();
        let Ok(areas) = objects::areas(self.pid) else { return };
        let Some(heap) = areas.iter().find(|area| area.start == HEAP && area.is_writable) else { return };
        for slot in self.slots(shared) {
            slot.stack_high.store(heap.end as usize, Relaxed);
            slot.stack_low.store(HEAP as usize, Relaxed);
        }
    }

    /// The slots of this process's threads.
    fn slots<'s>(&self, shared: &'s SharedMapping) -> impl Iterator<Item = &'s Slot> + use<'s> {
        let pid = self.pid;
        let slots = shared.memory().slots.used().iter();
        slots.filter(move |slot| slot.is_taken() && slot.pid.load(Relaxed) == pid)
    }

    /// Lets the program go.
    ///
    /// # Errors
    /// What could not be undone.
    pub fn leave(&mut self, shared: &SharedMapping) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let mut lists = self.lists.clone().into_iter();
        let (entries, count) = lists.next().unwrap_or_default();
        self.call(name::LEAVE, [entries, count, 0])?;
        for (entries, count) in lists {
            self.call(name::RESTORE, [entries, count, 0])?;
        }
        self.silence(shared)?;
        let begin = Instant::now();
        while self.slots(shared).any(|slot| slot.settling.load(Relaxed) != 0) && begin.elapsed() < PATIENCE {
            self.release_late_ones();
            std::thread::sleep(Duration::from_millis(1));
        }
        // Threads that were about to begin.
        self.silence(shared)?;
        // Not before: by the hooks no sample ends a wait early.
        self.take_hooks_away()?;
        self.unmap_lists()?;
        for slot in self.slots(shared) {
            self.give_back(slot, shared);
            self.release_late_ones();
        }
        Ok(())
    }

    /// No thread is sampled any more. Few at a time, because one of them waits for that.
    fn silence(&mut self, shared: &SharedMapping) -> Result<()> {
        const AT_ONCE: usize = 32;
        let slots = shared.memory().slots.used();
        for (nth, some) in slots.chunks(AT_ONCE).enumerate() {
            let is_own = |slot: &Slot| slot.is_taken() && slot.pid.load(Relaxed) == self.pid;
            if some.iter().any(is_own) {
                let first = nth * AT_ONCE;
                self.call(name::SILENCE, [first as u64, (first + some.len()) as u64, 0])?;
            }
        }
        Ok(())
    }

    /// Gives a thread its mask back, and its word.
    fn give_back(&mut self, slot: &Slot, shared: &SharedMapping) {
        const URG: u64 = 1 << 22;
        const TRAP: u64 = 1 << 4;
        let masked = slot.masked.load(Relaxed);
        let masked = if masked & 1 != 0 { URG } else { 0 } | if masked & 2 != 0 { TRAP } else { 0 };
        let thread = slot.tid.load(Relaxed);
        if masked != 0 && can_stop(self.pid, thread) {
            match Tracee::stop(thread, PATIENCE) {
                Ok(mut tracee) => {
                    tracee.set_mask(tracee.mask() | masked);
                    self.note(&tracee);
                }
                Err(trouble) => drop(self.explain(thread, trouble)),
            }
        }
        let word = slot.word.load(Relaxed) as u64;
        let own = std::ptr::from_ref(slot).addr() - std::ptr::from_ref(shared.memory()).addr();
        if let Ok(memory) = self.memory.word(self.state(offset_of!(State, memory)))
            && self.memory.word(word).is_ok_and(|value| value == memory + own as u64)
        {
            let _ = self.memory.write(word, &[0; 8]);
        }
    }

    /// Nothing has been started: what was mapped for the session is given back.
    pub fn undo(&mut self) {
        let _ = self.take_hooks_away();
        let (size, mapped) = (SharedMemory::SIZE as u64, std::mem::take(&mut self.mapped));
        if mapped != 0 {
            let _ = self.system_call(call::MUNMAP, [mapped, size, 0, 0, 0, 0]);
        }
        let _ = self.unmap_lists();
    }

    fn unmap_lists(&mut self) -> Result<()> {
        for (start, count) in std::mem::take(&mut self.lists) {
            let length = (count * ENTRY).next_multiple_of(PAGE);
            self.system_call(call::MUNMAP, [start, length, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}

/// What a function of the runtime says of its failure.
fn check(result: i64) -> Result<()> {
    match result {
        0.. => Ok(()),
        failure::NO_KEY => {
            bail!("it uses too much thread-specific data (more than 31 keys); run it with: whatif run")
        }
        failure::MISMATCH => bail!("the runtime is of another build; install whatif anew"),
        failure::NO_WIPE => bail!("the kernel is too old (MADV_WIPEONFORK, Linux 4.14)"),
        failure::NO_ROOM => bail!("its memory could not be mapped anew"),
        failure::BUSY => bail!(
            "a thread of it is in a call that began when it was profiled before; attach to it again when that is over"
        ),
        other => bail!("the runtime has failed ({other})"),
    }
}

/// How far the stack of the main thread may grow, which is the last of these areas.
fn lowest_of_stack(pid: u32, areas: &[Area]) -> u64 {
    const MOST: u64 = 1 << 30;
    let Some((stack, below)) = areas.split_last() else { return 0 };
    let size = soft_limit(pid, "Max stack size").unwrap_or(MOST).min(MOST);
    let below = below.last().map_or(0, |area| area.end);
    stack.end.saturating_sub(size).max(below).min(stack.start)
}

/// A limit of a process, by its name in `/proc/PID/limits`; none if it is unlimited, or not known.
fn soft_limit(pid: u32, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Those that can be stopped, the ones that sleep first: they miss nothing.
fn threads_that_can_stop(pid: u32) -> Vec<u32> {
    let states = threads(pid).into_iter().map(|thread| (thread_state(pid, thread), thread));
    let mut found: Vec<_> = states.filter(|(state, _)| matches!(state, Some('R' | 'S' | 'I'))).collect();
    found.sort_by_key(|(state, _)| *state == Some('R'));
    found.into_iter().map(|(_, thread)| thread).collect()
}

/// Whether a thread is in a state in which it can be stopped.
fn can_stop(pid: u32, thread: u32) -> bool {
    matches!(thread_state(pid, thread), Some('R' | 'S' | 'I'))
}

/// The CPU time that a thread has used, in nanoseconds.
fn cpu_time(pid: u32, thread: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}
