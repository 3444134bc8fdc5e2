//! Following records: who runs and what they have mapped, which code the kernel has, and which stacks were sampled how often.
//!
//! Records come from the kernel while it writes them, or from a file ([`Origin`]); what they mean is the same.

use crate::callchain::{Cut, frames, is_in_kernel};
use crate::callers::{Callers, Owner};
use crate::hash::{mix, secret};
use crate::images::{ImageIndex, Images};
use crate::jit::Generated;
use crate::kernel_code::{Kernel, kernel_build_id, modules_text};
use crate::labels::LabelIndex;
use crate::legend::Legend;
use crate::limits::Limits;
use crate::naming::Naming;
use crate::origin::Origin;
use crate::processes::Processes;
use crate::python::Python;
use crate::sink::{SampleSeen, SampleSink};
use crate::space::Space;
use crate::stacks::{Counted, Frame, Stacks, chain};
use crate::unidentified::Unidentified;
use crate::unwinding::Unwinding;
use crate::vdso;
use crate::walk::{Code, End, walk};
use archive::ImageKind;
use kernel::maps::pids;
use kernel::python_frames::InterpreterFrames;
use kernel::stream::{Record, Sample, UserStack};
use std::collections::HashMap;
use std::ops::Range;
use symbols::VdsoFunctions;
use wire::{Address, Nanos};

/// Memory that images and labels may take before it is checked which are needed, in bytes.
const SOME: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub struct Follower {
    origin: Origin,
    pub processes: Processes,
    pub images: Images,
    kernel: Kernel,
    /// Whether the kernel reports the code it generates.
    follows_programs: bool,
    generated: Generated,
    callers: Callers,
    pub unwinding: Unwinding,
    pub naming: Naming,
    unidentified: Unidentified,
    vdso: VdsoFunctions,
    pub python: Python,
    /// That of the sample at hand.
    callchain: Vec<u64>,
    stacks: Stacks,
    located: Vec<(ImageIndex, u64)>,
    /// What images and labels took when the others had been forgotten, in bytes.
    kept: usize,
    /// What those take that belong to something that runs, in bytes: the others go when their samples do.
    lasting: usize,
    /// With it, programs cannot choose callchains that are taken for one another.
    secret: u64,
    /// New nodes of stacks of one user until they are counted.
    most_nodes: usize,
    /// How many each user has.
    nodes: HashMap<u32, usize>,
    /// Gets samples one by one, if there is one.
    pub sink: Option<Box<dyn SampleSink>>,
}

/// What a sample is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its image is known.
    pub is_known: bool,
    /// Its CPU had nothing to do.
    pub is_idle: bool,
}

impl Follower {
    /// Of records from this machine; `follows_programs`: the kernel reports the code it generates.
    pub fn new(cpus: usize, follows_programs: bool, limits: Limits) -> Self {
        let mut images = Images::new(&kernel_build_id());
        let vdso = vdso::read();
        images.set_vdso(vdso.build_id());
        let kernel = Kernel::read(follows_programs);
        Self { vdso, ..Self::with((Origin::Here, cpus), images, kernel, follows_programs, limits) }
    }

    /// Of records from a file; see [`Origin::Recorded`]. `same_kernel`: the kernel that wrote them may be the one that runs here.
    pub fn recorded(same_kernel: bool, same_machine: bool) -> Self {
        let origin = Origin::Recorded { same_machine };
        Self::with((origin, 0), Images::new(&[]), Kernel::recorded(same_kernel), false, Limits::of_a_file())
    }

    fn with(
        (origin, cpus): (Origin, usize),
        images: Images,
        kernel: Kernel,
        follows_programs: bool,
        limits: Limits,
    ) -> Self {
        Self {
            origin,
            processes: Processes::new(origin, limits.processes),
            images,
            kernel,
            follows_programs,
            generated: Generated::new(origin, limits.functions / 4 * 3),
            python: Python::new(cpus, limits.functions / 4),
            callers: Callers::new(limits.callers),
            unwinding: Unwinding::new(cpus),
            naming: Naming::default(),
            unidentified: Unidentified::default(),
            vdso: VdsoFunctions::default(),
            callchain: Vec::new(),
            stacks: Stacks::default(),
            located: Vec::new(),
            kept: 0,
            lasting: 0,
            secret: secret(),
            most_nodes: limits.nodes,
            nodes: HashMap::new(),
            sink: None,
        }
    }

