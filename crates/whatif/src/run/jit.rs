//! Code that the program makes while it runs (JIT compilers): where it is, and what its runtime says it is.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use symbols::{Frame, JitMap};

/// How often the file is looked at again when an address is unknown.
const REFRESH: Duration = Duration::from_millis(100);

/// The code that a process has made, as its `/tmp/perf-PID.map` has it.
#[derive(Debug)]
pub struct Jit {
    path: PathBuf,
    /// Executable memory that no file lies behind.
    memory: Vec<(u64, u64)>,
    map: JitMap,
    length: u64,
    read: Option<Instant>,
}

impl Jit {
    /// Of the process `pid`, whose `/tmp` may be another one than ours.
    pub fn new(pid: u32) -> Self {
        let path = PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{pid}.map"));
        Self { path, memory: Vec::new(), map: JitMap::parse(""), length: 0, read: None }
    }

    /// Takes the list of mappings.
    pub fn map(&mut self, mappings: &[perf::Mapping]) {
        let made = |mapping: &&perf::Mapping| {
            let special = mapping.path.as_ref().is_some_and(|path| path.to_string_lossy().starts_with("[v"));
            mapping.executable && !mapping.is_file() && !special
        };
        self.memory = mappings.iter().filter(made).map(|mapping| (mapping.start.0, mapping.end.0)).collect();
    }

    /// The function at an address, and where it begins and ends.
    pub fn find(&mut self, address: u64) -> Option<(u64, u64, Frame)> {
        if !self.memory.iter().any(|(start, end)| (*start..*end).contains(&address)) {
            return None;
        }
        if self.map.containing(address).is_none() && self.read.is_none_or(|read| read.elapsed() > REFRESH) {
            self.refresh();
        }
        let (range, function) = self.map.containing(address)?;
        Some((range.start.0, range.end.0, Frame { function, file: None, line: None, in_scope: true }))
    }

    /// The executable memory, if anything is known of it.
    pub fn ranges(&self) -> &[(u64, u64)] {
        if self.map.is_empty() { &[] } else { &self.memory }
    }

    /// Reads the file again if it has grown. It is written line by line: a half line is read the next time.
    fn refresh(&mut self) {
        self.read = Some(Instant::now());
        let Ok(about) = std::fs::metadata(&self.path) else { return };
        if !about.is_file() || about.len() == self.length {
            return;
        }
        if let Ok(bytes) = std::fs::read(&self.path) {
            self.length = bytes.len() as u64;
            self.map = JitMap::parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
