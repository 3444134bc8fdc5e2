//! Catalogue: the rows about segments and what they refer to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::draft::Written;
use super::model::whole_seconds;
use super::{
    Books, CodeImage, CollectorEpoch, EpochId, EventId, ImageKind, Label, MachineId, MachineInfo, Setting,
    UnixSeconds,
};
use storage::Nanos;
use storage::{integer, ns, schema};

/// Name of the file in the folder.
pub(super) const FILE: &str = "catalogue.db";

/// Whether it cannot be a database. SQLite would take it for an empty one.
pub(super) fn is_too_short(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| (1..512).contains(&meta.len()))
}

/// The folder of the segments.
pub(super) fn segments_folder(folder: &Path) -> PathBuf {
    folder.join("segments")
}

impl ImageKind {
    /// All of them.
    pub const ALL: [ImageKind; 6] = [
        ImageKind::File,
        ImageKind::Kernel,
        ImageKind::Generated,
        ImageKind::Memory,
        ImageKind::Idle,
        ImageKind::Unknown,
    ];

    /// Its name in the catalogue.
    pub const fn name(self) -> &'static str {
        match self {
            ImageKind::File => "file",
            ImageKind::Kernel => "kernel",
            ImageKind::Generated => "generated",
            ImageKind::Memory => "memory",
            ImageKind::Idle => "idle",
            ImageKind::Unknown => "unknown",
        }
    }

    /// The kind of this name; of a newer one, unknown.
    #[must_use]
    pub fn from_name(name: &str) -> ImageKind {
        ImageKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(ImageKind::Unknown)
    }
}

/// A segment, as the catalogue knows it.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) id: i64,
    pub(super) epoch: EpochId,
    pub(super) machine: MachineId,
    /// The flushes that it holds.
    pub(super) first_flush: i64,
    pub(super) last_flush: i64,
    /// Begin of its first time bucket, and of its last.
    pub(super) begin: UnixSeconds,
    pub(super) last: UnixSeconds,
    pub(super) resolution: Nanos,
    pub(super) level: i64,
    pub(super) samples: u64,
    pub(super) stacks_file: String,
    pub(super) samples_file: String,
    pub(super) bytes: u64,
    /// Keys in JSON.
    pub(super) images: String,
    pub(super) labels: String,
}

impl Segment {
    /// The end of its last time bucket.
    pub(super) fn end(&self) -> UnixSeconds {
        UnixSeconds(self.last.0.saturating_add(whole_seconds(self.resolution)))
    }

    pub(super) fn files(&self) -> [&str; 2] {
        [&self.stacks_file, &self.samples_file]
    }
}

/// All segments, by epoch and in the order in which they were flushed.
pub(super) fn segments(from: &Connection) -> rusqlite::Result<Vec<Segment>> {
    from.prepare_cached(
        "SELECT s.*, e.machine FROM segments s JOIN epochs e ON e.id = s.epoch
         ORDER BY s.epoch, s.first_flush, s.id",
    )?
    .query_map([], |row| {
        Ok(Segment {
            id: row.get("id")?,
            epoch: EpochId::new(row.get("epoch")?),
            machine: MachineId::new(row.get("machine")?),
            first_flush: row.get("first_flush")?,
            last_flush: row.get("last_flush")?,
            begin: UnixSeconds(row.get("begin_unix_s")?),
            last: UnixSeconds(row.get("last_unix_s")?),
            resolution: Nanos::new(count(row, "resolution_ns")?),
            level: row.get("level")?,
            samples: count(row, "samples")?,
            stacks_file: file_name(row, "stacks_file")?,
            samples_file: file_name(row, "samples_file")?,
            bytes: count(row, "stacks_bytes")?.saturating_add(count(row, "samples_bytes")?),
            images: row.get("images")?,
            labels: row.get("labels")?,
        })
    })?
    .collect()
}

/// What a new row of `segments` contains besides what was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowFacts {
    pub(super) epoch: EpochId,
    pub(super) flushes: Flushes,
    pub(super) resolution: Nanos,
    pub(super) level: i64,
}