    /// Looks at everything that runs.
    pub fn scan(&mut self) {
        for pid in pids() {
            self.processes.visit(pid, &mut self.images);
            self.make_room();
        }
    }

    /// Forgets processes that have gone without a word.
    pub fn reap(&mut self) {
        for pid in self.processes.reap() {
            self.forget_process(pid);
        }
    }

    /// A process has ended, or executes another program.
    fn forget_process(&mut self, pid: u32) {
        self.generated.forget(pid);
        self.unwinding.forget(pid);
        self.python.forget(pid);
        self.unidentified.forget(pid);
    }

    /// Processes that have generated code: the same address may be another function now.
    pub fn refresh(&mut self, now: Nanos) {
        self.generated.look(now);
        for pid in self.generated.take_grown() {
            self.processes.refresh(pid);
        }
        for pid in self.unidentified.due(now) {
            self.processes.visit(pid, &mut self.images);
        }
    }

    /// Everything that was counted since the last call, and what its numbers stand for.
    pub fn counted(&mut self, now: Nanos) -> (Vec<Frame>, Vec<Counted>, Legend) {
        let (mut frames, mut counts) = self.stacks.take();
        self.nodes = HashMap::new();
        let Self { processes, images, kernel, generated, vdso, .. } = self;
        let name = |image: ImageIndex, offset| match images.get(image).kind {
            ImageKind::Kernel => kernel.name(image, offset),
            ImageKind::Generated => generated.name(image, offset),
            _ if image == Images::VDSO => vdso.name(offset),
            _ => None,
        };
        let legend = Legend::of(&mut frames, &mut counts, images, processes.labels(), name);
        self.generated.forget_names();
        self.python.forget_functions();
        if self.origin.is_here() {
            let follows = self.follows_programs;
            self.kernel.look_again(now, &modules_text(), || Kernel::read(follows));
        }
        self.forget();
        (frames, counts, legend)
    }

    /// What all images and labels take, in bytes.
    fn known(&self) -> usize {
        self.images.bytes() + self.processes.labels().bytes()
    }

    /// Forgets images and labels, if there are many more than were left the last time.
    pub fn forget_if_many(&mut self) {
        if self.known() > 2 * self.kept + SOME {
            self.forget();
        }
    }

    /// Gives up what is known of processes, if it may be too much.
    fn make_room(&mut self) {
        if self.processes.may_be_too_much() {
            self.processes.make_room(&self.images);
            self.forget();
        }
    }

    /// Forgets the images and labels that no process has, and no sample.
    fn forget(&mut self) {
        let (mut images, mut labels) = (self.images.marks(), self.processes.labels().marks());
        self.processes.mark(&mut images, &mut labels);
        self.kernel.mark(&mut images);
        self.lasting = self.images.bytes_with(&images) + self.processes.labels().bytes_with(&labels);
        self.stacks.mark(&mut images, &mut labels);
        self.images.keep(&images);
        self.processes.keep(&labels);
        self.callers.keep(&images);
        self.naming.keep_marked(&images);
        self.kept = self.known();
    }

    /// Memory that counting takes until it is [`counted`](Self::counted), in bytes.
    pub fn bytes(&self) -> usize {
        let names = self.known().saturating_sub(self.lasting);
        self.stacks.bytes() + self.generated.bytes() + names
    }

