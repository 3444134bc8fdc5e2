//! Standing: what a server keeps, and whether samples and books add up.

use crate::error::Error;
use crate::store::Store;
use crate::tables;
use crate::tables::{BOOKS, HOURS, RUNS, SAMPLES, WINDOWS};
use clickhouse::Row;
use profile::counted;
use serde::{Deserialize, Serialize};

/// How a fleet stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Standing {
    /// The server's address.
    pub url: String,
    /// Its version.
    pub server: String,
    /// The version of the tables.
    pub schema: u32,
    /// What tells these tables from all others.
    pub fleet: String,
    /// The cluster that they are divided over.
    pub cluster: Option<String>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Samples that are stored.
    pub samples: u64,
    /// Samples that the books say were stored, since the hour of the oldest samples.
    pub in_books: u64,
    /// Where the two are not the same.
    pub doubts: Vec<Doubt>,
    /// Runs under causal profiling.
    pub runs: u64,
    /// Their windows, each once.
    pub windows: u64,
    /// Windows that they had when they were sent.
    pub in_runs: u64,
    /// Runs that have others.
    pub broken_runs: Vec<BrokenRun>,
}

/// A run that has not the windows that it had when it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Row)]
pub struct BrokenRun {
    /// The run.
    pub run: String,
    /// Its windows.
    pub windows: u64,
    /// Windows that it had.
    pub in_run: u64,
}

/// A table, on all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Row)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its rows; those that will become one are several still.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Parts, of which a server has a few for each day.
    pub parts: u64,
}

/// An hour of an epoch of which there are more or fewer samples than its books say, or than the table of hours has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Row)]
pub struct Doubt {
    /// The epoch.
    pub epoch: String,
    /// The event.
    pub event: String,
    /// Begin of the hour, in seconds since 1970.
    pub hour: u32,
    /// Samples.
    pub samples: u64,
    /// Samples in the table of hours.
    pub in_hours: u64,
    /// Samples by the books.
    pub in_books: u64,
}

/// So many hours are named.
const NAMED: usize = 20;

/// Reads it.
pub fn standing(store: &Store) -> Result<Standing, Error> {
    let server = &store.server;
    let parts = format!(
        "SELECT replaceRegexpOne(table, '_shard$', '') AS name, sum(rows) AS n, sum(bytes) AS b, count() AS c \
         FROM {} WHERE active AND database = '{}' GROUP BY name ORDER BY name",
        store.of_system("parts"),
        server.database()
    );
    let hour = |time: &str| format!("toUInt32(intDiv(toUInt32({time}), 3600) * 3600) AS hour");
    // Books of days that were removed are left for months: older than the oldest samples they say nothing.
    let oldest = format!("SELECT toUInt32(min(minute)) FROM {}", store.table(SAMPLES));
    let oldest = server.all::<u32>(&oldest)?.pop().unwrap_or(0);
    let both = format!(
        "SELECT epoch, event, hour, sum(s) AS samples, sum(h) AS in_hours, sum(b) AS in_books FROM (\
         SELECT epoch, event, {}, sum(count) AS s, toUInt64(0) AS h, toUInt64(0) AS b FROM {} GROUP BY epoch, event, hour UNION ALL \
         SELECT epoch, event, {}, toUInt64(0) AS s, sum(count) AS h, toUInt64(0) AS b FROM {} GROUP BY epoch, event, hour UNION ALL \
         SELECT epoch, event, {}, toUInt64(0) AS s, toUInt64(0) AS h, sum(stored) + sum(unknown) AS b FROM {} GROUP BY epoch, event, hour) \
         WHERE hour >= {} GROUP BY epoch, event, hour",
        hour("minute"),
        store.table(SAMPLES),
        hour("start"),
        store.table(HOURS),
        hour("start"),
        store.table(BOOKS),
        oldest - oldest % 3600
    );
    let sums = format!("SELECT sum(samples), sum(in_books) FROM ({both})");
    let (samples, in_books) = server.all::<(u64, u64)>(&sums)?.pop().unwrap_or_default();
    let doubts = format!(
        "SELECT epoch, event, hour, samples, in_hours, in_books FROM ({both}) WHERE samples != in_books OR in_hours != samples ORDER BY epoch, event, hour"
    );
    // Rows that will become one are one here. A run without windows is in the one table, and windows without a run are of one that is being sent.
    let runs = format!(
        "SELECT run, sum(w) AS windows, sum(r) AS in_run FROM (\
         SELECT run, toUInt64(uniqExact(block, place)) AS w, toUInt64(0) AS r FROM {} GROUP BY run UNION ALL \
         SELECT run, toUInt64(0) AS w, argMax(windows, sent) AS r FROM {} GROUP BY run) GROUP BY run",
        store.table(WINDOWS),
        store.table(RUNS)
    );
    let sums = format!("SELECT countIf(in_run > 0), sum(windows), sum(in_run) FROM ({runs})");
    let (run_count, windows, in_runs) = server.all::<(u64, u64, u64)>(&sums)?.pop().unwrap_or_default();
    let broken = format!("SELECT run, windows, in_run FROM ({runs}) WHERE windows != in_run ORDER BY run");
    Ok(Standing {
        runs: run_count,
        windows,
        in_runs,
        broken_runs: server.all::<BrokenRun>(&broken)?,
        url: server.url().to_owned(),
        server: server.version().to_owned(),
        schema: tables::VERSION,
        fleet: store.fleet.clone(),
        cluster: store.cluster.clone(),
        tables: server.all::<Table>(&parts)?,
        samples,
        in_books,
        doubts: server.all::<Doubt>(&doubts)?,
    })
}

