//! The log: a line of JSON for each check, with the machine that it was measured on.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::thread::available_parallelism;
use std::time::SystemTime;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Judged;
use super::check::{Check, Ended};
use super::plan::{Tally, Verdict};

/// CPU flags that have made a difference: the size of a signal's frame.
const NOTED_FLAGS: [&str; 3] = ["avx2", "avx512f", "amx_tile"];

#[derive(Debug, Serialize)]
struct Machine {
    cpu: String,
    cpus: usize,
    flags: Vec<&'static str>,
    kernel: String,
    load: f64,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    /// Seconds since 1970.
    time: u64,
    machine: Machine,
    check: &'a str,
    seed: u64,
    verdict: Verdict,
    #[serde(flatten)]
    tally: Tally,
    seconds: f64,
    runs: &'a [Ended],
}

impl Machine {
    fn here() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpu.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let flags = field("flags").unwrap_or_default();
        let has = |flag: &&str| flags.split(' ').any(|one| one == *flag);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            cpu: field("model name").unwrap_or_default(),
            cpus: available_parallelism().map_or(1, usize::from),
            flags: NOTED_FLAGS.into_iter().filter(has).collect(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            load: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default(),
        }
    }
}

/// The machine in words.
pub fn machine_sentence() -> String {
    let Machine { cpu, cpus, flags, kernel, load } = Machine::here();
    format!("{cpus} CPUs ({cpu}; {}), Linux {kernel}, load {load}", flags.join(" "))
}

/// What became of the checks that a log is about; none where there is no such file yet. The last line of one that was cut off is no line.
pub fn checks_in(path: &Path) -> Result<BTreeMap<String, Verdict>> {
    #[derive(Deserialize)]
    struct Known {
        check: String,
        verdict: Verdict,
    }
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        text => text.with_context(|| format!("reading {}", path.display()))?,
    };
    let known = |line: &str| serde_json::from_str(line).map(|Known { check, verdict }| (check, verdict));
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(known).collect::<Result<_, _>>().with_context(|| format!("{} is no such log", path.display()))
}

/// Appends what became of a check.
pub fn append(path: &Path, check: &Check, seed: u64, judged: &Judged) -> Result<()> {
    let line = Line {
        time: SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()),
        machine: Machine::here(),
        check: &check.name,
        seed,
        verdict: judged.verdict,
        tally: judged.tally,
        seconds: judged.seconds,
        runs: &judged.runs,
    };
    let text = serde_json::to_string(&line)? + "\n";
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {} (is its folder there?)", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_which_checks_it_is_about() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert!(checks_in(&path).unwrap().is_empty());
        let name = "truth::mutex";
        let check = super::super::checks::all().into_iter().find(|check| check.name == name).unwrap();
        let judged =
            Judged { verdict: Verdict::Accepted, tally: Tally::default(), runs: Vec::new(), seconds: 0.0 };
        append(&path, &check, 1, &judged).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole + "{\"check\": \"trut").unwrap();
        let known: Vec<_> = checks_in(&path).unwrap().into_iter().collect();
        assert_eq!(known, [(name.to_owned(), Verdict::Accepted)]);
        fs::write(&path, "no log\n").unwrap();
        assert!(checks_in(&path).is_err());
    }
}
