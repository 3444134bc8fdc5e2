//! Time off the CPU: known waits against what is found, and what it costs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Bench;
use super::daemon::Daemon;
use crate::program;

/// What the program waits in, by its functions: it says how long each took.
const FUNCTIONS: [&str; 4] = ["sleeps", "locks", "reads", "syncs"];
/// With frame pointers and without.
const BUILDS: [(&str, &[&str]); 2] = [
    ("waits-with", &["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]),
    ("waits-without", &["-fomit-frame-pointer"]),
];

impl Bench<'_> {
    pub fn off_cpu(&self) -> Result<()> {
        println!(
            "time off the CPU: shares of waits in per cent, truth and found; microseconds that the lock is waited for"
        );
        let folder = tempfile::tempdir()?;
        for (name, flags) in BUILDS {
            let program = build(folder.path(), name, flags)?;
            for unit in ["20", "200", "2000", "20000"] {
                self.shares_of_waits(&program, name, unit)?;
            }
        }
        self.cost_of_waits()
    }

    fn shares_of_waits(&self, waits: &Path, name: &str, unit: &str) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let daemon = Daemon::start(
            self.whatif.path(),
            &folder.path().join("db"),
            &["--off-cpu", "--rate", "97", "--max-cpu", "100%"],
        )?;
        let seconds = self.options.accuracy.to_string();
        let mut command = Command::new(waits);
        command.args([seconds.as_str(), unit]).arg(folder.path().join("file"));
        let said = program::output(&mut command)?;
        daemon.end()?;
        let said = String::from_utf8_lossy(&said.stdout);
        let words: Vec<&str> = said.split_whitespace().collect();
        let truth: Vec<f64> = words.chunks(2).filter_map(|pair| pair.get(1)?.parse().ok()).collect();
        ensure!(truth.len() == FUNCTIONS.len(), "the program said {said}");
        let mut top = Command::new(self.whatif.path());
        top.args(["top", "--json", "--off-cpu", "--top", "1000", "--process", name, "--db"]);
        let output = program::output(top.arg(folder.path().join("db")))?;
        let answer: Value = serde_json::from_slice(&output.stdout).context("reading whatif top --json")?;
        let rows = answer["rows"].as_array().context("whatif top --json has no rows")?;
        let of = |function: &str| {
            let its = rows.iter().filter(|row| row["name"] == function);
            its.filter_map(|row| row["total"].as_f64()).sum::<f64>()
        };
        let found = FUNCTIONS.map(of);
        let share = |values: &[f64]| {
            let sum: f64 = values.iter().sum();
            values
                .iter()
                .map(|value| format!("{:.1}", 100.0 * value / sum.max(1e-9)))
                .collect::<Vec<_>>()
                .join(" / ")
        };
        let each = answer["heading"]["nanos_per_sample"].as_f64().unwrap_or(0.0) / 1e9;
        println!(
            "  {name:>13}, {:>6}: {} are {}, found as {}; {:.1} of {:.1} s",
            unit.parse::<u64>()? * 3,
            FUNCTIONS.join(" / "),
            share(&truth),
            share(&found),
            each * found.iter().sum::<f64>(),
            truth.iter().sum::<f64>()
        );
        Ok(())
    }

    /// As each collector measures it at its start.
    fn cost_of_waits(&self) -> Result<()> {
        for _ in 0..self.options.rounds {
            let folder = tempfile::tempdir()?;
            let mut collect = Command::new(self.whatif.path());
            collect.args(["collect", "--off-cpu", "--duration", "0.3s", "--db"]).arg(folder.path());
            let said = program::output(&mut collect)?;
            let said = String::from_utf8_lossy(&said.stderr);
            let line = said.lines().find(|line| line.contains("time off the CPU"));
            println!("  {}", line.context("the collector says nothing about time off the CPU")?);
        }
        Ok(())
    }
}

fn build(folder: &Path, name: &str, flags: &[&str]) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/whatif/tests/programs/off_cpu.c");
    let program = folder.join(name);
    let mut command = Command::new("cc");
    command.args(["-O2", "-g"]).args(flags).arg(source).arg("-o").arg(&program).arg("-lpthread");
    program::output(&mut command)?;
    Ok(program)
}