    /// A record that is no sample.
    pub fn take(&mut self, record: Record<'_>) {
        self.make_room();
        match record {
            // The kernel itself reports only what processes map.
            Record::Map { pid: u32::MAX, start, length, build_id, path, .. } => {
                if !self.origin.is_here() {
                    self.kernel.map(start, length, path, build_id, &mut self.images);
                    // Other code may have been there, whose samples are not samples of this.
                    self.stacks.fold();
                }
            }
            Record::Map { pid, start, length, offset, build_id, file, path } => {
                self.processes.map(pid, start, length, offset, build_id, file, path, &mut self.images);
            }
            Record::Name { pid, tid, executes, name } => {
                self.processes.rename(pid, tid, executes, name, &mut self.images);
                if executes {
                    self.forget_process(pid);
                }
            }
            Record::Fork { pid, parent, threads } => {
                self.processes.fork(pid, parent, threads, &mut self.images);
                if pid != parent {
                    self.unwinding.fork(pid, parent);
                    if self.python.fork(pid, parent) {
                        self.unwinding.copy(pid);
                    }
                }
            }
            Record::Exit { pid, tid } => {
                if self.processes.exit(pid, tid) {
                    self.forget_process(pid);
                }
            }
            Record::KernelCode { start, gone: true, .. } => self.kernel.programs.remove(start),
            Record::KernelCode { start, length, name, gone: false } => {
                self.kernel.programs.add(start, length.into(), &String::from_utf8_lossy(name));
                // There may have been another one, whose samples are not samples of this one.
                self.stacks.fold();
            }
            Record::Lost { records } => {
                if records > 0 && self.follows_programs {
                    self.kernel.doubt();
                }
            }
            Record::Sample(_)
            | Record::Stack { .. }
            | Record::Interpreter { .. }
            | Record::Throttled { .. }
            | Record::Other => {}
            // See `OffCpu`.
            Record::WaitBegins { .. } | Record::WaitEnds(_) => {}
        }
    }

    /// The stack of the sample that a CPU takes next.
    pub fn stack(&mut self, cpu: usize, time: Nanos, (pid, tid): (u32, u32), stack: &UserStack<'_>) {
        if self.unwinding.trusts(pid, time) {
            self.unwinding.no_stack(cpu);
            return;
        }
        let (space, _) = self.processes.get(pid, &mut self.images);
        let owner = Owner { pid, user: self.processes.user(pid) };
        let Self { unwinding, callers, images, .. } = self;
        unwinding.stack(cpu, tid, stack, |address| match space.mapping(Address(address)) {
            Some((mapping, offset)) => (mapping.image, callers.of(owner, mapping, offset, images)),
            None => (Images::UNKNOWN, Code::None),
        });
        if self.python.is_on && self.callers.pythons() > 0 {
            self.interpret(cpu, time, (owner, tid), &space, stack);
        }
    }

    /// Whether a process runs Python, if that is not known yet.
    fn decide(&mut self, time: Nanos, owner: Owner, space: &Space) {
        let Self { python, callers, images, unwinding, .. } = self;
        let generation = callers.pythons();
        if python.is_decided(owner.pid, space.id, generation, time) {
            return;
        }
        let interpreter = space.mappings().iter().find_map(|mapping| {
            Some((callers.python(owner, mapping.image, images)?, (mapping.start.0, mapping.offset)))
        });
        match interpreter {
            Some((exports, place)) => {
                if python.is_python(owner, exports, place, time) {
                    unwinding.copy(owner.pid);
                }
            }
            None => python.is_other(owner.pid, space.id, generation),
        }
    }

    /// A process has mapped code at an address. If it is an interpreter that is known, its frames are read from its first sample on.
    pub fn mapped(&mut self, pid: u32, start: Address, time: Nanos) {
        if !self.python.is_on || self.callers.pythons() == 0 || self.processes.known_keys(pid, pid).is_none()
        {
            return;
        }
        let (space, _) = self.processes.get(pid, &mut self.images);
        let owner = Owner { pid, user: self.processes.user(pid) };
        let image = space.mapping(start).map(|(mapping, _)| mapping.image);
        if image.is_some_and(|image| self.callers.python(owner, image, &self.images).is_some())
            && self.python.looks_ahead(time)
        {
            self.decide(time, owner, &space);
        }
    }

