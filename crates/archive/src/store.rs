//! Store: the writer.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::catalogue::{self, RowFacts};
use super::draft::{Draft, Outline, Written, failed, step};
use super::lock;
use super::segment::Row;
use super::steps::{Steps, Watcher};
use super::*;
use storage::Error;
use storage::schema::{self, Found};

/// How long to wait for readers that keep names.
const PATIENCE: Duration = Duration::from_secs(5);
/// Images and labels that are looked up without asking the catalogue.
const MOST_CACHED: usize = 8192;

/// Writes a database; there is one at a time.
///
/// The catalogue is written with `synchronous = FULL`: a flush is one transaction a minute, and what it says must not be
/// gone after a power failure while its files are there, or the other way round.
#[derive(Debug)]
pub struct Store {
    pub(super) folder: PathBuf,
    pub(super) segments: PathBuf,
    pub(super) connection: Connection,
    pub(super) steps: Steps,
    pub(super) images: Keyring<CodeImage>,
    pub(super) labels: Keyring<Label>,
    pub(super) names: KeptNames,
    events: HashMap<String, EventId>,
    _lock: storage::Lock,
}

/// What one flush wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes of the new segment; zero if there was nothing to write.
    pub bytes: u64,
}

/// The keys of images or labels. New ones are written with the next flush, whose samples refer to them.
#[derive(Debug)]
pub(super) struct Keyring<T> {
    known: HashMap<T, i64>,
    new: Vec<(T, i64)>,
    next: i64,
    /// What the caller may still have in its hands, or be given without another look: what was given since the last flush,
    /// and what is in `known`.
    pub(super) given: HashSet<i64>,
}

impl<T: Clone + Eq + std::hash::Hash> Keyring<T> {
    fn new(connection: &Connection, table: &str) -> rusqlite::Result<Keyring<T>> {
        let next =
            connection
                .query_row(&format!("SELECT coalesce(max(id), 0) + 1 FROM {table}"), [], |row| row.get(0))?;
        Ok(Keyring { known: HashMap::new(), new: Vec::new(), next, given: HashSet::new() })
    }

    fn key(
        &mut self,
        thing: &T,
        find: impl FnOnce(&T) -> rusqlite::Result<Option<i64>>,
    ) -> rusqlite::Result<i64> {
        if let Some(&key) = self.known.get(thing) {
            return Ok(key);
        }
        let key = match find(thing)? {
            Some(key) => key,
            None => {
                let key = self.next;
                self.next += 1;
                self.new.push((thing.clone(), key));
                key
            }
        };
        if self.known.len() >= MOST_CACHED {
            self.known = self.new.iter().cloned().collect();
        }
        self.known.insert(thing.clone(), key);
        self.given.insert(key);
        Ok(key)
    }

    /// What was given has been used: code that needs it again asks again.
    fn used(&mut self) {
        self.given = self.known.values().copied().collect();
    }
}

impl Store {
    /// Opens the database in `folder`, which is made if need be, and becomes its only writer. Files that a killed
    /// writer left behind are removed.
    ///
    /// # Errors
    ///
    /// [`Error::OtherWriter`], [`Error::NotADatabase`], [`Error::Newer`], [`Error::Damaged`], [`Error::Io`].
    pub fn open(folder: &Path) -> Result<Store, Error> {
        Store::open_watched(folder, Steps::default())
    }

    /// The same; `watcher` is called before every step.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    #[doc(hidden)]
    pub fn watched(folder: &Path, watcher: Watcher) -> Result<Store, Error> {
        Store::open_watched(folder, Steps::watched_by(watcher))
    }

