//! Sender: what a local database has and the server has not, hour by hour.
//!
//! What is sent counts once, whenever the sender or the server is killed:
//!
//! * A batch is an hour of an epoch. The hour is over, and stays the same samples when the database puts its segments together or thins them out.
//! * All rows of a batch are one block in one partition on one shard, which a server writes whole or not at all; and it is packed so that a part of a request is
//!   refused (`row_binary`).
//! * Before a batch is sent that is not noted as sent, the server is asked whether it has rows of it, and before that, whether it is still at work on a request
//!   of an earlier sender. Only what it says counts.
//! * Frames, images, names and epochs may be sent as often as one likes: rows that are alike are one (`ReplacingMergeTree`).

use crate::batch::{Local, LocalEpoch, Taken};
use crate::code::build_of;
use crate::error::Error;
use crate::evidence::{Evidence, request_name};
use crate::hour::Hour;
use crate::local::{named, with_squares};
use crate::row_binary::RowBinary;
use crate::sent::Sent;
use crate::stack_hash::{NONE, StackHash, called_from};
use crate::store::Store;
use crate::tables::{BOOKS, EPOCHS, HOURS, IMAGES, SAMPLES, STACKS, SYMBOLS};
use archive::{CodeImage, Database, EventId, ImageKind, Position, UnixSeconds};
use cycles::Names;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::Hash;
use std::path::Path;
use std::rc::Rc;

/// So many stacks and positions are known to be there; if there are more, they are sent again.
const REMEMBERED: usize = 1 << 20;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Hours of epochs that were sent.
    pub hours: u64,
    /// Hours that were not noted, and that the server had nevertheless.
    pub found: u64,
    /// Rows of samples that were sent.
    pub rows: u64,
    /// How many samples these are.
    pub samples: u64,
    /// Runs under causal profiling that were sent.
    pub runs: u64,
    /// Their windows.
    pub windows: u64,
    /// Runs that were not noted, and that the server had nevertheless.
    pub runs_found: u64,
    /// Runs that are not over, and wait.
    pub waiting: u64,
    /// Files that cannot be read, and runs that do not say where they were recorded.
    pub refused: u64,
}

impl Pushed {
    /// Adds what came of another one.
    pub fn add(&mut self, other: Pushed) {
        self.hours += other.hours;
        self.found += other.found;
        self.rows += other.rows;
        self.samples += other.samples;
        self.runs += other.runs;
        self.windows += other.windows;
        self.runs_found += other.runs_found;
        self.waiting += other.waiting;
        self.refused += other.refused;
    }
}

/// Things that the server has for certain.
struct Remembered<T>(HashSet<T>);

impl<T: Eq + Hash> Remembered<T> {
    fn new() -> Self {
        Self(HashSet::new())
    }

    fn has(&self, of: &T) -> bool {
        self.0.contains(of)
    }

    fn add(&mut self, of: impl IntoIterator<Item = T>) {
        self.0.extend(of);
        if self.0.len() > REMEMBERED {
            self.0.clear();
        }
    }
}

/// Sends one database to one fleet.
pub struct Sender {
    store: Rc<Store>,
    db: Database,
    sent: Rc<Sent>,
    evidence: Evidence,
    names: Names,
    // Not by their keys in the database, which it gives to others when they are free.
    images: Remembered<(String, String, ImageKind)>,
    /// Path, build and offset, as a stack of two frames: what was found in one copy of a file may not be all that is in another.
    positions: Remembered<StackHash>,
    stacks: Remembered<StackHash>,
    epochs: BTreeSet<String>,
}

impl Sender {
    /// Of a database, which no other sender may have.
    pub fn new(store: Rc<Store>, folder: &Path) -> Result<Sender, Error> {
        let db = Database::open(folder)?;
        Ok(Sender {
            store,
            sent: Rc::new(Sent::open(folder)?),
            names: Names::new(db.images()?),
            db,
            evidence: Evidence::default(),
            images: Remembered::new(),
            positions: Remembered::new(),
            stacks: Remembered::new(),
            epochs: BTreeSet::new(),
        })
    }

    /// The note of what was sent.
    pub fn note(&self) -> &Rc<Sent> {
        &self.sent
    }

