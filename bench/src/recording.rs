//! What of a recording's windows no report shows, and recordings as they were earlier.
//! `crates/profile/src/database/schema.rs` lists its tables.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};

/// The rate of one point in windows of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub windows: u64,
    pub visits: f64,
    pub seconds: f64,
}

impl Rate {
    /// Visits per second.
    pub fn per_second(self) -> f64 {
        self.visits / self.seconds
    }
}

/// The rate of `point` in all windows at speedup 0, but for those that estimates leave out. (A flag
/// `busy` only says that others used the machine.)
pub fn baseline(recording: &Path, point: &str) -> Result<Rate> {
    let connection = Connection::open_with_flags(recording, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(|| format!("opening {}", recording.display()))?;
    let rate = query(&connection, point).with_context(|| {
        format!("{} has other tables than bench/src/recording.rs knows", recording.display())
    })?;
    ensure!(
        rate.windows > 0 && rate.visits > 0.0,
        "{} has no window without a speedup in which '{point}' was visited (is the run too short?)",
        recording.display()
    );
    Ok(rate)
}

fn query(connection: &Connection, point: &str) -> rusqlite::Result<Rate> {
    connection.query_row(
        "SELECT count(*), coalesce(sum(v.count), 0.0), coalesce(sum(w.elapsed_ns), 0.0) / 1e9
         FROM windows w
         LEFT JOIN visits v
             ON v.\"window\" = w.id
             AND v.point = (SELECT id FROM points WHERE name = ?1 AND kind IN ('throughput', 'end'))
         WHERE w.speedup_permille = 0
             AND w.flags NOT LIKE '%unbalanced%'
             AND w.flags NOT LIKE '%cut%'
             AND w.flags NOT LIKE '%overdrawn%'",
        [point],
        |row| Ok(Rate { windows: row.get::<_, u32>(0)?.into(), visits: row.get(1)?, seconds: row.get(2)? }),
    )
}

/// Seconds from the start of the first run to the end of the last.
pub fn length(recording: &Path) -> Result<f64> {
    let length = Connection::open_with_flags(recording, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|c| {
        c.query_row(
            "SELECT (max(started_unix_ns + duration_ns) - min(started_unix_ns)) / 1e9 FROM sessions",
            [],
            |row| row.get::<_, Option<f64>>(0),
        )
    });
    length.ok().flatten().with_context(|| format!("{} does not say when it ended", recording.display()))
}

/// When the first experiment began, in seconds since 1970.
pub fn first_experiment(recording: &Path) -> Result<f64> {
    let began = Connection::open_with_flags(recording, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|c| {
        c.query_row(
            "SELECT min(s.started_unix_ns + w.start_ns) / 1e9 FROM sessions s JOIN windows w ON w.session = s.id",
            [],
            |row| row.get::<_, Option<f64>>(0),
        )
    });
    began.ok().flatten().with_context(|| format!("{} has no experiment", recording.display()))
}

/// Writes to `earlier` what `recording` was after so many seconds: without the experiments that ended later.
/// (Samples stay those of the whole run: they only say which part of the time a region runs.)
pub fn earlier(recording: &Path, seconds: f64, earlier: &Path) -> Result<()> {
    if earlier.exists() {
        std::fs::remove_file(earlier).with_context(|| format!("removing {}", earlier.display()))?;
    }
    let copied = Connection::open(recording)
        .and_then(|connection| connection.execute("VACUUM INTO ?1", [earlier.to_string_lossy()]));
    copied
        .and_then(|_| shorten(&Connection::open(earlier)?, seconds))
        .with_context(|| format!("cutting {} at {seconds} s", recording.display()))
}

/// Experiments stay whole: a baseline without the window that it belongs to is nothing that whatif writes.
fn shorten(connection: &Connection, seconds: f64) -> rusqlite::Result<()> {
    const LATER: &str = "SELECT w.session, w.block FROM windows w JOIN sessions s ON s.id = w.session
        WHERE s.started_unix_ns - (SELECT min(started_unix_ns) FROM sessions) + w.start_ns + w.elapsed_ns
            > ?1 * 1e9";
    for table in ["visits", "in_flight"] {
        let delete = format!(
            "DELETE FROM {table} WHERE \"window\" IN
                 (SELECT id FROM windows WHERE (session, block) IN ({LATER}))"
        );
        connection.execute(&delete, [seconds])?;
    }
    connection.execute(&format!("DELETE FROM windows WHERE (session, block) IN ({LATER})"), [seconds])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_good_windows_without_a_speedup_count() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE windows (id, speedup_permille, elapsed_ns, flags);
                 CREATE TABLE visits (\"window\", point, count);
                 CREATE TABLE points (id, name, kind);
                 INSERT INTO points VALUES (1, 'round', 'throughput'), (2, 'round', 'begin'),
                     (3, 'other', 'throughput');
                 INSERT INTO windows VALUES (1, 0, 500000000, ''), (2, 500, 500000000, ''),
                     (3, 0, 500000000, 'unbalanced,busy'), (4, 0, 500000000, 'busy');
                 INSERT INTO visits VALUES (1, 1, 30), (1, 2, 5), (1, 3, 7), (2, 1, 90), (3, 1, 90);",
            )
            .unwrap();
        let rate = query(&connection, "round").unwrap();
        assert_eq!(rate, Rate { windows: 2, visits: 30.0, seconds: 1.0 });
        assert_eq!(query(&connection, "nothing").unwrap().visits, 0.0);
    }

    #[test]
    fn what_ended_later_is_cut_off() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE sessions (id, started_unix_ns);
                 CREATE TABLE windows (id, session, block, start_ns, elapsed_ns);
                 CREATE TABLE visits (\"window\");
                 CREATE TABLE in_flight (\"window\");
                 INSERT INTO sessions VALUES (1, 7000000000), (2, 17000000000);
                 INSERT INTO windows VALUES (1, 1, 0, 0, 500000000), (2, 1, 0, 500000000, 500000000),
                     (3, 1, 1, 1000000000, 500000000), (4, 1, 1, 1500000000, 500000000),
                     (5, 2, 0, 0, 500000000);
                 INSERT INTO visits VALUES (1), (2), (3), (4), (5);
                 INSERT INTO in_flight VALUES (4), (5);",
            )
            .unwrap();
        let left = || -> (u32, u32, u32) {
            let ask = "SELECT (SELECT count(*) FROM windows), (SELECT count(*) FROM visits),
                              (SELECT count(*) FROM in_flight)";
            connection.query_row(ask, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
        };
        // The second run began 10 s after the first; at 1.7 s the second experiment was half done.
        for (seconds, expected) in [(10.5, (5, 5, 2)), (10.4, (4, 4, 1)), (1.7, (2, 2, 0)), (0.9, (0, 0, 0))]
        {
            shorten(&connection, seconds).unwrap();
            assert_eq!(left(), expected, "{seconds}");
        }
    }
}
