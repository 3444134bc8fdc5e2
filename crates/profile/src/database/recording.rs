//! Recording: what a report reads.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, Row, RowIndex};

use super::Recorder;
use crate::model::audit;
use crate::model::{
    ArrivalClock, ArrivalKind, Arrivals, Audit, Books, Exit, Image, InFlight, Latencies, Point, PointId,
    PointKind, Production, Region, RegionId, RegionKind, RegionSamples, Rows, SampleTotals, Session,
    SessionEnd, SessionId, SessionStart, Snippet, Span, Visits, Warning, Window, WindowFlags,
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
    /// [`Error::Damaged`].
    pub fn images(&self) -> Result<Vec<Image>, Error> {
        sessions(&self.connection)
            .map(|sessions| sessions.into_iter().flat_map(|session| session.images).collect())
            .map_err(|e| self.damaged(e))
    }

    /// All rows, as they are at this moment.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] where a row cannot be what it claims to be.
    pub fn rows(&self) -> Result<Rows, Error> {
        self.read().map_err(|e| self.damaged(e))
    }

    fn damaged(&self, error: rusqlite::Error) -> Error {
        match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error { code: ErrorCode::Unknown, .. },
                _, // a table or a column is missing
            ) => Error::Damaged { path: self.path.clone(), detail: error.to_string() },
            e => Error::of(&self.path, e),
        }
    }

    fn read(&self) -> rusqlite::Result<Rows> {
        // One transaction, so that a writer cannot add windows between two of our queries.
        let from = &self.connection.unchecked_transaction()?;
        Ok(Rows {
            sessions: sessions(from)?,
            regions: table(from, "SELECT * FROM regions", region)?,
            points: table(from, "SELECT id, name, kind FROM points", |row| {
                let kind = parsed(row, "kind", PointKind::from_name)?;
                Ok((PointId::new(row.get("id")?), Point { name: row.get("name")?, kind }))
            })?,
            windows: windows(from)?,
            samples: table(from, "SELECT * FROM samples ORDER BY session, region", |row| {
                Ok(RegionSamples {
                    session: SessionId::new(row.get("session")?),
                    region: RegionId::new(row.get("region")?),
                    count: count(row, "count")?,
                    weight: span(row, "weight_ns")?,
                })
            })?,
            production: production(from)?,
            snippets: table(from, "SELECT * FROM snippets", |row| {
                let snippet = Snippet { first_line: row.get("first_line")?, text: row.get("text")? };
                Ok((RegionId::new(row.get("region")?), snippet))
            })?,
            warnings: table(from, "SELECT * FROM warnings ORDER BY id", |row| {
                let (code, message, advice) = (row.get("code")?, row.get("message")?, row.get("advice")?);
                Ok((SessionId::new(row.get("session")?), Warning { code, message, advice }))
            })?,
        })
    }
}

/// Earlier layouts have no such table.
fn production(from: &Connection) -> rusqlite::Result<Vec<Production>> {
    if !has_table(from, "production")? {
        return Ok(Vec::new());
    }
    table(from, "SELECT * FROM production ORDER BY session, region", |row| {
        Ok(Production {
            session: SessionId::new(row.get("session")?),
            region: RegionId::new(row.get("region")?),
            share: row.get("share")?,
            samples: count(row, "samples")?,
            since: UnixSeconds(row.get("since_unix_s")?),
            until: UnixSeconds(row.get("until_unix_s")?),
            hosts: row.get("hosts")?,
        })
    })
}

