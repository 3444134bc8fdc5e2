//! What of a recording's windows no report shows. `crates/profile/src/database/schema.rs` lists its
//! tables.

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
             AND v.point = (SELECT id FROM points WHERE name = ?1 AND kind = 'throughput')
         WHERE w.speedup_permille = 0
             AND w.flags NOT LIKE '%unbalanced%'
             AND w.flags NOT LIKE '%cut%'
             AND w.flags NOT LIKE '%overdrawn%'",
        [point],
        |row| Ok(Rate { windows: row.get::<_, u32>(0)?.into(), visits: row.get(1)?, seconds: row.get(2)? }),
    )
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
}
