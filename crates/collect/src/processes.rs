//! Who runs, and what they have mapped.

use crate::cgroup::cgroup;
use crate::files::Files;
use crate::images::Images;
use crate::labels::{LabelIndex, Labels};
use crate::limits::{Held, to_give_up};
use crate::origin::Origin;
use crate::particulars::{Due, Lapses, Particulars};
use crate::slots::Marks;
use crate::space::{Mapping, Space};
use crate::threads::{A_THREAD, Known, Threads};
use crate::vdso;
use archive::Label;
use kernel::FileOffset;
use kernel::cpu::ProcessStat;
use kernel::maps::FileId;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use wire::{Address, Nanos};

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// What it has mapped.
    pub space: Rc<Space>,
    /// Who it is: the label of its first thread.
    pub label: LabelIndex,
    /// What its threads are called, once it has had several.
    names: Option<Box<Threads>>,
    /// The user that it runs as.
    user: u32,
    /// Threads that have not ended.
    threads: u32,
    /// The kernel has reported something about it, or we have asked for it: it was not only there when everything was looked at.
    is_sampled: bool,
    /// When it was started, as far as that was looked at.
    started: Option<Nanos>,
}

impl Process {
    /// The label of one of its threads, if that is known.
    fn label_of(&self, pid: u32, tid: u32) -> Option<LabelIndex> {
        match &self.names {
            Some(names) if tid != pid => match names.known(tid) {
                Known::Label(label) => Some(label),
                _ => None,
            },
            _ => Some(self.label),
        }
    }

    /// All labels of it and of its threads.
    fn labels(&self) -> impl Iterator<Item = LabelIndex> {
        let of_threads = self.names.as_ref().map(|names| names.labels());
        std::iter::once(self.label).chain(of_threads.into_iter().flatten())
    }
}

/// All processes that are known.
#[derive(Debug)]
pub struct Processes {
    origin: Origin,
    table: HashMap<u32, Process>,
    /// Those that have ended lately: the kernel still works for them.
    departed: [HashMap<u32, Process>; 2],
    /// What is looked up of those that have lived for a while.
    pub particulars: Particulars,
    files: Files,
    next_space: u64,
    ended: LabelIndex,
    idle: LabelIndex,
    /// Looked for in vain, lately.
    gone: HashSet<u32>,
    labels: Labels,
    /// Memory that all of it may take, with the labels and images of processes, in bytes.
    most: usize,
    /// What it took when it was added up, and at most how much has been added since.
    held: usize,
    added: usize,
    /// Users who have so many processes that some are not followed, since files were forgotten.
    crowds: HashSet<u32>,
}

/// Memory that a process takes besides what it has mapped, about, in bytes.
const A_PROCESS: usize = 2 * size_of::<(u32, Process)>();
/// Memory that the mappings of one process may take while they are read, in bytes.
const A_SPACE: usize = 1 << 20;
/// The user of processes that have ended.
const NO_USER: u32 = u32::MAX;

/// What may be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    /// A process, by its number.
    Process(u32),
    /// What one process or several have mapped, by its number: rather than all that is known of a process.
    Space(u64),
}

impl Processes {
    /// No processes yet. All that is known of them may take about `most` bytes.
    pub fn new(origin: Origin, most: usize) -> Self {
        let mut labels = Labels::default();
        let of = |process: &str| Label { process: process.to_owned(), ..Label::default() };
        // In a recording they may well live; it does not say what they are called.
        let unknown = if origin.is_here() { "[ended]" } else { "" };
        let (ended, idle) = (labels.intern(of(unknown)), labels.intern(of("[idle]")));
        Self {
            origin,
            table: HashMap::new(),
            departed: Default::default(),
            particulars: Particulars::default(),
            files: Files::new(origin),
            next_space: 1,
            ended,
            idle,
            gone: HashSet::new(),
            labels,
            most,
            held: 0,
            added: 0,
            crowds: HashSet::new(),
        }
    }

    /// How many are followed.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// All names that processes have, or have had lately.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// What is known about a process.
    pub fn get(&mut self, pid: u32, images: &mut Images) -> (Rc<Space>, LabelIndex) {
        // Older than we are, or its start was lost.
        if self.known(pid).is_none() && pid != 0 && pid != u32::MAX && !self.gone.contains(&pid) {
            self.adopt(pid, images);
        }
        if let Some(process) = self.table.get_mut(&pid) {
            process.is_sampled = true;
        }
        match self.known(pid) {
            Some(process) => (Rc::clone(&process.space), process.label),
            None => {
                self.gone.insert(pid);
                (Rc::new(Space::new(0)), if pid == 0 { self.idle } else { self.ended })
            }
        }
    }

    /// Address space (by its number) of a process, and label of one of its threads, if both are known.
    pub fn known_keys(&self, pid: u32, tid: u32) -> Option<(u64, LabelIndex)> {
        match pid {
            0 => Some((0, self.idle)),
            u32::MAX => Some((0, self.ended)),
            _ => self.known(pid).and_then(|process| Some((process.space.id, process.label_of(pid, tid)?))),
        }
    }