fn table<T, C: FromIterator<T>>(
    from: &Connection,
    sql: &str,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<C> {
    from.prepare(sql)?.query_map([], row)?.collect()
}

fn sessions(from: &Connection) -> rusqlite::Result<Vec<Session>> {
    let mut arguments: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    let listed: Vec<(i64, String)> =
        table(from, "SELECT session, argument FROM arguments ORDER BY session, position", |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    for (session, argument) in listed {
        arguments.entry(session).or_default().push(argument);
    }
    let mut images: BTreeMap<i64, Vec<Image>> = BTreeMap::new();
    let listed: Vec<(i64, Image)> =
        table(from, "SELECT session, path, build_id FROM images ORDER BY session, path", |row| {
            let build_id = Some(row.get::<_, String>(2)?).filter(|id| !id.is_empty());
            Ok((row.get(0)?, Image { path: row.get(1)?, build_id }))
        })?;
    for (session, image) in listed {
        images.entry(session).or_default().push(image);
    }
    let mut arrivals = arrivals(from)?;
    table(from, "SELECT * FROM sessions ORDER BY id", |row| {
        let id = row.get("id")?;
        Ok(Session {
            id: SessionId::new(id),
            start: start(row, arguments.remove(&id).unwrap_or_default())?,
            end: end(row)?,
            samples: SampleTotals {
                until: span(row, "sampled_until_ns")?,
                delayed: span(row, "delayed_ns")?,
                count: count(row, "samples")?,
                weight: span(row, "sample_weight_ns")?,
                lost: count(row, "lost_samples")?,
            },
            images: images.remove(&id).unwrap_or_default(),
            arrivals: arrivals.remove(&id).unwrap_or_default(),
        })
    })
}

/// By session. Earlier layouts have no such table.
fn arrivals(from: &Connection) -> rusqlite::Result<BTreeMap<i64, Vec<Arrivals>>> {
    let mut arrivals: BTreeMap<i64, Vec<Arrivals>> = BTreeMap::new();
    if has_table(from, "arrivals")? {
        let listed: Vec<(i64, Arrivals)> =
            table(from, "SELECT * FROM arrivals ORDER BY session, port, kind", |row| {
                let slope: Option<f64> = row.get("slope")?;
                let arrivals = Arrivals {
                    kind: parsed(row, "kind", ArrivalKind::from_name)?,
                    port: row.get("port")?,
                    clock: parsed(row, "clock", ArrivalClock::from_name)?,
                    slope: slope.zip(row.get("slope_se")?),
                    count: count(row, "count")?,
                };
                Ok((row.get("session")?, arrivals))
            })?;
        for (session, of_source) in listed {
            arrivals.entry(session).or_default().push(of_source);
        }
    }
    Ok(arrivals)
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
    Ok(Some(SessionEnd { duration: Nanos::new(duration.max(0) as u64), exit }))
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
fn windows(from: &Connection) -> rusqlite::Result<Vec<Window>> {
    let mut visits = visits(from)?;
    let mut audits = audits(from)?;
    let mut in_flight: HashMap<i64, Vec<InFlight>> = HashMap::new();
    let listed: Vec<(i64, InFlight)> =
        table(from, "SELECT \"window\", point, visit_ns FROM in_flight ORDER BY 1, 2", |row| {
            let integral = VisitNanos::new(row.get(2)?);
            Ok((row.get(0)?, InFlight { begin: PointId::new(row.get(1)?), integral }))
        })?;
    for (window, of_pair) in listed {
        in_flight.entry(window).or_default().push(of_pair);
    }
    let mut latencies = latencies(from)?;
    const COLUMNS: &str =
        "id, session, block, index_in_block, region, speedup_permille, epoch, start_ns, elapsed_ns,
        required_ns, region_samples, region_weight_ns, total_samples, total_weight_ns, owed_ns, paid_ns,
        credited_ns, overslept_ns, unpaid_ns, threads, busy, flags";
    table(from, &format!("SELECT {COLUMNS} FROM windows ORDER BY id"), |row| {
        let id = row.get(0)?;
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
            visits: visits.remove(&id).unwrap_or_default(),
            in_flight: in_flight.remove(&id).unwrap_or_default(),
            latencies: latencies.remove(&id).unwrap_or_default(),
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
            audit: audits.remove(&id),
            threads: row.get(19)?,
            busy: row.get(20)?,
            flags: WindowFlags::from_names(row.get_ref(21)?.as_str()?),
        })
    })
}

/// How long pieces of work took, by window. Earlier layouts have no such table.
fn latencies(from: &Connection) -> rusqlite::Result<HashMap<i64, Vec<Latencies>>> {
    let mut latencies: HashMap<i64, Vec<Latencies>> = HashMap::new();
    if has_table(from, "latencies")? {
        let listed: Vec<(i64, Latencies)> =
            table(from, "SELECT \"window\", point, counts FROM latencies ORDER BY 1, 2", |row| {
                let begin = PointId::new(row.get(1)?);
                let counts = parsed(row, "counts", |text| Latencies::from_text(begin, text))?;
                Ok((row.get(0)?, counts))
            })?;
        for (window, of_pair) in listed {
            latencies.entry(window).or_default().push(of_pair);
        }
    }
    Ok(latencies)
}

/// The audit of each window that was audited. Earlier layouts have no such table.
fn audits(from: &Connection) -> rusqlite::Result<HashMap<i64, Audit>> {
    if !has_table(from, "audits")? {
        return Ok(HashMap::new());
    }
    // Layout 4 counts less.
    let there = schema::columns(from, "audits")?;
    let columns =
        audit::columns().map(|column| if there.contains(&column) { column } else { "0".to_owned() });
    let columns = columns.join(", ");
    table(from, &format!("SELECT \"window\", {columns} FROM audits"), |row| {
        let mut amounts = [0; audit::AMOUNTS];
        for (nth, amount) in amounts.iter_mut().enumerate() {
            *amount = count(row, nth + 1)?;
        }
        Ok((row.get(0)?, Audit::of_amounts(amounts)))
    })
}

fn has_table(from: &Connection, name: &str) -> rusqlite::Result<bool> {
    from.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?")?.exists([name])
}

/// The visits of each window.
fn visits(from: &Connection) -> rusqlite::Result<HashMap<i64, Vec<Visits>>> {
    // The first layout has no spans.
    let has_spans = from.prepare("SELECT * FROM visits")?.column_index("span_visits").is_ok();
    let spans = if has_spans { "span_visits, span_elapsed_ns, span_required_ns" } else { "NULL, NULL, NULL" };
    let listed = format!("SELECT \"window\", point, count, {spans} FROM visits ORDER BY \"window\", point");
    let mut visits: HashMap<i64, Vec<Visits>> = HashMap::new();
    let mut listed = from.prepare(&listed)?;
    let mut rows = listed.query([])?;
    while let Some(row) = rows.next()? {
        let span = match row.get::<_, Option<i64>>(3)? {
            Some(_) => Some(Span { visits: count(row, 3)?, elapsed: span(row, 4)?, required: span(row, 5)? }),
            None => None,
        };
        let of_point = Visits { point: PointId::new(row.get(1)?), count: count(row, 2)?, span };
        visits.entry(row.get(0)?).or_default().push(of_point);
    }
    Ok(visits)
}

/// A number that cannot be negative.
fn count(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, number))
}

fn span(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Nanos> {
    count(row, column).map(Nanos::new)
}

/// A text that stands for something else.
fn parsed<T>(row: &Row<'_>, column: &str, parse: impl FnOnce(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| {
        let unknown = format!("{column} cannot be `{}`", crate::printable(&text));
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, unknown.into())
    })
}
