//! Processes that run Python: which ones do, where their interpreters have their frames, and which functions these are of.
//!
//! The kernel reads the frames when a sample is taken (`kernel::python_frames`); names are read from the process's memory when a function is
//! first met, and looked at again now and then. What is in that memory is whatever the process has put there: it may cost its user the
//! names, and costs other users nothing.

use crate::callers::Owner;
use crate::errands::Errands;
use crate::hash::Mixed;
use crate::limits::Shares;
use crate::python_functions::{Functions, Source};
use crate::python_layout::{Layout, Runs, Unknown};
use crate::python_merge::{Merged, Native, Run, merge};
use crate::python_names::{CodeName, Places};
use kernel::process_memory::{ProcessMemory, pid_namespace};
use kernel::python_frames::{self, FramesEnd, Interpreter, InterpreterFrame, InterpreterFrames};
use kernel::stream::UserStack;
use std::collections::{HashMap, HashSet};
use std::ops::AddAssign;
use std::sync::Arc;
use symbols::{FileOffset, PythonExports};
use wire::Nanos;

/// Processes whose memory is open, of all users and of one: each takes a descriptor.
const MOST_PROCESSES: usize = 256;
const MOST_OF_USER: usize = 128;
/// Other code may lie at an address after this time: a name is looked at again.
const PATIENCE: Nanos = Nanos(10_000_000_000);
/// A process that could not be read is tried again after this time.
const AGAIN: Nanos = Nanos(2_000_000_000);
/// Processes of which it is known that they do not run Python, or cannot be read; the others are asked again.
const MOST_OTHERS: usize = 1 << 13;
/// Processes that are read before they have had a sample, in a second: many end without one.
const AHEAD: u32 = 20;
/// Memory that a code object takes, about, in bytes.
const A_CODE: usize = 2 * size_of::<(u64, Known)>();
const A_PROCESS: usize = 2 * size_of::<(u32, State)>();

/// See the module.
#[derive(Debug)]
pub struct Python {
    /// Whether the kernel reads frames.
    pub is_on: bool,
    processes: HashMap<u32, State, Mixed>,
    /// Processes that the kernel was told of.
    followed: HashMap<u32, Interpreter, Mixed>,
    /// By CPU: the frames of the sample that it takes next.
    pending: Vec<Pending>,
    /// Since when processes were read before they had a sample, and how many.
    ahead: (Nanos, u32),
    functions: Functions,
    shares: Shares,
    errands: Errands,
    /// What the kernel is to be told: processes whose frames it reads from now on, or no longer.
    pub wanted: Vec<(u32, Option<Interpreter>)>,
    /// Since the last [`take`](Self::take).
    tally: Interpreted,
    // Used again and again.
    runs: Vec<Run>,
    frames: Vec<u64>,
}

/// What became of the samples of processes that run Python.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interpreted {
    /// With Python's functions on their stacks.
    pub named: u64,
    /// The frames did not belong to the C stack, or could not be read.
    pub mismatched: u64,
    /// Of threads that the interpreter does not know.
    pub other_threads: u64,
    /// Frames of functions whose names could not be read.
    pub unnamed_frames: u64,
    /// Processes with a version that is not known.
    pub unknown_versions: u64,
    /// Processes that may not be read.
    pub not_allowed: u64,
    /// Processes of users who have too many, or too many functions.
    pub given_up: u64,
}

impl AddAssign for Interpreted {
    fn add_assign(&mut self, other: Self) {
        self.named += other.named;
        self.mismatched += other.mismatched;
        self.other_threads += other.other_threads;
        self.unnamed_frames += other.unnamed_frames;
        self.unknown_versions += other.unknown_versions;
        self.not_allowed += other.not_allowed;
        self.given_up += other.given_up;
    }
}

/// What is known of a process.
#[derive(Debug)]
enum State {
    /// Nothing of what it has mapped (see [`Python::is_decided`]) is known to be an interpreter.
    Other {
        space: u64,
        generation: u64,
    },
    Runs(Box<Running>),
    /// Not before this.
    Failed {
        until: Nanos,
    },
}