    /// Sends all hours that are over and not noted; `after` is called after each. What was sent before an error stays sent.
    pub fn once(&mut self, after: &mut dyn FnMut(Pushed)) -> Result<Pushed, Error> {
        let local = Local::read(&self.db)?;
        self.names = Names::new(local.images.clone());
        let mut all = Pushed::default();
        for epoch in &local.epochs {
            let noted = self.sent.hours(&self.store.fleet, &epoch.uid)?;
            for hour in epoch.hours.difference(&noted) {
                let pushed = self.hour(&local, epoch, *hour).inspect_err(|_| self.evidence.forget())?;
                all.add(pushed);
                after(pushed);
            }
        }
        Ok(all)
    }

    fn hour(&mut self, local: &Local, epoch: &LocalEpoch, hour: Hour) -> Result<Pushed, Error> {
        let mut pushed = Pushed::default();
        let mut events: Vec<(EventId, Taken)> = Vec::new();
        for event in local.events.keys() {
            let taken = local.taken(&self.db, epoch, *event, hour.span())?;
            if !taken.rows.is_empty() {
                events.push((*event, taken));
            }
        }
        let samples = events.iter().flat_map(|(_, taken)| &taken.rows).map(|row| row.count).sum();
        self.epoch(epoch)?;
        // Asked even if there is nothing to send: samples that are there and gone here are no reason to send books without them.
        let mut found = self.evidence.has(&self.store, SAMPLES, epoch, hour)?;
        if !found && !events.is_empty() {
            let hashes: Vec<Vec<StackHash>> =
                events.iter().map(|(_, taken)| self.code(local, taken)).collect::<Result<_, _>>()?;
            let rows = sample_rows(local, epoch, &events, &hashes);
            self.store.server.insert(SAMPLES, &request_name(&epoch.uid, hour, SAMPLES), &rows)?;
            (pushed.rows, pushed.samples) = (rows.len(), samples);
        }
        if !events.is_empty() && !self.evidence.has(&self.store, HOURS, epoch, hour)? {
            let rows = hour_rows(local, epoch, hour, &events);
            self.store.server.insert(HOURS, &request_name(&epoch.uid, hour, HOURS), &rows)?;
        }
        let books = book_rows(local, epoch, hour);
        if books.len() > 0 {
            let has = self.evidence.has(&self.store, BOOKS, epoch, hour)?;
            found |= has;
            if !has {
                self.store.server.insert(BOOKS, &request_name(&epoch.uid, hour, BOOKS), &books)?;
            }
        }
        self.sent.note(&self.store.fleet, &epoch.uid, hour, samples)?;
        (pushed.hours, pushed.found) = (u64::from(!found), u64::from(found));
        Ok(pushed)
    }

    /// Sends what an epoch is, once.
    fn epoch(&mut self, of: &LocalEpoch) -> Result<(), Error> {
        if self.epochs.contains(&of.uid) {
            return Ok(());
        }
        let (machine, setting) = (&of.machine, &of.epoch.setting);
        // Texts by text: nothing of that has no JSON.
        let labels = serde_json::to_string(&setting.labels).unwrap_or_default();
        let mut rows = RowBinary::new();
        rows.row()
            .text(&of.uid)
            .text(&machine.key)
            .text(&machine.host)
            .text(&machine.kernel)
            .u32(machine.cpus);
        rows.text(&setting.scope).text(&setting.mode).text(&setting.sampler).f64(setting.rate_hz);
        rows.u64(setting.resolution.get()).text(&setting.version).text(&labels);
        rows.time(of.epoch.started).time(UnixSeconds(jiff::Timestamp::now().as_second()));
        self.store.server.insert(EPOCHS, &format!("whatif-{}-{EPOCHS}", of.uid), &rows)?;
        self.epochs.insert(of.uid.clone());
        Ok(())
    }

