//! Who runs, and what they have mapped.

use crate::cgroup::cgroup;
use crate::files::Files;
use crate::images::Images;
use crate::labels::{LabelIndex, Labels};
use crate::origin::Origin;
use crate::slots::Marks;
use crate::space::{Mapping, Space};
use archive::Label;
use kernel::FileOffset;
use kernel::cpu::ProcessStat;
use kernel::maps::FileId;
use kernel::maps::pids;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use wire::Address;

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// What it has mapped.
    pub space: Rc<Space>,
    /// Who it is.
    pub label: LabelIndex,
    /// Threads that have not ended.
    threads: u32,
    /// The kernel has reported something about it, or we have asked for it: it was not only there when everything was looked at.
    is_sampled: bool,
}

/// All processes that are known.
#[derive(Debug)]
pub struct Processes {
    origin: Origin,
    table: HashMap<u32, Process>,
    /// Those that have ended lately: the kernel still works for them.
    departed: [HashMap<u32, Process>; 2],
    /// Their cgroups have not been looked up since they were started or executed something.
    fresh: HashSet<u32>,
    files: Files,
    next_space: u64,
    ended: LabelIndex,
    idle: LabelIndex,
    /// Looked for in vain, lately.
    gone: HashSet<u32>,
    labels: Labels,
}

/// How many cgroups are looked up at a time.
const LOOKUPS: usize = 256;

