//! The database of `whatif collect`: catalogue and segments.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use archive::{Database, Selection, Store};
use rusqlite::Connection;
use storage::Error;

use super::kept::Content;
use super::log::Event;
use crate::collect::books;

pub struct Kept;

impl super::kept::Kept for Kept {
    /// Epochs, flushes, and samples.
    fn open(&self, folder: &Path) -> Result<Content> {
        let folder = folder.join("db");
        let before = read(&folder)?;
        // The next collector, which removes what was left behind.
        let store = Store::open(&folder)?;
        drop(store);
        let after = read(&folder)?;
        ensure!(before == after, "the next collector finds {after:?}, and not {before:?}");
        let catalogue = Connection::open(folder.join("catalogue.db"))?;
        let whole: String = catalogue.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        ensure!(whole == "ok", "the catalogue is damaged: {whole}");
        ensure!(!catalogue.prepare("PRAGMA foreign_key_check")?.exists([])?, "rows point nowhere");
        let mut known =
            catalogue.prepare("SELECT stacks_file FROM segments UNION SELECT samples_file FROM segments")?;
        let known: BTreeSet<String> = known.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let there = fs::read_dir(folder.join("segments"))?;
        let there: BTreeSet<String> = there
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        ensure!(known == there, "files are left behind, or missing: {known:?} {there:?}");
        Ok(after)
    }

    /// The collector prints nothing, and means it of each flush: `docs/database.md`, "What a crash loses".
    fn promises(&self, event: &Event) -> bool {
        matches!(event, Event::Sync(_))
    }
}

/// Epochs, flushes, and samples.
pub fn read(folder: &Path) -> Result<Content> {
    let database = match Database::open(folder) {
        Err(Error::NoDatabase { .. }) => return Ok(vec![0; 3]),
        database => database?,
    };
    let epochs = database.epochs()?.len() as u64;
    let books = books(folder)?;
    let found: u64 = database.leaves(&Selection::default())?.iter().map(|leaf| leaf.count).sum();
    ensure!(found == books.taken(), "{found} samples in the segments, {} in the books", books.taken());
    Ok(vec![epochs, books.intervals, found])
}
