//! Sent: the note of what a server is known to have, beside a database or recordings. It spares questions; if it is lost, the server is asked.

use crate::error::Error;
use crate::hour::Hour;
use crate::run::uid_of;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use storage::{Lock, Unlocked};

/// The file in the folder of the database, or of recordings.
pub const FILE: &str = "fleet.db";
/// What a sender has locked as long as it has the note.
const LOCK: &str = ".fleet.lock";
/// How long a sender waits for one who reads the note.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one who reads it waits for a sender: an agent has other things to look at.
const MOMENT: Duration = Duration::from_millis(20);

/// The note, which only one sender has at a time. Others may read it.
pub struct Sent {
    path: PathBuf,
    connection: Connection,
    _lock: Lock,
}

impl Sent {
    /// Opens the note in a folder, or makes it.
    pub fn open(folder: &Path) -> Result<Sent, Error> {
        let path = folder.join(FILE);
        let lock = lock(&folder.join(LOCK))?;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(&path)?;
            connection.busy_timeout(PATIENCE)?;
            connection.execute_batch(
                "BEGIN EXCLUSIVE;
                 CREATE TABLE IF NOT EXISTS sent (
                     fleet TEXT NOT NULL, epoch TEXT NOT NULL, hour INTEGER NOT NULL, samples INTEGER NOT NULL,
                     PRIMARY KEY (fleet, epoch, hour)
                 ) WITHOUT ROWID;
                 CREATE TABLE IF NOT EXISTS sent_runs (
                     fleet TEXT NOT NULL, run TEXT NOT NULL, windows INTEGER NOT NULL,
                     PRIMARY KEY (fleet, run)
                 ) WITHOUT ROWID;
                 COMMIT;",
            )?;
            Ok(connection)
        };
        let connection = open().map_err(|error| wrong(&path, &error))?;
        Ok(Sent { path, connection, _lock: lock })
    }

    /// The hours of an epoch that these tables have.
    pub fn hours(&self, fleet: &str, epoch: &str) -> Result<BTreeSet<Hour>, Error> {
        let read = || -> rusqlite::Result<BTreeSet<Hour>> {
            self.connection
                .prepare_cached("SELECT hour FROM sent WHERE fleet = ? AND epoch = ?")?
                .query_map([fleet, epoch], |row| row.get(0).map(Hour))?
                .collect()
        };
        read().map_err(|error| wrong(&self.path, &error))
    }

    /// The runs that these tables have.
    pub fn runs(&self, fleet: &str) -> Result<BTreeSet<String>, Error> {
        let read = || -> rusqlite::Result<BTreeSet<String>> {
            self.connection
                .prepare_cached("SELECT run FROM sent_runs WHERE fleet = ?")?
                .query_map([fleet], |row| row.get(0))?
                .collect()
        };
        read().map_err(|error| wrong(&self.path, &error))
    }

    /// These tables have a run, with so many windows.
    pub fn note_run(&self, fleet: &str, run: &str, windows: u64) -> Result<(), Error> {
        let windows = i64::try_from(windows).unwrap_or(i64::MAX);
        self.connection
            .execute("INSERT OR REPLACE INTO sent_runs VALUES (?, ?, ?)", (fleet, run, windows))
            .map(drop)
            .map_err(|error| wrong(&self.path, &error))
    }

    /// These tables have an hour, with so many samples.
    pub fn note(&self, fleet: &str, epoch: &str, hour: Hour, samples: u64) -> Result<(), Error> {
        let samples = i64::try_from(samples).unwrap_or(i64::MAX);
        self.connection
            .execute("INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?)", (fleet, epoch, hour.0, samples))
            .map(drop)
            .map_err(|error| wrong(&self.path, &error))
    }
}

/// Whether all runs in a recording have been sent, to any server, as the note beside it says. What cannot be read was not.
#[must_use]
pub fn is_sent(recording: &Path) -> bool {
    let sent = || -> Option<bool> {
        let sessions = profile::Recording::open(recording).ok()?.sessions().ok()?;
        let note = recording.parent()?.join(FILE);
        // One that a killed sender was writing is repaired.
        let note = Connection::open_with_flags(note, OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
        note.busy_timeout(MOMENT).ok()?;
        let mut noted = note.prepare("SELECT 1 FROM sent_runs WHERE run = ? LIMIT 1").ok()?;
        let mut is_noted = |uid: String| noted.exists([uid]).unwrap_or(false);
        Some(!sessions.is_empty() && sessions.iter().all(|of| uid_of(&of.start).is_some_and(&mut is_noted)))
    };
    sent().unwrap_or(false)
}

const ANOTHER: &str = "another whatif fleet push sends what is in this folder: let it, or stop it first";
const NOT_ALLOWED: &str =
    "send as a user who may write there, the one who collects or records: sudo whatif fleet push …";

fn lock(path: &Path) -> Result<Lock, Error> {
    Lock::take(path).map_err(|why| {
        let (detail, advice) = match why {
            Unlocked::NotOpened(error) => {
                let may_not =
                    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
                let advice =
                    if may_not { NOT_ALLOWED } else { "see whether the folder is there, and has room" };
                (error.to_string(), advice)
            }
            Unlocked::Taken(_) => ("it is locked".to_owned(), ANOTHER),
            Unlocked::Refused(error) => (error.to_string(), "put the folder on a file system that has locks"),
        };
        Error::Note { path: path.to_owned(), detail, advice: advice.to_owned() }
    })
}

fn wrong(path: &Path, error: &rusqlite::Error) -> Error {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ANOTHER,
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => NOT_ALLOWED,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "remove the file: the server is asked for what it has"
        }
        _ => "see whether there is room on the disk",
    };
    Error::Note { path: path.to_owned(), detail: error.to_string(), advice: advice.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_notes_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let sent = Sent::open(folder.path()).unwrap();
        sent.note("f", "e", Hour(7), 10).unwrap();
        sent.note("f", "e", Hour(7), 10).unwrap();
        sent.note("f", "e", Hour(9), 10).unwrap();
        assert_eq!(sent.hours("f", "e").unwrap(), BTreeSet::from([Hour(7), Hour(9)]));
        assert!(sent.hours("other", "e").unwrap().is_empty());
        sent.note_run("f", "r", 12).unwrap();
        sent.note_run("f", "r", 12).unwrap();
        assert_eq!((sent.runs("f").unwrap().len(), sent.runs("other").unwrap().len()), (1, 0));
        let second = Sent::open(folder.path()).err().unwrap().to_string();
        assert!(second.contains("another whatif fleet push"), "{second}");
        drop(sent);
        assert_eq!(Sent::open(folder.path()).unwrap().hours("f", "e").unwrap().len(), 2);
    }

    #[test]
    fn recordings_are_known_to_be_sent_while_a_sender_has_the_note() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let start = profile::SessionStart {
            started: profile::Nanos::new(7),
            host: "web-1".into(),
            options: "{}".into(),
            ..profile::SessionStart::default()
        };
        let mut recorder = profile::Recording::create(&path).unwrap();
        recorder.begin_session(&start).unwrap();
        recorder.close().unwrap();
        assert!(!is_sent(&path), "there is no note");
        let sent = Sent::open(folder.path()).unwrap();
        sent.note_run("f", "another", 3).unwrap();
        assert!(!is_sent(&path));
        sent.note_run("f", &uid_of(&start).unwrap(), 3).unwrap();
        assert!(is_sent(&path) && !is_sent(&folder.path().join("none.db")));
    }
}
