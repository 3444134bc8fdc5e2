//! Code that the program makes while it runs (JIT compilers): where it is, and what its runtime says it is.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use symbols::{JitDump, JitMap, Segment};

/// How often the file is looked at again when an address is unknown.
const REFRESH: Duration = Duration::from_millis(100);

/// The code that a process has made, as its jitdump file or its `/tmp/perf-PID.map` has it, or both.
#[derive(Debug)]
pub struct Jit {
    pid: u32,
    /// Executable memory that no file lies behind.
    memory: Vec<(u64, u64)>,
    map: JitMap,
    /// What is in the dump, which also has lines, but which programs write with delay.
    dumped: JitMap,
    /// Once the program has mapped it; one that cannot be opened is not tried again.
    dump: Option<Option<JitDump>>,
    length: u64,
    read: Option<Instant>,
}

impl Jit {
    pub fn new(pid: u32) -> Self {
        let (map, dumped) = (JitMap::empty(), JitMap::empty());
        Self { pid, memory: Vec::new(), map, dumped, dump: None, length: 0, read: None }
    }

    /// Takes the list of mappings.
    pub fn map(&mut self, mappings: &[perf::Mapping]) {
        let made = |mapping: &&perf::Mapping| {
            let special = mapping.path.as_ref().is_some_and(|path| path.to_string_lossy().starts_with("[v"));
            mapping.executable && !mapping.is_file() && !special
        };
        self.memory = mappings.iter().filter(made).map(|mapping| (mapping.start.0, mapping.end.0)).collect();
        let name = format!("jit-{}.dump", self.pid);
        let is_dump = |path: &&PathBuf| path.file_name().is_some_and(|file| *file == *name);
        let mapped = mappings.iter().filter_map(|mapping| mapping.path.as_ref());
        if self.dump.is_none()
            && let Some(path) = mapped.filter(|path| path.is_absolute()).find(is_dump)
        {
            let path = self.root().join(path.strip_prefix("/").unwrap_or(path));
            let file = std::fs::metadata(&path).and_then(|about| match about.is_file() {
                true => std::fs::File::open(&path),
                false => Err(std::io::ErrorKind::InvalidInput.into()),
            });
            self.dump = Some(file.and_then(JitDump::open).ok());
        }
    }

    /// The process's files may be others than ours.
    fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.pid))
    }

    /// The function at an address, in pieces.
    pub fn find(&mut self, address: u64) -> Option<Vec<Segment>> {
        if !self.memory.iter().any(|(start, end)| (*start..*end).contains(&address)) {
            return None;
        }
        let known = self.known(address);
        if known.is_some() || self.read.is_some_and(|read| read.elapsed() <= REFRESH) {
            return known;
        }
        self.refresh();
        self.known(address)
    }

    fn known(&self, address: u64) -> Option<Vec<Segment>> {
        self.dumped.containing(address).or_else(|| self.map.containing(address))
    }

    /// The executable memory, if anything is known of it.
    pub fn ranges(&self) -> &[(u64, u64)] {
        if self.map.is_empty() && self.dumped.is_empty() { &[] } else { &self.memory }
    }

    /// Reads what has come in. A map is written line by line: a half line is read the next time.
    fn refresh(&mut self) {
        self.read = Some(Instant::now());
        if let Some(Some(dump)) = &mut self.dump {
            self.dumped.extend(dump);
        }
        let path = self.root().join(format!("tmp/perf-{}.map", self.pid));
        let Ok(about) = std::fs::metadata(&path) else { return };
        if !about.is_file() || about.len() == self.length {
            return;
        }
        if let Ok(bytes) = std::fs::read(&path) {
            self.length = bytes.len() as u64;
            self.map = JitMap::parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