    fn open_watched(folder: &Path, mut steps: Steps) -> Result<Store, Error> {
        step(&mut steps, "make the folder", folder)?;
        let segments = catalogue::segments_folder(folder);
        // What runs on this machine is not for other users to see.
        make_folder(folder).map_err(|e| failed(folder, &e))?;
        let lock = lock::take(folder)?;
        step(&mut steps, "open the catalogue", folder)?;
        let connection = open_catalogue(&folder.join(catalogue::FILE))?;
        step(&mut steps, "make the folder of segments", folder)?;
        fs::create_dir_all(&segments).map_err(|e| failed(&segments, &e))?;
        for own in [&segments, &folder.join(kept_names::FOLDER)] {
            is_own(own).map_err(|e| failed(own, &e))?;
        }
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| failed(folder, &e))?;
        let path = folder.join(catalogue::FILE);
        let sql = |e| Error::of(&path, e);
        let store = Store {
            images: Keyring::new(&connection, "code_images").map_err(sql)?,
            labels: Keyring::new(&connection, "labels").map_err(sql)?,
            names: KeptNames::of(folder, u64::MAX),
            folder: folder.to_owned(),
            segments,
            connection,
            steps,
            events: HashMap::new(),
            _lock: lock,
        };
        let mut store = store;
        store.remove_orphans()?;
        Ok(store)
    }

    /// The key of a machine; what else is known of it replaces what was.
    ///
    /// # Errors
    ///
    /// As every method that writes: [`Error::Locked`], [`Error::Io`], [`Error::Damaged`].
    pub fn machine(&mut self, machine: &MachineInfo) -> Result<MachineId, Error> {
        self.write("write a machine", |to| catalogue::intern_machine(to, machine))
    }

    /// Begins an epoch; one of this machine that has not ended (the collector was killed) ends where its last flush did.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn begin_epoch(
        &mut self,
        machine: MachineId,
        setting: &Setting,
        name: Option<&str>,
        at: UnixSeconds,
    ) -> Result<EpochId, Error> {
        let uid = new_uid();
        self.write("begin an epoch", |to| {
            to.execute(
                "UPDATE epochs SET ended_unix_s = max(started_unix_s, coalesce(
                     (SELECT max(last_unix_s + (s.resolution_ns + 999999999) / 1000000000)
                      FROM segments s WHERE s.epoch = epochs.id), started_unix_s), coalesce(
                     (SELECT max(start_unix_s + length_ns / 1000000000) FROM books b WHERE b.epoch = epochs.id),
                     started_unix_s))
                 WHERE machine = ? AND ended_unix_s IS NULL",
                [machine.get()],
            )?;
            catalogue::insert_epoch(to, &uid, machine, (setting, name, at, None))
        })
    }

    /// Begins the epoch of something that was recorded elsewhere, which has a name of its own everywhere (`uid`). The epoch that has it
    /// already, as an error, if it has samples.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn begin_imported(
        &mut self,
        uid: &str,
        machine: MachineId,
        setting: &Setting,
        name: Option<&str>,
        at: UnixSeconds,
    ) -> Result<Result<EpochId, EpochId>, Error> {
        self.write("begin an epoch", |to| {
            let known = to
                .query_row("SELECT id, flushes FROM epochs WHERE uid = ?", [uid], |row| {
                    Ok((EpochId::new(row.get(0)?), row.get::<_, i64>(1)?))
                })
                .optional()?;
            match known {
                // It was interrupted before it had written anything.
                Some((epoch, 0)) => Ok(Ok(epoch)),
                Some((epoch, _)) => Ok(Err(epoch)),
                None => catalogue::insert_epoch(to, uid, machine, (setting, name, at, None)).map(Ok),
            }
        })
    }

    /// Ends an epoch.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn end_epoch(&mut self, epoch: EpochId, at: UnixSeconds) -> Result<(), Error> {
        self.write("end an epoch", |to| {
            to.execute("UPDATE epochs SET ended_unix_s = ? WHERE id = ?", [at.0, epoch.get()]).map(drop)
        })
    }

    /// The key of an image, which is added if it is new. Good until the end of the next [`flush`](Self::flush): then it is in a
    /// segment, or may be removed as garbage. Cheap when asked again.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn image(&mut self, image: &CodeImage) -> Result<ImageId, Error> {
        let connection = &self.connection;
        let find = |image: &CodeImage| {
            connection
                .prepare_cached("SELECT id FROM code_images WHERE path = ? AND build_id = ? AND kind = ?")?
                .query_row(params![image.path, image.build_id, image.kind.name()], |row| row.get(0))
                .optional()
        };
        self.images.key(image, find).map(ImageId::new).map_err(|e| self.wrong(e))
    }

    /// The key of a label, which is added if it is new. Good until the end of the next [`flush`](Self::flush): then it is in a
    /// segment, or may be removed as garbage. Cheap when asked again.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn label(&mut self, label: &Label) -> Result<LabelId, Error> {
        let connection = &self.connection;
        let find = |label: &Label| catalogue::label_key(connection, label);
        self.labels.key(label, find).map(LabelId::new).map_err(|e| self.wrong(e))
    }

    /// The key of an event, which is added if it is new.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn event(&mut self, name: &str) -> Result<EventId, Error> {
        if let Some(&event) = self.events.get(name) {
            return Ok(event);
        }
        let event = self.write("write an event", |to| {
            to.execute("INSERT OR IGNORE INTO events (name) VALUES (?)", [name])?;
            to.query_row("SELECT id FROM events WHERE name = ?", [name], |row| row.get(0).map(EventId::new))
        })?;
        self.events.insert(name.to_owned(), event);
        Ok(event)
    }

    /// Names for positions that could not be named later: of the kernel, of generated code, of files that are gone.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine).
    pub fn add_symbols(&mut self, image: ImageId, symbols: &[(Offset, Vec<Symbol>)]) -> Result<(), Error> {
        self.write_with_keys("write symbols", |to| {
            symbols
                .iter()
                .try_for_each(|(offset, symbols)| names::insert(to, image.get(), offset.0, symbols, true))
        })
    }

    /// Writes a segment. When this returns, what is in it survives a crash and a power failure; if it fails, the batch
    /// is as before and may be flushed again.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine); [`Error::Io`] when the disk is full, which leaves no file behind.
    pub fn flush(&mut self, epoch: EpochId, batch: &Batch) -> Result<Flushed, Error> {
        if batch.counts.iter().all(|count| count.count == 0) && batch.books.is_empty() {
            return Ok(Flushed::default());
        }
        let (resolution, flush) = self
            .connection
            .prepare_cached("SELECT resolution_ns, flushes + 1 FROM epochs WHERE id = ?")
            .and_then(|mut epochs| {
                epochs.query_row([epoch.get()], |row| {
                    Ok((catalogue::count(row, "resolution_ns")?, row.get(1)?))
                })
            })
            .map_err(|e| self.wrong(e))?;
        let draft = self.write_segment(batch)?;
        let facts = RowFacts {
            epoch,
            flushes: (flush, flush),
            resolution: storage::Nanos::new(resolution),
            level: 0,
        };
        let written = draft.as_ref().map(|(written, _)| written);
        self.write_with_keys("write a flush into the catalogue", |to| {
            if let Some(written) = written {
                catalogue::insert_segment(to, facts, written)?;
            }
            batch
                .books
                .iter()
                .try_for_each(|books| catalogue::insert_books(to, epoch, facts.flushes, books))?;
            to.prepare_cached("UPDATE epochs SET flushes = ? WHERE id = ?")?
                .execute([flush, epoch.get()])
                .map(drop)
        })?;
        self.images.used();
        self.labels.used();
        Ok(draft.map_or(Flushed::default(), |(written, files)| {
            files.keep();
            Flushed { bytes: written.stacks_bytes + written.samples_bytes }
        }))
    }

    /// Bytes of catalogue, segments and kept names.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn bytes(&self) -> Result<u64, Error> {
        let of = |folder: &Path| -> std::io::Result<u64> {
            let mut bytes = 0;
            for entry in fs::read_dir(folder)? {
                // What is gone by now has no bytes.
                bytes += entry?.metadata().ok().filter(|meta| meta.is_file()).map_or(0, |meta| meta.len());
            }
            Ok(bytes)
        };
        let folders = of(&self.folder).and_then(|bytes| Ok(bytes + of(&self.segments)?));
        let folders = folders.map(|bytes| bytes + self.names.size().bytes);
        folders.map_err(|e| failed(&self.folder, &e))
    }

    fn write_segment(&mut self, batch: &Batch) -> Result<Option<(Written, draft::Unfinished)>, Error> {
        let mut outline = Outline::default();
        let mut map: Vec<u32> = Vec::with_capacity(batch.nodes.len());
        for node in &batch.nodes {
            let parent = match node.parent {
                Node::NONE => Node::NONE,
                parent => *map.get(parent as usize).ok_or_else(|| self.not_a_batch())?,
            };
            let image = key(node.image.get());
            map.push(outline.frames.intern(parent, image, node.offset.0));
        }
        let mut about = None;
        for count in batch.counts.iter().filter(|count| count.count > 0) {
            let &frame = map.get(count.node as usize).ok_or_else(|| self.not_a_batch())?;
            outline.add(key(count.event.get()), frame, u64::from(count.count));
            about = Some(about.map_or(count.time, |least: UnixSeconds| least.min(count.time)));
        }
        let Some(about) = about else { return Ok(None) };
        let mut draft = Draft::new(&self.segments, outline, about, &mut self.steps)?;
        for count in batch.counts.iter().filter(|count| count.count > 0) {
            let node = draft.place(map[count.node as usize]);
            draft.push(Row {
                time: count.time.0,
                label: key(count.label.get()),
                event: key(count.event.get()),
                node,
                count: count.count,
            })?;
        }
        draft.finish().map(Some)
    }

    fn not_a_batch(&self) -> Error {
        Error::Damaged {
            path: self.folder.clone(),
            detail: "a batch has a frame before its caller, or a sample in no frame".to_owned(),
        }
    }

    /// What an error of the catalogue means.
    pub(super) fn wrong(&self, error: rusqlite::Error) -> Error {
        Error::of(&self.folder.join(catalogue::FILE), error)
    }

    /// One transaction.
    pub(super) fn write<T>(
        &mut self,
        name: &'static str,
        body: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        step(&mut self.steps, name, &self.folder)?;
        let result = transaction(&self.connection, |to| {
            let result = body(to)?;
            if self.steps.next("commit").is_err() {
                return Err(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
                    None,
                ));
            }
            Ok(result)
        });
        result.map_err(|e| self.wrong(e))
    }

    /// One transaction, with the images and labels that are new.
    pub(super) fn write_with_keys<T>(
        &mut self,
        name: &'static str,
        body: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let (images, labels) = (std::mem::take(&mut self.images.new), std::mem::take(&mut self.labels.new));
        let result = self.write(name, |to| {
            let mut insert = to.prepare_cached("INSERT INTO code_images VALUES (?, ?, ?, ?)")?;
            for (image, key) in &images {
                insert.execute(params![key, image.path, image.build_id, image.kind.name()])?;
            }
            labels.iter().try_for_each(|(label, key)| catalogue::insert_label(to, *key, label))?;
            body(to)
        });
        if result.is_err() {
            (self.images.new, self.labels.new) = (images, labels);
        }
        result
    }

    /// Removes files that the catalogue does not know, and forgets segments without files (which only a power failure
    /// in the middle of a failing write can leave).
    fn remove_orphans(&mut self) -> Result<(), Error> {
        let rows = catalogue::segments(&self.connection).map_err(|e| self.wrong(e))?;
        let mut files: BTreeSet<String> = BTreeSet::new();
        let listed = fs::read_dir(&self.segments).map_err(|e| failed(&self.segments, &e))?;
        for entry in listed {
            let entry = entry.map_err(|e| failed(&self.segments, &e))?;
            files.extend(entry.file_name().into_string());
        }
        let lost: Vec<i64> = rows
            .iter()
            .filter(|segment| segment.files().iter().any(|&file| !files.contains(file)))
            .map(|segment| segment.id)
            .collect();
        if !lost.is_empty() {
            self.write("forget segments without files", |to| {
                lost.iter().try_for_each(|&id| catalogue::delete_segment(to, id))
            })?;
        }
        for segment in rows.iter().filter(|segment| !lost.contains(&segment.id)) {
            segment.files().iter().for_each(|&file| {
                files.remove(file);
            });
        }
        files.retain(|file| draft::is_ours(file));
        self.remove_files(files.iter().map(String::as_str));
        Ok(())
    }

    /// Removes files that the catalogue does not know any more. The next process that opens the folder removes what stays behind.
    pub(super) fn remove_files<'f>(&mut self, files: impl IntoIterator<Item = &'f str>) {
        for file in files {
            if self.steps.next("remove a file").is_ok() {
                let _ = fs::remove_file(self.segments.join(file));
            }
        }
    }
}

