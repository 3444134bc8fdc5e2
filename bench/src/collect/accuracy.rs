//! Shares that are known, against what is found.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Bench;
use super::daemon::Daemon;
use crate::program;

impl Bench<'_> {
    pub fn accuracy(&self) -> Result<()> {
        println!("shares of the load's samples, in per cent");
        let seconds = self.options.accuracy.to_string();
        for rate in ["97", "997"] {
            let shares = self.shares(rate, &["mix", "1", &seconds])?;
            let of = |name| shares.0.iter().find(|(known, _)| known == name).map_or(0.0, |(_, share)| *share);
            let sum = of("seventy") + of("twenty") + of("ten");
            println!(
                "  {rate:>4} Hz: 70 / 20 / 10 found as {:.1} / {:.1} / {:.1}, and {:.1} of all in the kernel and elsewhere",
                100.0 * of("seventy") / sum,
                100.0 * of("twenty") / sum,
                100.0 * of("ten") / sum,
                100.0 - sum
            );
        }
        // Code that takes turns exactly as often as samples are taken, and at twice and half of it.
        for step in ["97", "194", "48.5"] {
            let (shares, truth) = self.shares("97", &["lockstep", step, &seconds])?;
            let of =
                |name: &str| shares.iter().find(|(known, _)| known == name).map_or(0.0, |(_, share)| *share);
            let (inside, outside) = (of("in_phase"), of("out_of_phase"));
            println!(
                "  97 Hz, code in lockstep at {step} Hz: {:.1} found as {:.1}",
                100.0 * truth,
                100.0 * inside / (inside + outside).max(1e-9)
            );
        }
        Ok(())
    }

    /// The share of each function of the load, and what the load said at its end.
    fn shares(&self, rate: &str, load: &[&str]) -> Result<(Vec<(String, f64)>, f64)> {
        let folder = tempfile::tempdir()?;
        let daemon =
            Daemon::start(self.whatif.path(), folder.path(), &["--rate", rate, "--max-cpu", "100%"])?;
        let said = self.run_load(load)?;
        daemon.end()?;
        let mut top = Command::new(self.whatif.path());
        top.args(["top", "--json", "--process", "bench-machine", "--db"]).arg(folder.path());
        let output = program::output(&mut top)?;
        let answer: Value = serde_json::from_slice(&output.stdout).context("reading whatif top --json")?;
        let rows = answer["rows"].as_array().context("whatif top --json has no rows")?;
        let total: f64 = rows.iter().filter_map(|row| row["samples"].as_f64()).sum();
        let share = |row: &Value| {
            Some((row["name"].as_str()?.to_owned(), 100.0 * row["samples"].as_f64()? / total.max(1.0)))
        };
        Ok((rows.iter().filter_map(share).collect(), said))
    }
}