impl Processes {
    /// No processes yet.
    pub fn new(origin: Origin) -> Self {
        let mut labels = Labels::default();
        let of = |process: &str| Label { process: process.to_owned(), cgroup: String::new() };
        // In a recording they may well live; it does not say what they are called.
        let unknown = if origin.is_here() { "[ended]" } else { "" };
        let (ended, idle) = (labels.intern(of(unknown)), labels.intern(of("[idle]")));
        Self {
            origin,
            table: HashMap::new(),
            departed: Default::default(),
            fresh: HashSet::new(),
            files: Files::new(origin),
            next_space: 1,
            ended,
            idle,
            gone: HashSet::new(),
            labels,
        }
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

    /// Address space (by its number) and label of a process that is known.
    pub fn known_keys(&self, pid: u32) -> Option<(u64, LabelIndex)> {
        match pid {
            0 => Some((0, self.idle)),
            u32::MAX => Some((0, self.ended)),
            _ => self.known(pid).map(|process| (process.space.id, process.label)),
        }
    }

    fn known(&self, pid: u32) -> Option<&Process> {
        self.table.get(&pid).or_else(|| self.departed.iter().find_map(|departed| departed.get(&pid)))
    }

    /// Looks at all processes that there are.
    pub fn scan(&mut self, images: &mut Images) {
        for pid in pids() {
            self.adopt(pid, images);
            let parent = ProcessStat::of(pid).map_or(0, |stat| stat.parent);
            // That it was started was lost: what its parent does is sampled, so it is as well.
            if self.is_sampled(parent)
                && let Some(process) = self.table.get_mut(&pid)
            {
                process.is_sampled = true;
            }
        }
    }

    /// Looks at one. Nothing is known of one that a recording has not spoken of.
    fn adopt(&mut self, pid: u32, images: &mut Images) {
        if !self.origin.is_here() {
            let (space, label) = (Rc::new(Space::new(self.new_space())), self.ended);
            let new = Process { space, label, threads: 1, is_sampled: true };
            // It may have ended only as far as the recording says: threads that were there before it are not in it.
            let ended = self.departed.iter_mut().find_map(|departed| departed.remove(&pid));
            self.table.entry(pid).or_insert(ended.unwrap_or(new));
            return;
        }
        let Ok(name) = std::fs::read(format!("/proc/{pid}/comm")) else { return };
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(1, |tasks| tasks.count() as u32);
        let is_sampled = self.is_sampled(pid);
        let maps = kernel::maps(pid).unwrap_or_default();
        let space = match self.known(pid) {
            // It has ended, or may not be looked into: what is known of it is still right for its last samples.
            Some(process) if maps.is_empty() => Rc::clone(&process.space),
            _ => Rc::new(self.space_of(pid, maps, images)),
        };
        let process = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        let label = self.labels.intern(Label { process, cgroup: cgroup(pid).unwrap_or_default() });
        self.table.insert(pid, Process { space, label, threads, is_sampled });
    }

    fn space_of(&mut self, pid: u32, maps: Vec<kernel::Mapping>, images: &mut Images) -> Space {
        let mut space = Space::new(self.new_space());
        for mapping in maps.into_iter().filter(|mapping| mapping.executable) {
            let image = self.files.image_of(pid, &mapping, images);
            let FileOffset(offset) = mapping.offset;
            space.insert(Mapping { start: mapping.start, end: mapping.end, image, offset });
        }
        space.is_complete();
        space
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
        let image = self.files.image(pid, path, build_id, file, images);
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
        let space = Rc::make_mut(&mut process.space);
        space.insert(mapping);
        space.id = id;
        if space.is_overgrown() {
            // Even if nothing can be seen there: not again for each that it maps.
            space.is_complete();
            self.adopt(pid, images);
        }
    }

    /// A thread has another name, or its process executes another program.
    pub fn rename(&mut self, pid: u32, tid: u32, executes: bool, name: &[u8], images: &mut Images) {
        if !executes && pid != tid {
            return;
        }
        if !executes && !self.table.contains_key(&pid) {
            // Its start was lost: what it has mapped is not.
            self.adopt(pid, images);
        }
        let id = self.new_space();
        let old = self.known(pid).map(|process| process.label);
        let cgroup = old.map(|old| self.labels.get(old).cgroup.clone()).unwrap_or_default();
        let process = String::from_utf8_lossy(name).into_owned();
        let label = self.labels.intern(Label { process, cgroup });
        let known = self.table.entry(pid).or_insert_with(|| Process {
            space: Rc::new(Space::new(id)),
            label,
            threads: 1,
            is_sampled: true,
        });
        known.label = label;
        known.is_sampled = true;
        if executes {
            known.space = Rc::new(Space::new(id));
            known.threads = 1;
            self.fresh.insert(pid);
        }
    }

    /// A thread or a process has started.
    pub fn fork(&mut self, pid: u32, parent: u32, images: &mut Images) {
        if pid == parent {
            if let Some(process) = self.table.get_mut(&pid) {
                process.threads += 1;
            }
            return;
        }
        let (space, label) = self.get(parent, images);
        self.table.insert(pid, Process { space, label, threads: 1, is_sampled: true });
        // Perhaps from before its parent was moved to another cgroup.
        self.fresh.insert(pid);
        for departed in &mut self.departed {
            departed.remove(&pid);
        }
    }

    /// A thread has ended; whether it was the last one of its process.
    pub fn exit(&mut self, pid: u32) -> bool {
        let Some(process) = self.table.get_mut(&pid) else { return false };
        process.threads = process.threads.saturating_sub(1);
        if process.threads > 0 {
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

    /// To be called now and then: looks up the cgroups of processes that have lived for a while (short ones are in that
    /// of their parent), and forgets those that ended two calls ago.
    pub fn tend(&mut self) {
        self.gone.clear();
        let table = &self.table;
        self.fresh.retain(|pid| table.contains_key(pid));
        // In a storm the others have to wait.
        let chosen: Vec<u32> = self.fresh.iter().copied().take(LOOKUPS).collect();
        for pid in chosen {
            self.fresh.remove(&pid);
            let Some(process) = self.table.get(&pid) else { continue };
            let Some(cgroup) = cgroup(pid) else { continue };
            let label = self.labels.get(process.label);
            if label.cgroup != cgroup {
                let label = self.labels.intern(Label { process: label.process.clone(), cgroup });
                if let Some(process) = self.table.get_mut(&pid) {
                    process.label = label;
                }
            }
        }
        self.departed.swap(0, 1);
        self.departed[0] = HashMap::new();
    }

    /// Forgets what is known about files: one may have been replaced. And processes that have gone without a word, which
    /// are returned.
    pub fn reap(&mut self) -> Vec<u32> {
        self.files.forget();
        let gone = self.table.keys().filter(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        let gone: Vec<u32> = gone.copied().collect();
        gone.iter().for_each(|pid| drop(self.table.remove(pid)));
        self.table.shrink_to(2 * self.table.len());
        gone
    }

    /// Marks what processes are called, and have mapped.
    pub fn mark(&self, images: &mut Marks, labels: &mut Marks) {
        [self.ended, self.idle].iter().for_each(|label| labels.set(label.0));
        for process in self.table.values().chain(self.departed.iter().flat_map(HashMap::values)) {
            labels.set(process.label.0);
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

    fn label(processes: &Processes, pid: u32) -> &str {
        &processes.labels.get(processes.known(pid).unwrap().label).process
    }

    #[test]
    fn processes_live_and_die() {
        let (mut processes, mut images) = (Processes::new(Origin::Here), Images::new(&[]));
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
        processes.fork(child, parent, &mut images);
        let (space, of_parent) = processes.get(child, &mut images);
        assert_eq!(processes.known_keys(parent), Some((space.id, of_parent)), "they share");
        // One of them maps more.
        maps_more(&mut processes, &mut images);
        let (changed, _) = processes.get(child, &mut images);
        assert_ne!(changed.id, space.id);
        assert_eq!(space.find(Address(0x3000)), None);
        let (image, offset) = changed.find(Address(0x3010)).unwrap();
        assert_eq!((images.get(image).path.as_str(), offset), ("/lib/more.so", 0x2010));
        // Reported again: nothing has changed.
        maps_more(&mut processes, &mut images);
        assert_eq!(processes.known_keys(child).unwrap().0, changed.id);
        // It executes another program.
        processes.rename(child, child, true, b"tool", &mut images);
        assert_eq!(processes.get(child, &mut images).0.find(Address(0x1000)), None);
        assert_eq!((label(&processes, child), label(&processes, parent)), ("tool", "shell"));
        // Threads' names are not those of the process.
        processes.fork(child, child, &mut images);
        processes.rename(child, child + 1, false, b"worker", &mut images);
        assert_eq!(label(&processes, child), "tool");
        assert!(!processes.exit(child));
        assert!(processes.exit(child));
        assert!(!processes.is_sampled(child));
        // What the kernel does for it afterwards is still known to be its own.
        assert_eq!(label(&processes, child), "tool");
        processes.tend();
        assert_eq!(label(&processes, child), "tool");
        processes.tend();
        assert_eq!(processes.known_keys(child), None);
        let (space, ended) = processes.get(child, &mut images);
        assert_eq!((space.id, ended), (0, processes.ended));
        // Names that are no longer in use are forgotten.
        let (mut of_images, mut of_labels) = (images.marks(), processes.labels.marks());
        processes.mark(&mut of_images, &mut of_labels);
        processes.keep(&of_labels);
        images.keep(&of_images);
        assert_eq!(label(&processes, parent), "shell");
        assert_eq!((processes.labels().len(), images.len()), (3, 5), "{:?}", processes.labels());
    }

    #[test]
    fn forked_processes_do_not_keep_the_cgroup_that_their_parent_had() {
        let (mut processes, mut images) = (Processes::new(Origin::Here), Images::new(&[]));
        // A number that no process has, and ours.
        let (parent, we) = (1 << 29, std::process::id());
        let launched = Label { process: "server".to_owned(), cgroup: "/launcher".to_owned() };
        let label = processes.labels.intern(launched);
        processes.table.insert(parent, Process { space: Rc::default(), label, threads: 1, is_sampled: true });
        // Along with many more than are looked up at a time.
        let others = (1..=4 * LOOKUPS as u32).map(|other| parent + other);
        others.clone().take(2 * LOOKUPS).for_each(|other| processes.fork(other, parent, &mut images));
        processes.fork(we, parent, &mut images);
        others.skip(2 * LOOKUPS).for_each(|other| processes.fork(other, parent, &mut images));
        (0..5).for_each(|_| processes.tend());
        let cgroup_of = |pid| &processes.labels.get(processes.known(pid).unwrap().label).cgroup;
        assert_eq!(*cgroup_of(we), cgroup(we).unwrap());
        assert_eq!(cgroup_of(parent), "/launcher", "no better answer is known");
        assert_eq!(self::label(&processes, we), "server");
    }

    #[test]
    fn what_a_process_had_mapped_stays_when_it_cannot_be_looked_into() {
        let (mut processes, mut images) = (Processes::new(Origin::Here), Images::new(&[]));
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
        processes.scan(&mut images);
        assert_eq!(mappings(&mut processes, &mut images), 1);
        // More than are believed without looking.
        (0..3000).for_each(|number| map(&mut processes, &mut images, number));
        assert_eq!(mappings(&mut processes, &mut images), 3000);
        // And when its end was reported.
        assert!(processes.exit(pid));
        processes.scan(&mut images);
        assert_eq!(mappings(&mut processes, &mut images), 3000);
        child.wait().unwrap();
    }

    #[test]
    fn who_is_only_seen_is_not_taken_for_sampled() {
        // It ends when nothing can write to it any more.
        let mut child =
            std::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (pid, we) = (child.id(), std::process::id());
        let (mut processes, mut images) = (Processes::new(Origin::Here), Images::new(&[]));
        let sampled = |processes: &Processes| (processes.is_sampled(we), processes.is_sampled(pid));
        processes.scan(&mut images);
        assert_eq!(sampled(&processes), (false, false));
        processes.get(pid, &mut images);
        processes.scan(&mut images);
        assert_eq!(sampled(&processes), (false, true));
        // All that we start is sampled when we are.
        let mut processes = Processes::new(Origin::Here);
        processes.get(we, &mut images);
        assert_eq!(sampled(&processes), (true, false));
        processes.scan(&mut images);
        assert_eq!(sampled(&processes), (true, true));
        child.wait().unwrap();
    }

    #[test]
    fn we_are_found_with_our_code() {
        let (mut processes, mut images) = (Processes::new(Origin::Here), Images::new(&[]));
        let (space, _) = processes.get(std::process::id(), &mut images);
        let (image, _) = space.find(Address(we_are_found_with_our_code as *const () as u64)).unwrap();
        let image = images.get(image);
        assert_eq!(image.path, std::env::current_exe().unwrap().to_str().unwrap());
        assert!(image.build_id.len() > 8, "{image:?}");
    }
}
