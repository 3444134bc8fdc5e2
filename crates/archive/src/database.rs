//! Database: the reader.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::model::whole_seconds;
use super::query::Query;
use super::*;
use super::{catalogue, names, store};
use storage::schema::{self, Found};
use storage::{Error, Nanos};
use storage::{Opened, open_read_only};

/// How long a reader waits for the writer to keep names; they can be found again.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often a query begins again because a segment it was about to read has become part of a larger one.
const MOST_TRIES: usize = 10;

/// What names of recordings begin with that `whatif agent` has made, in the folder `recordings`.
pub const OF_AGENT: &str = "agent-";

/// Reads a database, whether or not a writer has it open.
#[derive(Debug)]
pub struct Database {
    folder: PathBuf,
    catalogue: PathBuf,
    opened: Mutex<Opened>,
}

/// Which samples. What is not given is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Time buckets that begin in this span.
    pub time: Option<Range<UnixSeconds>>,
    /// Samples of these machines.
    pub machines: Option<Vec<MachineId>>,
    /// Samples of these epochs.
    pub epochs: Option<Vec<EpochId>>,
    /// Samples of these labels.
    pub labels: Option<Vec<LabelId>>,
    /// Samples of this event; of the first one if `None`.
    pub event: Option<EventId>,
    /// Only samples whose sampled instruction is in one of these images.
    pub images: Option<Vec<ImageId>>,
    /// Only samples that this holds for.
    pub condition: Option<Condition>,
}

impl Selection {
    /// All time.
    pub(super) const ALWAYS: Range<UnixSeconds> = UnixSeconds(i64::MIN)..UnixSeconds(i64::MAX);
}

fn no_database(folder: &Path) -> Error {
    let is_free = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    Error::NoDatabase { path: folder.to_owned(), is_free }
}

