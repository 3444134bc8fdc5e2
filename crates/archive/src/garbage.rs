//! Garbage: what is old is thinned out, then removed.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Transaction, params};

use super::catalogue::{self, RowFacts, Segment};
use super::columns::ColumnReader;
use super::compaction::UNREADABLE;
use super::model::whole_seconds;
use super::rewrite::{Changes, rewrite};
use super::segment::Stacks;
use super::{CodeImage, Store, UnixSeconds};
use storage::{Error, Nanos};

/// How long things are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Segments older than this are removed.
    pub keep: Option<Nanos>,
    /// In segments older than this, time buckets of an hour take the place of finer ones.
    pub coarse_after: Option<Nanos>,
    /// How many segments get them at a time; `None` for all that are due.
    pub most_coarsened: Option<usize>,
    /// The oldest segments are removed until the folder has at most this many bytes.
    pub most_bytes: Option<u64>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Segments that were removed.
    pub segments: usize,
    /// Samples of the segments that were removed.
    pub samples: u64,
    /// How much smaller the folder is, in bytes.
    pub bytes: u64,
}

/// With no more names than this, the generated code of a program is not searched for names that are no longer needed.
const FEW_NAMES: i64 = 10_000;
/// The longer time bucket.
const HOUR: Nanos = Nanos::new(3600 * 1_000_000_000);

