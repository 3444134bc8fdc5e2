//! The file that a padded program shares with the benchmark: how long its pad is, and how far it has come.
//!
//! The program has it mapped, and the benchmark reads and writes the file, which the kernel keeps the same. So a pad can be made shorter
//! while the program runs. `bench/padding/pad.c` says what is where.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Bytes from the beginning; as `struct shared` in `pad.c` has them.
const ITERATIONS: u64 = 0;
const VISITS: u64 = 64;
const CALLS: u64 = 128;
const READY: u64 = 192;
const PICOS: u64 = 200;
const CALLS_AT: u64 = 4096;

/// The file, which is removed in the end.
#[derive(Debug)]
pub struct Shared {
    file: File,
    folder: tempfile::TempDir,
}

/// How far the program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub visits: u64,
    /// The processor's time-stamp counter at the last visit.
    pub at: u64,
}

impl Shared {
    /// For an image whose code ends `code` bytes after its beginning.
    pub fn new(code: u64) -> Result<Self> {
        // In memory, where there is such a folder: nothing is written to a disk while programs are timed.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.context("making a folder for the file that is shared with programs")?;
        let path = folder.path().join("shared");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        file.set_len(CALLS_AT + 8 * (code + 8)).with_context(|| format!("making {}", path.display()))?;
        Ok(Self { file, folder })
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("shared")
    }

    /// A folder for other small files of the same life.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Everything is zero again, for the next program.
    pub fn clear(&self) -> Result<()> {
        let length = self.file.metadata()?.len();
        self.file.set_len(0).and_then(|()| self.file.set_len(length)).context("clearing the shared file")
    }

    /// How long each call of the padded function takes from now on.
    pub fn set_iterations(&self, iterations: u64) -> Result<()> {
        self.file.write_all_at(&iterations.to_ne_bytes(), ITERATIONS).context("writing the shared file")
    }

    pub fn progress(&self) -> Result<Progress> {
        let mut bytes = [0; 16];
        self.file.read_exact_at(&mut bytes, VISITS).context("reading the shared file")?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Ok(Progress { visits: word(0), at: word(8) })
    }

    /// Calls of the padded function so far.
    pub fn calls(&self) -> Result<u64> {
        self.word(CALLS)
    }

    /// Whether the program has been patched.
    pub fn is_ready(&self) -> Result<bool> {
        Ok(self.word(READY)? == 1)
    }

    /// What one iteration takes, in picoseconds.
    pub fn picos(&self) -> Result<u64> {
        self.word(PICOS)
    }

    /// Calls of the function so many bytes from the beginning of the image, if all are counted.
    pub fn calls_at(&self, offset: u64) -> Result<u64> {
        self.word(CALLS_AT + 8 * offset)
    }

    fn word(&self, at: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at).context("reading the shared file")?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
