//! The file that a padded program shares with the benchmark: how long its pad is, and how far it has come.
//!
//! The program has it mapped, and the benchmark reads and writes the file, which the kernel keeps the same. So a pad can be made shorter
//! while the program runs. `bench/padding/pad.c` says what is where.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Bytes from the beginning; as `struct shared` in `pad.c` has them.
const ITERATIONS: u64 = 0;
const VISITS: u64 = 64;
const CALLS: u64 = 128;
const READY: u64 = 192;
const PICOS: u64 = 200;
const REQUESTS: u64 = 256;
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

/// Requests that have begun and ended since the start, and the ticks that all of them took together; both modulo 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub ended: u64,
    pub ticks: u64,
}

/// For how long a moment at which no request is under way is waited for: many times the longest queue.
const REST: Duration = Duration::from_secs(2);

impl Requests {
    /// What the four words say; nothing while requests are under way, for the sums are not complete then.
    fn of([begun, begun_at, ended, ended_at]: [u64; 4]) -> Option<Self> {
        (begun == ended).then(|| Self { ended, ticks: ended_at.wrapping_sub(begun_at) })
    }

    pub const fn since(self, before: Self) -> Self {
        Self { ended: self.ended.wrapping_sub(before.ended), ticks: self.ticks.wrapping_sub(before.ticks) }
    }
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

    /// The requests so far, at the next moment at which none is under way.
    pub fn requests(&self) -> Result<Requests> {
        let began = Instant::now();
        loop {
            // The words are read one after the other; what is the same twice did not change in between.
            let words = self.request_words()?;
            if let Some(requests) = Requests::of(words).filter(|_| self.request_words().ok() == Some(words)) {
                return Ok(requests);
            }
            ensure!(
                began.elapsed() < REST,
                "requests were under way all the time ({} began, {} ended): the server is too busy (ask for less with --load), \
                 or the catalogue's functions are not called once a request each",
                words[0],
                words[2]
            );
            sleep(Duration::from_micros(50));
        }
    }

    fn request_words(&self) -> Result<[u64; 4]> {
        let mut bytes = [0; 32];
        self.file.read_exact_at(&mut bytes, REQUESTS).context("reading the shared file")?;
        let word =
            |nth: usize| u64::from_ne_bytes(bytes[8 * nth..8 * nth + 8].try_into().expect("eight bytes"));
        Ok([word(0), word(1), word(2), word(3)])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_count_when_nothing_is_under_way() {
        for (words, expected) in [
            ([0, 0, 0, 0], Some((0, 0))),
            ([2, 300, 2, 450], Some((2, 150))),
            ([3, 300, 2, 450], None),
            ([2, u64::MAX - 9, 2, 20], Some((2, 30))),
        ] {
            let requests = Requests::of(words).map(|requests| (requests.ended, requests.ticks));
            assert_eq!(requests, expected, "{words:?}");
        }
        let (before, after) = (Requests { ended: 5, ticks: u64::MAX }, Requests { ended: 7, ticks: 9 });
        assert_eq!(after.since(before), Requests { ended: 2, ticks: 10 });
    }
}
