//! Peak: how much memory and CPU time a command took.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::machine::most_memory;

/// Time between two looks at the memory: its peak never falls, so little is missed.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// The most it had resident, in bytes.
    pub memory: u64,
    /// Of all its threads.
    pub cpu: Duration,
}

/// Runs a command to its end, which has to come within `limit`.
pub fn of(command: &mut Command, limit: Duration) -> Result<Peak> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let folder = format!("/proc/{}", child.id());
    let begin = Instant::now();
    let mut peak = Peak::default();
    // One that has ended is still there as long as it was not waited for.
    loop {
        let stat = fs::read_to_string(format!("{folder}/stat"))?;
        let fields: Vec<&str> = stat.rsplit_once(") ").context("no stat")?.1.split_whitespace().collect();
        let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        peak.cpu = Duration::from_millis(10 * ticks);
        // Nothing is known of one that has ended.
        peak.memory = most_memory(child.id()).unwrap_or(peak.memory);
        if fields[0] == "Z" {
            break;
        }
        if begin.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
        }
        ensure!(begin.elapsed() <= limit, "{command:?} does not end");
        sleep(LOOK);
    }
    let status = child.wait()?;
    // `run` may not have found an answer in so short a time.
    ensure!(status.code().is_some_and(|code| code == 0 || code >= 95), "{command:?} ends with {status}");
    Ok(peak)
}
