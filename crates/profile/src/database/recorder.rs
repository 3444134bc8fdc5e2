//! Recorder: the writer.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::stack;
use crate::model::audit;
use crate::model::{
    Arrivals, Exit, Image, OverheadPair, Point, PointId, Production, Program, Region, RegionId,
    RegionSamples, Rows, SampleTotals, SessionEnd, SessionId, SessionStart, Snippet, Span, Stacks, Thread,
    Warning, Window,
};
use storage::schema;
use storage::{BESIDE, Error, beside, integer, ns};

/// How long to wait for another writer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for readers when the log is folded into the file.
const PATIENCE_AT_END: Duration = Duration::from_millis(200);

/// Writes sessions into a recording.
///
/// Every method is one transaction: when it returns, what it wrote survives the end of this process,
/// however it ends.
#[derive(Debug)]
pub struct Recorder {
    connection: Connection,
    path: PathBuf,
    regions: HashMap<Region, RegionId>,
    points: HashMap<Point, PointId>,
}

/// Removes a file that SQLite has made, and what it has made beside it.
fn remove(path: &Path) {
    for end in [""].into_iter().chain(BESIDE) {
        // Of what cannot be removed nothing more can be said than the error that is being reported.
        let _ = std::fs::remove_file(beside(path, end));
    }
}

impl Recorder {
    /// Makes a new recording at `path`, or opens the one that is there to add sessions to it. Any
    /// other file is left alone.
    ///
    /// # Errors
    ///
    /// [`Error::NotARecording`], [`Error::Newer`], [`Error::Damaged`], [`Error::Locked`],
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<Recorder, Error> {
        let is_new = !path.exists();
        let connection = Connection::open(path).map_err(|e| Error::of(path, e))?;
        let sql = |e| Error::of(path, e);
        if let Err(error) = schema::prepare(&connection, path) {
            // On a disk that is full: what was begun there is no recording.
            let is_begun =
                || schema::inspect(&connection, path).is_ok_and(|found| found == schema::Found::Empty);
            if is_new && matches!(error, Error::Io { .. }) && is_begun() {
                drop(connection);
                remove(path);
            }
            return Err(error);
        }
        connection.busy_timeout(PATIENCE).map_err(sql)?;
        connection.pragma_update(None, "synchronous", "normal").map_err(sql)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(sql)?;
        Ok(Recorder { connection, path: path.to_owned(), regions: HashMap::new(), points: HashMap::new() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a session.
    ///
    /// # Errors
    ///
    /// As every method that writes: [`Error::Locked`], [`Error::Io`], [`Error::Damaged`].
    pub fn begin_session(&mut self, start: &SessionStart) -> Result<SessionId, Error> {
        self.write(|to| {
            to.prepare_cached(
                "INSERT INTO sessions (started_unix_ns, program, directory, host, kernel, cpus,
                     seed, options, version, sampler, sample_period_ns, kernel_time, repeat,
                     fixed_regions, fixed_speedups)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                ns(start.started),
                start.program,
                start.directory,
                start.host,
                start.kernel,
                start.cpus,
                start.seed.to_string(),
                start.options,
                start.version,
                start.sampler,
                ns(start.sample_period),
                start.kernel_time,
                start.repeat,
                start.fixed_regions,
                start.fixed_speedups,
            ])?;
            let session = to.last_insert_rowid();
            let mut insert = to.prepare_cached("INSERT INTO arguments VALUES (?, ?, ?)")?;
            for (position, argument) in (0_i64..).zip(&start.arguments) {
                insert.execute(params![session, position, argument])?;
            }
            Ok(SessionId::new(session))
        })
    }

    /// Adds an image in which `session` finds regions.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn add_image(&mut self, session: SessionId, image: &Image) -> Result<(), Error> {
        self.write(|to| {
            to.prepare_cached("INSERT OR IGNORE INTO images VALUES (?, ?, ?)")?.execute(params![
                session.get(),
                image.path,
                image.build_id.as_deref().unwrap_or(""),
            ])
        })
        .map(drop)
    }

