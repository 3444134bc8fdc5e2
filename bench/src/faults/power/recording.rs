//! The recording of `whatif run`, and the runtime that it unpacks.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use profile::Recording;
use rusqlite::Connection;
use storage::Error;

use super::kept::Content;
use super::log::Event;
use crate::faults::harness::limited;

/// Names of files, and what is in them.
type Files = Vec<(String, Vec<u8>)>;

pub struct Kept<'a> {
    pub whatif: &'a Path,
    pub witness: &'a Path,
    /// Caches that a run has begun with.
    pub begun_with: RefCell<HashSet<Files>>,
}

impl super::kept::Kept for Kept<'_> {
    /// Sessions, those with an end, windows, and samples.
    fn open(&self, folder: &Path) -> Result<Content> {
        self.check_cache(&folder.join("cache"))?;
        let path = folder.join("recording.db");
        let recording = match Recording::open(&path) {
            Err(Error::NotFound { .. } | Error::Empty { .. }) => {
                // The next run begins it.
                Recording::create(&path)?.close()?;
                return Ok(vec![0; 4]);
            }
            recording => recording?,
        };
        let rows = recording.rows()?;
        drop(recording);
        let to = Connection::open(&path)?;
        let whole: String = to.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        ensure!(whole == "ok", "it is damaged: {whole}");
        ensure!(!to.prepare("PRAGMA foreign_key_check")?.exists([])?, "rows point nowhere");
        drop(to);
        let mut blocks: BTreeMap<_, usize> = BTreeMap::new();
        for window in &rows.windows {
            *blocks.entry((window.session, window.block)).or_default() += 1;
        }
        ensure!(blocks.values().all(|windows| *windows > 1), "half an experiment is there");
        // Once more, by one who adds to it.
        Recording::create(&path)?.close()?;
        let next = Recording::open(&path)?.rows()?;
        ensure!(format!("{next:?}") == format!("{rows:?}"), "the next run finds something else");
        let ended = rows.sessions.iter().filter(|session| session.end.is_some()).count();
        let samples = rows.samples.iter().map(|samples| samples.count).sum();
        Ok(vec![rows.sessions.len() as u64, ended as u64, rows.windows.len() as u64, samples])
    }

    fn promises(&self, event: &Event) -> bool {
        matches!(event, Event::Said(words) if words.contains("recorded in"))
    }
}

impl Kept<'_> {
    /// The next run unpacks again what is not whole.
    fn check_cache(&self, cache: &Path) -> Result<()> {
        let mut files = Vec::new();
        if let Ok(listed) = std::fs::read_dir(cache.join("whatif")) {
            for entry in listed {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    files.push((
                        entry.file_name().to_string_lossy().into_owned(),
                        std::fs::read(entry.path())?,
                    ));
                }
            }
        }
        files.sort();
        if !self.begun_with.borrow_mut().insert(files) {
            return Ok(());
        }
        let mut next = Command::new(self.whatif);
        next.env("XDG_CACHE_HOME", cache).args(["run", "-q", "-o"]).arg(cache.with_file_name("next.db"));
        let ended = limited(next.arg("--").arg(self.witness).arg("50"))?;
        ensure!(ended.stdout.ends_with("ends\n"), "the next run: {} {}", ended.status, ended.stderr);
        ensure!(
            !ended.stderr.contains("not profiled")
                && Recording::open(&cache.with_file_name("next.db")).is_ok(),
            "{}",
            ended.stderr
        );
        Ok(())
    }
}