impl Standing {
    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let of = self
            .cluster
            .as_ref()
            .map_or(String::new(), |cluster| format!(", shards of the cluster {cluster}"));
        let mut out = format!(
            "{}: ClickHouse {}, tables of version {}{of}\n\n  {:<16} {:>14} {:>16} {:>7}\n",
            self.url,
            profile::printable(&self.server),
            self.schema,
            "table",
            "rows",
            "bytes",
            "parts"
        );
        for table in &self.tables {
            out += &format!(
                "  {:<16} {:>14} {:>16} {:>7}\n",
                profile::printable(&table.name),
                table.rows,
                table.bytes,
                table.parts
            );
        }
        out += &format!("\n{}; {} by the books\n", counted(self.samples, "sample"), self.in_books);
        for doubt in self.doubts.iter().take(NAMED) {
            let hour =
                jiff::Timestamp::from_second(doubt.hour.into()).map(|at| at.to_string()).unwrap_or_default();
            out += &format!(
                "  {} of the epoch {}, {hour}: {} samples, {} in the table of hours, and {} by the books\n",
                profile::printable(&doubt.event),
                profile::printable(&doubt.epoch),
                doubt.samples,
                doubt.in_hours,
                doubt.in_books
            );
        }
        if !self.doubts.is_empty() {
            let verb = if self.doubts.len() == 1 { "does" } else { "do" };
            out += &format!(
                "{} {verb} not add up: what was sent twice, or not at all; see docs/fleet.md, \"What does not add up\"\n",
                counted(self.doubts.len() as u64, "hour")
            );
        }
        if self.runs + self.windows > 0 {
            out += &format!(
                "{} with {}; {} when they were sent\n",
                counted(self.runs, "run"),
                counted(self.windows, "window"),
                self.in_runs
            );
        }
        for broken in self.broken_runs.iter().take(NAMED) {
            out += &format!(
                "  the run {} has {}, and had {}\n",
                profile::printable(&broken.run),
                counted(broken.windows, "window"),
                broken.in_run
            );
        }
        if !self.broken_runs.is_empty() {
            out += "they do not count: they are being sent, or the server has lost a part; see docs/fleet.md, \"What does not add up\"\n";
        }
        out
    }
}
