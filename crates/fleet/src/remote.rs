//! Remote: a server as the source of an answer.

use crate::code::NameRow;
use crate::error::Error;
use crate::question::{Question, quoted};
use crate::source::{CountedAt, EpochAt, ImageAt, NamedAt, Source};
use crate::stack_hash::StackHash;
use crate::stacks::{StackAt, Stacked};
use crate::store::Store;
use crate::tables::{BOOKS, EPOCHS, HOURS, IMAGES, SAMPLES, STACKS, SYMBOLS};
use archive::{Books, EventId, MachineInfo, Setting, UnixSeconds};
use clickhouse::Row;
use profile::Nanos;
use serde::Deserialize;
use std::rc::Rc;

/// Builds that one statement asks for, and bytes of them: a server reads 256 KiB of a statement (max_query_size), and a build may be a path.
const BUILDS: usize = 500;
const BYTES: usize = 64 * 1024;

/// Builds as they stand in statements, cut into lists that are short enough for one.
fn lists(builds: &[&str]) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    let mut count = BUILDS;
    for build in builds.iter().map(|build| quoted(build)) {
        match lists.last_mut() {
            Some(list) if count < BUILDS && list.len() + 2 + build.len() <= BYTES => {
                *list += ", ";
                *list += &build;
                count += 1;
            }
            _ => {
                lists.push(build);
                count = 1;
            }
        }
    }
    lists
}

#[derive(Debug, Deserialize, Row)]
struct CountRow {
    service: String,
    version: String,
    host: String,
    process: String,
    labels: String,
    build: String,
    offset: u64,
    span: u32,
    count: u64,
}

#[derive(Debug, Deserialize, Row)]
struct StackRow {
    service: String,
    version: String,
    host: String,
    process: String,
    labels: String,
    stack: StackHash,
    count: u64,
}

#[derive(Debug, Deserialize, Row)]
struct FramesRow {
    stack: StackHash,
    builds: Vec<String>,
    offsets: Vec<u64>,
}

#[derive(Debug, Deserialize, Row)]
struct BookRow {
    epoch: String,
    start: u32,
    end: u32,
    expected: u64,
    stored: u64,
    unknown: u64,
    lost: u64,
    idle: u64,
    covered_ns: u64,
    own_cpu_ns: u64,
    kernel_cpu_ns: u64,
    squares: u64,
}

#[derive(Debug, Deserialize, Row)]
struct EpochRow {
    epoch: String,
    machine: String,
    host: String,
    kernel: String,
    cpus: u32,
    scope: String,
    mode: String,
    sampler: String,
    rate_hz: f64,
    resolution_ns: u64,
    whatif: String,
    started: u32,
}

#[derive(Debug, Deserialize, Row)]
struct ImageRow {
    build: String,
    path: String,
    kind: String,
}

#[derive(Debug, Deserialize, Row)]
struct SymbolRow {
    build: String,
    offset: u64,
    names: String,
}

impl Store {
    fn books_where(&self, of: &Question) -> String {
        format!("FROM {} WHERE {}{}", self.table(BOOKS), of.time_sql("start"), of.only.sql(&["host"]))
    }

    fn in_builds<T: clickhouse::RowOwned + clickhouse::RowRead>(
        &self,
        what: &str,
        table: &str,
        builds: &[&str],
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        for list in lists(builds) {
            let table = self.table(table);
            all.extend(
                self.server
                    .all::<T>(&format!("SELECT DISTINCT {what} FROM {table} WHERE build IN ({list})"))?,
            );
        }
        Ok(all)
    }
}

impl Source for Store {
    fn place(&self) -> String {
        format!("{}/{}", self.server.url(), self.server.database())
    }

    fn events(&self, of: &Question) -> Result<Vec<String>, Error> {
        let all = format!(
            "SELECT event {} GROUP BY event HAVING sum(expected) + sum(stored) > 0 ORDER BY event",
            self.books_where(of)
        );
        self.server.all::<String>(&all)
    }

    fn epochs(&self) -> Result<Vec<EpochAt>, Error> {
        // The newest row of each: rows of one epoch may not have become one yet.
        let newest = |column: &str| format!("argMax({column}, sent)");
        let columns = [
            "machine",
            "host",
            "kernel",
            "cpus",
            "scope",
            "mode",
            "sampler",
            "rate_hz",
            "resolution_ns",
            "whatif",
            "started",
        ];
        let columns: Vec<String> = columns.iter().map(|column| newest(column)).collect();
        let all = format!(
            "SELECT epoch, {} FROM {} GROUP BY epoch ORDER BY epoch",
            columns.join(", "),
            self.table(EPOCHS)
        );
        let epoch = |row: EpochRow| EpochAt {
            uid: row.epoch,
            machine: MachineInfo { key: row.machine, host: row.host, kernel: row.kernel, cpus: row.cpus },
            setting: Setting {
                scope: row.scope,
                mode: row.mode,
                sampler: row.sampler,
                rate_hz: row.rate_hz,
                resolution: Nanos::new(row.resolution_ns),
                version: row.whatif,
                ..Setting::default()
            },
            started: UnixSeconds(row.started.into()),
        };
        Ok(self.server.all::<EpochRow>(&all)?.into_iter().map(epoch).collect())
    }

