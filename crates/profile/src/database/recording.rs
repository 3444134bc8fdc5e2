//! Recording: what a report reads.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, RowIndex};

use super::fault::Fault;
use super::{Recorder, references, stack};
use crate::model::audit;
use crate::model::{
    ArrivalClock, ArrivalKind, Arrivals, Audit, Books, Exit, Image, InFlight, Latencies, OverheadPair, Point,
    PointId, PointKind, Production, Program, Region, RegionId, RegionKind, RegionSamples, Rows, SampleTotals,
    Session, SessionEnd, SessionId, SessionStart, Snippet, Span, Thread, Visits, Warning, Window,
    WindowFlags,
};
use crate::units::UnixSeconds;
use crate::units::{Epoch, Nanos, Speedup, VisitNanos};
use storage::schema::{self, Found};
use storage::{Error, Opened, open_read_only};

/// A recording that is read: a finished one, one that is still being written, or what a killed run
/// left behind.
#[derive(Debug)]
pub struct Recording {
    connection: Connection,
    path: PathBuf,
    /// Where the file and its log were copied to, if they could not be read where they are.
    _copy: Option<tempfile::TempDir>,
}

impl Recording {
    /// Makes a new recording at `path`, or opens the one that is there to add sessions to it: the
    /// same as [`Recorder::create`].
    ///
    /// # Errors
    ///
    /// As [`Recorder::create`].
    pub fn create(path: &Path) -> Result<Recorder, Error> {
        Recorder::create(path)
    }

    /// Opens the recording at `path` for reading.
    ///
    /// The rows that a killed writer left in the log are seen. Reading a recording with a log needs
    /// leave to write next to it (SQLite keeps an index of the log there); where that is missing, file
    /// and log are copied to the temporary folder and read from there.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::NotARecording`], [`Error::Empty`], [`Error::Newer`],
    /// [`Error::Damaged`], [`Error::Locked`], [`Error::Io`].
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let meta = fs::metadata(path).map_err(|e| Error::io(path, &e))?;
        if !meta.is_file() {
            return Err(Error::NotARecording { path: path.to_owned() });
        }
        let Opened { connection, copy } = open_read_only(path)?;
        match schema::inspect(&connection, path)? {
            Found::Recording { .. } => Ok(Recording { connection, path: path.to_owned(), _copy: copy }),
            Found::Empty => Err(Error::Empty { path: path.to_owned() }),
        }
    }

    /// The images in which its sessions found regions.
    ///
    /// # Errors
    ///
    /// [`Error::DamagedRows`].
    pub fn images(&self) -> Result<Vec<Image>, Error> {
        sessions(&self.connection)
            .map(|sessions| sessions.into_iter().flat_map(|session| session.images).collect())
            .map_err(|fault| fault.of(&self.path))
    }

    /// Its sessions, oldest first, without anything else: cheap even where there are many windows.
    ///
    /// # Errors
    ///
    /// [`Error::DamagedRows`].
    pub fn sessions(&self) -> Result<Vec<Session>, Error> {
        sessions(&self.connection).map_err(|fault| fault.of(&self.path))
    }

    /// All rows, as they are at this moment.
    ///
    /// # Errors
    ///
    /// [`Error::DamagedRows`] where a row cannot be what it claims to be, or refers to one that is not there.
    pub fn rows(&self) -> Result<Rows, Error> {
        self.read().map_err(|fault| fault.of(&self.path))
    }

    fn read(&self) -> Result<Rows, Fault> {
        // One transaction, so that a writer cannot add windows between two of our queries.
        let from = &self.connection.unchecked_transaction().map_err(Fault::in_table("sessions"))?;
        let stacks = stack::read(from)?;
        let rows = Rows {
            sessions: sessions(from)?,
            regions: keyed(from, "regions", "SELECT * FROM regions", region)?,
            points: keyed(from, "points", "SELECT id, name, kind FROM points", |row| {
                let kind = parsed(row, "kind", PointKind::from_name)?;
                Ok((PointId::new(row.get("id")?), Point { name: row.get("name")?, kind }))
            })?,
            windows: windows(from)?,
            samples: table(from, "samples", "SELECT * FROM samples ORDER BY session, region", |row| {
                Ok(RegionSamples {
                    session: SessionId::new(row.get("session")?),
                    region: RegionId::new(row.get("region")?),
                    count: count(row, "count")?,
                    weight: span(row, "weight_ns")?,
                })
            })?,
            functions: stacks.functions,
            stacks: stacks.stacks,
            stack_samples: stacks.samples,
            production: production(from)?,
            snippets: keyed(from, "snippets", "SELECT * FROM snippets", |row| {
                let snippet = Snippet { first_line: row.get("first_line")?, text: row.get("text")? };
                Ok((RegionId::new(row.get("region")?), snippet))
            })?,
            warnings: table(from, "warnings", "SELECT * FROM warnings ORDER BY id", |row| {
                let (code, message, advice) = (row.get("code")?, row.get("message")?, row.get("advice")?);
                Ok((SessionId::new(row.get("session")?), Warning { code, message, advice }))
            })?,
        };
        references::check(&rows)?;
        Ok(rows)
    }
}

