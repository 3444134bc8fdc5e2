//! What a fleet costs: sending to a server on this machine, what samples take there, and answers over a thousand machines.
//!
//! Two kinds of samples: those that databases of machines have, made here or collected from this machine, go the usual way (`whatif fleet push`); those of a thousand machines are
//! made on the server, because only reading them is measured.

mod databases;
mod growth;
// Servers as the tests start them; what is not measured here is not asked of them.
#[allow(dead_code)]
#[path = "../../../crates/fleet/tests/support/nodes.rs"]
mod nodes;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;

use self::nodes::Nodes;
use crate::machine::Machine;
use crate::profiler::Whatif;

/// Where all tables are.
const DATABASE: &str = "whatif";

#[derive(Debug, Args)]
pub struct Options {
    /// Send the databases of so many simulated machines
    #[arg(long, default_value_t = 8)]
    machines: u32,

    /// Minutes of each of them
    #[arg(long, default_value_t = 60)]
    minutes: u32,

    /// Collect this machine for so many seconds, and send that as well; 0: do not
    #[arg(long, default_value_t = 60)]
    collect: u32,

    /// Ask about so many samples of a thousand machines, one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [10_000_000, 100_000_000])]
    samples: Vec<u64>,

    /// How often each question is asked
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    let nodes = Nodes::start(1).context("install clickhouse-server")?;
    let fleet = Fleet { node: &nodes.nodes[0], whatif };
    let folder = tempfile::tempdir()?;
    fleet.init()?;
    let simulated = folder.path().join("simulated");
    databases::write(&simulated, options.machines, options.minutes)?;
    fleet.send("simulated machines", &simulated)?;
    if options.collect > 0 {
        let real = folder.path().join("real");
        let seconds = format!("{}s", options.collect);
        let mut collects = Command::new(whatif.path());
        collects.args(["collect", "--quiet", "--duration", &seconds, "--db"]).arg(&real);
        let status = collects.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "{collects:?} failed");
        fleet.init()?;
        fleet.send("this machine", &real)?;
    }
    growth::run(&fleet, options)?;
    println!("{}", machine.watch().sentence());
    Ok(())
}

/// A server with its tables.
struct Fleet<'a> {
    node: &'a nodes::Node,
    whatif: &'a Whatif,
}

impl Fleet<'_> {
    /// New, empty tables.
    fn init(&self) -> Result<()> {
        self.node.ask(&format!("DROP DATABASE IF EXISTS {DATABASE}"));
        self.ask(&["init"]).map(drop)
    }

    /// What `whatif fleet …` prints.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.whatif.path());
        command.arg("fleet").args(words).args(["--url", &self.node.url()]);
        let output = command.stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What the server says to a statement.
    fn sql(&self, statement: &str) -> Result<Vec<f64>> {
        let text = self.ask(&["sql", statement, "--format", "TabSeparated"])?;
        text.split_ascii_whitespace().map(|number| number.parse().context("no number")).collect()
    }

    /// Sends a database, and prints how fast, and what it takes before and after merging.
    fn send(&self, what: &str, folder: &Path) -> Result<()> {
        let folder = folder.to_str().context("a folder without a readable name")?;
        let begin = Instant::now();
        self.ask(&["push", "--db", folder])?;
        let seconds = begin.elapsed().as_secs_f64();
        let [rows, samples] = self.sql(&format!("SELECT count(), sum(count) FROM {DATABASE}.samples"))?[..]
        else {
            anyhow::bail!("two numbers were asked for");
        };
        println!(
            "{what}: {samples:.0} samples in {rows:.0} rows sent in {seconds:.1} s: {:.0} samples a second, {:.0} rows a second",
            samples / seconds,
            rows / seconds
        );
        let raw = self.bytes()? / samples;
        self.merge()?;
        println!(
            "  {raw:.2} bytes a sample as sent, {:.2} after merging, in all tables",
            self.bytes()? / samples
        );
        self.adds_up()
    }

    /// Bytes of all tables on the disk.
    fn bytes(&self) -> Result<f64> {
        let all =
            format!("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{DATABASE}'");
        self.sql(&all)?.first().copied().context("no number of bytes")
    }

    /// Has the server put all parts together.
    fn merge(&self) -> Result<()> {
        let parts = self.ask(&[
            "sql",
            "--format",
            "TabSeparated",
            &format!(
                "SELECT DISTINCT table, partition FROM system.parts WHERE active AND database = '{DATABASE}'"
            ),
        ])?;
        for line in parts.lines() {
            let (table, partition) = line.split_once('\t').context("no partition")?;
            let of = if partition == "tuple()" { String::new() } else { format!(" PARTITION {partition}") };
            self.node.ask(&format!("OPTIMIZE TABLE {DATABASE}.{table}{of} FINAL"));
        }
        Ok(())
    }

    /// Samples and books say the same.
    fn adds_up(&self) -> Result<()> {
        let standing: Value = serde_json::from_str(&self.ask(&["status", "--json"])?)?;
        let doubts = standing["doubts"].as_array().context("no doubts in the status")?;
        ensure!(doubts.is_empty(), "it does not add up: {doubts:?}");
        Ok(())
    }
}
