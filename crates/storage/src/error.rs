//! What can be wrong with a recording, and what to do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::printable;

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such file.
    #[error(
        "there is no recording at {at}\n  \
         make one with: whatif run -o {at} -- PROGRAM",
        at = shown(.path)
    )]
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The file is something else.
    #[error(
        "{at} is not a whatif recording, so it was left alone\n  \
         give another file, or write a new one with: whatif run -o NEW-FILE -- PROGRAM",
        at = shown(.path)
    )]
    NotARecording {
        /// The file.
        path: PathBuf,
    },
    /// The writer was killed before it had begun.
    #[error(
        "{at} is empty: the run that made it was killed before it began\n  \
         run it again with: whatif run -o {at} -- PROGRAM",
        at = shown(.path)
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A later version of `whatif` wrote it.
    #[error(
        "{at} was written by a newer whatif (format {found}; this one reads up to {known})\n  \
         update whatif, or record again into another file",
        at = shown(.path)
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format this version knows.
        known: i64,
    },
    /// The file is broken.
    #[error(
        "{at} is damaged: {detail}\n  \
         save what is left of it with: sqlite3 {at} .recover | sqlite3 RESCUED-FILE",
        at = shown(.path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// A table has rows that cannot be.
    #[error(
        "{at} is damaged: in the table `{table}`, {detail}\n  \
         record again with: whatif run -o NEW-FILE -- PROGRAM\n  \
         or save what is left of it with: sqlite3 {at} .recover | sqlite3 RESCUED-FILE",
        at = shown(.path)
    )]
    DamagedRows {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// What was found.
        detail: String,
    },
    /// A table of the catalogue of a profile database has rows that cannot be.
    #[error(
        "{at} is damaged: in the table `{table}`, {detail}\n  \
         put it back from a copy, or start a new database with: whatif collect --db NEW-FOLDER\n  \
         or save what is left of it with: sqlite3 {at} .recover | sqlite3 RESCUED-FILE",
        at = shown(.path)
    )]
    DamagedCatalogue {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// What was found.
        detail: String,
    },
    /// Another process kept it locked.
    #[error(
        "{at} stayed locked by another program for several seconds\n  \
         see which one with: fuser {at}",
        at = shown(.path)
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// There is no profile database in the folder.
    #[error(
        "there is no profile database in {at}\n  {}",
        if *.is_free {
            format!("start one with: whatif collect --db {}", shown(.path))
        } else {
            "name the folder of one with --db, or start one in a folder of its own: whatif collect --db NEW-FOLDER".to_owned()
        },
        at = shown(.path)
    )]
    NoDatabase {
        /// The folder.
        path: PathBuf,
        /// Whether nothing is in it.
        is_free: bool,
    },
    /// The catalogue in the folder is something else.
    #[error(
        "{at} is not the catalogue of a profile database, so it was left alone\n  \
         give another folder, or start a new one with: whatif collect --db NEW-FOLDER",
        at = shown(.path)
    )]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A segment of a profile database cannot be read.
    #[error(
        "{at} is damaged or missing: {detail}\n  \
         put it back from a copy; without one, removing it and starting whatif collect again leaves out its samples only",
        at = shown(.path)
    )]
    DamagedSegment {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// Another program is the writer of this database.
    #[error(
        "{at} is being written by another program{who}\n  \
         stop that one first, or use another folder: --db NEW-FOLDER",
        at = shown(.path)
    )]
    OtherWriter {
        /// The folder.
        path: PathBuf,
        /// Which one, if it is known: ` (process 4711)`.
        who: String,
    },
    /// The file system refused.
    #[error("{at} cannot be used: {detail}\n  check its folder, permissions and free space: df {at}", at = shown(.path))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        detail: String,
    },
    /// There is no memory, or no address space.
    #[error(
        "{at} cannot be used: there is not enough memory\n  \
         end other programs, or raise the limit that this one has (ulimit -v, or that of its container)",
        at = shown(.path)
    )]
    NoMemory {
        /// The file.
        path: PathBuf,
    },
    /// SQLite returned an error that we did not expect.
    #[error("{at}: {source}\n  this is a bug in whatif: please report it with this message", at = shown(.path))]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}

/// A path in a message. Names of files may come from a database that others have written: they move no cursor, and are no longer than a file system's.
fn shown(path: &Path) -> String {
    const LONGEST: usize = 4096;
    let path = path.display().to_string();
    let mut shown = printable(&path).into_owned();
    if let Some((end, _)) = shown.char_indices().nth(LONGEST) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

impl Error {
    /// What an error of SQLite means for the person who gave `path`.
    pub fn of(path: &Path, source: rusqlite::Error) -> Error {
        let path = path.to_owned();
        let detail = source.to_string();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Error::NotARecording { path },
            Some(ErrorCode::DatabaseCorrupt) => Error::Damaged { path, detail },
            // The last: it was locked at each of many attempts to find out what there is in the log.
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed,
            ) => Error::Locked { path },
            Some(ErrorCode::OutOfMemory) => Error::NoMemory { path },
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::SystemIoFailure,
            ) => Error::Io { path, detail },
            _ => Error::Sqlite { path, source },
        }
    }

    /// What an error of the file system means for the person who gave `path`.
    pub fn io(path: &Path, source: &std::io::Error) -> Error {
        let path = path.to_owned();
        match source.kind() {
            std::io::ErrorKind::NotFound => Error::NotFound { path },
            _ => Error::Io { path, detail: source.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    /// What can happen to a file is no bug.
    #[test]
    fn errors_of_the_system_say_what_to_do() {
        let codes = [
            ffi::SQLITE_BUSY,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_PROTOCOL,
            ffi::SQLITE_NOMEM,
            ffi::SQLITE_IOERR_NOMEM,
            ffi::SQLITE_IOERR_SHMMAP,
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_FULL,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_READONLY,
            ffi::SQLITE_PERM,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_NOTADB,
        ];
        for code in codes {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let said = Error::of(Path::new("profile.db"), error).to_string();
            assert!(said.contains("profile.db") && said.contains("\n  "), "{code}: {said}");
            assert!(!said.contains("bug"), "{code}: {said}");
        }
        let bug = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_MISUSE), None);
        assert!(Error::of(Path::new("profile.db"), bug).to_string().contains("bug"));
    }
}