    /// The frames of the interpreter that runs the sample that a CPU takes next.
    pub fn interpreter(&mut self, cpu: usize, tid: u32, frames: &InterpreterFrames<'_>) {
        self.python.frames(cpu, tid, frames);
    }

    /// Puts Python's functions into the stack of the sample that a CPU takes next, if its process runs Python.
    fn interpret(
        &mut self,
        cpu: usize,
        time: Nanos,
        (owner, tid): (Owner, u32),
        space: &Space,
        stack: &UserStack<'_>,
    ) {
        self.decide(time, owner, space);
        let Self { python, callers, images, unwinding, .. } = self;
        if python.prepare(cpu, (owner.pid, tid), stack, time) {
            unwinding.merge(cpu, |native, of_frames, merged| {
                let is_evaluator = |nth: usize| {
                    let image = of_frames.get(nth).copied().unwrap_or(Images::UNKNOWN);
                    let evaluator =
                        callers.python(owner, image, images).and_then(|python| python.evaluator());
                    let address = native.addresses[nth] - u64::from(nth > 0);
                    let place = space.mapping(Address(address)).map(|(_, offset)| offset);
                    evaluator.zip(place).is_some_and(|(evaluator, place)| evaluator.contains(&place))
                };
                python.merge(native, is_evaluator, merged)
            });
        }
    }

    /// Puts the callers on a process's stack into `callchain`. Also returns how many bytes of the copy that took.
    pub fn walk(&mut self, pid: u32, stack: &UserStack<'_>, callchain: &mut Vec<u64>) -> (End, u32) {
        let (space, _) = self.processes.get(pid, &mut self.images);
        let owner = Owner { pid, user: self.processes.user(pid) };
        let Self { callers, images, .. } = self;
        let code = |address| match space.mapping(Address(address)) {
            Some((mapping, offset)) => callers.of(owner, mapping, offset, images),
            None => Code::None,
        };
        walk(stack, code, callchain, &mut Vec::new())
    }

    /// The kernel's code that waits for others.
    pub fn scheduler(&self) -> Range<u64> {
        self.kernel.scheduler()
    }

    /// The image of something that has a name in brackets, as a frame.
    pub fn bracketed(&mut self, name: &str) -> ImageIndex {
        self.images.intern(ImageKind::Memory, name.as_bytes(), &[])
    }

    /// What a process is called, if that is known.
    pub fn name_of(&self, pid: u32) -> Option<&str> {
        let (_, label) = self.processes.known_keys(pid, pid)?;
        Some(&self.processes.labels().get(label).process)
    }

    /// A sample of an event, taken by a CPU.
    pub fn sample(&mut self, cpu: usize, time: Nanos, sample: &Sample<'_>, event: u32) -> Taken {
        let is_idle = sample.pid == 0 && is_in_kernel(sample) && self.kernel.is_idle(sample.address);
        if is_idle {
            self.idle(event, 1);
            return Taken { is_known: true, is_idle };
        }
        if let Some(stack) = &sample.stack {
            self.stack(cpu, time, (sample.pid, sample.tid), stack);
        }
        let mut callchain = std::mem::take(&mut self.callchain);
        self.unwinding.callchain(cpu, time, sample, &mut callchain);
        let is_known = self.busy(cpu, time, &Sample { callchain: &callchain, ..*sample }, event, &[], 1);
        self.callchain = callchain;
        Taken { is_known, is_idle }
    }

    /// Counts samples of a CPU that has nothing to do.
    pub fn idle(&mut self, event: u32, count: u32) {
        let chain = chain(u64::MAX, &[event.into()]);
        let mut left = count;
        if self.stacks.again(chain).is_none() {
            let node = self.stacks.node(Frame { parent: Stacks::ROOT, image: Images::IDLE, offset: 0 });
            let (_, label) = self.processes.get(0, &mut self.images);
            self.stacks.first(chain, node, label, event);
        }
        left -= 1;
        self.stacks.more(chain, left);
    }