    /// The label of a thread of a process that there is.
    pub fn label(&mut self, pid: u32, tid: u32, images: &mut Images) -> LabelIndex {
        let (_, label) = self.get(pid, images);
        let Some(process) = self.known(pid) else { return label };
        if let Some(label) = process.label_of(pid, tid) {
            return label;
        }
        let Some(threads) = &process.names else { return label };
        if threads.known(tid) == Known::Nothing && threads.is_partial && threads.has_room(tid) {
            self.ask(pid, tid);
        }
        self.label_thread(pid, tid).unwrap_or(label)
    }

    /// Asks the kernel what a thread is called that was there before us.
    fn ask(&mut self, pid: u32, tid: u32) {
        let Ok(name) = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")) else { return };
        if let Some(threads) = self.table.get_mut(&pid).and_then(|process| process.names.as_mut()) {
            threads.rename(tid, &String::from_utf8_lossy(name.trim_ascii_end()));
            self.particulars.folded(threads.take_folded());
            self.added += A_THREAD;
        }
    }

    /// Gives the name of a thread a label.
    fn label_thread(&mut self, pid: u32, tid: u32) -> Option<LabelIndex> {
        let process = self.known(pid)?;
        let of = self.labels.get(process.label);
        let (thread, place) = match process.names.as_ref()?.known(tid) {
            Known::Label(label) => return Some(label),
            Known::Name(name, place) => (name.to_owned(), Some(place)),
            Known::Nothing => (String::new(), None),
        };
        let label = self.intern(Label { thread, ..of.clone() });
        if let (Some(place), Some(process)) = (place, self.table.get_mut(&pid))
            && let Some(threads) = &mut process.names
        {
            threads.set_label(place, label);
        }
        Some(label)
    }

    fn known(&self, pid: u32) -> Option<&Process> {
        self.table.get(&pid).or_else(|| self.departed.iter().find_map(|departed| departed.get(&pid)))
    }

    /// The user that a process runs as.
    pub fn user(&self, pid: u32) -> u32 {
        self.known(pid).map_or(NO_USER, |process| process.user)
    }

    /// The user of a process that another one, `from`, has become or started.
    fn user_of_new(&self, pid: u32, from: u32) -> u32 {
        match self.known(from) {
            Some(process) => process.user,
            None if self.origin.is_here() => kernel::cpu::user(pid).unwrap_or(NO_USER),
            None => 0,
        }
    }

    /// Looks at a process that is there.
    pub fn visit(&mut self, pid: u32, images: &mut Images) {
        self.adopt(pid, images);
        let parent = ProcessStat::of(pid).map_or(0, |stat| stat.parent);
        // That it was started was lost: what its parent does is sampled, so it is as well.
        if self.is_sampled(parent)
            && let Some(process) = self.table.get_mut(&pid)
        {
            process.is_sampled = true;
        }
    }

    /// Looks at one. Nothing is known of one that a recording has not spoken of.
    fn adopt(&mut self, pid: u32, images: &mut Images) {
        if !self.origin.is_here() {
            let (space, label) = (Rc::new(Space::new(self.new_space())), self.ended);
            let new =
                Process { space, label, names: None, user: 0, threads: 1, is_sampled: true, started: None };
            // It may have ended only as far as the recording says: threads that were there before it are not in it.
            let ended = self.departed.iter_mut().find_map(|departed| departed.remove(&pid));
            self.table.entry(pid).or_insert(ended.unwrap_or(new));
            self.added += A_PROCESS;
            return;
        }
        let Ok(name) = std::fs::read(format!("/proc/{pid}/comm")) else { return };
        let user = kernel::cpu::user(pid).unwrap_or(NO_USER);
        if self.crowds.contains(&user) && !self.table.contains_key(&pid) {
            return;
        }
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(1, |tasks| tasks.count() as u32);
        let is_sampled = self.is_sampled(pid);
        let code = kernel::maps::code(pid, A_SPACE).unwrap_or_else(|_| Some(Vec::new()));
        let space = match (code, self.known(pid)) {
            // It has ended, or may not be looked into: what is known of it is still right for its last samples.
            (Some(code), Some(process)) if code.is_empty() => Rc::clone(&process.space),
            (_, Some(process)) if process.space.is_given_up() => Rc::clone(&process.space),
            (code, before) => {
                let before = before.map(|process| Rc::clone(&process.space)).unwrap_or_default();
                Rc::new(self.space_of((pid, user), code, &before, images))
            }
        };
        let process = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        let known = self.known(pid).map(|process| self.labels.get(process.label).clone()).unwrap_or_default();
        let names = self.table.get_mut(&pid).and_then(|process| process.names.take());
        let mut names = names.or_else(|| (threads > 1).then(|| Box::new(Threads::of(pid, &process))));
        if let Some(names) = &mut names {
            names.doubt();
            names.forget_labels();
            names.rename(pid, &process);
        }
        let cgroup = cgroup(pid).unwrap_or_default();
        // What is looked at again because samples were lost is not new: it would never have lived long where some are lost all the time.
        let started = kernel::cpu::ProcessStat::of(pid).ok().map(|stat| stat.started);
        let is_another = |old: &Process| old.started.is_some() && started.is_some() && old.started != started;
        let is_new = known.process != process || self.table.get(&pid).is_none_or(is_another);
        let label = self.intern(Label { thread: process.clone(), process, cgroup, ..known });
        self.table.insert(pid, Process { space, label, names, user, threads, is_sampled, started });
        if is_new {
            self.particulars.begins(pid);
        }
        self.added += A_PROCESS;
    }

