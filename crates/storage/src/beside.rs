//! Beside: the files that SQLite keeps beside one of ours, by the ends of their names.

use std::path::{Path, PathBuf};

/// The log of a file that was not closed.
pub const LOG: &str = "-wal";
/// The index of the log, which is made again where it is missing.
pub const INDEX: &str = "-shm";
/// What was there before a change that is not complete.
pub const JOURNAL: &str = "-journal";
/// All of them.
pub const BESIDE: [&str; 3] = [LOG, INDEX, JOURNAL];

/// The file beside `path` with this end; `path` itself for an empty one.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