    /// Counts a sample so many times. `outside`: what stands outside of its outermost frame, from the inside outwards. Whether its image is
    /// known.
    pub fn busy(
        &mut self,
        cpu: usize,
        time: Nanos,
        sample: &Sample<'_>,
        event: u32,
        outside: &[ImageIndex],
        count: u32,
    ) -> bool {
        let known = self.processes.known_keys(sample.pid, sample.tid);
        let (space, label) = match known {
            Some(keys) => keys,
            None => {
                let label = self.processes.label(sample.pid, sample.tid, &mut self.images);
                let (space, _) = self.processes.get(sample.pid, &mut self.images);
                (space.id, label)
            }
        };
        let seed = mix(self.secret ^ space, u64::from(label.0) << 32 | u64::from(event));
        let seed = outside.iter().fold(seed, |seed, image| mix(seed, u64::from(image.0)));
        let only = [sample.address.0];
        let callchain = if sample.callchain.is_empty() { &only[..] } else { sample.callchain };
        let chain = chain(seed, callchain);
        let node = match self.stacks.again(chain) {
            Some(node) => node,
            None => {
                let node = self.resolve(time, sample, label, outside);
                self.stacks.first(chain, node, label, event);
                node
            }
        };
        self.stacks.more(chain, count - 1);
        let frame = self.stacks.frame(node);
        if let Some(sink) = &mut self.sink {
            let Frame { image, offset, .. } = frame;
            let (pid, address) = (sample.pid, sample.address);
            sink.take(&SampleSeen { cpu: cpu as u32, pid, address, image, offset, seed, node, callchain });
        }
        if known.is_none() {
            // Not before: what only `outside` needs would be forgotten.
            self.make_room();
        }
        !matches!(frame.image, Images::UNKNOWN | Images::TOO_MUCH)
    }

    /// The node of a callchain that is new.
    fn resolve(
        &mut self,
        time: Nanos,
        sample: &Sample<'_>,
        label: LabelIndex,
        outside: &[ImageIndex],
    ) -> u32 {
        let (space, _) = self.processes.get(sample.pid, &mut self.images);
        let user = self.processes.user(sample.pid);
        let mut located = std::mem::take(&mut self.located);
        located.clear();
        for (address, in_kernel) in frames(sample) {
            let place = if let Some(source) = self.python.function(address.0) {
                let (file, function) = (&source.file, source.function.clone());
                Some(self.generated.position_in(file, function, &mut self.images))
            } else if in_kernel {
                Some(match self.kernel.programs.find(address) {
                    Some(name) => self.generated.position("the kernel", name.to_owned(), &mut self.images),
                    None => self.kernel.locate(address, &mut self.images),
                })
            } else {
                let found = space.mapping(address);
                if let Some((mapping, _)) = found
                    && self.naming.wants(mapping.image)
                {
                    let image = self.images.get(mapping.image);
                    if image.kind == ImageKind::File && image.build_id.is_empty() {
                        self.unidentified.note(sample.pid, time);
                    } else {
                        self.naming.want((sample.pid, user), mapping, image);
                    }
                }
                match found.map(|(mapping, offset)| (mapping.image, offset)) {
                    Some((Images::MEMORY, _)) => {
                        let name = &self.processes.labels().get(label).process;
                        let generated =
                            self.generated.locate(sample.pid, user, name, address, time, &mut self.images);
                        // Addresses of memory without names mean nothing later.
                        Some(generated.unwrap_or((Images::MEMORY, 0)))
                    }
                    // Once is enough.
                    Some((Images::TOO_MUCH, _)) => located.is_empty().then_some((Images::TOO_MUCH, 0)),
                    place => place,
                }
            };
            match place {
                Some(place) => located.push(place),
                // Callers that are nowhere: the stack has no frame pointers there. Of waits, nothing but the time may be known.
                None if !located.is_empty() || !outside.is_empty() => {}
                None => located.push((Images::UNKNOWN, 0)),
            }
        }
        if located.is_empty() && outside.is_empty() {
            located.push((Images::UNKNOWN, 0));
        }
        located.extend(Cut::of(sample.callchain).map(|cut| (Images::cut(cut), 0)));
        located.extend(outside.iter().map(|image| (*image, 0)));
        let nodes = self.nodes.entry(user).or_insert(0);
        if *nodes >= self.most_nodes {
            // Others have stacks as well: this user has the functions that run, from now on.
            located.truncate(1);
            located.push((Images::TOO_MANY, 0));
        }
        let before = self.stacks.nodes();
        let node = located
            .iter()
            .rev()
            .fold(Stacks::ROOT, |parent, &(image, offset)| self.stacks.node(Frame { parent, image, offset }));
        *nodes += self.stacks.nodes() - before;
        self.located = located;
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::maps::FileId;
    use wire::Address;

    /// Numbers that no process has.
    const FIRST: u32 = 1 << 29;

    fn number_known(follower: &Follower) -> usize {
        follower.images.len() + follower.processes.labels().len()
    }

    /// A process with a name, a program and a cgroup of its own starts, is sampled, and ends.
    fn live_and_die(follower: &mut Follower, number: u32) {
        let (pid, name) = (FIRST + number, format!("cc-{number}"));
        let path = format!("/build/{number}/conftest");
        for record in [
            Record::Fork { pid, parent: FIRST - 1, threads: (pid, FIRST - 1) },
            Record::Name { pid, tid: pid, executes: true, name: name.as_bytes() },
            Record::Map {
                pid,
                start: Address(0x1000),
                length: 0x1000,
                offset: 0,
                build_id: &number.to_le_bytes(),
                file: FileId::default(),
                path: path.as_bytes(),
            },
            Record::Sample(sample(pid)),
            Record::Exit { pid, tid: pid },
        ] {
            match record {
                Record::Sample(sample) => drop(follower.sample(0, Nanos(u64::from(number)), &sample, 0)),
                record => follower.take(record),
            }
        }
    }

    fn sample(pid: u32) -> Sample<'static> {
        let callchain = &[Sample::USER, 0x1010, 0x1020];
        Sample { id: 7, address: Address(0x1010), pid, tid: pid, callchain, stack: None }
    }