    /// Sends what frames are: their stacks, images and names, as far as the server has not got them from this sender. Returns the hash of each frame.
    fn code(&mut self, local: &Local, taken: &Taken) -> Result<Vec<StackHash>, Error> {
        let tree = &taken.tree;
        let of = |image: &CodeImage| (build_of(image).to_owned(), image.path.clone(), image.kind);
        let new: Vec<_> = local.images.values().map(of).filter(|image| !self.images.has(image)).collect();
        let mut rows = RowBinary::new();
        for (build, path, kind) in &new {
            rows.row().text(build).text(path).text(kind.name());
        }
        self.insert(IMAGES, &rows)?;
        self.images.add(new);
        let of = |position: &Position| {
            let (build, offset) = local.place(*position);
            let path = local.images.get(&position.0).map_or("", |image| &*image.path);
            called_from(&called_from(&NONE, path, 0), build, offset)
        };
        let new: Vec<Position> =
            tree.positions.iter().copied().filter(|position| !self.positions.has(&of(position))).collect();
        let found: Vec<StackHash> = new.iter().map(of).collect();
        let mut rows = RowBinary::new();
        for of in named(&mut self.names, &self.db, local, new)? {
            // Texts and numbers: nothing of that has no JSON.
            let names = serde_json::to_string(&of.names).unwrap_or_default();
            rows.row().text(&of.build).u64(of.offset).text(&names);
        }
        self.insert(SYMBOLS, &rows)?;
        self.positions.add(found);
        let hashes = local.hashes(tree);
        let new: Vec<usize> = (0..tree.len())
            .filter(|frame| tree.counts[*frame] > 0 && !self.stacks.has(&hashes[*frame]))
            .collect();
        let mut rows = RowBinary::new();
        for frame in &new {
            let frames = local.stack(tree, *frame);
            rows.row().hash(hashes[*frame]);
            rows.texts(frames.iter().map(|(build, _)| *build)).u64s(frames.iter().map(|(_, offset)| *offset));
        }
        self.insert(STACKS, &rows)?;
        self.stacks.add(new.into_iter().map(|frame| hashes[frame]));
        Ok(hashes)
    }

    /// Into a table of which rows may be sent again.
    fn insert(&self, table: &str, rows: &RowBinary) -> Result<(), Error> {
        self.store.server.insert(table, &format!("whatif-{table}-{}", archive::new_uid()), rows)
    }
}

fn sample_rows(
    local: &Local,
    epoch: &LocalEpoch,
    events: &[(EventId, Taken)],
    hashes: &[Vec<StackHash>],
) -> RowBinary {
    let (machine, mut rows) = (&epoch.machine, RowBinary::new());
    for ((event, taken), hashes) in events.iter().zip(hashes) {
        let event = local.events.get(event).map_or("", String::as_str);
        for row in &taken.rows {
            let (ran, frame) = (&taken.ran[row.ran as usize], row.frame as usize);
            let (build, offset) = local.place(taken.tree.position(frame));
            rows.row().time(row.time).text(&machine.key).text(&machine.host).text(&epoch.uid);
            rows.text(&ran.service).text(&ran.version).text(&ran.process).text(&ran.labels).text(event);
            rows.text(build).u64(offset).hash(hashes[frame]).u64(row.count);
        }
    }
    rows
}

/// The same samples without stacks, each sum of an hour once.
fn hour_rows(local: &Local, epoch: &LocalEpoch, hour: Hour, events: &[(EventId, Taken)]) -> RowBinary {
    let (machine, mut rows) = (&epoch.machine, RowBinary::new());
    for (event, taken) in events {
        let event = local.events.get(event).map_or("", String::as_str);
        let mut sums: BTreeMap<(u32, (&str, u64)), u64> = BTreeMap::new();
        for row in &taken.rows {
            let place = local.place(taken.tree.position(row.frame as usize));
            *sums.entry((row.ran, place)).or_default() += row.count;
        }
        for ((ran, (build, offset)), count) in sums {
            let ran = &taken.ran[ran as usize];
            rows.row().time(hour.start()).text(&machine.key).text(&machine.host).text(&epoch.uid);
            rows.text(&ran.service).text(&ran.version).text(&ran.process).text(&ran.labels).text(event);
            rows.text(build).u64(offset).u64(count);
        }
    }
    rows
}

fn book_rows(local: &Local, epoch: &LocalEpoch, hour: Hour) -> RowBinary {
    let (machine, mut rows) = (&epoch.machine, RowBinary::new());
    for (event, books) in &epoch.books {
        if Hour::of(books.start) != hour {
            continue;
        }
        let (event, books) = (local.events.get(event).map_or("", String::as_str), with_squares(*books));
        rows.row().time(books.start).text(&machine.key).text(&machine.host).text(&epoch.uid).text(event);
        rows.u64(books.length.get()).u64(books.expected).u64(books.stored).u64(books.unknown).u64(books.lost);
        rows.u64(books.idle).u64(books.covered.get()).u64(books.own_cpu.get()).u64(books.kernel_cpu.get());
        rows.u64(books.squares);
    }
    rows
}
