//! Where runs come from: a server, or recordings on this machine. Both give the same runs; what is made of them is the same code.

use crate::error::Error;
use crate::question::{Question, quoted};
use crate::recordings::files;
use crate::run::{Named, Run};
use crate::run_rows::{REGION_COLUMNS, RUN_COLUMNS, RegionRow, RunRow, WINDOW_COLUMNS, WindowRow};
use crate::run_rows::{read_regions, read_run};
use crate::store::Store;
use crate::tables::{REGIONS, RUNS, WINDOWS};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

/// Runs that were asked for.
#[derive(Debug, Default)]
pub struct Found {
    /// By uid.
    pub runs: Vec<Run>,
    /// How many are not whole: windows of them are missing.
    pub broken: usize,
}

/// A server, or recordings.
pub trait RunSource {
    /// What it is called in answers.
    fn place(&self) -> String;

    /// The runs that began in the time of a question, of its services, versions and hosts.
    fn runs(&self, of: &Question) -> Result<Found, Error>;
}

/// Recordings on this machine.
pub struct LocalRuns {
    /// Files, and folders with files.
    pub paths: Vec<PathBuf>,
}

impl RunSource for LocalRuns {
    fn place(&self) -> String {
        let shown: Vec<String> = self.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        shown.join(", ")
    }

    fn runs(&self, of: &Question) -> Result<Found, Error> {
        let (is_meant, is_host) = (of.only.meant()?, of.only.hosts()?);
        let mut known = BTreeSet::new();
        let mut runs = Vec::new();
        for file in files(&self.paths)? {
            if !file.is_recording()? {
                continue;
            }
            let held = file.read(&Named::default(), &known)?;
            for run in held.runs {
                // It may be in another recording as well.
                known.insert(run.uid.clone());
                if of.time.contains(&run.started()) && is_host(&run.host) && is_meant(&run.ran(), &run.host) {
                    runs.push(run);
                }
            }
        }
        runs.sort_by(|a, b| a.uid.cmp(&b.uid));
        Ok(Found { runs, broken: 0 })
    }
}

impl RunSource for Store {
    fn place(&self) -> String {
        format!("{}/{}", self.server.url(), self.server.database())
    }

    fn runs(&self, of: &Question) -> Result<Found, Error> {
        let which =
            format!("WHERE {}{}", of.time_sql("started"), of.only.sql(&["service", "version", "host"]));
        let runs = format!("SELECT {RUN_COLUMNS} FROM {} {which}", self.table(RUNS));
        let mut rows: BTreeMap<String, RunRow> = BTreeMap::new();
        for row in self.server.all::<RunRow>(&runs)? {
            // Of several rows, which have not become one yet, the newest.
            if rows.get(&row.run).is_none_or(|known| known.sent <= row.sent) {
                rows.insert(row.run.clone(), row);
            }
        }
        if rows.is_empty() {
            return Ok(Found::default());
        }
        // Asked for after the runs: a run is there when its windows are.
        // By their runs, whatever service these had when a sender that was killed had sent the windows.
        let windows = format!(
            "SELECT {WINDOW_COLUMNS} FROM {} WHERE {}{}",
            self.table(WINDOWS),
            of.time_sql("started"),
            of.only.sql(&["host"])
        );
        let mut of_run: HashMap<String, Vec<WindowRow>> = HashMap::new();
        for row in self.server.all::<WindowRow>(&windows)? {
            match of_run.get_mut(&row.run) {
                Some(known) => known.push(row),
                None => drop(of_run.insert(row.run.clone(), vec![row])),
            }
        }
        // Regions are few, and may be of any run.
        let regions = format!("SELECT DISTINCT {REGION_COLUMNS} FROM {}", self.table(REGIONS));
        let regions = read_regions(self.server.all::<RegionRow>(&regions)?);
        let mut found = Found::default();
        for (uid, row) in rows {
            let windows = of_run.remove(&uid).unwrap_or_default();
            match read_run(row, windows, &regions) {
                Some(run) => found.runs.push(run),
                None => found.broken += 1,
            }
        }
        Ok(found)
    }
}

impl Store {
    /// Those of these runs that the server has.
    pub fn runs_there(&self, uids: &[&str]) -> Result<BTreeSet<String>, Error> {
        self.those("run", RUNS, uids)
    }

    /// Those of these runs of which the server has windows.
    pub fn windows_there(&self, uid: &str) -> Result<bool, Error> {
        Ok(!self.those("run", WINDOWS, &[uid])?.is_empty())
    }

    fn those(&self, column: &str, table: &str, uids: &[&str]) -> Result<BTreeSet<String>, Error> {
        let mut there = BTreeSet::new();
        for some in uids.chunks(UIDS) {
            let list: Vec<String> = some.iter().map(|uid| quoted(uid)).collect();
            let list = list.join(", ");
            let table = self.table(table);
            let asked = format!("SELECT DISTINCT {column} FROM {table} WHERE {column} IN ({list})");
            there.extend(self.server.all::<String>(&asked)?);
        }
        Ok(there)
    }
}

/// So many uids stand in one statement.
const UIDS: usize = 1000;
