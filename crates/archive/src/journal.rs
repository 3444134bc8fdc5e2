//! Journal: what happened to a collector, when and why, as far as books and epochs do not say it.

use super::catalogue;
use super::{Books, CollectorEpoch, Database, EpochId, EventId, Selection, Store, UnixSeconds};
use rusqlite::{Connection, params};
use std::collections::HashMap;
use storage::Error;

/// Rows of one epoch: what happens all the time is told by its beginning.
const MOST: i64 = 10_000;
/// Characters of a detail.
const LONGEST: usize = 300;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When.
    pub at: UnixSeconds,
    /// What.
    pub kind: EntryKind,
    /// How much.
    pub value: f64,
    /// Why, for people.
    pub detail: String,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// The collector keeps a journal from here on.
    Began,
    /// It has ended in order, for the reason in the detail. An epoch that has begun and not ended was killed.
    Ended,
    /// Samples per second and CPU from now on, because of what is in the detail.
    Rate,
    /// Nothing could be stored, because of what is in the detail.
    Full,
    /// Everything is stored again; so many samples were given up.
    Stored,
    /// So many samples of an interval there was no room for.
    NoRoom,
    /// So often the kernel allowed no more samples in an interval.
    Throttled,
    /// One sample costs the kernel so many nanoseconds.
    SampleCost,
    /// The wall clock was set by so many seconds.
    Clock,
    /// So many processes are not sampled.
    Missed,
    /// The books say so many samples of an interval too many or too few.
    Books,
    /// What is old could not be removed, or what is small not be merged, because of what is in the detail.
    Untidy,
    /// It could again.
    Tidy,
}

impl EntryKind {
    /// All of them.
    pub const ALL: [EntryKind; 13] = [
        EntryKind::Began,
        EntryKind::Ended,
        EntryKind::Rate,
        EntryKind::Full,
        EntryKind::Stored,
        EntryKind::NoRoom,
        EntryKind::Throttled,
        EntryKind::SampleCost,
        EntryKind::Clock,
        EntryKind::Missed,
        EntryKind::Books,
        EntryKind::Untidy,
        EntryKind::Tidy,
    ];

    /// Its name in the catalogue.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EntryKind::Began => "began",
            EntryKind::Ended => "ended",
            EntryKind::Rate => "rate",
            EntryKind::Full => "full",
            EntryKind::Stored => "stored",
            EntryKind::NoRoom => "no room",
            EntryKind::Throttled => "throttled",
            EntryKind::SampleCost => "sample cost",
            EntryKind::Clock => "clock",
            EntryKind::Missed => "missed",
            EntryKind::Books => "books",
            EntryKind::Untidy => "untidy",
            EntryKind::Tidy => "tidy",
        }
    }
}

/// A row of the books, and whether it is of a whole hour rather than of one write.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Its epoch.
    pub epoch: EpochId,
    /// Whether several writes are in it, which may lie anywhere in the hour that it begins with.
    pub is_hour: bool,
    /// What became of the samples.
    pub books: Books,
}

impl Store {
    /// Writes down what happened in an epoch.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn note(&mut self, epoch: EpochId, entries: &[Entry]) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        self.write("write into the journal", |to| {
            let next = "SELECT coalesce(max(number), 0) + 1 FROM journal WHERE epoch = ?";
            let next: i64 = to.prepare_cached(next)?.query_row([epoch.get()], |row| row.get(0))?;
            for (number, entry) in (next..).zip(entries) {
                // The end is the last one, and tells whether there was one.
                if number <= MOST || entry.kind == EntryKind::Ended {
                    insert(to, epoch, number, entry)?;
                }
            }
            Ok(())
        })
    }

    /// Adds the journal of another database; what is there already stays.
    pub(super) fn merge_journal(
        &mut self,
        other: &Database,
        epochs: &HashMap<EpochId, EpochId>,
    ) -> Result<(), Error> {
        let theirs = other.read("journal", numbered)?;
        self.write("merge the journal", |to| {
            for (epoch, number, entry) in &theirs {
                if let Some(&epoch) = epochs.get(epoch) {
                    insert(to, epoch, *number, entry)?;
                }
            }
            Ok(())
        })
    }
}

impl Database {
    /// What happened, in the order in which it did in each epoch.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn journal(&self) -> Result<Vec<(EpochId, Entry)>, Error> {
        let rows = self.read("journal", numbered)?;
        Ok(rows.into_iter().map(|(epoch, _, entry)| (epoch, entry)).collect())
    }

    /// The books of all events, epoch by epoch and in the order in which they were written.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn intervals(&self) -> Result<Vec<Interval>, Error> {
        let rows = self.read("books", |from| catalogue::books(from, None::<EventId>, Selection::ALWAYS))?;
        let interval = |(epoch, flushes, books): (EpochId, (i64, i64), Books)| Interval {
            epoch,
            is_hour: flushes.0 < flushes.1,
            books,
        };
        Ok(rows.into_iter().map(interval).collect())
    }
}

fn insert(to: &Connection, epoch: EpochId, number: i64, entry: &Entry) -> rusqlite::Result<()> {
    let detail: String = entry.detail.chars().take(LONGEST).collect();
    // What is no number would be stored as nothing.
    let value = if entry.value.is_finite() { entry.value } else { 0.0 };
    to.prepare_cached("INSERT OR IGNORE INTO journal VALUES (?, ?, ?, ?, ?, ?)")?
        .execute(params![epoch.get(), number, entry.at.0, entry.kind.name(), value, detail])
        .map(drop)
}

fn numbered(from: &Connection) -> rusqlite::Result<Vec<(EpochId, i64, Entry)>> {
    // A database of an older layout that no collector has written since.
    if !from.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = 'journal'")?.exists([])? {
        return Ok(Vec::new());
    }
    let mut rows = from.prepare_cached("SELECT * FROM journal ORDER BY epoch, number")?;
    let rows = rows.query_map([], |row| {
        let kind: String = row.get("kind")?;
        // A later version may know more.
        let Some(kind) = EntryKind::ALL.into_iter().find(|of| of.name() == kind) else { return Ok(None) };
        let at = UnixSeconds(row.get("at_unix_s")?);
        let entry = Entry { at, kind, value: row.get("value")?, detail: row.get("detail")? };
        Ok(Some((EpochId::new(row.get("epoch")?), row.get("number")?, entry)))
    })?;
    rows.filter_map(Result::transpose).collect()
}

/// Whether an epoch whose journal this is was killed: it has begun, and neither ended nor is it the one that runs.
#[must_use]
pub fn was_killed(epoch: &CollectorEpoch, journal: &[(EpochId, Entry)]) -> bool {
    let has = |kind| journal.iter().any(|(of, entry)| *of == epoch.id && entry.kind == kind);
    epoch.ended.is_some() && has(EntryKind::Began) && !has(EntryKind::Ended)
}