pub(super) fn insert_segment(to: &Connection, facts: RowFacts, written: &Written) -> rusqlite::Result<()> {
    to.prepare_cached(
        "INSERT INTO segments (epoch, first_flush, last_flush, begin_unix_s, last_unix_s, resolution_ns, level,
             nodes, samples, stacks_file, samples_file, stacks_bytes, samples_bytes, images, labels)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        facts.epoch.get(),
        facts.flushes.0,
        facts.flushes.1,
        written.begin.0,
        written.last.0,
        ns(facts.resolution),
        facts.level,
        integer(written.nodes),
        integer(written.samples),
        written.stacks_file,
        written.samples_file,
        integer(written.stacks_bytes),
        integer(written.samples_bytes),
        list(&written.images),
        list(&written.labels),
    ])
    .map(drop)
}

pub(super) fn delete_segment(to: &Connection, id: i64) -> rusqlite::Result<()> {
    to.prepare_cached("DELETE FROM segments WHERE id = ?")?.execute([id]).map(drop)
}

/// Keys as a list in JSON.
fn list(keys: &BTreeSet<i32>) -> String {
    let keys: Vec<String> = keys.iter().map(i32::to_string).collect();
    format!("[{}]", keys.join(","))
}

/// A list of keys in JSON.
pub(super) fn keys(list: &str) -> BTreeSet<i64> {
    list.split(['[', ',', ']']).filter_map(|key| key.trim().parse().ok()).collect()
}

/// All epochs, oldest first.
pub(super) fn epochs(from: &Connection) -> rusqlite::Result<Vec<CollectorEpoch>> {
    let mut names = from.prepare_cached("SELECT name FROM epoch_events WHERE epoch = ? ORDER BY position")?;
    let mut labels = epoch_labels(from)?;
    from.prepare_cached("SELECT * FROM epochs ORDER BY started_unix_s, id")?
        .query_map([], |row| {
            let id: i64 = row.get("id")?;
            Ok(CollectorEpoch {
                id: EpochId::new(id),
                machine: MachineId::new(row.get("machine")?),
                name: row.get("name")?,
                setting: Setting {
                    scope: row.get("scope")?,
                    mode: row.get("mode")?,
                    events: names.query_map([id], |row| row.get(0))?.collect::<Result<_, _>>()?,
                    sampler: row.get("sampler")?,
                    rate_hz: row.get("rate_hz")?,
                    resolution: Nanos::new(count(row, "resolution_ns")?),
                    version: row.get("version")?,
                    labels: labels.remove(&id).unwrap_or_default(),
                },
                started: UnixSeconds(row.get("started_unix_s")?),
                ended: row.get::<_, Option<i64>>("ended_unix_s")?.map(UnixSeconds),
            })
        })?
        .collect()
}

/// What epochs are called by their users; nothing in a file of an older layout.
fn epoch_labels(from: &Connection) -> rusqlite::Result<HashMap<i64, BTreeMap<String, String>>> {
    let mut labels: HashMap<i64, BTreeMap<String, String>> = HashMap::new();
    if schema::columns(from, "epoch_labels")?.is_empty() {
        return Ok(labels);
    }
    let mut all = from.prepare_cached("SELECT epoch, name, value FROM epoch_labels")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        labels.entry(row.get(0)?).or_default().insert(row.get(1)?, row.get(2)?);
    }
    Ok(labels)
}

/// Adds an epoch; `uid` tells it from all others anywhere.
pub(super) fn insert_epoch(
    to: &Connection,
    uid: &str,
    machine: MachineId,
    epoch: (&Setting, Option<&str>, UnixSeconds, Option<UnixSeconds>),
) -> rusqlite::Result<EpochId> {
    let (setting, name, started, ended) = epoch;
    to.prepare_cached(
        "INSERT INTO epochs (uid, machine, name, scope, mode, sampler, rate_hz, resolution_ns, version,
             started_unix_s, ended_unix_s)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        uid,
        machine.get(),
        name,
        setting.scope,
        setting.mode,
        setting.sampler,
        // What is no number would be stored as nothing.
        if setting.rate_hz.is_finite() { setting.rate_hz } else { 0.0 },
        ns(setting.resolution),
        setting.version,
        started.0,
        ended.map(|ended| ended.0),
    ])?;
    let id = to.last_insert_rowid();
    let mut insert = to.prepare_cached("INSERT INTO epoch_events VALUES (?, ?, ?)")?;
    for (position, name) in (0_i64..).zip(&setting.events) {
        insert.execute(params![id, position, name])?;
    }
    let mut insert = to.prepare_cached("INSERT INTO epoch_labels VALUES (?, ?, ?)")?;
    for (name, value) in &setting.labels {
        insert.execute(params![id, name, value])?;
    }
    Ok(EpochId::new(id))
}