    #[test]
    fn a_build_server_does_not_fill_memory() {
        let mut follower = Follower::new(1, true, Limits::of(64 << 20, 1e6));
        // One process stays, and what it has mapped.
        live_and_die(&mut follower, 0);
        let stays = FIRST - 1;
        let name = b"make";
        follower.take(Record::Name { pid: stays, tid: stays, executes: true, name });
        let (start, length) = (Address(0x1000), 0x1000);
        let (path, file) = (b"/bin/make", FileId::default());
        follower.take(Record::Map { pid: stays, start, length, offset: 0, build_id: &[1], file, path });
        let (mut seen, mut most, mut counted) = (0, 0, 0);
        // Every thousand are written, but later on nothing is written for a long time.
        for number in 1..=60_000 {
            live_and_die(&mut follower, number);
            if number % 100 == 0 {
                follower.processes.tend();
                follower.forget_if_many();
            }
            most = most.max(number_known(&follower));
            counted = counted.max(follower.bytes());
            if number % 1000 != 0 || (30_000..50_000).contains(&number) {
                continue;
            }
            follower.sample(0, Nanos(0), &sample(stays), 0);
            let (frames, counts, legend) = follower.counted(Nanos::ZERO);
            for counted in &counts {
                let frame = frames[counted.node as usize];
                let image = &legend.images[frame.image.0 as usize].path;
                let label = &legend.labels[counted.label.0 as usize].process;
                let expected = match label.strip_prefix("cc-") {
                    Some(number) => format!("/build/{number}/conftest"),
                    None => "/bin/make".to_owned(),
                };
                assert_eq!(*image, expected, "numbers of what was forgotten are not mixed up: {label}");
                seen += counted.count;
            }
            // Those that have ended in the last two seconds may still be needed.
            assert!(number_known(&follower) < 1000, "{} images and labels", number_known(&follower));
        }
        assert_eq!(seen, 60_001 + 40);
        // What has samples cannot be forgotten; the collector writes it when it takes too much.
        assert!(counted > 20_000 * 200, "{counted} bytes");
        assert!(most < 43_000, "{most} images and labels at a time");
        assert_eq!(follower.counted(Nanos::ZERO).1, []);
        assert!(follower.bytes() < 4 << 20, "{} bytes", follower.bytes());
    }

