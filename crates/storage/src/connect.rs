//! Opening a file that is only read.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::Error;
use crate::beside::{JOURNAL, LOG, beside};

/// How long to wait while a writer folds its log into the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open file.
#[derive(Debug)]
pub struct Opened {
    /// A connection to the file, or to `copy`.
    pub connection: Connection,
    /// A copy of the file and its log, if they could not be read where they are.
    pub copy: Option<tempfile::TempDir>,
}

/// Opens `path` for reading. Rows that a killed writer left in the log are seen. Reading a file with a log needs leave
/// to write next to it (SQLite keeps an index of the log there); where that is missing, file and log are copied to the
/// temporary folder and read from there. So they are if a power failure has interrupted the writer before there was a log: what it
/// had begun has to be taken back before the file can be read, and that changes the file.
pub fn open_read_only(path: &Path) -> Result<Opened, Error> {
    match connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY) {
        Ok(connection) => Ok(Opened { connection, copy: None }),
        Err(e) if is_refusal(&e) => {
            let copy = copy_with_log(path).map_err(|e| Error::io(path, &e))?;
            let connection = connect(&copy.path().join(COPY), OpenFlags::SQLITE_OPEN_READ_WRITE);
            let connection = connection.map_err(|e| Error::of(path, e))?;
            Ok(Opened { connection, copy: Some(copy) })
        }
        Err(e) => Err(Error::of(path, e)),
    }
}

fn connect(path: &Path, how: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, how | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    // Opening touches nothing yet; this reads the header and, if there is one, the log.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// Whether SQLite could not make the files it needs next to the recording, or not take back what was begun.
fn is_refusal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    )
}

/// The name of the copied file in its folder.
const COPY: &str = "recording";

/// Copies a recording, and its log or journal, to a new temporary folder.
fn copy_with_log(path: &Path) -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("whatif-").tempdir()?;
    let copy = |from: &Path, name: &str| {
        // Not `fs::copy`: it would copy the missing leave to write as well.
        let mut to = fs::File::create(folder.path().join(name))?;
        std::io::copy(&mut fs::File::open(from)?, &mut to).map(drop)
    };
    copy(path, COPY)?;
    for end in [LOG, JOURNAL] {
        match copy(&beside(path, end), &format!("{COPY}{end}")) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(copy: &tempfile::TempDir) -> i64 {
        let connection = connect(&copy.path().join(COPY), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    /// What `open` does where it may not write; as root, no folder could be made read-only here.
    #[test]
    fn a_copy_has_the_rows_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.whatif");
        let to = Connection::open(&path).unwrap();
        to.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1);").unwrap();
        assert!(folder.path().join("p.whatif-wal").metadata().unwrap().len() > 0);

        let copy = copy_with_log(&path).unwrap();
        assert_eq!(rows(&copy), 1);

        to.close().unwrap();
        let copy = copy_with_log(&path).unwrap();
        assert_eq!(rows(&copy), 1);
    }

    /// The power fails while the first page of a new file is written: its beginning is not there, but the journal is, and says
    /// that the file was empty.
    #[test]
    fn what_a_power_failure_interrupts_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let (path, journal) = (folder.path().join("p.whatif"), folder.path().join("p.whatif-journal"));
        for (before, rows) in [("", 0), ("CREATE TABLE t (x); INSERT INTO t VALUES (1);", 1)] {
            let to = Connection::open(&path).unwrap();
            to.execute_batch(before).unwrap();
            // More than there is room for in memory, so that pages are written before the end.
            to.execute_batch("PRAGMA cache_size = 1; BEGIN; CREATE TABLE more (x);").unwrap();
            for _ in 0..200 {
                to.execute("INSERT INTO more VALUES (zeroblob(3000))", []).unwrap();
            }
            let (mut bytes, begun) = (fs::read(&path).unwrap(), fs::read(&journal).unwrap());
            drop(to);
            assert!(bytes.len() > 4096);
            bytes[..512].fill(0);
            fs::write(&path, &bytes).unwrap();
            fs::write(&journal, &begun).unwrap();

            let opened = open_read_only(&path).unwrap();
            let tables: i64 = opened
                .connection
                .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
                .unwrap();
            assert_eq!(tables, rows);
            assert!(opened.copy.is_some());
            assert_eq!(fs::read(&path).unwrap(), bytes, "a reader changes nothing");
            // The next writer does.
            let again = Connection::open(&path).unwrap();
            let tables: i64 =
                again.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
            assert_eq!(tables, rows);
        }
    }
}