#[derive(Debug)]
struct Running {
    user: u32,
    memory: Arc<ProcessMemory>,
    layout: Layout,
    codes: HashMap<u64, Known, Mixed>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Nothing if it has no name.
    function: Option<(u64, Places)>,
    looked: Nanos,
}

#[derive(Clone, Debug, Default)]
struct Pending {
    /// Zero if there are none.
    tid: u32,
    first: u64,
    end: Option<FramesEnd>,
    frames: Vec<InterpreterFrame>,
}

/// Why the frames of a process are not read.
enum Problem {
    Unreadable,
    NotAllowed,
    Version,
}

impl Running {
    fn bytes(&self) -> usize {
        A_PROCESS + self.codes.len() * A_CODE
    }
}

impl Python {
    /// Of samples that this many CPUs take. All names together may take about `most` bytes.
    pub fn new(cpus: usize, most: usize) -> Self {
        Self {
            is_on: false,
            processes: HashMap::default(),
            followed: HashMap::default(),
            pending: vec![Pending::default(); cpus],
            ahead: (Nanos::ZERO, 0),
            functions: Functions::default(),
            shares: Shares::new(most),
            errands: Errands::frugal(),
            wanted: Vec::new(),
            tally: Interpreted::default(),
            runs: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Whether it is known of a process with this address space whether it runs Python; `generation` is another number when more
    /// interpreters are known.
    pub fn is_decided(&self, pid: u32, space: u64, generation: u64, now: Nanos) -> bool {
        match self.processes.get(&pid) {
            Some(State::Runs(_)) => true,
            Some(State::Failed { until }) => now < *until,
            Some(State::Other { space: known, generation: then }) => (*known, *then) == (space, generation),
            None => false,
        }
    }

    /// Nothing that a process has mapped is known to be an interpreter.
    pub fn is_other(&mut self, pid: u32, space: u64, generation: u64) {
        self.stop(pid);
        self.make_few();
        self.processes.insert(pid, State::Other { space, generation });
    }

    fn make_few(&mut self) {
        if self.processes.len() >= MOST_OTHERS + MOST_PROCESSES {
            self.processes.retain(|_, state| matches!(state, State::Runs(_)));
        }
    }

    /// Whether one more process may be read that has had no sample yet.
    pub fn looks_ahead(&mut self, now: Nanos) -> bool {
        const SECOND: Nanos = Nanos(1_000_000_000);
        if now.saturating_sub(self.ahead.0) > SECOND {
            self.ahead = (now, 0);
        }
        self.ahead.1 += 1;
        self.ahead.1 <= AHEAD
    }

    /// A process has mapped the code of an interpreter at `start` from `offset` of its file on. Whether its frames are read from now on.
    pub fn is_python(
        &mut self,
        owner: Owner,
        exports: &Arc<PythonExports>,
        (start, offset): (u64, u64),
        now: Nanos,
    ) -> bool {
        let Owner { pid, user } = owner;
        self.stop(pid);
        let failed = State::Failed { until: now + AGAIN };
        self.make_few();
        let (mut all, mut of_user) = (0, 0);
        for state in self.processes.values() {
            if let State::Runs(running) = state {
                all += 1;
                of_user += usize::from(running.user == user);
            }
        }
        if all >= MOST_PROCESSES || of_user >= MOST_OF_USER {
            self.tally.given_up += 1;
            self.processes.insert(pid, failed);
            return false;
        }
        let exports = Arc::clone(exports);
        let found = self.errands.run(user, move || attach(owner, &exports, start, offset));
        match found {
            Some(Ok((memory, layout, interpreter))) => {
                let running = Running { user, memory: Arc::new(memory), layout, codes: HashMap::default() };
                self.shares.change(user, 0, running.bytes());
                self.processes.insert(pid, State::Runs(Box::new(running)));
                self.follow(pid, interpreter);
                true
            }
            Some(Err(problem)) => {
                // Its version and our rights will be the same.
                let until =
                    if matches!(problem, Problem::Unreadable) { now + AGAIN } else { Nanos(u64::MAX) };
                match problem {
                    Problem::Version => self.tally.unknown_versions += 1,
                    Problem::NotAllowed => self.tally.not_allowed += 1,
                    Problem::Unreadable => {}
                }
                self.processes.insert(pid, State::Failed { until });
                false
            }
            None => {
                self.processes.insert(pid, failed);
                false
            }
        }
    }

    fn follow(&mut self, pid: u32, interpreter: Interpreter) {
        if self.followed.len() >= python_frames::MOST_PROCESSES && !self.followed.contains_key(&pid) {
            return;
        }
        if self.followed.insert(pid, interpreter) != Some(interpreter) {
            self.wanted.push((pid, Some(interpreter)));
        }
    }

    /// Nothing is known of a process any more; the kernel may still read its frames.
    fn stop(&mut self, pid: u32) {
        if let Some(State::Runs(running)) = self.processes.remove(&pid) {
            self.shares.change(running.user, running.bytes(), 0);
        }
    }

    /// A process was forked from another one, and has its interpreter at the same place.
    pub fn fork(&mut self, pid: u32, parent: u32) -> bool {
        self.forget(pid);
        let Some(interpreter) = self.followed.get(&parent).copied() else { return false };
        self.follow(pid, interpreter);
        true
    }

    /// A process has ended, or executes another program.
    pub fn forget(&mut self, pid: u32) {
        self.stop(pid);
        if self.followed.remove(&pid).is_some() {
            self.wanted.push((pid, None));
        }
    }

    /// The frames of the sample that `cpu` takes next.
    pub fn frames(&mut self, cpu: usize, tid: u32, frames: &InterpreterFrames<'_>) {
        let Some(pending) = self.pending.get_mut(cpu) else { return };
        pending.frames.clear();
        pending.frames.extend(frames.iter());
        (pending.tid, pending.first, pending.end) = (tid, frames.first, Some(frames.end));
    }

    /// Makes the frames of the sample that `cpu` takes next ready for [`merge`](Self::merge), whose copy of the stack is at hand. Whether there are
    /// any.
    pub fn prepare(&mut self, cpu: usize, (pid, tid): (u32, u32), stack: &UserStack<'_>, now: Nanos) -> bool {
        let Some(place) = self.pending.get_mut(cpu) else { return false };
        if std::mem::take(&mut place.tid) != tid {
            return false;
        }
        let pending = std::mem::take(place);
        let is_ready = self.name(pid, &pending, stack, now);
        if let Some(place) = self.pending.get_mut(cpu) {
            *place = Pending { tid: 0, ..pending };
        }
        is_ready
    }

    fn name(&mut self, pid: u32, pending: &Pending, stack: &UserStack<'_>, now: Nanos) -> bool {
        let Some(State::Runs(running)) = self.processes.get(&pid) else { return false };
        let runs = running.layout.runs();
        if pending.end == Some(FramesEnd::NoThread) {
            self.tally.other_threads += 1;
            return false;
        }
        divide(pending, runs, stack, &mut self.runs);
        if self.runs.is_empty() {
            return false;
        }
        let is_function =
            |frame: &&InterpreterFrame| !matches!(runs, Runs::Frames { .. }) || !runs.is_last(frame);
        let codes: Vec<u64> = pending.frames.iter().filter(is_function).map(|frame| frame.code).collect();
        self.look_at(pid, &codes, now);
        let Some(State::Runs(running)) = self.processes.get(&pid) else { return false };
        self.frames.clear();
        for code in &codes {
            let function = running.codes.get(code).and_then(|known| known.function);
            self.tally.unnamed_frames += u64::from(function.is_none());
            self.frames
                .push(Functions::address(function.map_or(Functions::UNNAMED, |(function, _)| function)));
        }
        true
    }

    /// Reads the names of code that is not known, or has not been looked at for a while.
    fn look_at(&mut self, pid: u32, codes: &[u64], now: Nanos) {
        let Some(State::Runs(running)) = self.processes.get_mut(&pid) else { return };
        let mut seen = HashSet::new();
        let due = |code: &u64| {
            let known = running.codes.get(code);
            known.is_none_or(|known| now.saturating_sub(known.looked) > PATIENCE)
        };
        let due: Vec<(u64, Option<Places>)> = codes
            .iter()
            .filter(|code| due(code) && seen.insert(**code))
            .map(|code| {
                let known = running.codes.get(code).and_then(|known| known.function);
                (*code, known.map(|(_, places)| places))
            })
            .collect();
        if due.is_empty() {
            return;
        }
        let (user, memory, layout) = (running.user, Arc::clone(&running.memory), running.layout.names);
        let found = self.errands.run(user, move || {
            let look = |(code, before): (u64, Option<Places>)| {
                // It may have ended since the sample was taken: what was read before stays known.
                let places = Places::read(&memory, &layout, code);
                let is_kept = before.is_some() && (places.is_none() || places == before);
                (code, (!is_kept).then(|| CodeName::read(&memory, &layout, code)))
            };
            due.into_iter().map(look).collect::<Vec<_>>()
        });
        let Some(found) = found else { return };
        let before = running.bytes();
        for (code, found) in found {
            let known = running.codes.entry(code).or_insert(Known { function: None, looked: now });
            known.looked = now;
            if let Some(found) = found {
                known.function = found.map(|CodeName { file, function, places }| {
                    (self.functions.number(file, function), places)
                });
            }
        }
        self.shares.change(user, before, running.bytes());
        self.make_room();
    }

    /// Gives up processes, those with the most functions first, of the users that take most, until what is left may be kept.
    fn make_room(&mut self) {
        while let Some(user) = self.shares.too_much() {
            let of_user = self.processes.iter().filter_map(|(pid, state)| match state {
                State::Runs(running) if running.user == user => Some((running.bytes(), *pid)),
                _ => None,
            });
            let Some((_, pid)) = of_user.max() else { return };
            self.forget(pid);
            self.processes.insert(pid, State::Failed { until: Nanos(u64::MAX) });
            self.tally.given_up += 1;
        }
    }

    /// Puts the frames that are [ready](Self::prepare) into the C stack of their sample. `is_evaluator` tells of each of its frames whether it could
    /// execute Python functions.
    pub fn merge(
        &mut self,
        native: &Native<'_>,
        is_evaluator: impl Fn(usize) -> bool,
        merged: &mut Vec<u64>,
    ) -> Merged {
        let how = merge(native, &self.runs, &self.frames, is_evaluator, merged);
        match how {
            Merged::No => self.tally.mismatched += 1,
            Merged::Whole | Merged::Cut => self.tally.named += 1,
        }
        how
    }

    /// The function at an address of a callchain that is none of code.
    pub fn function(&self, address: u64) -> Option<&Source> {
        self.functions.at(address)
    }

    /// What became of samples since the last call.
    pub fn take(&mut self) -> Interpreted {
        std::mem::take(&mut self.tally)
    }

    /// Forgets functions that no process has.
    pub fn forget_functions(&mut self) {
        let running = self.processes.values().filter_map(|state| match state {
            State::Runs(running) => Some(running),
            _ => None,
        });
        let codes = running.flat_map(|running| running.codes.values());
        let used = codes.filter_map(|known| Some(known.function?.0)).collect();
        self.functions.keep(&used);
    }
}

/// What is needed to read the frames of a process, and the names of functions.
fn attach(
    Owner { pid, user }: Owner,
    exports: &PythonExports,
    start: u64,
    offset: u64,
) -> Result<(ProcessMemory, Layout, Interpreter), Problem> {
    let memory = ProcessMemory::open(pid).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Problem::NotAllowed,
        _ => Problem::Unreadable,
    })?;
    // Another process may have its number by now, or another program, which other users may not see into.
    if kernel::cpu::user(pid) != Some(user) {
        return Err(Problem::Unreadable);
    }
    let (runtime, version) = exports.in_process(start, FileOffset(offset)).ok_or(Problem::Version)?;
    let layout = Layout::read(&memory, runtime, version).map_err(|unknown| match unknown {
        Unknown::Unreadable => Problem::Unreadable,
        Unknown::Version => Problem::Version,
    })?;
    let namespace = pid_namespace(pid).map_err(|_| Problem::Unreadable)?;
    let interpreter = layout.interpreter(runtime, namespace);
    Ok((memory, layout, interpreter))
}

