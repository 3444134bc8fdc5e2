//! The collector: whatever fails, it goes on or ends with a message, the database is whole, and the next collector goes on with it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;

use super::harness::{Ended, limited};
use super::table::{Half, Outcome, check_manners};

pub struct Collector<'a> {
    pub whatif: &'a Path,
}

impl Collector<'_> {
    fn collect(&self, folder: &Path, seconds: &str) -> Command {
        let mut command = Command::new(self.whatif);
        command.args(["collect", "--quiet", "--interval", "1", "--rate", "50", "--duration", seconds]);
        command.arg("--db").arg(folder.join("db"));
        command
    }
}

impl Half for Collector<'_> {
    fn line(&self, folder: &Path) -> Command {
        self.collect(folder, "2")
    }

    fn judge(&self, folder: &Path, ended: &Ended) -> Result<Outcome> {
        check_manners(ended)?;
        let database = folder.join("db");
        let outcome = match ended.status.code() {
            Some(0) => Outcome::WentOn,
            code => {
                ensure!(!ended.stderr.trim().is_empty(), "ended with {code:?} without a word");
                if database.join("catalogue.db").exists() { Outcome::Said } else { Outcome::Refused }
            }
        };
        self.check(folder, &database)?;
        Ok(outcome)
    }
}

impl Collector<'_> {
    /// The database is whole, and the next collector goes on with it.
    fn check(&self, folder: &Path, database: &Path) -> Result<()> {
        let catalogue = database.join("catalogue.db");
        if catalogue.exists() && catalogue.metadata()?.len() > 0 {
            let catalogue = Connection::open(&catalogue)?;
            let whole: String = catalogue.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            ensure!(whole == "ok", "the catalogue is damaged: {whole}");
        }
        let ended = limited(&mut self.collect(folder, "1"))?;
        ensure!(ended.status.success(), "the next collector: {}", ended.stderr);
        let top = limited(
            Command::new(self.whatif).args(["top", "--json", "--idle", "--top", "5", "--db"]).arg(database),
        )?;
        ensure!(top.status.success(), "whatif top: {}", top.stderr);
        let top: serde_json::Value = serde_json::from_str(&top.stdout)?;
        let books = &top["heading"]["books"];
        let number = |name: &str| books[name].as_u64().with_context(|| format!("no {name}"));
        ensure!(
            number("expected")? == number("stored")? + number("unknown")? + number("lost")?,
            "the books do not balance: {books}"
        );
        Ok(())
    }
}