/// The key of a machine, which is added if it is new; what else is known of it replaces what was.
pub(super) fn intern_machine(to: &Connection, machine: &MachineInfo) -> rusqlite::Result<MachineId> {
    to.prepare_cached(
        "INSERT INTO machines (key, host, kernel, cpus) VALUES (?, ?, ?, ?)
         ON CONFLICT (key) DO UPDATE SET host = excluded.host, kernel = excluded.kernel, cpus = excluded.cpus",
    )?
    .execute(params![machine.key, machine.host, machine.kernel, machine.cpus])?;
    to.prepare_cached("SELECT id FROM machines WHERE key = ?")?
        .query_row([&machine.key], |row| row.get(0).map(MachineId::new))
}

pub(super) fn machine(row: &Row<'_>) -> rusqlite::Result<(MachineId, MachineInfo)> {
    let info = MachineInfo {
        key: row.get("key")?,
        host: row.get("host")?,
        kernel: row.get("kernel")?,
        cpus: row.get("cpus")?,
    };
    Ok((MachineId::new(row.get("id")?), info))
}

pub(super) fn image(row: &Row<'_>) -> rusqlite::Result<CodeImage> {
    let kind: String = row.get("kind")?;
    let kind = ImageKind::from_name(&kind);
    Ok(CodeImage { path: row.get("path")?, build_id: row.get("build_id")?, kind })
}

pub(super) fn label(row: &Row<'_>) -> rusqlite::Result<Label> {
    let (process, cgroup) = (row.get("process")?, row.get("cgroup")?);
    let thread = match row.get("thread") {
        // A file of an older layout.
        Err(rusqlite::Error::InvalidColumnName(_)) => {
            return Ok(Label { process, cgroup, ..Label::default() });
        }
        thread => thread?,
    };
    let user_labels: String = row.get("user_labels")?;
    Ok(Label {
        process,
        cgroup,
        thread,
        pid: u32::try_from(count(row, "pid")?).unwrap_or(0),
        command: row.get("command")?,
        user_labels: serde_json::from_str(&user_labels).unwrap_or_default(),
    })
}