    /// The space of a user's process with this code; of one that has too much if there is none. `known`: what it was known to have mapped.
    fn space_of(
        &mut self,
        (pid, user): (u32, u32),
        code: Option<Vec<kernel::Mapping>>,
        known: &Space,
        images: &mut Images,
    ) -> Space {
        let id = self.new_space();
        let Some(code) = code else { return Space::given_up(id) };
        let mut space = Space::new(id);
        let before = images.bytes();
        for mapping in code {
            let image = self.files.image_of((pid, user), &mapping, images);
            let FileOffset(offset) = mapping.offset;
            let found = Mapping { start: mapping.start, end: mapping.end, image, offset };
            // The kernel has said which build it is, and now the file could not be read in time.
            let said = known.mapping(found.start).map(|(known, _)| *known);
            let is_same = |known: &Mapping| {
                let (known_image, image) = (images.get(known.image), images.get(image));
                Mapping { image: found.image, ..*known } == found
                    && image.build_id.is_empty()
                    && image.path == known_image.path
            };
            space.insert(said.filter(is_same).unwrap_or(found));
        }
        self.added += images.bytes() - before;
        if space.is_too_much() {
            return Space::given_up(id);
        }
        space.is_complete();
        self.added += space.bytes();
        space
    }

    fn intern(&mut self, label: Label) -> LabelIndex {
        let before = self.labels.bytes();
        let index = self.labels.intern(label);
        self.added += self.labels.bytes() - before;
        index
    }

    /// A process has mapped code.
    #[expect(clippy::too_many_arguments, reason = "the words of the record")]
    pub fn map(
        &mut self,
        pid: u32,
        start: Address,
        length: u64,
        offset: u64,
        build_id: &[u8],
        file: FileId,
        path: &[u8],
        images: &mut Images,
    ) {
        // The kernel's own.
        if pid == u32::MAX || start.0 >> 63 != 0 {
            return;
        }
        let before = images.bytes();
        let of = (pid, self.user_of_new(pid, pid));
        let image = self.files.image(of, vdso::name_at(path, start), build_id, file, images);
        self.added += images.bytes() - before;
        let mapping = Mapping { start, end: Address(start.0.saturating_add(length)), image, offset };
        let id = self.new_space();
        if !self.table.contains_key(&pid) {
            self.adopt(pid, images);
        }
        let Some(process) = self.table.get_mut(&pid) else { return };
        process.is_sampled = true;
        if process.space.has(&mapping) {
            return;
        }
        let is_shared = Rc::strong_count(&process.space) > 1;
        let space = Rc::make_mut(&mut process.space);
        space.insert(mapping);
        space.id = id;
        self.added += if is_shared { space.bytes() } else { size_of::<[Mapping; 2]>() };
        if space.is_overgrown() {
            // Even if nothing can be seen there: not again for each that it maps.
            space.is_complete();
            self.adopt(pid, images);
        }
        if let Some(process) = self.table.get_mut(&pid).filter(|process| process.space.is_too_much()) {
            process.space = Rc::new(Space::given_up(id));
        }
    }

    /// A thread has another name, or its process executes another program.
    pub fn rename(&mut self, pid: u32, tid: u32, executes: bool, name: &[u8], images: &mut Images) {
        if !executes && pid != tid {
            self.rename_thread(pid, tid, name, images);
            return;
        }
        if !executes && !self.table.contains_key(&pid) {
            // Its start was lost: what it has mapped is not.
            self.adopt(pid, images);
        }
        let id = self.new_space();
        let user = self.user_of_new(pid, pid);
        if self.crowds.contains(&user) && self.known(pid).is_none() {
            return;
        }
        let old = self.known(pid).map(|process| self.labels.get(process.label));
        let Label { cgroup, user_labels, pid: number, command, .. } = old.cloned().unwrap_or_default();
        let process = String::from_utf8_lossy(name).into_owned();
        // What it executes is another program, whose command line is another one.
        let (number, command) = if executes { (0, String::new()) } else { (number, command) };
        let label = Label { thread: process.clone(), process, cgroup, pid: number, command, user_labels };
        let label = self.intern(label);
        self.added += A_PROCESS;
        let known = self.table.entry(pid).or_insert_with(|| Process {
            space: Rc::new(Space::new(id)),
            label,
            names: None,
            user,
            threads: 1,
            is_sampled: true,
            started: None,
        });
        known.label = label;
        known.is_sampled = true;
        if executes {
            known.space = Rc::new(Space::new(id));
            known.threads = 1;
            // The others are gone, and the one that is left is the first, whichever it was.
            known.names = None;
            self.particulars.begins(pid);
        }
        if let Some(names) = &mut known.names {
            names.forget_labels();
            names.rename(pid, &self.labels.get(label).thread);
        }
    }