impl Store {
    /// Removes and thins out what is old. Thinning out a day may take seconds; meanwhile `breathe` is called every few
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine). What was done before an error stays done.
    pub fn collect_garbage(
        &mut self,
        retention: &Retention,
        now: UnixSeconds,
        breathe: &mut dyn FnMut(),
    ) -> Result<Removed, Error> {
        let before = self.bytes()?;
        let mut removed = Removed::default();
        let before_now = |span: Nanos| UnixSeconds(now.0.saturating_sub(whole_seconds(span)));
        if let Some(keep) = retention.keep {
            let until = before_now(keep);
            let old = self.listed()?.into_iter().filter(|segment| segment.end() <= until).collect();
            self.remove_segments(old, Some(until), &mut removed)?;
        }
        // One that cannot be read must not keep the others.
        let mut coarsened = Ok(());
        if let Some(after) = retention.coarse_after {
            let until = before_now(after);
            let is_due = |segment: &Segment| {
                segment.end() <= until && segment.resolution < HOUR && segment.level < UNREADABLE
            };
            let due = self.listed()?.into_iter().filter(is_due);
            for segment in due.take(retention.most_coarsened.unwrap_or(usize::MAX)) {
                coarsened = coarsened.and(self.coarsen(&segment, breathe));
            }
        }
        if let Some(most) = retention.most_bytes {
            self.remove_kept_names(Some(most), now)?;
            self.remove_beyond(most, &mut removed)?;
        }
        self.remove_unused()?;
        self.remove_kept_names(None, now)?;
        removed.bytes = before.saturating_sub(self.bytes()?);
        coarsened.map(|()| removed)
    }

    fn listed(&self) -> Result<Vec<Segment>, Error> {
        catalogue::segments(&self.connection).map_err(|e| self.wrong(e))
    }

    /// The end of the newest segment that had ended by then.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn newest(&self, by: UnixSeconds) -> Result<Option<UnixSeconds>, Error> {
        Ok(self.listed()?.iter().map(Segment::end).filter(|end| *end <= by).max())
    }

    /// Removes the oldest segments until there are at most this many bytes.
    fn remove_beyond(&mut self, most: u64, removed: &mut Removed) -> Result<(), Error> {
        if self.bytes()? <= most {
            return Ok(());
        }
        // The log, and rows of what has gone already, need not cost a segment.
        self.remove_unused()?;
        let mut beyond = self.bytes()?.saturating_sub(most);
        let mut segments = self.listed()?;
        segments.sort_by_key(|segment| (segment.last, segment.id));
        let mut old = Vec::new();
        for segment in segments {
            if beyond == 0 {
                break;
            }
            beyond = beyond.saturating_sub(segment.bytes);
            old.push(segment);
        }
        self.remove_segments(old, None, removed)
    }

    /// Removes segments and their books, and the other books that ended before `until`.
    fn remove_segments(
        &mut self,
        old: Vec<Segment>,
        until: Option<UnixSeconds>,
        removed: &mut Removed,
    ) -> Result<(), Error> {
        self.write("remove segments from the catalogue", |to| {
            for segment in &old {
                catalogue::delete_segment(to, segment.id)?;
                to.prepare_cached(
                    "DELETE FROM books WHERE epoch = ? AND first_flush >= ? AND last_flush <= ?",
                )?
                .execute(params![
                    segment.epoch.get(),
                    segment.first_flush,
                    segment.last_flush
                ])?;
            }
            if let Some(until) = until {
                to.execute("DELETE FROM books WHERE start_unix_s + length_ns / 1000000000 <= ?", [until.0])?;
            }
            Ok(())
        })?;
        self.remove_files(old.iter().flat_map(Segment::files));
        removed.segments += old.len();
        removed.samples += old.iter().map(|segment| segment.samples).sum::<u64>();
        Ok(())
    }

    /// Removes names that were kept of images which no segment has any more, and those that take more than half of `most` bytes.
    fn remove_kept_names(&self, most: Option<u64>, now: UnixSeconds) -> Result<(), Error> {
        let images = || -> rusqlite::Result<Vec<CodeImage>> {
            let mut all = self.connection.prepare("SELECT * FROM code_images")?;
            all.query_map([], catalogue::image)?.collect()
        };
        let images = images().map_err(|e| self.wrong(e))?;
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(now.0).unwrap_or(0));
        self.names.collect_garbage(images.iter(), most.map(|most| most / 2), now);
        Ok(())
    }

    /// Writes a segment again, with time buckets of an hour.
    fn coarsen(&mut self, segment: &Segment, breathe: &mut dyn FnMut()) -> Result<(), Error> {
        let changes = Changes { bucket: Some(whole_seconds(HOUR)), ..Changes::default() };
        let inputs = std::slice::from_ref(segment);
        let rewritten = rewrite(&self.segments, inputs, changes, &self.segments, &mut self.steps, breathe);
        let (_, written, files) = self.or_leave_out(inputs, rewritten)?;
        let flushes = (segment.first_flush, segment.last_flush);
        let facts = RowFacts { epoch: segment.epoch, flushes, resolution: HOUR, level: segment.level };
        self.write("write a thinned segment into the catalogue", |to| {
            catalogue::delete_segment(to, segment.id)?;
            catalogue::thin_books(to, segment.epoch, segment.last_flush)?;
            catalogue::insert_segment(to, facts, &written)
        })?;
        files.keep();
        self.remove_files(segment.files());
        Ok(())
    }

    /// Removes rows that nothing refers to any more, and gives their room back to the file system.
    fn remove_unused(&mut self) -> Result<(), Error> {
        let (images, labels) = (self.images.given.clone(), self.labels.given.clone());
        let stale = self.stale_names()?;
        self.write("remove rows that are no longer needed", |to| {
            let mut used: (BTreeSet<i64>, BTreeSet<i64>) = Default::default();
            for segment in catalogue::segments(to)? {
                used.0.extend(catalogue::keys(&segment.images));
                used.1.extend(catalogue::keys(&segment.labels));
            }
            for image in unused(to, "code_images", &used.0, &images)? {
                to.prepare_cached("DELETE FROM symbols WHERE image = ?")?.execute([image])?;
                to.prepare_cached("DELETE FROM code_images WHERE id = ?")?.execute([image])?;
            }
            for label in unused(to, "labels", &used.1, &labels)? {
                to.prepare_cached("DELETE FROM labels WHERE id = ?")?.execute([label])?;
            }
            for (image, offsets) in &stale {
                let mut remove =
                    to.prepare_cached("DELETE FROM symbols WHERE image = ? AND \"offset\" = ?")?;
                offsets.iter().try_for_each(|offset| remove.execute(params![image, offset]).map(drop))?;
            }
            remove_names(to)?;
            remove_epochs(to)
        })?;
        // Readers may hold the log; then it becomes smaller next time.
        let shrink = |sql: &str| -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        };
        let _ = shrink("PRAGMA incremental_vacuum");
        let _ = shrink("PRAGMA wal_checkpoint(TRUNCATE)");
        Ok(())
    }
}

