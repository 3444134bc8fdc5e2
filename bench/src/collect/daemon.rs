//! A collector that runs, and what its database says afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rusqlite::Connection;
use serde_json::Value;

use crate::machine::most_memory;

/// Killed when dropped.
pub struct Daemon {
    child: Child,
    folder: PathBuf,
}

/// What became of the samples, all intervals together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Books {
    pub expected: u64,
    pub stored: u64,
    pub unknown: u64,
    pub lost: u64,
    pub covered_ns: u64,
    pub intervals: u64,
}

impl Daemon {
    /// Starts `whatif collect`, and waits until it samples.
    pub fn start(whatif: &Path, folder: &Path, options: &[&str]) -> Result<Self> {
        let mut command = Command::new(whatif);
        command.args(["collect", "--quiet", "--db"]).arg(folder).args(options);
        let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("starting {command:?}"))?;
        let mut daemon = Self { child, folder: folder.to_owned() };
        let begin = Instant::now();
        while daemon.state().is_none_or(|state| state["pid"] != daemon.child.id()) {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("{command:?} ended at once: {status} (it samples the whole machine: run this as root)");
            }
            ensure!(begin.elapsed() < Duration::from_secs(20), "{command:?} does not begin");
            sleep(Duration::from_millis(2));
        }
        Ok(daemon)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it says of itself.
    pub fn state(&self) -> Option<Value> {
        state_of(&self.folder)
    }

    /// CPU time that all its threads have used, in nanoseconds.
    pub fn all_cpu(&self) -> Result<f64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid()))?;
        let of =
            |task: std::io::Result<fs::DirEntry>| cpu_of(task.ok()?.file_name().to_str()?.parse().ok()?).ok();
        Ok(tasks.filter_map(of).sum())
    }

    /// The most memory it has had resident, in bytes.
    pub fn peak(&self) -> Result<u64> {
        most_memory(self.pid())
    }

    pub fn signal(&self, name: &str) -> Result<()> {
        let sent = Command::new("kill").args([name, &self.pid().to_string()]).status()?;
        ensure!(sent.success(), "cannot send {name} to the collector");
        Ok(())
    }

    /// Asks it to end, and waits until it has written everything.
    pub fn end(mut self) -> Result<()> {
        self.signal("-TERM")?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the collector ended with {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the last collector said of itself.
pub fn state_of(folder: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(folder.join("status.json")).ok()?).ok()
}

/// CPU time of a thread, in nanoseconds; of a process that of its first one.
pub fn cpu_of(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    text.split_whitespace().next().and_then(|word| word.parse().ok()).context("no schedstat")
}

/// The sums over the first event.
pub fn books(folder: &Path) -> Result<Books> {
    let catalogue = Connection::open(folder.join("catalogue.db"))?;
    let sums = "SELECT sum(expected), sum(stored), sum(unknown), sum(lost), sum(covered_ns), count(*) FROM books WHERE event = (SELECT min(id) FROM events)";
    Ok(catalogue.query_row(sums, [], |row| {
        let number =
            |column| row.get::<_, Option<i64>>(column).map(|number| number.unwrap_or(0).unsigned_abs());
        Ok(Books {
            expected: number(0)?,
            stored: number(1)?,
            unknown: number(2)?,
            lost: number(3)?,
            covered_ns: number(4)?,
            intervals: number(5)?,
        })
    })?)
}

impl Books {
    pub fn taken(&self) -> u64 {
        self.stored + self.unknown
    }

    /// Samples per second and CPU.
    pub fn rate(&self) -> f64 {
        super::as_number(self.taken()) * 1e9 / super::as_number(self.covered_ns.max(1))
    }
}