/// Divides frames into runs.
fn divide(pending: &Pending, kind: Runs, stack: &UserStack<'_>, runs: &mut Vec<Run>) {
    runs.clear();
    // Structures on the C stack, one for each run, each of which has the address of the next one.
    let mut structure = pending.first;
    let mut frames = 0;
    for frame in &pending.frames {
        let is_last = kind.is_last(frame);
        match kind {
            Runs::Structures { next, .. } => {
                frames += 1;
                if is_last {
                    runs.push(Run { place: Some(structure), frames, is_whole: true });
                    frames = 0;
                    structure = structure.checked_add(next).and_then(|at| stack.word(at)).unwrap_or(u64::MAX);
                }
            }
            Runs::Frames { .. } if is_last => {
                runs.push(Run { place: Some(frame.address), frames, is_whole: true });
                frames = 0;
            }
            Runs::Frames { .. } => frames += 1,
        }
    }
    if frames > 0 {
        let place = matches!(kind, Runs::Structures { .. }).then_some(structure);
        runs.push(Run { place, frames, is_whole: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Code objects, strings and frames as a process of 3.12 has them: in this one.
    struct Forged {
        strings: Vec<[u8; 64]>,
        codes: Vec<[u64; 20]>,
    }

    impl Forged {
        /// With functions of these names.
        fn new(names: impl Iterator<Item = String>) -> Self {
            let strings: Vec<_> = names.map(|name| string(&name)).collect();
            let codes = strings.iter().map(code).collect();
            Self { strings, codes }
        }

        fn address(&self, nth: usize) -> u64 {
            self.codes[nth].as_ptr() as u64
        }
    }

    fn string(text: &str) -> [u8; 64] {
        let mut object = [0; 64];
        object[16..24].copy_from_slice(&(text.len() as u64).to_ne_bytes());
        object[32..36].copy_from_slice(&(1_u32 << 2 | 1 << 5 | 1 << 6).to_ne_bytes());
        object[40..40 + text.len()].copy_from_slice(text.as_bytes());
        object
    }

    fn code(name: &[u8; 64]) -> [u64; 20] {
        let mut object = [0; 20];
        (object[112 / 8], object[128 / 8]) = (name.as_ptr() as u64, name.as_ptr() as u64);
        object
    }

    /// This process as one that runs Python 3.12.
    fn running(python: &mut Python, pid: u32, user: u32) {
        let layout = Layout::of_version(0x030c_01f0).unwrap();
        let memory = Arc::new(ProcessMemory::open(std::process::id()).unwrap());
        let running = Running { user, memory, layout, codes: HashMap::default() };
        python.shares.change(user, 0, running.bytes());
        python.processes.insert(pid, State::Runs(Box::new(running)));
        python.follow(pid, layout.interpreter(0x1000, (1, 2)));
    }

    const STACK: u64 = 0x7f00_0000;

    /// Frames of functions (code at an address, owned by the thread) and those that end runs (owned by the C stack), at some places.
    fn frames(of: &[(u64, u64)]) -> Vec<InterpreterFrame> {
        let flags = |code| if code == 0 { 3 << 48 } else { 0 };
        of.iter().map(|&(address, code)| InterpreterFrame { address, code, flags: flags(code) }).collect()
    }

    /// The names of what a sample's frames become, and what that is in the stack of C functions 10 (to 8), 20 (to 16), 30.
    fn interpreted(
        python: &mut Python,
        pid: u32,
        frames: Vec<InterpreterFrame>,
        end: FramesEnd,
        now: u64,
    ) -> (Merged, Vec<String>) {
        python.pending[0] = Pending { tid: 9, first: STACK, end: Some(end), frames };
        let stack =
            UserStack { instruction: 10, frame_pointer: 0, stack_pointer: STACK, bytes: &[], missing: 0 };
        if !python.prepare(0, (pid, 9), &stack, Nanos(now)) {
            return (Merged::No, Vec::new());
        }
        assert!(!python.prepare(0, (pid, 9), &stack, Nanos(now)), "they are of one sample");
        let native = Native {
            addresses: &[10, 20, 30],
            ends: &[STACK + 8, STACK + 16],
            stack_pointer: STACK,
            is_cut: false,
        };
        let mut merged = Vec::new();
        let how = python.merge(&native, |nth| nth == 1, &mut merged);
        let name =
            |address: &u64| python.function(*address).map_or(address.to_string(), |of| of.function.clone());
        (how, merged.iter().map(name).collect())
    }

    #[test]
    fn functions_have_the_names_that_their_process_has_for_them() {
        let mut python = Python::new(1, 1 << 20);
        running(&mut python, 7, 1000);
        let mut forged = Forged::new(["inner", "outer"].map(str::to_owned).into_iter());
        let of = frames(&[(1, forged.address(0)), (2, forged.address(1)), (STACK + 8, 0)]);
        let named =
            |names: &[&str]| (Merged::Whole, names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let now = |python: &mut Python, now: u64| {
            interpreted(python, 7, of.clone(), FramesEnd::Outermost, now * SECOND)
        };
        assert_eq!(now(&mut python, 1), named(&["10", "inner", "outer", "30"]));
        // Other code at the same address is seen after a while.
        let other = string("other");
        forged.codes[0] = code(&other);
        assert_eq!(now(&mut python, 5), named(&["10", "inner", "outer", "30"]));
        assert_eq!(now(&mut python, 12), named(&["10", "other", "outer", "30"]));
        // No code there any more.
        forged.codes[0].fill(8);
        assert_eq!(now(&mut python, 40), named(&["10", "[without a name]", "outer", "30"]));
        assert_eq!(forged.strings.len(), 2);
        let expected = Interpreted { named: 4, unnamed_frames: 1, ..Interpreted::default() };
        assert_eq!((python.take(), python.take()), (expected, Interpreted::default()));
        python.forget_functions();
        assert_eq!(now(&mut python, 41), named(&["10", "[without a name]", "outer", "30"]));
        python.forget(7);
        assert_eq!(now(&mut python, 42), (Merged::No, vec![]));
        assert_eq!(python.wanted.last(), Some(&(7, None)));
        assert_eq!(python.shares.taken(), 0);
    }

    #[test]
    fn the_last_samples_of_a_process_keep_the_names_that_it_had() {
        let mut python = Python::new(1, 1 << 20);
        running(&mut python, 7, 1000);
        let forged = Forged::new(["inner", "late"].map(str::to_owned).into_iter());
        let mut now = |of: &[usize], now: u64, memory: Option<ProcessMemory>| {
            if let (Some(memory), Some(State::Runs(running))) = (memory, python.processes.get_mut(&7)) {
                running.memory = Arc::new(memory);
            }
            let of: Vec<_> = of.iter().map(|nth| (1, forged.address(*nth))).chain([(STACK + 8, 0)]).collect();
            interpreted(&mut python, 7, frames(&of), FramesEnd::Outermost, now * SECOND).1
        };
        assert_eq!(now(&[0], 1, None), ["10", "inner", "30"]);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let memory = ProcessMemory::open(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // Names are looked at again after a while; the memory is gone by then.
        assert_eq!(now(&[0, 1], 40, Some(memory)), ["10", "inner", "[without a name]", "30"]);
    }

    #[test]
    fn frames_that_lead_nowhere_change_nothing() {
        let mut python = Python::new(1, 1 << 20);
        running(&mut python, 7, 1000);
        let forged = Forged::new(["inner"].map(str::to_owned).into_iter());
        let inner = (1, forged.address(0));
        let mut how = |of: &[(u64, u64)], end| interpreted(&mut python, 7, frames(of), end, SECOND);
        assert_eq!(how(&[], FramesEnd::NoThread).0, Merged::No);
        assert_eq!(how(&[], FramesEnd::Outermost).0, Merged::No);
        // Ends of runs that are not on the stack, or in one function of it.
        assert_eq!(how(&[inner, (1, 0)], FramesEnd::Outermost).0, Merged::No);
        assert_eq!(how(&[inner, (STACK, 0), inner, (STACK, 0)], FramesEnd::Outermost).0, Merged::No);
        // In a circle.
        let round = vec![inner; 512];
        let (merged, names) = how(&round, FramesEnd::Deep);
        assert_eq!((merged, names.len()), (Merged::Cut, 513));
        assert_eq!(how(&round, FramesEnd::Unreadable).0, Merged::Cut);
        let Interpreted { named, mismatched, other_threads, .. } = python.take();
        assert_eq!((named, mismatched, other_threads), (2, 2, 1));
    }

    #[test]
    fn who_makes_up_functions_loses_their_names_and_no_one_else() {
        let mut python = Python::new(1, 1 << 20);
        let good = Forged::new(["good"].map(str::to_owned).into_iter());
        running(&mut python, 7, 1000);
        running(&mut python, 8, 66);
        let of_good = frames(&[(1, good.address(0)), (STACK + 8, 0)]);
        let is_named = |python: &mut Python| {
            let (_, names) = interpreted(python, 7, of_good.clone(), FramesEnd::Outermost, SECOND);
            names == ["10", "good", "30"]
        };
        assert!(is_named(&mut python));
        for round in 0..40_u64 {
            // What reading them costs is another matter.
            python.errands = Errands::default();
            let many = Forged::new((0..500).map(|nth| format!("f{}", nth + 500 * round)));
            let of: Vec<_> = (0..500).map(|nth| (1, many.address(nth))).chain([(STACK + 8, 0)]).collect();
            interpreted(&mut python, 8, frames(&of), FramesEnd::Outermost, round * SECOND);
            assert!(python.shares.taken() <= 1 << 20, "{}", python.shares.taken());
            std::mem::forget(many);
        }
        assert_eq!(python.take().given_up, 1);
        assert_eq!(python.wanted.last(), Some(&(8, None)), "the kernel reads its frames no more");
        assert!(is_named(&mut python));
        python.forget_functions();
        assert!(is_named(&mut python));
    }

    #[test]
    fn runs_of_3_11_are_told_apart_by_structures_on_the_stack() {
        let stack_words = [0, STACK + 24, 0, 0, 0, u64::MAX];
        let bytes: Vec<u8> = stack_words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let stack =
            UserStack { instruction: 0, frame_pointer: 0, stack_pointer: STACK, bytes: &bytes, missing: 0 };
        let kind = Layout::of_version(0x030b_02f0).unwrap().runs();
        let frame = |entry: u64| InterpreterFrame { address: 1, code: 2, flags: entry << 32 };
        let mut runs = Vec::new();
        let mut divided = |frames: &[InterpreterFrame], end| {
            // The structure at 8 bytes below the stack has the next one's address in its third word.
            let pending = Pending { tid: 1, first: STACK - 8, end: Some(end), frames: frames.to_vec() };
            divide(&pending, kind, &stack, &mut runs);
            runs.clone()
        };
        let run = |place, frames, is_whole| Run { place: Some(place), frames, is_whole };
        assert_eq!(
            divided(&[frame(0), frame(1), frame(1)], FramesEnd::Outermost),
            [run(STACK - 8, 2, true), run(STACK + 24, 1, true)]
        );
        assert_eq!(
            divided(&[frame(1), frame(0)], FramesEnd::Deep),
            [run(STACK - 8, 1, true), run(STACK + 24, 1, false)]
        );
        assert_eq!(divided(&[], FramesEnd::Outermost), []);
    }
}