    #[test]
    fn what_no_process_has_and_no_sample_is_in_is_forgotten_without_a_write() {
        let mut follower = Follower::new(1, true, Limits::of(64 << 20, 1e6));
        let mut most = 0;
        for number in 0..40_000 {
            let pid = FIRST + number;
            let name = format!("cc-{number}");
            follower.take(Record::Name { pid, tid: pid, executes: true, name: name.as_bytes() });
            follower.take(Record::Exit { pid, tid: pid });
            if number % 100 == 0 {
                follower.processes.tend();
                follower.forget_if_many();
            }
            most = most.max(follower.known());
        }
        assert!(most < SOME + 100_000, "{most}");
    }

    #[test]
    fn a_user_with_too_many_stacks_keeps_the_functions_that_run() {
        let limits = Limits { nodes: 1000, ..Limits::of(64 << 20, 1e6) };
        let mut follower = Follower::new(1, true, limits);
        let pid = FIRST;
        follower.take(Record::Name { pid, tid: pid, executes: true, name: b"fuzz" });
        let (start, length, file) = (Address(0x1000), 0x1000_0000, FileId::default());
        follower.take(Record::Map {
            pid,
            start,
            length,
            offset: 0,
            build_id: &[1],
            file,
            path: b"/bin/fuzz",
        });
        for at in 0..10_000 {
            // Another function each time, called from others each time.
            let callchain: Vec<u64> = std::iter::once(Sample::USER)
                .chain((0..100).map(|depth| 0x1000 + at * 200 + depth))
                .collect();
            let sample = Sample {
                id: 0,
                address: Address(callchain[1]),
                pid,
                tid: pid,
                callchain: &callchain,
                stack: None,
            };
            follower.sample(0, Nanos(at), &sample, 0);
        }
        let (frames, counts, legend) = follower.counted(Nanos::ZERO);
        assert!(frames.len() < 12_000, "{}", frames.len());
        assert_eq!(counts.iter().map(|counted| counted.count).sum::<u32>(), 10_000);
        let image = |node: u32| legend.images[frames[node as usize].image.0 as usize].path.as_str();
        let cut: Vec<_> = counts
            .iter()
            .map(|counted| frames[counted.node as usize])
            .filter(|frame| frame.parent != Stacks::ROOT && image(frame.parent) == archive::TOO_MANY_STACKS)
            .collect();
        assert!(cut.len() > 9900, "{}", cut.len());
        // Until they were counted.
        let sample = Sample { id: 0, address: Address(0x1000), pid, tid: pid, callchain: &[], stack: None };
        follower.sample(0, Nanos(0), &sample, 0);
        let (frames, ..) = follower.counted(Nanos::ZERO);
        assert_eq!(frames.len(), 1);
    }

    #[test]
    fn the_frames_of_a_wait_are_kept_when_its_process_is_new_and_there_is_no_room() {
        let limits = Limits { processes: 0, ..Limits::of(64 << 20, 1e6) };
        let mut follower = Follower::new(1, true, limits);
        follower.take(Record::Name { pid: FIRST, tid: FIRST, executes: true, name: b"large" });
        let waits = follower.bracketed("[waits]");
        let pid = std::process::id();
        follower.busy(0, Nanos(0), &sample(pid), 0, &[waits], 1);
        let (frames, counts, legend) = follower.counted(Nanos::ZERO);
        let outermost = frames.iter().find(|frame| frame.parent == Stacks::ROOT).unwrap();
        assert_eq!(legend.images[outermost.image.0 as usize].path, "[waits]");
        assert_eq!(counts.len(), 1);
    }
}