/// Earlier layouts have no such table.
fn production(from: &Connection) -> Result<Vec<Production>, Fault> {
    if !has_table(from, "production")? {
        return Ok(Vec::new());
    }
    table(from, "production", "SELECT * FROM production ORDER BY session, region", |row| {
        Ok(Production {
            session: SessionId::new(row.get("session")?),
            region: RegionId::new(row.get("region")?),
            share: finite(row, "share")?,
            samples: count(row, "samples")?,
            since: UnixSeconds(row.get("since_unix_s")?),
            until: UnixSeconds(row.get("until_unix_s")?),
            hosts: row.get("hosts")?,
        })
    })
}

pub(super) fn table<T, C: FromIterator<T>>(
    from: &Connection,
    name: &'static str,
    sql: &str,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<C, Fault> {
    let read = || from.prepare(sql)?.query_map([], row)?.collect::<rusqlite::Result<C>>();
    read().map_err(Fault::in_table(name))
}

/// A table whose rows have a key.
pub(super) fn keyed<K: Ord, T>(
    from: &Connection,
    name: &'static str,
    sql: &str,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<(K, T)>,
) -> Result<BTreeMap<K, T>, Fault> {
    let mut rows = BTreeMap::new();
    for (key, row) in table::<_, Vec<_>>(from, name, sql, row)? {
        if rows.insert(key, row).is_some() {
            return Err(Fault::twice(name, "key"));
        }
    }
    Ok(rows)
}

/// A table with some rows for each row of another, by the key of that.
struct Belonging<T> {
    table: &'static str,
    to: &'static str,
    rows: HashMap<i64, Vec<T>>,
}

impl<T> Belonging<T> {
    fn read(
        from: &Connection,
        (name, to): (&'static str, &'static str),
        sql: &str,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<(i64, T)>,
    ) -> Result<Self, Fault> {
        let mut rows: HashMap<i64, Vec<T>> = HashMap::new();
        let read = || -> rusqlite::Result<()> {
            let mut listed = from.prepare(sql)?;
            for one in listed.query_map([], row)? {
                let (key, row) = one?;
                rows.entry(key).or_default().push(row);
            }
            Ok(())
        };
        read().map_err(Fault::in_table(name))?;
        Ok(Self { table: name, to, rows })
    }

    /// Earlier layouts have no such table.
    fn read_if_there(
        from: &Connection,
        (name, to): (&'static str, &'static str),
        sql: &str,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<(i64, T)>,
    ) -> Result<Self, Fault> {
        if has_table(from, name)? {
            Self::read(from, (name, to), sql, row)
        } else {
            Ok(Self { table: name, to, rows: HashMap::new() })
        }
    }

    /// The rows of one, which is asked for once.
    fn take(&mut self, key: i64) -> Vec<T> {
        self.rows.remove(&key).unwrap_or_default()
    }

    /// Nothing is left: what was not asked for belongs to nothing.
    fn finish(self) -> Result<(), Fault> {
        match self.rows.keys().min() {
            Some(&key) => Err(Fault::points_nowhere(self.table, self.to, key)),
            None => Ok(()),
        }
    }
}

fn sessions(from: &Connection) -> Result<Vec<Session>, Fault> {
    let of = |table| (table, "sessions");
    let sql = "SELECT session, argument FROM arguments ORDER BY session, position";
    let mut arguments: Belonging<String> =
        Belonging::read(from, of("arguments"), sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let sql = "SELECT session, path, build_id FROM images ORDER BY session, path";
    let mut images = Belonging::read(from, of("images"), sql, |row| {
        let build_id = Some(row.get::<_, String>(2)?).filter(|id| !id.is_empty());
        Ok((row.get(0)?, Image { path: row.get(1)?, build_id }))
    })?;
    let mut arrivals = arrivals(from)?;
    let mut programs = programs(from)?;
    let mut threads = threads(from)?;
    let mut overhead = overhead(from)?;
    let sessions: Vec<Session> = table(from, "sessions", "SELECT * FROM sessions ORDER BY id", |row| {
        let id = row.get("id")?;
        Ok(Session {
            id: SessionId::new(id),
            start: start(row, arguments.take(id))?,
            end: end(row)?,
            samples: SampleTotals {
                until: span(row, "sampled_until_ns")?,
                delayed: span(row, "delayed_ns")?,
                count: count(row, "samples")?,
                weight: span(row, "sample_weight_ns")?,
                lost: count(row, "lost_samples")?,
                // Layouts before 17 do not say.
                timed: row
                    .as_ref()
                    .column_index("timed_samples")
                    .map_or(Ok(0), |column| count(row, column))?,
            },
            images: images.take(id),
            arrivals: arrivals.take(id),
            programs: programs.take(id),
            threads: threads.take(id),
            overhead: overhead.take(id),
        })
    })?;
    if sessions.windows(2).any(|two| two[0].id == two[1].id) {
        return Err(Fault::twice("sessions", "key"));
    }
    arguments.finish()?;
    images.finish()?;
    arrivals.finish()?;
    programs.finish()?;
    threads.finish()?;
    overhead.finish()?;
    Ok(sessions)
}

/// By session.
fn arrivals(from: &Connection) -> Result<Belonging<Arrivals>, Fault> {
    let sql = "SELECT * FROM arrivals ORDER BY session, port, kind";
    Belonging::read_if_there(from, ("arrivals", "sessions"), sql, |row| {
        let slope: Option<f64> = row.get("slope")?;
        let arrivals = Arrivals {
            kind: parsed(row, "kind", ArrivalKind::from_name)?,
            port: row.get("port")?,
            clock: parsed(row, "clock", ArrivalClock::from_name)?,
            slope: slope.zip(row.get("slope_se")?),
            count: count(row, "count")?,
        };
        Ok((row.get("session")?, arrivals))
    })
}

/// By session.
fn programs(from: &Connection) -> Result<Belonging<Program>, Fault> {
    let sql = "SELECT * FROM programs ORDER BY session, path, obstacle";
    Belonging::read_if_there(from, ("programs", "sessions"), sql, |row| {
        let program = Program {
            path: row.get("path")?,
            obstacle: Some(row.get("obstacle")?).filter(|obstacle: &String| !obstacle.is_empty()),
            processes: count(row, "processes")?,
            samples: count(row, "samples")?,
            cpu: span(row, "cpu_ns")?,
        };
        Ok((row.get("session")?, program))
    })
}

/// By session.
fn threads(from: &Connection) -> Result<Belonging<Thread>, Fault> {
    let sql = "SELECT * FROM threads ORDER BY session, pid, tid";
    Belonging::read_if_there(from, ("threads", "sessions"), sql, |row| {
        let thread = Thread {
            pid: row.get("pid")?,
            tid: row.get("tid")?,
            name: row.get("name")?,
            function: row.get("function")?,
            watched: span(row, "watched_ns")?,
            running: span(row, "running_ns")?,
            runnable: span(row, "runnable_ns")?,
            for_threads: span(row, "for_threads_ns")?,
            external: span(row, "external_ns")?,
        };
        Ok((row.get("session")?, thread))
    })
}

/// By session.
fn overhead(from: &Connection) -> Result<Belonging<OverheadPair>, Fault> {
    let sql = "SELECT * FROM overhead ORDER BY session, number";
    Belonging::read_if_there(from, ("overhead", "sessions"), sql, |row| {
        let pair = OverheadPair {
            number: row.get("number")?,
            profiled_visits: count(row, "profiled_visits")?,
            profiled: span(row, "profiled_ns")?,
            seldom_visits: count(row, "seldom_visits")?,
            seldom: span(row, "seldom_ns")?,
        };
        Ok((row.get("session")?, pair))
    })
}

fn start(row: &Row<'_>, arguments: Vec<String>) -> rusqlite::Result<SessionStart> {
    Ok(SessionStart {
        started: span(row, "started_unix_ns")?,
        program: row.get("program")?,
        arguments,
        directory: row.get("directory")?,
        host: row.get("host")?,
        kernel: row.get("kernel")?,
        cpus: row.get("cpus")?,
        seed: parsed(row, "seed", |seed| seed.parse().ok())?,
        options: row.get("options")?,
        version: row.get("version")?,
        sampler: row.get("sampler")?,
        sample_period: span(row, "sample_period_ns")?,
        kernel_time: row.get("kernel_time")?,
        repeat: row.get("repeat")?,
        fixed_regions: row.get("fixed_regions")?,
        fixed_speedups: row.get("fixed_speedups")?,
    })
}

fn end(row: &Row<'_>) -> rusqlite::Result<Option<SessionEnd>> {
    let Some(duration) = row.get::<_, Option<i64>>("duration_ns")? else {
        return Ok(None);
    };
    let value: i32 = row.get::<_, Option<i32>>("exit_value")?.unwrap_or(0);
    let exit = parsed(row, "exit", |exit| match exit {
        "code" => Some(Exit::Code(value)),
        "signal" => Some(Exit::Signal(value)),
        "unknown" => Some(Exit::Unknown),
        _ => None,
    })?;
    // Layouts before 11 do not say.
    let stopped = match row.as_ref().column_index("stopped") {
        Ok(column) => row.get(column)?,
        Err(_) => false,
    };
    Ok(Some(SessionEnd { duration: Nanos::new(duration.max(0) as u64), exit, stopped }))
}

fn region(row: &Row<'_>) -> rusqlite::Result<(RegionId, Region)> {
    let region = Region {
        kind: parsed(row, "kind", RegionKind::from_name)?,
        inclusive: row.get("inclusive")?,
        name: row.get("name")?,
        function: row.get("function")?,
        file: Some(row.get::<_, String>("file")?).filter(|file| !file.is_empty()),
        line: row.get("line")?,
        image: Image { path: row.get("image_path")?, build_id: row.get("build_id")? },
    };
    Ok((RegionId::new(row.get("id")?), region))
}

/// A recording has up to millions of these: columns are asked for by position, not looked up by name in every row.
fn windows(from: &Connection) -> Result<Vec<Window>, Fault> {
    let mut visits = visits(from)?;
    let mut audits = audits(from)?;
    let sql = "SELECT \"window\", point, visit_ns FROM in_flight ORDER BY 1, 2";
    let mut in_flight = Belonging::read(from, ("in_flight", "windows"), sql, |row| {
        let integral = VisitNanos::new(row.get(2)?);
        Ok((row.get(0)?, InFlight { begin: PointId::new(row.get(1)?), integral }))
    })?;
    let mut latencies = latencies(from)?;
    const COLUMNS: &str =
        "id, session, block, index_in_block, region, speedup_permille, epoch, start_ns, elapsed_ns,
        required_ns, region_samples, region_weight_ns, total_samples, total_weight_ns, owed_ns, paid_ns,
        credited_ns, overslept_ns, unpaid_ns, threads, busy, flags";
    let mut last = None;
    let mut twice = false;
    let sql = format!("SELECT {COLUMNS} FROM windows ORDER BY id");
    let windows: Vec<Window> = table(from, "windows", &sql, |row| {
        let id = row.get(0)?;
        twice |= last.replace(id) == Some(id);
        let speedup: u16 = row.get(5)?;
        Ok(Window {
            session: SessionId::new(row.get(1)?),
            block: row.get(2)?,
            index: row.get(3)?,
            region: RegionId::new(row.get(4)?),
            speedup: Speedup::from_per_mille(speedup)
                .ok_or(rusqlite::Error::IntegralValueOutOfRange(5, i64::from(speedup)))?,
            epoch: Epoch::new(count(row, 6)?),
            start: span(row, 7)?,
            elapsed: span(row, 8)?,
            required: span(row, 9)?,
            visits: visits.take(id),
            in_flight: in_flight.take(id),
            latencies: latencies.take(id),
            region_samples: count(row, 10)?,
            region_weight: span(row, 11)?,
            total_samples: count(row, 12)?,
            total_weight: span(row, 13)?,
            books: Books {
                owed: span(row, 14)?,
                paid: span(row, 15)?,
                credited: span(row, 16)?,
                overslept: span(row, 17)?,
                unpaid: span(row, 18)?,
            },
            audit: audits.take(id).pop(),
            threads: row.get(19)?,
            busy: row.get(20)?,
            flags: WindowFlags::from_names(row.get_ref(21)?.as_str()?),
        })
    })?;
    if twice {
        return Err(Fault::twice("windows", "key"));
    }
    visits.finish()?;
    in_flight.finish()?;
    latencies.finish()?;
    audits.finish()?;
    Ok(windows)
}

/// How long pieces of work took, by window.
fn latencies(from: &Connection) -> Result<Belonging<Latencies>, Fault> {
    let sql = "SELECT \"window\", point, counts FROM latencies ORDER BY 1, 2";
    Belonging::read_if_there(from, ("latencies", "windows"), sql, |row| {
        let begin = PointId::new(row.get(1)?);
        let counts = parsed(row, "counts", |text| Latencies::from_text(begin, text))?;
        Ok((row.get(0)?, counts))
    })
}

/// The audit of each window that was audited.
fn audits(from: &Connection) -> Result<Belonging<Audit>, Fault> {
    // Layout 4 counts less.
    let there = schema::columns(from, "audits").map_err(Fault::in_table("audits"))?;
    let columns =
        audit::columns().map(|column| if there.contains(&column) { column } else { "0".to_owned() });
    let columns = columns.join(", ");
    let sql = format!("SELECT \"window\", {columns} FROM audits");
    Belonging::read_if_there(from, ("audits", "windows"), &sql, |row| {
        let mut amounts = [0; audit::AMOUNTS];
        for (nth, amount) in amounts.iter_mut().enumerate() {
            *amount = count(row, nth + 1)?;
        }
        Ok((row.get(0)?, Audit::of_amounts(amounts)))
    })
}

pub(super) fn has_table(from: &Connection, name: &'static str) -> Result<bool, Fault> {
    let found = from.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?").and_then(|mut s| s.exists([name]));
    found.map_err(Fault::in_table(name))
}

/// The visits of each window.
fn visits(from: &Connection) -> Result<Belonging<Visits>, Fault> {
    // The first layout has no spans.
    let there = schema::columns(from, "visits").map_err(Fault::in_table("visits"))?;
    let has_spans = there.iter().any(|column| column == "span_visits");
    let spans = if has_spans { "span_visits, span_elapsed_ns, span_required_ns" } else { "NULL, NULL, NULL" };
    let sql = format!("SELECT \"window\", point, count, {spans} FROM visits ORDER BY \"window\", point");
    Belonging::read(from, ("visits", "windows"), &sql, |row| {
        let span = match row.get::<_, Option<i64>>(3)? {
            Some(_) => Some(Span { visits: count(row, 3)?, elapsed: span(row, 4)?, required: span(row, 5)? }),
            None => None,
        };
        let of_point = Visits { point: PointId::new(row.get(1)?), count: count(row, 2)?, span };
        Ok((row.get(0)?, of_point))
    })
}

/// A number that cannot be negative.
pub(super) fn count(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, number))
}

pub(super) fn span(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Nanos> {
    count(row, column).map(Nanos::new)
}

/// A number that is one.
fn finite(row: &Row<'_>, column: &str) -> rusqlite::Result<f64> {
    let number: f64 = row.get(column)?;
    if number.is_finite() { Ok(number) } else { Err(impossible(column, &number.to_string())) }
}

/// A text that stands for something else.
fn parsed<T>(row: &Row<'_>, column: &str, parse: impl FnOnce(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| impossible(column, &text))
}

fn impossible(column: &str, value: &str) -> rusqlite::Error {
    // Enough to recognize it by.
    let value: String = value.chars().take(40).collect();
    let why = format!("{column} cannot be `{}`", crate::printable(&value));
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, why.into())
}
