//! Held: a program that is started and goes round in a circle where it begins, until the runtime has been put into it and it may go on.
//!
//! Into a static program nothing is loaded, musl's loader does not know our runtime's C library, and Go makes system calls by itself: the runtime is put in as into a program that has run before. The program must be as far as that works in:
//! a static one has set up its C library, or Go's runtime, when it is at `main`, others when they are where the kernel says that they begin.

use crate::go_functions;
use kernel::process_memory::TraceeMemory;
use kernel::tracee::{Tracee, Trouble, release_late};
use object::elf::{FileHeader64, SHN_UNDEF, SHT_SYMTAB};
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};
use object::{Endianness, ReadCache};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where a program is held: so far behind its first instruction, and around the end of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

/// Where a program can be held; none if it cannot.
pub fn place(path: &Path) -> Option<Place> {
    let data = ReadCache::new(File::open(path).ok()?);
    let data = &data;
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let is_go = super::is_go(path).is_some();
    for segment in header.program_headers(endian, data).ok()? {
        match segment.interpreter(endian, data).ok()? {
            Some(loader) if loader.windows(7).any(|part| part == b"ld-musl") => return Some(Place(0)),
            Some(_) if !is_go => return None,
            _ => {}
        }
    }
    let place = |main: u64| Place(main.wrapping_sub(header.e_entry(endian)));
    if is_go {
        /// Of code in Go that a program in another language calls: there nothing comes to `main.main`.
        const OF_ARCHIVES: &str = "_rt0_amd64_linux_lib";
        let found = go_functions::find(path, 2, |name| ["main.main", OF_ARCHIVES].contains(&name)).ok()?;
        return match &found[..] {
            [main] if main.name != OF_ARCHIVES => Some(place(main.start)),
            _ => None,
        };
    }
    let symbols = header.sections(endian, data).ok()?.symbols(endian, data, SHT_SYMTAB).ok()?;
    let is_main = |symbol: &&object::elf::Sym64<Endianness>| {
        symbol.st_shndx(endian) != SHN_UNDEF && symbols.symbol_name(endian, symbol) == Ok(b"main")
    };
    symbols.iter().find(is_main).map(|main| place(main.st_value(endian)))
}

/// `jmp` to itself.
const CIRCLE: [u8; 2] = [0xeb, 0xfe];

/// A program that is held, or about to be. It goes on when this is dropped.
#[derive(Debug)]
pub struct Held {
    pid: u32,
    memory: TraceeMemory,
    /// Where it is held.
    pub at: u64,
    /// What is there otherwise.
    pub before: [u8; 2],
}

impl Held {
    /// A process that has executed its program, and is stopped before its first instruction.
    ///
    /// # Errors
    /// Its memory cannot be changed.
    pub(super) fn new(pid: u32, Place(distance): Place) -> io::Result<Self> {
        let at = kernel::process_memory::entry(pid)?.wrapping_add(distance);
        let mut held = Self::of(pid, at, [0; 2])?;
        held.memory.read(at, &mut held.before)?;
        Ok(held)
    }

    /// One that others hold.
    ///
    /// # Errors
    /// Its memory cannot be changed.
    pub fn of(pid: u32, at: u64, before: [u8; 2]) -> io::Result<Self> {
        Ok(Self { pid, memory: TraceeMemory::open(pid)?, at, before })
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// It goes as far as the place from now on.
    ///
    /// # Errors
    /// Its memory cannot be changed.
    pub(super) fn hold(&self) -> io::Result<()> {
        self.memory.write(self.at, &CIRCLE)
    }

    /// Whether the process has come to the place.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let is_there = |thread| kernel::tracee::instruction_pointer(thread) == Some(self.at);
        kernel::cpu::threads(self.pid).into_iter().any(is_there)
    }

    fn is_held(&self) -> bool {
        let mut now = [0; 2];
        self.memory.read(self.at, &mut now).is_ok() && now == CIRCLE
    }

    /// Lets the program go if the process that is to do that has not done so by then.
    pub fn release_if_held_after(self, time: Duration) {
        // Nothing else waits for this thread.
        let _ = std::thread::Builder::new().name("held".into()).spawn(move || {
            let end = Instant::now() + time;
            while self.is_held() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        if self.is_held() {
            // Another processor may be in the midst of reading the instruction.
            let stopped = Tracee::stop_all(self.pid, &kernel::cpu::threads(self.pid), PATIENCE);
            let _ = self.memory.write(self.at, &self.before);
            for (thread, trouble) in stopped.err().unwrap_or_default() {
                if matches!(trouble, Trouble::Stuck) {
                    release_late(thread);
                }
            }
        }
    }
}
