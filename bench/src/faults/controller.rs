//! The controller: whatever fails, the program runs to its end and ends as it would have, or is not started at all and a message says
//! why; the recording is whole; and what is said to be recorded is in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use profile::{Exit, Recording};
use rusqlite::Connection;

use super::harness::{Ended, limited};
use super::table::{Half, Outcome, check_manners, has_no_signal_stack, said};

pub struct Controller<'a> {
    pub whatif: &'a Path,
    /// `bench/c/witness.c`.
    pub witness: PathBuf,
    /// How visits are counted: by the program, or by the kernel.
    pub options: &'a [&'a str],
}

/// What the program prints, and ends with.
const PRINTED: &str = "begins\nends\n";
const ENDS_WITH: i32 = 7;
/// What `whatif` ends with when it has not started the program: its own, that of a shell, and that of its loader.
const NOT_STARTED: [i32; 3] = [90, 126, 127];

impl Controller<'_> {
    fn run(&self, folder: &Path, milliseconds: &str) -> Command {
        let mut command = Command::new(self.whatif);
        // The runtime is unpacked each time.
        command.env("XDG_CACHE_HOME", folder.join("cache"));
        command.arg("run").arg("-o").arg(folder.join("recording.db")).args(self.options);
        command.args(["--seed", "1", "--"]).arg(&self.witness).arg(milliseconds);
        command
    }
}

impl Half for Controller<'_> {
    fn line(&self, folder: &Path) -> Command {
        self.run(folder, "700")
    }

    fn judge(&self, folder: &Path, ended: &Ended) -> Result<Outcome> {
        check_manners(ended)?;
        let code = ended.status.code().unwrap_or_default();
        let recording = folder.join("recording.db");
        let finished = self.finished(&recording)?;
        if ended.stdout.is_empty() {
            let is_known = NOT_STARTED.contains(&code) || has_no_signal_stack(ended);
            ensure!(is_known, "the program was not started, and it ended with {code}");
            ensure!(ended.stderr.lines().any(|line| line.contains(": ")), "not started, without a word");
            ensure!(!finished, "the recording has a run that was not");
            self.check_next(folder)?;
            return Ok(Outcome::Refused);
        }
        ensure!(ended.stdout == PRINTED, "the program printed {:?}", ended.stdout);
        ensure!(
            code == ENDS_WITH,
            "the program ended with {ENDS_WITH}, whatif with {code}: {}",
            said(&ended.stderr)
        );
        let says_recorded = ended.stderr.contains("recorded in");
        match (says_recorded, finished) {
            (true, false) => bail!("says that it has recorded, and has not: {}", ended.stderr.trim()),
            (_, true) => Ok(Outcome::WentOn),
            (false, false) => {
                let words = ended.stderr.contains("whatif: ") || has_no_signal_stack(ended);
                ensure!(words, "nothing is recorded, without a word");
                self.check_next(folder)?;
                Ok(Outcome::Said)
            }
        }
    }
}

impl Controller<'_> {
    /// Whether the recording has a run with its end; it has to be whole in any case.
    fn finished(&self, recording: &Path) -> Result<bool> {
        if !recording.exists() || recording.metadata()?.len() == 0 {
            return Ok(false);
        }
        let to = Connection::open(recording)?;
        let whole: String = to.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        ensure!(whole == "ok", "the recording is damaged: {whole}");
        ensure!(!to.prepare("PRAGMA foreign_key_check")?.exists([])?, "rows point nowhere");
        drop(to);
        let report = limited(Command::new(self.whatif).arg("report").arg(recording))?;
        check_manners(&report)?;
        let empty = report.stderr.contains("is empty");
        ensure!(report.status.success() || empty, "whatif report: {}", report.stderr.trim());
        if empty {
            return Ok(false);
        }
        let rows = Recording::open(recording)?.rows()?;
        let ends = rows.sessions.iter().filter_map(|session| session.end.as_ref());
        let mut ends = ends.map(|end| end.exit == Exit::Code(ENDS_WITH));
        let is_finished = ends.next();
        ensure!(is_finished != Some(false), "the recording says that the program ended otherwise");
        Ok(is_finished.is_some())
    }

    /// The next run goes on with what there is.
    fn check_next(&self, folder: &Path) -> Result<()> {
        let ended = limited(&mut self.run(folder, "50"))?;
        check_manners(&ended)?;
        ensure!(
            ended.stdout == PRINTED && ended.status.code() == Some(ENDS_WITH),
            "the next run: {} {}",
            ended.status,
            ended.stderr.trim()
        );
        Ok(())
    }
}