    /// The key of `region`, which is added if it is new. Cheap when asked again.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn intern_region(&mut self, region: &Region) -> Result<RegionId, Error> {
        if let Some(&id) = self.regions.get(region) {
            return Ok(id);
        }
        let file = region.file.as_deref().unwrap_or("");
        let kind = region.kind.name();
        let id = self.write(|to| {
            let known = to
                .prepare_cached(
                    "SELECT id FROM regions WHERE kind = ? AND inclusive = ? AND name = ?
                     AND file = ? AND image_key = ?",
                )?
                .query_row(params![kind, region.inclusive, region.name, file, region.image_key()], |row| {
                    row.get(0)
                })
                .optional()?;
            if let Some(id) = known {
                return Ok(id);
            }
            to.prepare_cached(
                "INSERT INTO regions (kind, inclusive, name, file, line, function, image_path,
                     build_id, image_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                kind,
                region.inclusive,
                region.name,
                file,
                region.line,
                region.function,
                region.image.path,
                region.image.build_id,
                region.image_key(),
            ])?;
            Ok(to.last_insert_rowid())
        })?;
        let id = RegionId::new(id);
        self.regions.insert(region.clone(), id);
        Ok(id)
    }

    /// The key of `point`, which is added if it is new. Cheap when asked again.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn intern_point(&mut self, point: &Point) -> Result<PointId, Error> {
        if let Some(&id) = self.points.get(point) {
            return Ok(id);
        }
        let key = (&point.name, point.kind.name());
        let id = self.write(|to| {
            to.prepare_cached("INSERT OR IGNORE INTO points (name, kind) VALUES (?, ?)")?.execute(key)?;
            to.prepare_cached("SELECT id FROM points WHERE name = ? AND kind = ?")?
                .query_row(key, |row| row.get(0))
        })?;
        let id = PointId::new(id);
        self.points.insert(point.clone(), id);
        Ok(id)
    }

    /// Adds the windows of one experiment: all of them or, if this process dies, none.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn add_block(&mut self, windows: &[Window]) -> Result<(), Error> {
        self.write(|to| windows.iter().try_for_each(|window| insert_window(to, window)))
    }

    /// Adds a single window.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn add_window(&mut self, window: &Window) -> Result<(), Error> {
        self.add_block(std::slice::from_ref(window))
    }

    /// Replaces the sample totals of `session`, and those of the given regions. Totals are
    /// cumulative, so a late call repairs a lost one.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn set_samples(
        &mut self,
        session: SessionId,
        totals: &SampleTotals,
        regions: &[RegionSamples],
    ) -> Result<(), Error> {
        self.write(|to| {
            to.prepare_cached(
                "UPDATE sessions SET sampled_until_ns = ?, delayed_ns = ?, samples = ?, sample_weight_ns = ?,
                     lost_samples = ?, timed_samples = ? WHERE id = ?",
            )?
            .execute(params![
                ns(totals.until),
                ns(totals.delayed),
                integer(totals.count),
                ns(totals.weight),
                integer(totals.lost),
                integer(totals.timed),
                session.get(),
            ])?;
            let mut replace = to.prepare_cached("INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?)")?;
            for samples in regions {
                replace.execute(params![
                    samples.session.get(),
                    samples.region.get(),
                    integer(samples.count),
                    ns(samples.weight),
                ])?;
            }
            Ok(())
        })
    }

    /// Replaces the samples of these stacks in `session`. Frames that the recording does not have are added.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn set_stacks(&mut self, session: SessionId, stacks: &Stacks) -> Result<(), Error> {
        if stacks.samples.is_empty() {
            return Ok(());
        }
        self.write(|to| stack::set(to, session, stacks))
    }

    /// Replaces what is known of the arrivals of `session`.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn set_arrivals(&mut self, session: SessionId, arrivals: &[Arrivals]) -> Result<(), Error> {
        if arrivals.is_empty() {
            return Ok(());
        }
        self.write(|to| {
            let mut replace =
                to.prepare_cached("INSERT OR REPLACE INTO arrivals VALUES (?, ?, ?, ?, ?, ?, ?)")?;
            for of_source in arrivals {
                replace.execute(params![
                    session.get(),
                    of_source.kind.name(),
                    of_source.port,
                    of_source.clock.name(),
                    of_source.slope.map(|slope| slope.0),
                    of_source.slope.map(|slope| slope.1),
                    integer(of_source.count),
                ])?;
            }
            Ok(())
        })
    }

    /// Replaces what is known of these programs of `session`. Numbers are cumulative, so a late call repairs a lost one.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn set_programs(&mut self, session: SessionId, programs: &[Program]) -> Result<(), Error> {
        if programs.is_empty() {
            return Ok(());
        }
        self.write(|to| {
            let mut replace =
                to.prepare_cached("INSERT OR REPLACE INTO programs VALUES (?, ?, ?, ?, ?, ?)")?;
            for program in programs {
                replace.execute(params![
                    session.get(),
                    program.path,
                    program.obstacle.as_deref().unwrap_or(""),
                    integer(program.processes),
                    integer(program.samples),
                    ns(program.cpu),
                ])?;
            }
            Ok(())
        })
    }

    /// Replaces what is known of these threads of `session`. Times are cumulative, so a late call repairs a lost one.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn set_threads(&mut self, session: SessionId, threads: &[Thread]) -> Result<(), Error> {
        if threads.is_empty() {
            return Ok(());
        }
        self.write(|to| {
            let mut replace =
                to.prepare_cached("INSERT OR REPLACE INTO threads VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
            for thread in threads {
                replace.execute(params![
                    session.get(),
                    thread.pid,
                    thread.tid,
                    thread.name,
                    thread.function,
                    ns(thread.watched),
                    ns(thread.running),
                    ns(thread.runnable),
                    ns(thread.for_threads),
                    ns(thread.external),
                ])?;
            }
            Ok(())
        })
    }

    /// Adds the pairs of `session` that are not there yet.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn set_overhead(&mut self, session: SessionId, pairs: &[OverheadPair]) -> Result<(), Error> {
        if pairs.is_empty() {
            return Ok(());
        }
        self.write(|to| {
            let mut insert = to.prepare_cached("INSERT OR IGNORE INTO overhead VALUES (?, ?, ?, ?, ?, ?)")?;
            for pair in pairs {
                insert.execute(params![
                    session.get(),
                    pair.number,
                    integer(pair.profiled_visits),
                    ns(pair.profiled),
                    integer(pair.seldom_visits),
                    ns(pair.seldom),
                ])?;
            }
            Ok(())
        })
    }

    /// Keeps what regions cost in production; replaces what was kept before.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn set_production(&mut self, rows: &[Production]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        self.write(|to| {
            let mut replace =
                to.prepare_cached("INSERT OR REPLACE INTO production VALUES (?, ?, ?, ?, ?, ?, ?)")?;
            for row in rows {
                replace.execute(params![
                    row.session.get(),
                    row.region.get(),
                    row.share,
                    integer(row.samples),
                    row.since.0,
                    row.until.0,
                    row.hosts,
                ])?;
            }
            Ok(())
        })
    }

    /// Keeps the source around `region`; replaces what was kept before.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn add_snippet(&mut self, region: RegionId, snippet: &Snippet) -> Result<(), Error> {
        self.write(|to| {
            to.prepare_cached("INSERT OR REPLACE INTO snippets VALUES (?, ?, ?)")?.execute(params![
                region.get(),
                snippet.first_line,
                snippet.text
            ])
        })
        .map(drop)
    }

    /// Keeps a warning; the same words twice in a session are kept once.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn add_warning(&mut self, session: SessionId, warning: &Warning) -> Result<(), Error> {
        self.write(|to| {
            to.prepare_cached(
                "INSERT OR IGNORE INTO warnings (session, code, message, advice)
                 VALUES (?, ?, ?, ?)",
            )?
            .execute(params![session.get(), warning.code, warning.message, warning.advice])
        })
        .map(drop)
    }

    /// Says how `session` ended.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session).
    pub fn finish_session(&mut self, session: SessionId, end: &SessionEnd) -> Result<(), Error> {
        let (exit, value) = match end.exit {
            Exit::Unknown => ("unknown", None),
            Exit::Code(code) => ("code", Some(code)),
            Exit::Signal(signal) => ("signal", Some(signal)),
        };
        self.write(|to| {
            to.prepare_cached(
                "UPDATE sessions SET duration_ns = ?, exit = ?, exit_value = ?, stopped = ? WHERE id = ?",
            )?
            .execute(params![ns(end.duration), exit, value, end.stopped, session.get()])
        })
        .map(drop)
    }

    /// Adds everything that another recording holds. Its sessions, regions and points get keys of this one.
    ///
    /// # Errors
    ///
    /// See [`begin_session`](Self::begin_session). What was added before an error stays.
    pub fn add(&mut self, rows: &Rows) -> Result<(), Error> {
        let mut regions: BTreeMap<RegionId, RegionId> = BTreeMap::new();
        for (id, region) in &rows.regions {
            let new = self.intern_region(region)?;
            regions.insert(*id, new);
            if let Some(snippet) = rows.snippets.get(id) {
                self.add_snippet(new, snippet)?;
            }
        }
        let mut points: BTreeMap<PointId, PointId> = BTreeMap::new();
        for (id, point) in &rows.points {
            points.insert(*id, self.intern_point(point)?);
        }
        for session in &rows.sessions {
            let new = self.begin_session(&session.start)?;
            for image in &session.images {
                self.add_image(new, image)?;
            }
            let mut windows: Vec<Window> =
                rows.windows.iter().filter(|window| window.session == session.id).cloned().collect();
            for window in &mut windows {
                (window.session, window.region) = (new, regions[&window.region]);
                window.visits.iter_mut().for_each(|visits| visits.point = points[&visits.point]);
                window.in_flight.iter_mut().for_each(|pair| pair.begin = points[&pair.begin]);
                window.latencies.iter_mut().for_each(|pair| pair.begin = points[&pair.begin]);
            }
            self.add_block(&windows)?;
            let samples: Vec<RegionSamples> = rows
                .samples
                .iter()
                .filter(|samples| samples.session == session.id)
                .map(|samples| RegionSamples { session: new, region: regions[&samples.region], ..*samples })
                .collect();
            self.set_samples(new, &session.samples, &samples)?;
            self.set_stacks(new, &stack::of(rows, session.id))?;
            self.set_arrivals(new, &session.arrivals)?;
            self.set_programs(new, &session.programs)?;
            self.set_threads(new, &session.threads)?;
            self.set_overhead(new, &session.overhead)?;
            let production: Vec<Production> = rows
                .production
                .iter()
                .filter(|row| row.session == session.id)
                .map(|row| Production { session: new, region: regions[&row.region], ..*row })
                .collect();
            self.set_production(&production)?;
            for (_, warning) in rows.warnings.iter().filter(|(of, _)| *of == session.id) {
                self.add_warning(new, warning)?;
            }
            if let Some(end) = &session.end {
                self.finish_session(new, end)?;
            }
        }
        Ok(())
    }

    /// Folds the log into the file, so that the recording is a single file again. While a process
    /// reads, the log stays next to it; that does no harm, and the next writer folds it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk is full.
    pub fn close(self) -> Result<(), Error> {
        let sql = |e| Error::of(&self.path, e);
        self.connection.busy_timeout(PATIENCE_AT_END).map_err(sql)?;
        // The prepared statements must be gone before the journal mode can change.
        self.connection.flush_prepared_statement_cache();
        match self.connection.pragma_update(None, "journal_mode", "delete").map_err(sql) {
            Ok(()) | Err(Error::Locked { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write<T>(&mut self, body: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        let run = || {
            // Immediate: a transaction that began as a reader cannot wait for another writer.
            let to = Transaction::new_unchecked(&self.connection, rusqlite::TransactionBehavior::Immediate)?;
            let result = body(&to)?;
            to.commit()?;
            Ok(result)
        };
        run().map_err(|e| Error::of(&self.path, e))
    }
}

fn insert_window(to: &Transaction<'_>, window: &Window) -> rusqlite::Result<()> {
    let books = &window.books;
    to.prepare_cached(
        "INSERT INTO windows (session, block, index_in_block, region, speedup_permille, epoch,
             start_ns, elapsed_ns, required_ns, region_samples, region_weight_ns, total_samples,
             total_weight_ns, owed_ns, paid_ns, credited_ns, overslept_ns, unpaid_ns, threads,
             busy, flags)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        window.session.get(),
        window.block,
        window.index,
        window.region.get(),
        window.speedup.per_mille(),
        integer(window.epoch.get()),
        ns(window.start),
        ns(window.elapsed),
        ns(window.required),
        integer(window.region_samples),
        ns(window.region_weight),
        integer(window.total_samples),
        ns(window.total_weight),
        ns(books.owed),
        ns(books.paid),
        ns(books.credited),
        ns(books.overslept),
        ns(books.unpaid),
        window.threads,
        window.busy,
        window.flags.names(),
    ])?;
    let row = to.last_insert_rowid();
    let mut insert = to.prepare_cached("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?)")?;
    for visits in &window.visits {
        let span = |field: fn(Span) -> i64| visits.span.map(field);
        insert.execute(params![
            row,
            visits.point.get(),
            integer(visits.count),
            span(|span| integer(span.visits)),
            span(|span| ns(span.elapsed)),
            span(|span| ns(span.required)),
        ])?;
    }
    let mut insert = to.prepare_cached("INSERT INTO in_flight VALUES (?, ?, ?)")?;
    for pair in &window.in_flight {
        insert.execute(params![row, pair.begin.get(), pair.integral.get()])?;
    }
    let mut insert = to.prepare_cached("INSERT INTO latencies VALUES (?, ?, ?)")?;
    for latencies in &window.latencies {
        insert.execute(params![row, latencies.begin.get(), latencies.text()])?;
    }
    if let Some(audit) = &window.audit {
        let values = std::iter::once(row).chain(audit.amounts().map(integer));
        let places = vec!["?"; 1 + audit::AMOUNTS].join(", ");
        let columns = audit::columns().join(", ");
        to.prepare_cached(&format!("INSERT INTO audits (\"window\", {columns}) VALUES ({places})"))?
            .execute(rusqlite::params_from_iter(values))?;
    }
    Ok(())
}
