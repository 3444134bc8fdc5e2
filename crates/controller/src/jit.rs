//! Code that one process makes while it runs (JIT compilers): where it is, and what its runtime says it is. All addresses are the process's own.
//!
//! Any user may have put such a file there, so only a plain one is opened that belongs to the program's user or to root, and no link is followed.

use kernel::perf_map::{Limits, PerfMap};
use kernel::untrusted::{has_trusted_files, open_file};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use symbols::{JitDump, JitMap, Segment, Svma};

/// After this time the files are looked at again.
const REFRESH: Duration = Duration::from_millis(100);
/// Looking at the files never takes more than this part of the time, as a divisor.
const MOST_SHARE: u32 = 20;
/// How much of a file is read at a time, in bytes; the rest is read the next time.
const AT_ONCE: u64 = 16 << 20;
/// The same for each of several processes.
const AT_ONCE_EACH: u64 = 1 << 20;

/// Memory that the functions of a map or a dump may take, in bytes: two million of them with short names.
pub const MOST_BYTES: usize = 256 << 20;

/// The code that a process has made, as its jitdump file or its `/tmp/perf-PID.map` has it, or both.
#[derive(Debug)]
pub struct Jit {
    pid: u32,
    /// Executable memory that no file lies behind.
    memory: Vec<Range<u64>>,
    map: JitMap,
    list: PerfMap,
    /// What is in the dump, which also has lines, but which programs write with delay.
    dumped: JitMap,
    /// Once the program has mapped it; one that cannot be opened is not tried again.
    dump: Option<Option<JitDump>>,
    at_once: u64,
    new: Vec<Range<u64>>,
    /// When they were looked at, and how long that took.
    read: Option<(Instant, Duration)>,
}

impl Jit {
    pub fn new(pid: u32) -> Self {
        let (map, dumped) = (JitMap::limited(MOST_BYTES), JitMap::limited(MOST_BYTES));
        let list = PerfMap::of(pid);
        let (memory, new) = (Vec::new(), Vec::new());
        Self { pid, memory, map, list, dumped, dump: None, at_once: AT_ONCE, new, read: None }
    }

    /// Of one of several processes, whose program runs since this time. Its addresses are in such memory if they are in `memory`.
    pub fn of_program(pid: u32, since: SystemTime, memory: Range<u64>) -> Self {
        let list = PerfMap::of_program(pid, since);
        Self { list, memory: vec![memory], at_once: AT_ONCE_EACH, ..Self::new(pid) }
    }

    /// Takes the list of mappings.
    pub fn map(&mut self, mappings: &[kernel::Mapping]) {
        let made = |mapping: &&kernel::Mapping| {
            let special = mapping.path.as_ref().is_some_and(|path| path.to_string_lossy().starts_with("[v"));
            mapping.executable && !mapping.is_file() && !special
        };
        self.memory = mappings.iter().filter(made).map(|mapping| mapping.start.0..mapping.end.0).collect();
        self.look_for_dump(mappings);
    }

    /// Whether its dump may still come.
    pub fn waits_for_dump(&self) -> bool {
        self.dump.is_none()
    }

    /// The process maps its dump, so that profilers find it.
    pub fn look_for_dump(&mut self, mappings: &[kernel::Mapping]) {
        let name = format!("jit-{}.dump", self.pid);
        let is_dump = |path: &&PathBuf| path.file_name().is_some_and(|file| *file == *name);
        let mapped = mappings.iter().filter_map(|mapping| mapping.path.as_ref());
        if self.dump.is_none()
            && let Some(path) = mapped.filter(|path| path.is_absolute()).find(is_dump)
        {
            let path = self.root().join(path.strip_prefix("/").unwrap_or(path));
            let owner = std::fs::metadata(format!("/proc/{}", self.pid)).map(|process| process.uid());
            let trusted = owner.ok().filter(|_| has_trusted_files(self.pid));
            let file = trusted.and_then(|owner| open_file(&path, owner).ok());
            self.dump = Some(file.and_then(|file| JitDump::open(file).ok()));
        }
    }