impl Database {
    /// Opens the database in `folder`.
    ///
    /// # Errors
    ///
    /// [`Error::NoDatabase`], [`Error::NotADatabase`], [`Error::Newer`], [`Error::Damaged`], [`Error::Locked`],
    /// [`Error::Io`].
    pub fn open(folder: &Path) -> Result<Database, Error> {
        let catalogue = folder.join(catalogue::FILE);
        match fs::metadata(&catalogue) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(no_database(folder));
            }
            Err(e) => return Err(Error::io(&catalogue, &e)),
            Ok(meta) if !meta.is_file() || catalogue::is_too_short(&catalogue) => {
                return Err(Error::NotADatabase { path: catalogue });
            }
            Ok(_) => {}
        }
        let not_ours = |error| match error {
            Error::NotARecording { path } => Error::NotADatabase { path },
            error => error,
        };
        let opened = open_read_only(&catalogue).map_err(not_ours)?;
        match schema::inspect(&opened.connection, &catalogue).map_err(not_ours)? {
            Found::Recording { .. } => {
                Ok(Database { folder: folder.to_owned(), catalogue, opened: Mutex::new(opened) })
            }
            Found::Empty => Err(no_database(folder)),
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All machines.
    ///
    /// # Errors
    ///
    /// As every method that reads: [`Error::DamagedCatalogue`], [`Error::DamagedSegment`], [`Error::Locked`], [`Error::Io`].
    pub fn machines(&self) -> Result<BTreeMap<MachineId, MachineInfo>, Error> {
        self.read("machines", |from| {
            from.prepare("SELECT * FROM machines")?.query_map([], catalogue::machine)?.collect()
        })
    }

    /// All epochs, oldest first.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn epochs(&self) -> Result<Vec<CollectorEpoch>, Error> {
        self.read("epochs", catalogue::epochs)
    }

    /// All images.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn images(&self) -> Result<BTreeMap<ImageId, CodeImage>, Error> {
        self.read("code_images", |from| {
            from.prepare("SELECT * FROM code_images")?
                .query_map([], |row| Ok((ImageId::new(row.get("id")?), catalogue::image(row)?)))?
                .collect()
        })
    }

    /// All labels.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn labels(&self) -> Result<BTreeMap<LabelId, Label>, Error> {
        self.read("labels", |from| {
            from.prepare("SELECT * FROM labels")?
                .query_map([], |row| Ok((LabelId::new(row.get("id")?), catalogue::label(row)?)))?
                .collect()
        })
    }

    /// All events.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn events(&self) -> Result<BTreeMap<EventId, String>, Error> {
        self.read("events", |from| {
            from.prepare("SELECT id, name FROM events")?
                .query_map([], |row| Ok((EventId::new(row.get(0)?), row.get(1)?)))?
                .collect()
        })
    }

    /// The span of time that there are segments of.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn span(&self) -> Result<Option<Range<UnixSeconds>>, Error> {
        let segments = self.read("segments", catalogue::segments)?;
        let begin = segments.iter().map(|segment| segment.begin).min();
        let end = segments.iter().map(catalogue::Segment::end).max();
        Ok(begin.zip(end).map(|(begin, end)| begin..end))
    }

    /// What became of the samples in the selected time, machines, epochs and event (labels, images and conditions
    /// do not count here). They are of a flush each, and of an hour where time buckets are: as fine as the samples, and chosen by the
    /// same time buckets.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn books(&self, selection: &Selection) -> Result<Vec<(EpochId, Books)>, Error> {
        let Some(event) = self.event(selection)? else { return Ok(Vec::new()) };
        let time = selection.time.clone().unwrap_or(Selection::ALWAYS);
        let (epochs, books) = self.read("books", |from| {
            let epochs = catalogue::epochs(from)?;
            // A row may begin anywhere in its time bucket.
            let longest = epochs.iter().map(|epoch| whole_seconds(epoch.setting.resolution)).max();
            let until = UnixSeconds(time.end.0.saturating_add(longest.unwrap_or(0)));
            Ok((epochs, catalogue::books(from, Some(event), time.start..until)?))
        })?;
        let epochs: HashMap<EpochId, CollectorEpoch> =
            epochs.into_iter().map(|epoch| (epoch.id, epoch)).collect();
        let is_asked_for = |id: EpochId, books: &Books| {
            epochs.get(&id).is_some_and(|epoch| {
                time.contains(&epoch.setting.bucket(books.start))
                    && selection.epochs.as_ref().is_none_or(|epochs| epochs.contains(&id))
                    && selection.machines.as_ref().is_none_or(|of| of.contains(&epoch.machine))
            })
        };
        let rows = books.into_iter().map(|(epoch, _, books)| (epoch, books));
        Ok(rows.filter(|(epoch, books)| is_asked_for(*epoch, books)).collect())
    }

    /// The longest time bucket of the selected time, machines and epochs; none if there are no samples.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn resolution(&self, selection: &Selection) -> Result<Option<Nanos>, Error> {
        Ok(Query::new(self, selection)?.resolution())
    }

    /// Samples by position of the sampled instruction, in no order.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn leaves(&self, selection: &Selection) -> Result<Vec<Leaf>, Error> {
        self.again_if_missing(|| Query::new(self, selection)?.leaves())
    }

    /// The same, kept apart.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn parts(&self, selection: &Selection, by: By) -> Result<Parts, Error> {
        self.again_if_missing(|| Query::new(self, selection)?.parts(by))
    }

    /// All stacks.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn tree(&self, selection: &Selection) -> Result<Tree, Error> {
        self.again_if_missing(|| Query::new(self, selection)?.tree())
    }

    /// All stacks of a selection, kept apart by `by`.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn forest(&self, selection: &Selection, by: By) -> Result<Forest, Error> {
        self.again_if_missing(|| Query::new(self, selection)?.forest(by))
    }

    /// Samples of each label.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn by_label(&self, selection: &Selection) -> Result<BTreeMap<LabelId, u64>, Error> {
        self.again_if_missing(|| Query::new(self, selection)?.by_label())
    }

    /// What is known about positions in images; each of them has an entry.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn symbols(&self, images: &[ImageId]) -> Result<HashMap<ImageId, KnownPositions>, Error> {
        self.read("symbols", |from| names::read(from, images))
    }

    /// Keeps names for the next query, where the folder can be written; nothing otherwise. A position without symbols has
    /// none in what was `searched`: a number that is another one as soon as there may be more to find.
    pub fn remember_symbols(&self, image: ImageId, symbols: &[(Offset, Vec<Symbol>)], searched: u32) {
        let keep = || -> rusqlite::Result<()> {
            let connection = self.open_to_write()?;
            if !has_tables(&connection)? {
                return Ok(());
            }
            connection.pragma_update(None, "synchronous", "normal")?;
            store::transaction(&connection, |to| {
                // It may have been removed since it was read about.
                if !to.prepare("SELECT 1 FROM code_images WHERE id = ?")?.exists([image.get()])? {
                    return Ok(());
                }
                symbols.iter().try_for_each(|(offset, symbols)| match symbols.as_slice() {
                    [] => names::insert_nameless(to, image.get(), offset.0, searched),
                    symbols => names::insert(to, image.get(), offset.0, symbols, false),
                })
            })
        };
        if !symbols.is_empty() {
            // Whatever it was, the names will be found again.
            let _ = keep();
        }
    }

    /// Gives an epoch a name, whether or not a writer has the database open.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`], [`Error::Io`].
    pub fn name_epoch(&self, epoch: EpochId, name: &str) -> Result<(), Error> {
        let keep = || -> rusqlite::Result<()> {
            let connection = self.open_to_write()?;
            store::transaction(&connection, |to| {
                to.execute("UPDATE epochs SET name = ? WHERE id = ?", (name, epoch.get()))?;
                Ok(())
            })
        };
        keep().map_err(|error| Error::of(&self.catalogue, error))
    }

    /// The catalogue, for the little that readers write into it.
    fn open_to_write(&self) -> rusqlite::Result<Connection> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.catalogue, flags)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    }

    /// Causal recordings that are kept with it: `recordings/*.db` in the folder, oldest first. Not those of the agent, of which a single one says little, and there are many.
    pub fn recordings(&self) -> Vec<PathBuf> {
        let Ok(listed) = fs::read_dir(self.folder.join("recordings")) else { return Vec::new() };
        let mut found: Vec<_> = listed
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "db"))
            .filter(|path| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with(OF_AGENT)))
            .filter_map(|path| Some((fs::metadata(&path).ok().filter(fs::Metadata::is_file)?, path)))
            .map(|(about, path)| (about.modified().ok(), path))
            .collect();
        found.sort();
        found.into_iter().map(|(_, path)| path).collect()
    }

    /// The event that is asked for: the one in the selection, or the first that the oldest selected epoch was to sample.
    pub(super) fn event(&self, selection: &Selection) -> Result<Option<EventId>, Error> {
        if selection.event.is_some() {
            return Ok(selection.event);
        }
        let (epochs, events) = (self.epochs()?, self.events()?);
        let asked = epochs
            .iter()
            .filter(|epoch| selection.epochs.as_ref().is_none_or(|of| of.contains(&epoch.id)))
            .filter(|epoch| selection.machines.as_ref().is_none_or(|of| of.contains(&epoch.machine)))
            .filter_map(|epoch| epoch.setting.events.first())
            .find_map(|name| events.iter().find(|(_, event)| *event == name));
        Ok(asked.or(events.iter().next()).map(|(&event, _)| event))
    }

    /// Reads from the catalogue, mostly one table of it, as it is at one moment. One of an older layout has nothing for us.
    pub(super) fn read<T: Default>(
        &self,
        table: &'static str,
        body: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || {
            let from = opened.connection.unchecked_transaction()?;
            if has_tables(&from)? { body(&from) } else { Ok(T::default()) }
        };
        run().map_err(|error: rusqlite::Error| {
            let detail = match &error {
                rusqlite::Error::FromSqlConversionFailure(_, _, why) => why.to_string(),
                rusqlite::Error::IntegralValueOutOfRange(_, number) => {
                    format!("no column can be {number} there")
                }
                rusqlite::Error::InvalidColumnType(_, column, kind) => {
                    format!("{column} cannot be of the type {kind}")
                }
                rusqlite::Error::InvalidColumnName(column) => format!("there is no column {column}"),
                rusqlite::Error::Utf8Error(..) => error.to_string(),
                // A table or a column is missing.
                _ if error.sqlite_error_code() == Some(ErrorCode::Unknown) => error.to_string(),
                _ => return Error::of(&self.catalogue, error),
            };
            let detail = storage::printable(&detail).into_owned();
            Error::DamagedCatalogue { path: self.catalogue.clone(), table, detail }
        })
    }

    /// Does it again if a file was not there: its samples are in another one by now.
    pub(super) fn again_if_missing<T>(&self, mut body: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let mut missing = None;
        for _ in 0..MOST_TRIES {
            match body() {
                Err(Error::NotFound { path }) if missing.as_ref() != Some(&path) => missing = Some(path),
                // The catalogue has been read again since, and still names it.
                Err(Error::NotFound { path }) => {
                    return Err(Error::DamagedSegment { path, detail: "there is no such file".to_owned() });
                }
                result => return result,
            }
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            if opened.copy.is_some() {
                *opened = open_read_only(&self.catalogue)?;
            }
        }
        body()
    }
}

fn has_tables(from: &Connection) -> rusqlite::Result<bool> {
    from.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = 'segments'")?.exists([])
}