/// Where a link leads, nothing is written or removed: another user may have made it.
fn is_own(folder: &Path) -> std::io::Result<()> {
    let is_link = fs::symlink_metadata(folder).is_ok_and(|about| about.is_symlink());
    let problem =
        "it is a symbolic link, which could lead anywhere: link the whole folder of the database instead";
    if is_link { Err(std::io::Error::other(problem)) } else { Ok(()) }
}

/// Makes a folder, and those above it. What is synced in it later shall not be gone after a power failure because a folder is.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let new =
        folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).count();
    DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
    // One that is there may have been made by a collector that was killed before it came to this.
    for above in folder.ancestors().skip(1).take(new.max(1)) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match File::open(above) {
            // It may be passed through but not be read.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            above => above?.sync_all()?,
        }
    }
    Ok(())
}

/// A key as the files have it. There are never as many as this could not hold.
pub(super) fn key(key: i64) -> i32 {
    i32::try_from(key).unwrap_or(i32::MAX)
}

pub(super) fn transaction<T>(
    connection: &Connection,
    body: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let to = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let result = body(&to)?;
    to.commit()?;
    Ok(result)
}

fn open_catalogue(path: &Path) -> Result<Connection, Error> {
    let sql = |e| match Error::of(path, e) {
        Error::NotARecording { path } => Error::NotADatabase { path },
        error => error,
    };
    if catalogue::is_too_short(path) {
        return Err(Error::NotADatabase { path: path.to_owned() });
    }
    let connection = Connection::open(path).map_err(sql)?;
    let not_ours = |error| match error {
        Error::NotARecording { path } => Error::NotADatabase { path },
        error => error,
    };
    if schema::inspect(&connection, path).map_err(not_ours)? == Found::Empty {
        // What was removed is given back to the file system.
        connection.pragma_update(None, "auto_vacuum", "incremental").map_err(sql)?;
    }
    schema::prepare(&connection, path).map_err(not_ours)?;
    connection.busy_timeout(PATIENCE).map_err(sql)?;
    connection.pragma_update(None, "synchronous", "full").map_err(sql)?;
    // Half a megabyte each for pages in memory and for the log on disk.
    connection.pragma_update(None, "cache_size", -512).map_err(sql)?;
    connection.pragma_update(None, "wal_autocheckpoint", 128).map_err(sql)?;
    connection.pragma_update(None, "journal_size_limit", 128 * 1024).map_err(sql)?;
    Ok(connection)
}