impl Store {
    /// Positions in generated code that have names and no samples any more: a program that generates code day after day has
    /// ever new ones, in an image that stays. Where they are few they may stay as well.
    fn stale_names(&self) -> Result<Vec<(i64, Vec<i64>)>, Error> {
        let many = || -> rusqlite::Result<Vec<i64>> {
            self.connection
                .prepare_cached(
                    "SELECT image FROM symbols JOIN code_images ON id = image WHERE kind = 'generated'
                     GROUP BY image HAVING count(*) > ?",
                )?
                .query_map([FEW_NAMES], |row| row.get(0))?
                .collect()
        };
        let many = many().map_err(|e| self.wrong(e))?;
        if many.is_empty() {
            return Ok(Vec::new());
        }
        let mut used: HashSet<(i64, i64)> = HashSet::new();
        for segment in self.listed()? {
            let keys = catalogue::keys(&segment.images);
            if !many.iter().any(|image| keys.contains(image)) {
                continue;
            }
            let path = self.segments.join(&segment.stacks_file);
            // What one had that cannot be read is not known.
            if let Ok(Stacks { images, offsets, .. }) =
                ColumnReader::open(&path, segment.bytes).and_then(|reader| Stacks::read(&reader))
            {
                let positions = images.into_iter().map(i64::from).zip(offsets);
                let positions = positions.map(|(image, offset)| (image, offset as i64));
                used.extend(positions.filter(|(image, _)| many.contains(image)));
            }
        }
        let named = |image: i64| -> rusqlite::Result<Vec<i64>> {
            self.connection
                .prepare_cached("SELECT DISTINCT \"offset\" FROM symbols WHERE image = ?")?
                .query_map([image], |row| row.get(0))?
                .collect()
        };
        let stale = |image: i64| -> rusqlite::Result<(i64, Vec<i64>)> {
            let offsets = named(image)?.into_iter().filter(|&offset| !used.contains(&(image, offset)));
            Ok((image, offsets.collect()))
        };
        many.into_iter().map(stale).collect::<rusqlite::Result<_>>().map_err(|e| self.wrong(e))
    }
}

fn unused(
    from: &Connection,
    table: &str,
    used: &BTreeSet<i64>,
    given: &HashSet<i64>,
) -> rusqlite::Result<Vec<i64>> {
    let mut all = from.prepare(&format!("SELECT id FROM {table}"))?;
    let all = all.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    Ok(all.into_iter().filter(|key| !used.contains(key) && !given.contains(key)).collect())
}

fn remove_names(to: &Transaction<'_>) -> rusqlite::Result<()> {
    to.execute(
        "DELETE FROM names WHERE id NOT IN (SELECT function FROM symbols UNION SELECT file FROM symbols)",
        [],
    )
    .map(drop)
}

/// Removes epochs that are over and that nothing is left of. One whose collector was killed is over when the next begins.
fn remove_epochs(to: &Transaction<'_>) -> rusqlite::Result<()> {
    const OVER: &str = "SELECT id FROM epochs WHERE ended_unix_s IS NOT NULL
        AND id NOT IN (SELECT epoch FROM segments) AND id NOT IN (SELECT epoch FROM books)";
    to.execute(&format!("DELETE FROM epoch_events WHERE epoch IN ({OVER})"), [])?;
    to.execute(&format!("DELETE FROM epoch_labels WHERE epoch IN ({OVER})"), [])?;
    to.execute(&format!("DELETE FROM journal WHERE epoch IN ({OVER})"), [])?;
    to.execute(&format!("DELETE FROM epochs WHERE id IN ({OVER})"), []).map(drop)
}
