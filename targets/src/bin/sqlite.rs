//! sqlite: threads=N (default 2) threads insert rows, each into a table of its own, all in one
//! in-memory database (the write-intensive workload of the Coz papers).
//!
//! The connections share one cache, so SQLite's own mutex is held for the whole of each insert and
//! the threads contend for it. `row` (0.5 µs) makes the text of a row outside that lock. A table that
//! has reached 10,000 rows is emptied, so the run may be as long as one likes.
//!
//! Answer: no better argument for `row` than measuring it; the rest of the time is in SQLite itself
//! and in waiting for its mutex, and cannot be shrunk by an argument.
//!
//! Debug information: cargo tells the build of the bundled `sqlite3.c` this profile's level, and the
//! `cc` crate adds frame pointers whenever there is any: `debug = 1` gives functions and lines.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::thread;

use rusqlite::{Connection, params};
use targets::run::{Arguments, Run};

const ROWS: u64 = 10_000;

/// The text of a row: `iterations` pseudo-random digits' worth of work.
#[inline(never)]
fn row(iterations: u64, number: u64, text: &mut String) {
    let mut left = iterations;
    let mut x = number | 1;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    text.clear();
    // Writing to a String does not fail.
    let _ = write!(text, "row {number} of some length, and {x:016x}");
}

fn insert_rows(run: &Run, iterations: u64, thread: usize) -> rusqlite::Result<()> {
    let database = open()?;
    let mut insert = database.prepare(&format!("INSERT INTO t{thread} (number, text) VALUES (?1, ?2)"))?;
    let mut empty = database.prepare(&format!("DELETE FROM t{thread}"))?;
    let mut text = String::new();
    for number in 0_u64.. {
        if run.over() {
            break;
        }
        if number % ROWS == 0 {
            empty.execute([])?;
        }
        row(iterations, number, &mut text);
        insert.execute(params![number.cast_signed(), text])?;
        whatif::progress!("insert");
        run.visited();
    }
    Ok(())
}

fn open() -> rusqlite::Result<Connection> {
    Connection::open("file:target?mode=memory&cache=shared")
}

fn main() -> rusqlite::Result<()> {
    let arguments = Arguments::of_process();
    let iterations = arguments.iterations("row", 0.0005);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let threads = arguments.number("threads", 2.0) as usize;
    let run = arguments.start("insert");
    // The database lives as long as one connection to it. Tables are made before there are threads:
    // with a shared cache, changing the schema locks out all connections that read it.
    let database = open()?;
    for thread in 0..threads {
        database.execute_batch(&format!(
            "CREATE TABLE t{thread} (id INTEGER PRIMARY KEY, number INTEGER, text TEXT)"
        ))?;
    }
    let run = &run;
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map(|thread| scope.spawn(move || insert_rows(run, iterations, thread))).collect();
        insert_rows(run, iterations, 0)?;
        for other in others {
            other.join().expect("insert_rows does not panic")?;
        }
        run.finish()
    })
}