    /// A thread that is not the first of its process has another name.
    fn rename_thread(&mut self, pid: u32, tid: u32, name: &[u8], images: &mut Images) {
        if !self.origin.is_here() && !self.table.contains_key(&pid) {
            // A recording begins with the names of all.
            self.adopt(pid, images);
        }
        // One that is met later is asked.
        let Some(process) = self.table.get_mut(&pid) else { return };
        let first = &self.labels.get(process.label).thread;
        let names = process.names.get_or_insert_with(|| Box::new(Threads::of(pid, first)));
        names.rename(tid, &String::from_utf8_lossy(name));
        self.particulars.folded(names.take_folded());
        self.added += A_THREAD;
    }

    /// A thread or a process has started.
    pub fn fork(&mut self, pid: u32, parent: u32, (thread, by): (u32, u32), images: &mut Images) {
        if pid == parent {
            if let Some(process) = self.table.get_mut(&pid) {
                process.threads += 1;
                let first = &self.labels.get(process.label).thread;
                let names = process.names.get_or_insert_with(|| Box::new(Threads::of(pid, first)));
                names.start(thread, by);
                self.added += A_THREAD;
            }
            return;
        }
        let (space, label) = self.get(parent, images);
        let label = self.label_of_child(label, (parent, by), images);
        let user = self.user_of_new(pid, parent);
        if self.crowds.contains(&user) {
            return;
        }
        self.table.insert(
            pid,
            Process { space, label, names: None, user, threads: 1, is_sampled: true, started: None },
        );
        self.added += A_PROCESS;
        // Perhaps from before its parent was moved to another cgroup.
        self.particulars.begins(pid);
        for departed in &mut self.departed {
            departed.remove(&pid);
        }
    }

    /// The label of a process that a thread of another one, with this label, has started: of the same name, and without what is that one's
    /// alone. Its thread is called as the one that has started it.
    fn label_of_child(
        &mut self,
        label: LabelIndex,
        (parent, by): (u32, u32),
        images: &mut Images,
    ) -> LabelIndex {
        let of_thread = if by == parent { label } else { self.label(parent, by, images) };
        let Label { pid, command, .. } = self.labels.get(of_thread);
        if *pid == 0 && command.is_empty() {
            return of_thread;
        }
        let child = Label { pid: 0, command: String::new(), ..self.labels.get(of_thread).clone() };
        self.intern(child)
    }

    /// A thread has ended; whether it was the last one of its process.
    pub fn exit(&mut self, pid: u32, tid: u32) -> bool {
        let Some(process) = self.table.get_mut(&pid) else { return false };
        process.threads = process.threads.saturating_sub(1);
        if process.threads > 0 {
            if let (Some(names), true) = (&mut process.names, tid != pid) {
                names.end(tid);
            }
            return false;
        }
        if let Some(process) = self.table.remove(&pid) {
            self.departed[0].insert(pid, process);
        }
        true
    }

    /// The address space of a process is not what it was, but this was not reported.
    pub fn refresh(&mut self, pid: u32) {
        let id = self.new_space();
        if let Some(process) = self.table.get_mut(&pid) {
            Rc::make_mut(&mut process.space).id = id;
        }
    }

    /// To be called about once a second: looks up what is to be known of processes that have lived for a while (see
    /// [`Particulars`]), and forgets those that ended two calls ago.
    pub fn tend(&mut self) {
        self.gone.clear();
        let table = &self.table;
        let mut due = Vec::new();
        for one in self.particulars.due(|pid| table.contains_key(&pid)) {
            let pid = one.pid();
            // Most threads of the kernel never do anything: numbers are for others.
            if matches!(one, Due::Old(_)) && !self.is_sampled(pid) {
                self.particulars.wait(pid);
            } else if let Some(user) = kernel::cpu::user(pid) {
                due.push((one, user));
                self.table.entry(pid).and_modify(|process| process.user = user);
            }
        }
        for (pid, found) in self.particulars.look(&due) {
            let Some(label) = self.table.get(&pid).map(|process| process.label) else { continue };
            let label = found.change(self.labels.get(label)).map_or(label, |label| self.intern(label));
            let Some(process) = self.table.get_mut(&pid) else { continue };
            if std::mem::replace(&mut process.label, label) != label
                && let Some(names) = &mut process.names
            {
                names.forget_labels();
            }
        }
        self.departed.swap(0, 1);
        self.departed[0] = HashMap::new();
    }