    /// The process's files may be others than ours.
    fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.pid))
    }

    /// Looks now and then for what the program has made since.
    pub fn keep_up(&mut self) {
        if !self.memory.is_empty() && self.is_due() {
            self.refresh();
        }
    }

    /// Whether it was not looked at for so long.
    pub fn is_due(&self) -> bool {
        self.read.is_none_or(|(read, took)| read.elapsed() > REFRESH.max(took * MOST_SHARE))
    }

    /// When it was looked at.
    pub fn looked_at(&self) -> Option<Instant> {
        self.read.map(|(read, _)| read)
    }

    /// Memory that its functions take, about, in bytes.
    pub fn bytes(&self) -> usize {
        self.map.bytes() + self.dumped.bytes()
    }

    /// Its functions take so many bytes more at most.
    pub fn limit(&mut self, more: usize) {
        let most = MOST_BYTES.min(self.bytes().saturating_add(more));
        self.map.limit(most.saturating_sub(self.dumped.bytes()));
        self.dumped.limit(most.saturating_sub(self.map.bytes()));
    }

    /// Where there is something new since this was asked last: it may be in the place of something else.
    pub fn remade(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.new)
    }

    /// The function at an address, in pieces.
    pub fn find(&mut self, address: u64) -> Option<Vec<Segment>> {
        let known = self.known(address);
        if known.is_some() || !self.memory.iter().any(|range| range.contains(&address)) {
            return known;
        }
        self.keep_up();
        self.known(address)
    }

    /// The same without looking for what is new. What a list says of other memory than that around the address does not count.
    pub fn known(&self, address: u64) -> Option<Vec<Segment>> {
        let memory = self.memory.iter().find(|range| range.contains(&address))?;
        let found = self.dumped.containing(address).or_else(|| self.map.containing(address))?;
        let inside = |Segment { range, frames }: Segment| {
            let (start, end) = (range.start.0.max(memory.start), range.end.0.min(memory.end));
            (start < end).then_some(Segment { range: Svma(start)..Svma(end), frames })
        };
        Some(found.into_iter().filter_map(inside).collect())
    }

    /// Whether anything is known.
    pub fn has_names(&self) -> bool {
        !self.map.is_empty() || !self.dumped.is_empty()
    }

    /// Whether the program has made more functions than are kept: the later ones have no names.
    pub fn is_full(&self) -> bool {
        self.map.is_full() || self.dumped.is_full()
    }

    /// The executable memory, if anything is known of it.
    pub fn ranges(&self) -> &[Range<u64>] {
        if self.has_names() { &self.memory } else { &[] }
    }

    /// Looks for what the program has made since.
    pub fn refresh(&mut self) {
        let begin = Instant::now();
        if let Some(Some(dump)) = &mut self.dump {
            self.new.extend(self.dumped.extend(dump, self.at_once));
        }
        if let Some(more) = self.list.more(Limits { longest: u64::MAX, at_once: self.at_once }) {
            if more.is_new {
                self.map.clear();
            }
            self.new.extend(self.map.append(&more.text));
        }
        self.read = Some((begin, begin.elapsed()));
    }
}

#[cfg(test)]
impl Jit {
    /// As if its list said this.
    pub fn append_for_test(&mut self, text: &str) {
        self.new.extend(self.map.append(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a dump is read that the process has mapped from `path`.
    fn is_read(path: PathBuf) -> bool {
        let own = kernel::maps(std::process::id()).unwrap();
        let mapping = kernel::Mapping { path: Some(path), ..own[0].clone() };
        let mut jit = Jit::new(std::process::id());
        jit.map(&[mapping]);
        matches!(jit.dump, Some(Some(_)))
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("jit-{}.dump", std::process::id());
        let dump = folder.path().join(&name);
        let mut header = [0; 40];
        header[..4].copy_from_slice(&0x4a69_5444_u32.to_le_bytes());
        header[8] = 40;
        std::fs::write(&dump, header).unwrap();
        assert!(is_read(dump.clone()));
        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&dump, other.join(&name)).unwrap();
        assert!(!is_read(other.join(&name)));
    }
}
