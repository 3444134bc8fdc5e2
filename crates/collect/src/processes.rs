//! Who runs, and what they have mapped.

use crate::images::{ImageIndex, Images};
use crate::labels::{LabelIndex, Labels};
use crate::space::{Mapping, Space};
use perf::FileOffset;
use perf::maps::FileId;
use profile::continuous::{ImageKind, Label};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
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
}

/// All processes that are known.
#[derive(Debug)]
pub struct Processes {
    table: HashMap<u32, Process>,
    /// Those that have ended lately: the kernel still works for them.
    departed: [HashMap<u32, Process>; 2],
    /// New since their cgroups were looked up.
    fresh: Vec<u32>,
    /// Build IDs of files whose mappings had none.
    build_ids: HashMap<FileId, Vec<u8>>,
    by_path: HashMap<Box<[u8]>, Vec<u8>>,
    next_space: u64,
    nobody: LabelIndex,
    idle: LabelIndex,
    /// Looked for in vain, lately.
    gone: HashSet<u32>,
    labels: Labels,
}

/// How many cgroups are looked up at a time.
const LOOKUPS: usize = 256;

impl Processes {
    /// Nobody, yet.
    pub fn new() -> Self {
        let mut labels = Labels::default();
        let of = |process: &str| Label { process: process.to_owned(), cgroup: String::new() };
        let (nobody, idle) = (labels.intern(of("[ended]")), labels.intern(of("[idle]")));
        Self {
            table: HashMap::new(),
            departed: Default::default(),
            fresh: Vec::new(),
            build_ids: HashMap::new(),
            by_path: HashMap::new(),
            next_space: 1,
            nobody,
            idle,
            gone: HashSet::new(),
            labels,
        }
    }

    /// All names that processes have had.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// What is known about a process.
    pub fn get(&mut self, pid: u32, images: &mut Images) -> (Rc<Space>, LabelIndex) {
        if let Some(process) = self.known(pid) {
            return (Rc::clone(&process.space), process.label);
        }
        // Older than we are, or its start was lost.
        if pid != 0 && pid != u32::MAX && !self.gone.contains(&pid) {
            self.adopt(pid, images);
        }
        match self.known(pid) {
            Some(process) => (Rc::clone(&process.space), process.label),
            None => {
                self.gone.insert(pid);
                (Rc::new(Space::new(0)), if pid == 0 { self.idle } else { self.nobody })
            }
        }
    }

    /// Address space (by its number) and label of a process that is known.
    pub fn known_keys(&self, pid: u32) -> Option<(u64, LabelIndex)> {
        match pid {
            0 => Some((0, self.idle)),
            u32::MAX => Some((0, self.nobody)),
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
        }
    }

    /// Looks at one.
    fn adopt(&mut self, pid: u32, images: &mut Images) {
        let Ok(name) = std::fs::read(format!("/proc/{pid}/comm")) else { return };
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(1, |tasks| tasks.count() as u32);
        let mut space = Space::new(self.new_space());
        for mapping in perf::maps(pid).unwrap_or_default() {
            if mapping.executable {
                self.map_existing(pid, &mut space, &mapping, images);
            }
        }
        let process = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        let label = self.labels.intern(Label { process, cgroup: cgroup(pid).unwrap_or_default() });
        self.table.insert(pid, Process { space: Rc::new(space), label, threads });
    }