    /// What was left out of labels since the last call.
    pub fn take_lapses(&mut self) -> Lapses {
        self.particulars.take_lapses()
    }

    /// Forgets what is known about files: one may have been replaced. And processes that have gone without a word, which
    /// are returned.
    pub fn reap(&mut self) -> Vec<u32> {
        self.files.forget();
        self.crowds.clear();
        let gone = self.table.keys().filter(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        let gone: Vec<u32> = gone.copied().collect();
        gone.iter().for_each(|pid| drop(self.table.remove(pid)));
        self.table.shrink_to(2 * self.table.len());
        gone
    }

    /// Whether all of it may take too much memory.
    pub fn may_be_too_much(&self) -> bool {
        self.held + self.added > self.most
    }

    /// Adds up what processes take. If it is too much, those users who take most lose what the largest of their processes have mapped,
    /// and in the end whole processes, until there is room for a while.
    pub fn make_room(&mut self, images: &Images) {
        let (mut seen_images, mut seen_labels, mut seen_spaces) =
            (images.marks(), self.labels.marks(), HashSet::new());
        let mut order: Vec<(u32, &Process)> =
            self.table.iter().map(|(pid, process)| (*pid, process)).collect();
        let departed = self.departed.iter().flatten().map(|(pid, process)| (*pid, process));
        order.extend(departed);
        // What users share is the first one's: that of the system.
        order.sort_by_key(|(pid, process)| (process.user, *pid));
        let mut held = Vec::with_capacity(order.len());
        for (pid, process) in order {
            let mut bytes = A_PROCESS + process.names.as_ref().map_or(0, |names| names.bytes());
            for label in process.labels() {
                if !seen_labels.has(label.0) {
                    seen_labels.set(label.0);
                    bytes += self.labels.bytes_of(label);
                }
            }
            held.push(Held { user: process.user, bytes, thing: Thing::Process(pid) });
            if !seen_spaces.insert(process.space.id) || process.space.is_given_up() {
                continue;
            }
            let mut bytes = process.space.bytes();
            for image in process.space.images() {
                if !seen_images.has(image.0) {
                    seen_images.set(image.0);
                    bytes += images.bytes_of(image);
                }
            }
            held.push(Held { user: process.user, bytes, thing: Thing::Space(process.space.id) });
        }
        (self.held, self.added) = (held.iter().map(|held| held.bytes).sum(), 0);
        // With room for a while, so that not all of it is added up again soon.
        let is_space = |thing| u8::from(matches!(thing, Thing::Space(_)));
        let given_up = to_give_up(held, self.most / 4 * 3, is_space);
        self.held -= given_up.iter().map(|held| held.bytes).sum::<usize>();
        let mut spaces = HashMap::new();
        for Held { user, thing, .. } in given_up {
            match thing {
                Thing::Space(id) => drop(spaces.insert(id, Rc::new(Space::given_up(self.new_space())))),
                Thing::Process(pid) => {
                    self.crowds.insert(user);
                    self.table.remove(&pid);
                }
            }
        }
        for process in self.table.values_mut().chain(self.departed.iter_mut().flat_map(HashMap::values_mut)) {
            if let Some(space) = spaces.get(&process.space.id) {
                process.space = Rc::clone(space);
            }
        }
    }

    /// Marks what processes are called, and have mapped.
    pub fn mark(&self, images: &mut Marks, labels: &mut Marks) {
        [self.ended, self.idle].iter().for_each(|label| labels.set(label.0));
        for process in self.table.values().chain(self.departed.iter().flat_map(HashMap::values)) {
            process.labels().for_each(|label| labels.set(label.0));
            process.space.images().for_each(|image| images.set(image.0));
        }
    }

    /// Forgets names that have no mark.
    pub fn keep(&mut self, labels: &Marks) {
        self.labels.keep(labels);
    }

    /// Whether a process is known not only because it was there when everything was looked at.
    pub fn is_sampled(&self, pid: u32) -> bool {
        self.table.get(&pid).is_some_and(|process| process.is_sampled)
    }

    fn new_space(&mut self) -> u64 {
        self.next_space += 1;
        self.next_space
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(processes: &mut Processes, images: &mut Images) {
        kernel::maps::pids().into_iter().for_each(|pid| processes.visit(pid, images));
    }

    fn label(processes: &Processes, pid: u32) -> &str {
        &processes.labels.get(processes.known(pid).unwrap().label).process
    }

    #[test]
    fn processes_live_and_die() {
        let (mut processes, mut images) = (Processes::new(Origin::Here, usize::MAX), Images::new(&[]));
        // Numbers that no process has.
        let (parent, child) = (1 << 29, (1 << 29) + 1);
        let maps_more = |processes: &mut Processes, images: &mut Images| {
            let (start, file) = (Address(0x3000), FileId::default());
            processes.map(child, start, 0x1000, 0x2000, &[2], file, b"/lib/more.so", images);
        };
        processes.rename(parent, parent, true, b"shell", &mut images);
        processes.map(
            parent,
            Address(0x1000),
            0x1000,
            0,
            &[1],
            FileId::default(),
            b"/bin/shell",
            &mut images,
        );
        processes.fork(child, parent, (child, parent), &mut images);
        let (space, of_parent) = processes.get(child, &mut images);
        assert_eq!(processes.known_keys(parent, parent), Some((space.id, of_parent)), "they share");
        // One of them maps more.
        maps_more(&mut processes, &mut images);
        let (changed, _) = processes.get(child, &mut images);
        assert_ne!(changed.id, space.id);
        assert_eq!(space.find(Address(0x3000)), None);
        let (image, offset) = changed.find(Address(0x3010)).unwrap();
        assert_eq!((images.get(image).path.as_str(), offset), ("/lib/more.so", 0x2010));
        // Reported again: nothing has changed.
        maps_more(&mut processes, &mut images);
        assert_eq!(processes.known_keys(child, child).unwrap().0, changed.id);
        // It executes another program.
        processes.rename(child, child, true, b"tool", &mut images);
        assert_eq!(processes.get(child, &mut images).0.find(Address(0x1000)), None);
        assert_eq!((label(&processes, child), label(&processes, parent)), ("tool", "shell"));
        // Threads' names are not those of the process.
        processes.fork(child, child, (child + 1, child), &mut images);
        processes.rename(child, child + 1, false, b"worker", &mut images);
        assert_eq!(label(&processes, child), "tool");
        assert!(!processes.exit(child, child + 1));
        assert!(processes.exit(child, child));
        assert!(!processes.is_sampled(child));
        // What the kernel does for it afterwards is still known to be its own.
        assert_eq!(label(&processes, child), "tool");
        processes.tend();
        assert_eq!(label(&processes, child), "tool");
        processes.tend();
        assert_eq!(processes.known_keys(child, child), None);
        let (space, ended) = processes.get(child, &mut images);
        assert_eq!((space.id, ended), (0, processes.ended));
        // Names that are no longer in use are forgotten.
        let (mut of_images, mut of_labels) = (images.marks(), processes.labels.marks());
        processes.mark(&mut of_images, &mut of_labels);
        processes.keep(&of_labels);
        images.keep(&of_images);
        assert_eq!(label(&processes, parent), "shell");
        assert_eq!((processes.labels().len(), images.len()), (3, 12), "{:?}", processes.labels());
    }

    #[test]
    fn a_user_who_maps_too_much_loses_what_he_has_mapped_and_others_do_not() {
        let most = 1 << 20;
        let (mut processes, mut images) = (Processes::new(Origin::Here, most), Images::new(&[]));
        // Numbers that no process has.
        let (honest, hostile) = (1 << 29, 2 << 29);
        let start = |processes: &mut Processes, images: &mut Images, pid, user, mappings: u64| {
            processes.rename(pid, pid, true, b"program", images);
            processes.table.get_mut(&pid).unwrap().user = user;
            for at in 0..mappings {
                let path = format!("/{pid}/{at}/{}", "x".repeat(200));
                let (start, file) = (Address(0x2000 * at), FileId::default());
                processes.map(pid, start, 0x1000, 0, &[1], file, path.as_bytes(), images);
            }
            if processes.may_be_too_much() {
                processes.make_room(images);
                let (mut of_images, mut of_labels) = (images.marks(), processes.labels.marks());
                processes.mark(&mut of_images, &mut of_labels);
                images.keep(&of_images);
                processes.keep(&of_labels);
            }
        };
        start(&mut processes, &mut images, honest, 1000, 500);
        for nth in 0..200 {
            start(&mut processes, &mut images, hostile + nth, 66, 100);
            let space = &processes.known(hostile + nth).unwrap().space;
            assert!(space.is_given_up() || space.images().count() == 100);
            assert!(processes.held + processes.added <= most, "{}", processes.held);
            assert!(images.bytes() < most);
        }
        let given_up = |processes: &Processes, pid| processes.known(pid).unwrap().space.is_given_up();
        assert!(!given_up(&processes, honest));
        let lost = (0..200).filter(|nth| given_up(&processes, hostile + nth)).count();
        assert!((100..199).contains(&lost), "{lost}: the same share as the other user");
        let (space, _) = processes.get(honest, &mut images);
        let (image, _) = space.find(Address(0x2010)).unwrap();
        assert!(images.get(image).path.starts_with(&format!("/{honest}/1/")));
        // What it maps from now on is not followed, until it executes something.
        let pid = (0..200).map(|nth| hostile + nth).find(|pid| given_up(&processes, *pid)).unwrap();
        processes.map(pid, Address(0), 0x1000, 0, &[1], FileId::default(), b"/more", &mut images);
        assert_eq!(processes.get(pid, &mut images).0.find(Address(0x10)).unwrap().0, Images::TOO_MUCH);
        processes.rename(pid, pid, true, b"program", &mut images);
        processes.map(pid, Address(0), 0x1000, 0, &[1], FileId::default(), b"/more", &mut images);
        let (image, _) = processes.get(pid, &mut images).0.find(Address(0x10)).unwrap();
        assert_eq!(images.get(image).path, "/more");
    }

    #[test]
    fn a_user_with_too_many_processes_loses_some_of_them_and_others_do_not() {
        let most = 1 << 20;
        let (mut processes, mut images) = (Processes::new(Origin::Here, most), Images::new(&[]));
        let (honest, hostile) = (1 << 29, 2 << 29);
        for (pid, user) in [(honest, 1000), (hostile, 66)] {
            processes.rename(pid, pid, true, b"program", &mut images);
            processes.table.get_mut(&pid).unwrap().user = user;
        }
        for nth in 1..20_000 {
            // Each with a name and a cgroup of its own.
            processes.fork(hostile + nth, hostile, (hostile + nth, hostile), &mut images);
            processes.rename(hostile + nth, hostile + nth, false, format!("p{nth}").as_bytes(), &mut images);
            if nth <= 1000 {
                processes.fork(honest + nth, honest, (honest + nth, honest), &mut images);
            }
            if processes.may_be_too_much() {
                processes.make_room(&images);
                let (mut of_images, mut of_labels) = (images.marks(), processes.labels.marks());
                processes.mark(&mut of_images, &mut of_labels);
                processes.keep(&of_labels);
            }
            assert!(processes.table.len() * A_PROCESS + processes.labels.bytes() < most);
        }
        assert!((0..=1000).all(|nth| processes.known_keys(honest + nth, honest + nth).is_some()));
        assert!(processes.crowds.contains(&66) && !processes.crowds.contains(&1000));
        // A process of the crowd is not taken for one that has ended.
        let lost = (1..20_000).find(|nth| processes.known(hostile + nth).is_none()).unwrap();
        processes.fork(hostile + lost, hostile, (hostile + lost, hostile), &mut images);
        assert_eq!(processes.known_keys(hostile + lost, hostile + lost), None);
        // Files are forgotten now and then, and with them who had too many.
        processes.reap();
        assert!(processes.crowds.is_empty());
    }

    #[test]
    fn a_process_with_too_many_mappings_is_given_up_alone() {
        let (mut processes, mut images) = (Processes::new(Origin::Here, usize::MAX), Images::new(&[]));
        let pid = 1 << 29;
        processes.rename(pid, pid, true, b"program", &mut images);
        for at in 0..20_000 {
            let (start, file) = (Address(0x2000 * at), FileId::default());
            processes.map(pid, start, 0x1000, 0, &[1], file, b"/lib/x.so", &mut images);
            assert!(processes.known(pid).unwrap().space.bytes() < 1 << 20);
        }
        assert!(processes.known(pid).unwrap().space.is_given_up());
    }

    #[test]
    fn forked_processes_do_not_keep_the_cgroup_that_their_parent_had() {
        let (mut processes, mut images) = (Processes::new(Origin::Here, usize::MAX), Images::new(&[]));
        // A number that no process has, and ours.
        let (parent, we) = (1 << 29, std::process::id());
        let launched =
            Label { process: "server".to_owned(), cgroup: "/launcher".to_owned(), ..Label::default() };
        let label = processes.labels.intern(launched);
        processes.table.insert(
            parent,
            Process {
                space: Rc::default(),
                label,
                names: None,
                user: 0,
                threads: 1,
                is_sampled: true,
                started: None,
            },
        );
        // Along with many more than are looked up at a time.
        let others = (1..=1024).map(|other| parent + other);
        others
            .clone()
            .take(512)
            .for_each(|other| processes.fork(other, parent, (other, parent), &mut images));
        processes.fork(we, parent, (we, parent), &mut images);
        others.skip(512).for_each(|other| processes.fork(other, parent, (other, parent), &mut images));
        (0..5).for_each(|_| processes.tend());
        let cgroup_of = |pid| &processes.labels.get(processes.known(pid).unwrap().label).cgroup;
        assert_eq!(*cgroup_of(we), cgroup(we).unwrap());
        assert_eq!(cgroup_of(parent), "/launcher", "no better answer is known");
        assert_eq!(self::label(&processes, we), "server");
    }

    #[test]
    fn what_a_process_had_mapped_stays_when_it_cannot_be_looked_into() {
        let (mut processes, mut images) = (Processes::new(Origin::Here, usize::MAX), Images::new(&[]));
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let pid = child.id();
        let begin = std::time::Instant::now();
        while ProcessStat::of(pid).unwrap().state != 'Z' {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "it does not end");
            std::thread::yield_now();
        }
        processes.rename(pid, pid, true, b"true", &mut images);
        let map = |processes: &mut Processes, images: &mut Images, number: u64| {
            let (start, file) = (Address(0x10_0000 + 0x1000 * number), FileId::default());
            processes.map(pid, start, 0x800, 0, &[1], file, b"/bin/true", images);
        };
        let mappings =
            |processes: &mut Processes, images: &mut Images| processes.get(pid, images).0.images().count();
        map(&mut processes, &mut images, 0);
        scan(&mut processes, &mut images);
        assert_eq!(mappings(&mut processes, &mut images), 1);
        // More than are believed without looking.
        (0..3000).for_each(|number| map(&mut processes, &mut images, number));
        assert_eq!(mappings(&mut processes, &mut images), 3000);
        // And when its end was reported.
        assert!(processes.exit(pid, pid));
        scan(&mut processes, &mut images);
        assert_eq!(mappings(&mut processes, &mut images), 3000);
        child.wait().unwrap();
    }

    #[test]
    fn a_build_that_the_kernel_has_said_stays_when_the_file_cannot_be_read_in_time() {
        let (mut processes, mut images) = (Processes::new(Origin::Here, usize::MAX), Images::new(&[]));
        let pid = std::process::id();
        let maps = kernel::maps(pid).unwrap();
        let code = maps.iter().find(|mapping| mapping.executable && mapping.is_file()).unwrap();
        let path = code.path.as_ref().unwrap().to_str().unwrap().as_bytes();
        let of = |processes: &mut Processes, images: &mut Images| {
            let (space, _) = processes.get(pid, images);
            let (image, _) = space.find(code.start).unwrap();
            (images.get(image).path.clone().into_bytes(), images.get(image).build_id.clone())
        };
        let user = kernel::cpu::user(pid).unwrap();
        processes.files.exhaust(user);
        processes.rename(pid, pid, true, b"program", &mut images);
        let length = code.end.0 - code.start.0;
        let mut map = |processes: &mut Processes, start: Address, path: &[u8]| {
            processes.map(pid, start, length, code.offset.0, &[0xab], code.file, path, &mut images);
            processes.visit(pid, &mut images);
            of(processes, &mut images)
        };
        assert_eq!(map(&mut processes, code.start, path), (path.to_owned(), "ab".to_owned()));
        // It is another file, or lies elsewhere.
        processes.rename(pid, pid, true, b"program", &mut Images::new(&[]));
        assert_eq!(map(&mut processes, code.start, b"/other"), (path.to_owned(), String::new()));
        processes.rename(pid, pid, true, b"program", &mut Images::new(&[]));
        let earlier = Address(code.start.0 - 0x1000);
        assert_eq!(map(&mut processes, earlier, path), (path.to_owned(), String::new()));
    }

    #[test]
    fn who_is_looked_at_again_and_again_has_lived_long_all_the_same() {
        let (mut processes, mut images) = (Processes::new(Origin::Here, usize::MAX), Images::new(&[]));
        let we = std::process::id();
        processes.get(we, &mut images);
        let number = |processes: &Processes| processes.labels.get(processes.known(we).unwrap().label).pid;
        let calls = (0..100).take_while(|_| {
            // As after samples were lost.
            processes.visit(we, &mut images);
            processes.tend();
            number(&processes) != we
        });
        assert_eq!(calls.count(), 10);
    }

    #[test]
    fn who_is_only_seen_is_not_taken_for_sampled() {
        // It ends when nothing can write to it any more.
        let mut child =
            std::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (pid, we) = (child.id(), std::process::id());
        let (mut processes, mut images) = (Processes::new(Origin::Here, usize::MAX), Images::new(&[]));
        let sampled = |processes: &Processes| (processes.is_sampled(we), processes.is_sampled(pid));
        scan(&mut processes, &mut images);
        assert_eq!(sampled(&processes), (false, false));
        processes.get(pid, &mut images);
        scan(&mut processes, &mut images);
        assert_eq!(sampled(&processes), (false, true));
        // All that we start is sampled when we are.
        let mut processes = Processes::new(Origin::Here, usize::MAX);
        processes.get(we, &mut images);
        assert_eq!(sampled(&processes), (true, false));
        scan(&mut processes, &mut images);
        assert_eq!(sampled(&processes), (true, true));
        child.wait().unwrap();
    }

    #[test]
    fn we_are_found_with_our_code() {
        let (mut processes, mut images) = (Processes::new(Origin::Here, usize::MAX), Images::new(&[]));
        let (space, _) = processes.get(std::process::id(), &mut images);
        let (image, _) = space.find(Address(we_are_found_with_our_code as *const () as u64)).unwrap();
        let image = images.get(image);
        assert_eq!(image.path, std::env::current_exe().unwrap().to_str().unwrap());
        assert!(image.build_id.len() > 8, "{image:?}");
    }
}
