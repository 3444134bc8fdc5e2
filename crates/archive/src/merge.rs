//! Merging: everything that another database has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension, params};

use super::catalogue::{self, Flushes, RowFacts, Segment};
use super::columns::wrong;
use super::compaction::UNREADABLE;
use super::draft::failed;
use super::rewrite::{Changes, Keys, rewrite, unreadable};
use super::{
    Books, Database, EpochId, EventId, KeptNames, MachineId, MachineInfo, Selection, Store, UnixSeconds,
    names,
};
use storage::Error;

impl Store {
    /// Adds everything that another database has: other machines, or other times of this one. What is here already is
    /// not added again, so it can be repeated: after an error, or when the other one has grown. Segments of the other one
    /// that cannot be read are left out; the answer gives the reason.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine). What was added before an error stays.
    pub fn merge(&mut self, other: &Database) -> Result<Vec<Error>, Error> {
        // Before everything else: then all is added of an epoch that had ended. It ends here when that is there, because who reads takes one that has ended for complete.
        let ends = other.epochs()?.into_iter().filter_map(|epoch| Some((epoch.id, epoch.ended?))).collect();
        let mut missing = BTreeSet::new();
        let (epochs, keys, left_out) = other.again_if_missing(|| {
            // Before the keys: then those are all there that the segments have. Who merges or removes a segment meanwhile
            // takes its files away first.
            let segments = other.read("segments", catalogue::segments)?;
            let epochs = self.merge_epochs(other)?;
            let keys = self.merge_keys(other)?;
            let (mut left_out, gone) = self.merge_segments(other, segments, &epochs, &keys)?;
            if let Some(path) = gone.difference(&missing).next().cloned() {
                missing = gone;
                return Err(Error::NotFound { path });
            }
            // The catalogue has been read again since, and still names them.
            left_out.extend(gone.iter().map(|path| wrong(path, "there is no such file")));
            Ok((epochs, keys, left_out))
        })?;
        self.merge_books(other, &epochs, &keys)?;
        self.merge_ends(&ends, &epochs)?;
        self.merge_journal(other, &epochs)?;
        self.merge_symbols(other, &keys)?;
        self.merge_kept_names(other)?;
        Ok(left_out)
    }

    /// Names that were kept for the images there.
    fn merge_kept_names(&self, other: &Database) -> Result<(), Error> {
        let images = other.images()?;
        let theirs = KeptNames::of(other.folder(), u64::MAX);
        self.names.merge(&theirs, images.values()).map_err(|e| failed(&self.folder, &e))
    }

    /// The keys here of the epochs there.
    fn merge_epochs(&mut self, other: &Database) -> Result<HashMap<EpochId, EpochId>, Error> {
        let machines = other.machines()?;
        let epochs = other.epochs()?;
        let known = other.read("epochs", |from| {
            from.prepare("SELECT id, uid, flushes FROM epochs")?
                .query_map([], |row| Ok((EpochId::new(row.get(0)?), (row.get(1)?, row.get(2)?))))?
                .collect::<rusqlite::Result<HashMap<EpochId, (String, i64)>>>()
        })?;
        self.write("merge epochs", |to| {
            let mut keys = HashMap::new();
            for epoch in &epochs {
                let (Some((uid, flushes)), Some(machine)) =
                    (known.get(&epoch.id), machines.get(&epoch.machine))
                else {
                    continue;
                };
                let machine = machine_key(to, machine)?;
                let here = to
                    .query_row("SELECT id FROM epochs WHERE uid = ?", [uid], |row| {
                        row.get(0).map(EpochId::new)
                    })
                    .optional()?;
                let here = match here {
                    Some(here) => here,
                    None => {
                        let about = (&epoch.setting, epoch.name.as_deref(), epoch.started, None);
                        catalogue::insert_epoch(to, uid, machine, about)?
                    }
                };
                to.execute(
                    "UPDATE epochs SET flushes = max(flushes, ?), name = coalesce(name, ?) WHERE id = ?",
                    params![flushes, epoch.name, here.get()],
                )?;
                keys.insert(epoch.id, here);
            }
            Ok(keys)
        })
    }

    /// Ends the epochs that have ended there.
    fn merge_ends(
        &mut self,
        ends: &HashMap<EpochId, UnixSeconds>,
        epochs: &HashMap<EpochId, EpochId>,
    ) -> Result<(), Error> {
        self.write("end merged epochs", |to| {
            for (there, ended) in ends {
                if let Some(here) = epochs.get(there) {
                    to.execute(
                        "UPDATE epochs SET ended_unix_s = coalesce(ended_unix_s, ?) WHERE id = ?",
                        [ended.0, here.get()],
                    )?;
                }
            }
            Ok(())
        })
    }

    /// The keys here of images, labels and events there.
    fn merge_keys(&mut self, other: &Database) -> Result<Keys, Error> {
        let short = |key: i64| i32::try_from(key).unwrap_or(i32::MAX);
        let mut keys = Keys::default();
        for (there, image) in other.images()? {
            keys.images.insert(short(there.get()), short(self.image(&image)?.get()));
        }
        for (there, label) in other.labels()? {
            keys.labels.insert(short(there.get()), short(self.label(&label)?.get()));
        }
        for (there, event) in other.events()? {
            keys.events.insert(short(there.get()), short(self.event(&event)?.get()));
        }
        Ok(keys)
    }