    fn books(&self, of: &Question) -> Result<Vec<(String, Books)>, Error> {
        let sums = [
            "expected",
            "stored",
            "unknown",
            "lost",
            "idle",
            "covered_ns",
            "own_cpu_ns",
            "kernel_cpu_ns",
            "squares",
        ];
        let sums: Vec<String> = sums.iter().map(|column| format!("sum({column})")).collect();
        let all = format!(
            "SELECT epoch, toUInt32(min(start)), toUInt32(max(toUInt32(start) + intDiv(length_ns, 1000000000))), {} {} AND event = {} \
             GROUP BY epoch ORDER BY epoch",
            sums.join(", "),
            self.books_where(of),
            quoted(&of.event)
        );
        let books = |row: BookRow| {
            let books = Books {
                event: EventId::new(0),
                start: UnixSeconds(row.start.into()),
                length: Nanos::new(u64::from(row.end - row.start) * 1_000_000_000),
                expected: row.expected,
                stored: row.stored,
                unknown: row.unknown,
                lost: row.lost,
                idle: row.idle,
                covered: Nanos::new(row.covered_ns),
                own_cpu: Nanos::new(row.own_cpu_ns),
                kernel_cpu: Nanos::new(row.kernel_cpu_ns),
                resident: 0,
                squares: row.squares,
            };
            (row.epoch, books)
        };
        Ok(self.server.all::<BookRow>(&all)?.into_iter().map(books).collect())
    }

    fn counts(&mut self, of: &Question) -> Result<Vec<(CountedAt, u64)>, Error> {
        let at = |row: CountRow| {
            let at = CountedAt {
                service: row.service,
                version: row.version,
                host: row.host,
                process: row.process,
                labels: row.labels,
                build: row.build,
                offset: row.offset,
                span: UnixSeconds(row.span.into()),
            };
            (at, row.count)
        };
        let all = of.counts_sql(&self.table(SAMPLES), &self.table(HOURS));
        Ok(self.server.all::<CountRow>(&all)?.into_iter().map(at).collect())
    }

    fn stacks(&mut self, of: &Question, most: usize) -> Result<Stacked, Error> {
        let [all, first, frames] = of.stacks_sql(&self.table(SAMPLES), &self.table(STACKS), most);
        let mut found =
            Stacked { samples: self.server.all::<u64>(&all)?.pop().unwrap_or(0), ..Stacked::default() };
        self.server.each::<StackRow>(&first, most, |row| {
            let who = CountedAt {
                service: row.service,
                version: row.version,
                host: row.host,
                process: row.process,
                labels: row.labels,
                ..CountedAt::default()
            };
            found.rows.push(StackAt { who: Rc::new(who), stack: row.stack, count: row.count });
        })?;
        let frames_of = |row: FramesRow| {
            if row.builds.len() == row.offsets.len() {
                let frames = row.builds.iter().map(String::as_str).zip(row.offsets.iter().copied());
                found.frames.add(row.stack, frames);
            }
        };
        self.server.each(&frames, most, frames_of)?;
        Ok(found)
    }

    fn images(&self, builds: &[&str]) -> Result<Vec<ImageAt>, Error> {
        let all = self.in_builds::<ImageRow>("build, path, kind", IMAGES, builds)?;
        Ok(all.into_iter().map(|row| ImageAt { build: row.build, path: row.path, kind: row.kind }).collect())
    }

    fn names(&mut self, positions: &[(&str, u64)]) -> Result<Vec<NamedAt>, Error> {
        let mut builds: Vec<&str> = positions.iter().map(|(build, _)| *build).collect();
        builds.dedup();
        let all = self.in_builds::<SymbolRow>("build, build_offset, names", SYMBOLS, &builds)?;
        let named = |row: SymbolRow| {
            // What cannot be read says nothing.
            let names: Vec<NameRow> = serde_json::from_str(&row.names).unwrap_or_default();
            NamedAt { build: row.build, offset: row.offset, names }
        };
        Ok(all.into_iter().map(named).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_statement_is_longer_than_a_server_reads() {
        assert!(lists(&[]).is_empty());
        assert_eq!(lists(&["a", "b'"]), [r"'a', 'b\''"]);
        // By number, and by bytes: a long path alone has a statement of its own.
        assert_eq!(lists(&["a"; 1001]).len(), 3);
        let (path, longest) = ("x".repeat(4096), "y".repeat(BYTES + 1));
        let mut builds = vec![&*path; 40];
        builds.insert(7, &longest);
        let all = lists(&builds);
        assert!(all.iter().filter(|list| list.len() > BYTES).count() == 1, "{}", all.len());
        assert_eq!(all.iter().map(|list| list.matches("'").count() / 2).sum::<usize>(), 41);
    }
}