    fn map_existing(&mut self, pid: u32, space: &mut Space, mapping: &perf::Mapping, images: &mut Images) {
        use std::os::unix::ffi::OsStrExt as _;
        let path = mapping.path.as_deref().map_or(&b"//anon"[..], |path| path.as_os_str().as_bytes());
        let image = if mapping.is_file() && !is_memory(path) {
            let build_id = self.build_ids.entry(mapping.file).or_insert_with(|| {
                let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start.0, mapping.end.0);
                let seen = || as_seen_by(pid, path).and_then(|path| build_id(&path));
                build_id(Path::new(&mapped)).or_else(seen).unwrap_or_default()
            });
            images.intern(ImageKind::File, path, build_id)
        } else {
            no_file(path, images)
        };
        let FileOffset(offset) = mapping.offset;
        space.insert(Mapping { start: mapping.start, end: mapping.end, image, offset });
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
        path: &[u8],
        images: &mut Images,
    ) {
        // The kernel's own.
        if pid == u32::MAX || start.0 >> 63 != 0 {
            return;
        }
        let image = match path.first() {
            Some(b'/') if !is_memory(path) => {
                let read;
                let build_id = if build_id.is_empty() {
                    read = self.build_id_of(pid, path);
                    &read[..]
                } else {
                    build_id
                };
                images.intern(ImageKind::File, path, build_id)
            }
            _ => no_file(path, images),
        };
        let mapping = Mapping { start, end: Address(start.0.saturating_add(length)), image, offset };
        let id = self.new_space();
        if !self.table.contains_key(&pid) {
            self.adopt(pid, images);
        }
        let Some(process) = self.table.get_mut(&pid) else { return };
        if process.space.has(&mapping) {
            return;
        }
        let space = Rc::make_mut(&mut process.space);
        space.insert(mapping);
        space.id = id;
    }

    fn build_id_of(&mut self, pid: u32, path: &[u8]) -> Vec<u8> {
        if let Some(known) = self.by_path.get(path) {
            return known.clone();
        }
        // Not known a moment later, if the process has gone: another one may still tell.
        let found = as_seen_by(pid, path).and_then(|path| build_id(&path)).unwrap_or_default();
        if !found.is_empty() {
            self.by_path.insert(path.into(), found.clone());
        }
        found
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
        });
        known.label = label;
        if executes {
            known.space = Rc::new(Space::new(id));
            known.threads = 1;
            self.fresh.push(pid);
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
        self.table.insert(pid, Process { space, label, threads: 1 });
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

    /// The address space of a process is not what it was, though nobody said so.
    pub fn refresh(&mut self, pid: u32) {
        let id = self.new_space();
        if let Some(process) = self.table.get_mut(&pid) {
            Rc::make_mut(&mut process.space).id = id;
        }
    }

    /// What is to be done now and then: looks up the cgroups of processes that have lived for a while (short ones are in that
    /// of their parent), and forgets those that ended two calls ago.
    pub fn tend(&mut self) {
        self.gone.clear();
        let table = &self.table;
        self.fresh.retain(|pid| table.contains_key(pid));
        // In a storm the newest are as good as any.
        let number = self.fresh.len().min(LOOKUPS);
        let chosen = self.fresh.split_off(self.fresh.len() - number);
        self.fresh.truncate(LOOKUPS);
        for pid in chosen {
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
        self.by_path.clear();
        self.build_ids.clear();
        let gone = self.table.keys().filter(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        let gone: Vec<u32> = gone.copied().collect();
        gone.iter().for_each(|pid| drop(self.table.remove(pid)));
        self.table.shrink_to(2 * self.table.len());
        gone
    }

    /// Forgets the names that no process has any more. Numbers of labels mean something else from now on.
    pub fn renumber(&mut self) {
        let old = std::mem::take(&mut self.labels);
        for label in [&mut self.nobody, &mut self.idle] {
            *label = self.labels.intern(old.get(*label).clone());
        }
        for process in self.table.values_mut().chain(self.departed.iter_mut().flat_map(HashMap::values_mut)) {
            process.label = self.labels.intern(old.get(process.label).clone());
        }
    }

    /// Processes that are known.
    pub fn contains(&self, pid: u32) -> bool {
        self.table.contains_key(&pid)
    }

    fn new_space(&mut self) -> u64 {
        self.next_space += 1;
        self.next_space
    }
}

/// The processes that there are.
pub fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn no_file(path: &[u8], images: &mut Images) -> ImageIndex {
    match path {
        b"[vdso]" | b"[vsyscall]" => images.intern(ImageKind::Memory, path, &[]),
        _ => Images::MEMORY,
    }
}

/// Whether a path is that of memory which a program may fill with code that it generates.
fn is_memory(path: &[u8]) -> bool {
    [&b"//anon"[..], b"/memfd:", b"/dev/zero", b"/SYSV", b"/anon_hugepage"]
        .iter()
        .any(|start| path.starts_with(start))
}

/// A file, in the mount namespace of a process that still runs.
fn as_seen_by(pid: u32, path: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let inside = Path::new("/proc").join(pid.to_string()).join("root");
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let seen = inside.join(path.strip_prefix("/").unwrap_or(path));
    seen.exists().then_some(seen)
}

fn build_id(path: &Path) -> Option<Vec<u8>> {
    let digits = symbols::Image::open(path).ok()?.build_id()?;
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The cgroup of a process, from its root: that of the second version, or else the longest of the first.
fn cgroup(pid: u32) -> Option<String> {
    Some(parse_cgroup(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?))
}

fn parse_cgroup(text: &str) -> String {
    let paths = || text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let second = text.lines().find_map(|line| line.strip_prefix("0::"));
    let path = second.filter(|path| *path != "/").or_else(|| paths().max_by_key(|path| path.len()));
    path.filter(|path| *path != "/").unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(processes: &Processes, pid: u32) -> &str {
        &processes.labels.get(processes.known(pid).unwrap().label).process
    }

    #[test]
    fn processes_live_and_die() {
        let (mut processes, mut images) = (Processes::new(), Images::new(&[]));
        // Numbers that no process has.
        let (parent, child) = (1 << 29, (1 << 29) + 1);
        processes.rename(parent, parent, true, b"shell", &mut images);
        processes.map(parent, Address(0x1000), 0x1000, 0, &[1], b"/bin/shell", &mut images);
        processes.fork(child, parent, &mut images);
        let (space, of_parent) = processes.get(child, &mut images);
        assert_eq!(processes.known_keys(parent), Some((space.id, of_parent)), "they share");
        // One of them maps more.
        processes.map(child, Address(0x3000), 0x1000, 0x2000, &[2], b"/lib/more.so", &mut images);
        let (changed, _) = processes.get(child, &mut images);
        assert_ne!(changed.id, space.id);
        assert_eq!(space.find(Address(0x3000)), None);
        let (image, offset) = changed.find(Address(0x3010)).unwrap();
        assert_eq!((images.get(image).path.as_str(), offset), ("/lib/more.so", 0x2010));
        // Said again: nothing has changed.
        processes.map(child, Address(0x3000), 0x1000, 0x2000, &[2], b"/lib/more.so", &mut images);
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
        assert!(!processes.contains(child));
        // What the kernel does for it afterwards is still known to be its own.
        assert_eq!(label(&processes, child), "tool");
        processes.tend();
        assert_eq!(label(&processes, child), "tool");
        processes.tend();
        assert_eq!(processes.known_keys(child), None);
        let (space, nobody) = processes.get(child, &mut images);
        assert_eq!((space.id, nobody), (0, processes.nobody));
        // Names that nobody has any more are forgotten.
        processes.renumber();
        assert_eq!(label(&processes, parent), "shell");
        assert_eq!(processes.labels().len(), 3, "{:?}", processes.labels());
    }

    #[test]
    fn we_are_found_with_our_code() {
        let (mut processes, mut images) = (Processes::new(), Images::new(&[]));
        let (space, _) = processes.get(std::process::id(), &mut images);
        let (image, _) = space.find(Address(we_are_found_with_our_code as *const () as u64)).unwrap();
        let image = images.get(image);
        assert_eq!(image.path, std::env::current_exe().unwrap().to_str().unwrap());
        assert!(image.build_id.len() > 8, "{image:?}");
    }

    #[test]
    fn cgroups_of_both_versions() {
        for (text, path) in [
            ("0::/user.slice/session-1.scope\n", "/user.slice/session-1.scope"),
            ("0::/\n", ""),
            ("12:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n", "/docker/abc"),
            ("", ""),
        ] {
            assert_eq!(parse_cgroup(text), path, "{text}");
        }
    }
}