    /// Says what is wrong with those that are damaged, and which files were not there.
    fn merge_segments(
        &mut self,
        other: &Database,
        segments: Vec<Segment>,
        epochs: &HashMap<EpochId, EpochId>,
        keys: &Keys,
    ) -> Result<(Vec<Error>, BTreeSet<PathBuf>), Error> {
        let from = catalogue::segments_folder(other.folder());
        let (mut damaged, mut gone) = (Vec::new(), BTreeSet::new());
        for theirs in segments {
            let Some(&epoch) = epochs.get(&theirs.epoch) else { continue };
            let ours: Vec<Segment> = catalogue::segments(&self.connection)
                .map_err(|e| self.wrong(e))?
                .into_iter()
                .filter(|ours| ours.epoch == epoch && overlap(flushes(ours), flushes(&theirs)))
                .collect();
            let samples: u64 = ours.iter().map(|ours| ours.samples).sum();
            let within = ours.iter().all(|ours| contains(flushes(&theirs), flushes(ours)));
            if !ours.is_empty() && (!within || samples >= theirs.samples) {
                continue;
            }
            let changes = Changes { keys: Some(keys), ..Changes::default() };
            let inputs = std::slice::from_ref(&theirs);
            let rewritten = rewrite(&from, inputs, changes, &self.segments, &mut self.steps, &mut || ());
            let (_, written, files) = match rewritten {
                Err(Error::NotFound { path }) if path.starts_with(&from) => {
                    gone.insert(path);
                    continue;
                }
                Err(error) if unreadable(&error, inputs).is_some() => {
                    damaged.push(error);
                    continue;
                }
                rewritten => rewritten?,
            };
            let facts = RowFacts {
                epoch,
                flushes: flushes(&theirs),
                resolution: theirs.resolution,
                // It can be read now, whatever was there.
                level: theirs.level.min(UNREADABLE - 1),
            };
            self.write_with_keys("merge a segment", |to| {
                ours.iter().try_for_each(|ours| catalogue::delete_segment(to, ours.id))?;
                catalogue::insert_segment(to, facts, &written)
            })?;
            files.keep();
            self.remove_files(ours.iter().flat_map(Segment::files));
        }
        Ok((damaged, gone))
    }

    fn merge_books(
        &mut self,
        other: &Database,
        epochs: &HashMap<EpochId, EpochId>,
        keys: &Keys,
    ) -> Result<(), Error> {
        let mut theirs: BTreeMap<(EpochId, EventId, Flushes), Vec<Books>> = BTreeMap::new();
        for (epoch, flushes, books) in
            other.read("books", |from| catalogue::books(from, None, Selection::ALWAYS))?
        {
            let event = i32::try_from(books.event.get()).ok().and_then(|event| keys.events.get(&event));
            if let (Some(&epoch), Some(&event)) = (epochs.get(&epoch), event) {
                let event = EventId::new(i64::from(event));
                theirs.entry((epoch, event, flushes)).or_default().push(Books { event, ..books });
            }
        }
        let mut ours: HashMap<(EpochId, EventId), Vec<Flushes>> = HashMap::new();
        let all = catalogue::books(&self.connection, None, Selection::ALWAYS);
        for (epoch, flushes, books) in all.map_err(|e| self.wrong(e))? {
            ours.entry((epoch, books.event)).or_default().push(flushes);
        }
        self.write("merge books", |to| {
            for ((epoch, event, of), books) in &theirs {
                let ours = ours.get(&(*epoch, *event)).map_or(&[][..], Vec::as_slice);
                let mut same: Vec<Flushes> = ours.iter().copied().filter(|&ours| overlap(ours, *of)).collect();
                same.dedup();
                let within = same.iter().all(|&ours| contains(*of, ours));
                let covered: i64 = same.iter().map(|ours| ours.1 - ours.0 + 1).sum();
                if !same.is_empty() && (!within || covered > of.1 - of.0) {
                    continue;
                }
                to.prepare_cached(
                    "DELETE FROM books WHERE epoch = ? AND event = ? AND first_flush >= ? AND last_flush <= ?",
                )?
                .execute(params![epoch.get(), event.get(), of.0, of.1])?;
                books.iter().try_for_each(|books| catalogue::insert_books(to, *epoch, *of, books))?;
            }
            Ok(())
        })
    }

    fn merge_symbols(&mut self, other: &Database, keys: &Keys) -> Result<(), Error> {
        for there in other.images()?.into_keys() {
            let symbols = other.symbols(&[there])?.remove(&there).unwrap_or_default().named;
            let here = i32::try_from(there.get()).ok().and_then(|there| keys.images.get(&there));
            if let (Some(&here), false) = (here, symbols.is_empty()) {
                self.write_with_keys("merge symbols", |to| {
                    symbols.iter().try_for_each(|(offset, symbols)| {
                        names::insert(to, i64::from(here), offset.0, symbols, false)
                    })
                })?;
            }
        }
        Ok(())
    }
}

/// The key of a machine, which is added if it is new; what is known of it here stays.
fn machine_key(to: &Connection, machine: &MachineInfo) -> rusqlite::Result<MachineId> {
    let known = to
        .query_row("SELECT id FROM machines WHERE key = ?", [&machine.key], |row| {
            row.get(0).map(MachineId::new)
        })
        .optional()?;
    known.map_or_else(|| catalogue::intern_machine(to, machine), Ok)
}

fn flushes(segment: &Segment) -> Flushes {
    (segment.first_flush, segment.last_flush)
}

fn overlap(a: Flushes, b: Flushes) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

fn contains(outer: Flushes, inner: Flushes) -> bool {
    outer.0 <= inner.0 && inner.1 <= outer.1
}
