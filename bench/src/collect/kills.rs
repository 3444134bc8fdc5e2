//! What is left after `kill -9`.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;

use super::Bench;
use super::daemon::{Daemon, books};

impl Bench<'_> {
    pub fn kills(&self) -> Result<()> {
        let kills = self.options.kills;
        let folder = tempfile::tempdir()?;
        let (mut longest, mut stored, mut intervals, mut without) = (Duration::ZERO, 0, 0, 0);
        for kill in 0..kills {
            // An interval of a second: often killed while it writes.
            let daemon =
                Daemon::start(self.whatif.path(), folder.path(), &["--interval", "1", "--rate", "997"])?;
            let begun = Instant::now();
            sleep(Duration::from_millis(fastrand::u64(0..3500)));
            daemon.signal("-KILL")?;
            let ran = begun.elapsed();
            drop(daemon);
            let catalogue = Connection::open(folder.path().join("catalogue.db"))?;
            let check: String = catalogue.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            ensure!(check == "ok", "after {kill} kills the catalogue is damaged: {check}");
            drop(catalogue);
            let now = books(folder.path())?;
            ensure!(
                now.taken() >= stored,
                "after {kill} kills samples are missing: {} of {stored}",
                now.taken()
            );
            // Everything but what was counted in the last interval, the one before it being written perhaps.
            let written = now.intervals - intervals;
            let whole = ran.as_secs().saturating_sub(1);
            if written < whole {
                without += 1;
            }
            (stored, intervals) = (now.taken(), now.intervals);
            longest = longest.max(ran);
            // Every segment that the catalogue knows can be read, and its samples are those of the books.
            if stored > 0 && (kill % 25 == 0 || kill + 1 == kills) {
                self.readable(folder.path(), stored).with_context(|| format!("after {} kills", kill + 1))?;
            }
        }
        let files = fs::read_dir(folder.path().join("segments"))?.count();
        println!(
            "killed {kills} times within {:.1} s of its start: catalogue whole every time, {stored} samples stored and all \
             readable, {without} times more than one interval was missing; {files} files of segments left",
            longest.as_secs_f64()
        );
        Ok(())
    }

    /// Samples that the tools find, against those in the books.
    fn readable(&self, folder: &std::path::Path, stored: u64) -> Result<()> {
        let mut top = Command::new(self.whatif.path());
        top.args(["top", "--json", "--by", "image", "--idle", "--top", "100000", "--db"]).arg(folder);
        let output = crate::program::output(&mut top)?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let rows = answer["rows"].as_array().context("whatif top --json has no rows")?;
        let found: u64 = rows.iter().filter_map(|row| row["samples"].as_u64()).sum();
        ensure!(found == stored, "{found} samples in the segments, {stored} in the books");
        Ok(())
    }
}