/// Adds a label with this key.
pub(super) fn insert_label(to: &Connection, key: i64, label: &Label) -> rusqlite::Result<()> {
    let Label { process, cgroup, thread, pid, command, .. } = label;
    to.prepare_cached(
        "INSERT INTO labels (id, process, cgroup, thread, pid, command, user_labels) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![key, process, cgroup, thread, pid, command, user_labels(label)])
    .map(drop)
}

/// The key of a label, if it is there.
pub(super) fn label_key(from: &Connection, label: &Label) -> rusqlite::Result<Option<i64>> {
    let Label { process, cgroup, thread, pid, command, .. } = label;
    from.prepare_cached(
        "SELECT id FROM labels WHERE process = ? AND cgroup = ? AND thread = ? AND pid = ? AND command = ?
             AND user_labels = ?",
    )?
    .query_row(params![process, cgroup, thread, pid, command, user_labels(label)], |row| row.get(0))
    .optional()
}

/// A user's labels as text; nothing if there are none.
fn user_labels(label: &Label) -> String {
    if label.user_labels.is_empty() {
        return String::new();
    }
    serde_json::to_string(&label.user_labels).unwrap_or_default()
}

/// The first and the last of some flushes of an epoch.
pub(super) type Flushes = (i64, i64);

/// The books that begin in a span of time, with the flushes they are of; of one event, if one is given.
pub(super) fn books(
    from: &Connection,
    event: Option<EventId>,
    time: Range<UnixSeconds>,
) -> rusqlite::Result<Vec<(EpochId, Flushes, Books)>> {
    from.prepare_cached(
        "SELECT * FROM books WHERE (?1 IS NULL OR event = ?1) AND start_unix_s >= ?2 AND start_unix_s < ?3
         ORDER BY epoch, first_flush, start_unix_s, event",
    )?
    .query_map(params![event.map(EventId::get), time.start.0, time.end.0], |row| {
        let flushes = (row.get("first_flush")?, row.get("last_flush")?);
        let books = Books {
            event: EventId::new(row.get("event")?),
            start: UnixSeconds(row.get("start_unix_s")?),
            length: Nanos::new(count(row, "length_ns")?),
            expected: count(row, "expected")?,
            stored: count(row, "stored")?,
            unknown: count(row, "unknown")?,
            lost: count(row, "lost")?,
            idle: count(row, "idle")?,
            covered: Nanos::new(count(row, "covered_ns")?),
            own_cpu: Nanos::new(count(row, "own_cpu_ns")?),
            kernel_cpu: Nanos::new(count(row, "kernel_cpu_ns")?),
            resident: count(row, "resident")?,
            squares: match count(row, "squares") {
                // A file of an older layout.
                Err(rusqlite::Error::InvalidColumnName(_)) => 0,
                squares => squares?,
            },
        };
        Ok((EpochId::new(row.get("epoch")?), flushes, books))
    })?
    .collect()
}

/// Adds a row, or to the row that there is of the same event and begin.
pub(super) fn insert_books(
    to: &Connection,
    epoch: EpochId,
    flushes: Flushes,
    books: &Books,
) -> rusqlite::Result<()> {
    to.prepare_cached(
        "INSERT INTO books (epoch, first_flush, event, last_flush, start_unix_s, length_ns, expected, stored,
             unknown, lost, idle, covered_ns, own_cpu_ns, kernel_cpu_ns, resident, squares)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET length_ns = length_ns + excluded.length_ns,
             expected = expected + excluded.expected, stored = stored + excluded.stored,
             unknown = unknown + excluded.unknown, lost = lost + excluded.lost, idle = idle + excluded.idle,
             covered_ns = covered_ns + excluded.covered_ns, own_cpu_ns = own_cpu_ns + excluded.own_cpu_ns,
             kernel_cpu_ns = kernel_cpu_ns + excluded.kernel_cpu_ns, resident = max(resident, excluded.resident),
             squares = squares + excluded.squares",
    )?
    .execute(params![
        epoch.get(),
        flushes.0,
        books.event.get(),
        flushes.1,
        books.start.0,
        ns(books.length),
        integer(books.expected),
        integer(books.stored),
        integer(books.unknown),
        integer(books.lost),
        integer(books.idle),
        ns(books.covered),
        ns(books.own_cpu),
        ns(books.kernel_cpu),
        integer(books.resident),
        integer(books.squares),
    ])
    .map(drop)
}

/// Makes one row for each hour and event of those that an epoch has up to a flush.
pub(super) fn thin_books(to: &Connection, epoch: EpochId, last_flush: i64) -> rusqlite::Result<()> {
    let key = params![epoch.get(), last_flush];
    to.prepare_cached("CREATE TEMP TABLE IF NOT EXISTS thinned AS SELECT * FROM main.books WHERE 0")?
        .execute([])?;
    to.prepare_cached("DELETE FROM temp.thinned")?.execute([])?;
    to.prepare_cached(
        "INSERT INTO temp.thinned
         SELECT epoch, min(first_flush), event, max(last_flush), start_unix_s / 3600 * 3600, sum(length_ns),
                sum(expected), sum(stored), sum(unknown), sum(lost), sum(idle), sum(covered_ns), sum(own_cpu_ns),
                sum(kernel_cpu_ns), max(resident), sum(squares)
         FROM main.books WHERE epoch = ? AND last_flush <= ? GROUP BY event, start_unix_s / 3600",
    )?
    .execute(key)?;
    to.prepare_cached("DELETE FROM main.books WHERE epoch = ? AND last_flush <= ?")?.execute(key)?;
    to.prepare_cached("INSERT INTO main.books SELECT * FROM temp.thinned")?.execute([]).map(drop)
}

/// A number that cannot be negative.
pub(super) fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, number))
}

/// The name of a file in the folder, and of none elsewhere, whatever the catalogue says.
fn file_name(row: &Row<'_>, column: &str) -> rusqlite::Result<String> {
    let name: String = row.get(column)?;
    if name.contains('/') || !super::draft::is_ours(&name) {
        // Enough to recognize it by.
        let name: String = name.chars().take(40).collect();
        let unknown = format!("{column} cannot be `{}`", storage::printable(&name));
        return Err(rusqlite::Error::FromSqlConversionFailure(
            0,
            rusqlite::types::Type::Text,
            unknown.into(),
        ));
    }
    Ok(name)
}
