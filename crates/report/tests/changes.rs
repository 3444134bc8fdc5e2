//! What an editor can change in a file of SQLite.

use rusqlite::Connection;
use rusqlite::types::Value;
use std::path::Path;

/// Takes keys and constraints away, as an editor can: every value fits everywhere.
pub fn free(path: &Path) {
    let to = Connection::open(path).unwrap();
    to.execute_batch(
        "PRAGMA journal_mode = DELETE; PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON",
    )
    .unwrap();
    for table in tables(&to) {
        to.execute_batch(&format!(
            "CREATE TABLE free AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE free RENAME TO {table}"
        ))
        .unwrap();
    }
}

fn texts(from: &Connection, sql: &str) -> Vec<String> {
    let mut listed = from.prepare(sql).unwrap();
    listed.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The tables that have rows.
pub fn tables(from: &Connection) -> Vec<String> {
    let all = texts(from, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'");
    let has_rows =
        |table: &String| from.prepare(&format!("SELECT 1 FROM {table} LIMIT 1")).unwrap().exists([]).unwrap();
    all.into_iter().filter(has_rows).collect()
}

/// Changes to one recording: a statement and what stands for its parameter.
pub fn changes(of: &Connection) -> Vec<(String, Option<Value>)> {
    let values = [
        Value::Null,
        Value::Integer(-1),
        Value::Integer(1 << 62),
        Value::Integer(i64::MIN),
        Value::Real(f64::INFINITY),
        Value::Text("\u{1b}[31mx".repeat(1000)),
        Value::Blob(vec![0xff, 0, 0xfe]),
    ];
    let mut changes = Vec::new();
    for table in tables(of) {
        changes.push((format!("DELETE FROM {table}"), None));
        changes.push((format!("DELETE FROM {table} WHERE rowid = 1"), None));
        changes.push((format!("INSERT INTO {table} SELECT * FROM {table}"), None));
        changes.push((format!("DROP TABLE {table}"), None));
        for column in texts(of, &format!("SELECT name FROM pragma_table_info('{table}')")) {
            let set = format!("UPDATE {table} SET \"{column}\" = ?");
            for value in &values {
                changes.push((set.clone(), Some(value.clone())));
                changes.push((format!("{set} WHERE rowid = 1"), Some(value.clone())));
            }
        }
    }
    changes
}

/// The most memory that this process has had, in kilobytes.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
