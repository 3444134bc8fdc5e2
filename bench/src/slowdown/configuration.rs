//! What runs beside the workloads.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Profiler;
use crate::collect::{Daemon, books};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Configuration {
    /// Nothing.
    Base,
    Profiled {
        profiler: Profiler,
        /// Samples per second and CPU.
        rate: u32,
    },
}

/// All workloads, once.
pub struct Pass {
    /// In seconds, of each workload.
    pub times: Vec<f64>,
    /// Samples per second and CPU that were taken of the first event, as far as the profiler says.
    pub rate: Option<f64>,
}

impl Configuration {
    /// What `work` takes beside this.
    pub fn pass(
        self,
        whatif: &Path,
        perf: Option<&Path>,
        work: impl FnOnce() -> Result<Vec<f64>>,
    ) -> Result<Pass> {
        let folder = tempfile::tempdir()?;
        match self {
            Self::Base => Ok(Pass { times: work()?, rate: None }),
            Self::Profiled { profiler: Profiler::Perf, rate } => {
                let mut command = Command::new(perf.context("perf is there")?);
                command.args(["record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", &rate.to_string(), "-o"]);
                command.arg(folder.path().join("perf.data")).stdout(Stdio::null()).stderr(Stdio::null());
                let mut child = command.spawn()?;
                sleep(Duration::from_millis(700));
                let times = work();
                Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
                child.wait()?;
                Ok(Pass { times: times?, rate: None })
            }
            Self::Profiled { profiler, rate } => {
                let events = match profiler {
                    Profiler::Default => "default",
                    Profiler::Mux => "mux",
                    Profiler::Cycles | Profiler::Perf => "cycles",
                };
                let rate = rate.to_string();
                let options = ["--rate", &rate, "--events", events, "--max-cpu", "100%"];
                let daemon = Daemon::start(whatif, folder.path(), &options)?;
                let times = work()?;
                daemon.end()?;
                Ok(Pass { times, rate: Some(books(folder.path())?.rate()) })
            }
        }
    }
}

impl std::fmt::Display for Configuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Base => return write!(f, "base"),
            Self::Profiled { profiler: Profiler::Cycles, .. } => "cycles",
            Self::Profiled { profiler: Profiler::Default, .. } => "default",
            Self::Profiled { profiler: Profiler::Mux, .. } => "mux",
            Self::Profiled { profiler: Profiler::Perf, .. } => "perf",
        };
        let Self::Profiled { rate, .. } = self else { return Ok(()) };
        write!(f, "{name} {rate}")
    }
}
