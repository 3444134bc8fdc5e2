//! The collector of continuous profiles: what it costs, what it loses, what it takes on disk and in memory, whether it is
//! right, how quickly it answers, and what is left after it was killed; beside `perf record` where that is installed.
//!
//! Whole-run differences of a per cent drown in the variation between runs, so what it costs is *accounted*: the CPU time
//! of the collector from the kernel's books, and the time that one interruption takes, from gaps in a loop that looks at
//! the clock. Throughput beside it is there to see that nothing was forgotten.

mod accuracy;
mod build_machine;
mod cost;
mod daemon;
mod disk;
mod kills;
mod loss;
mod off_cpu;
mod stacks;

pub use daemon::{Daemon, books};

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::calls;
use crate::machine::Machine;
use crate::profiler::Whatif;
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Only these parts [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,

    /// Samples per second and CPU whose cost is measured
    #[arg(long, value_delimiter = ',', default_values_t = [97, 997, 10_000])]
    rates: Vec<u32>,

    /// Runs of everything that is compared
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// How long a run takes
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    seconds: u32,

    /// How long shares are measured against what they are
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    accuracy: u32,

    /// Times that the collector is killed
    #[arg(long, default_value_t = 1000)]
    kills: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// CPU time, of the collector and of the kernel
    Cost,
    /// Samples that are lost, by themselves and by force, and those without an image
    Loss,
    /// Known shares
    Accuracy,
    /// Known waits, and what it costs to find them
    Offcpu,
    /// Whether stacks are whole, of programs of the distribution
    Stacks,
    /// Bytes per sample, memory, and the time of queries over a day
    Disk,
    /// What is left after kill -9
    Kills,
}

/// What all parts need.
struct Bench<'a> {
    options: &'a Options,
    machine: &'a Machine,
    whatif: &'a Whatif,
    load: PathBuf,
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    let bench = Bench { options, machine, whatif, load: calls::build("machine")? };
    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    if wanted(Part::Cost) {
        bench.cost()?;
    }
    if wanted(Part::Loss) {
        bench.loss()?;
    }
    if wanted(Part::Accuracy) {
        bench.accuracy()?;
    }
    if wanted(Part::Offcpu) {
        bench.off_cpu()?;
    }
    if wanted(Part::Stacks) {
        bench.stacks()?;
    }
    if wanted(Part::Disk) {
        bench.disk()?;
    }
    if wanted(Part::Kills) {
        bench.kills()?;
    }
    println!("{}", machine.watch().sentence());
    Ok(())
}

impl Bench<'_> {
    /// Runs the load, and returns the number that it ends with.
    fn run_load(&self, arguments: &[&str]) -> Result<f64> {
        run_load(&self.load, arguments)
    }
}

/// See [`Bench::run_load`].
fn run_load(load: &Path, arguments: &[&str]) -> Result<f64> {
    let output = program::output(std::process::Command::new(load).args(arguments))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().find_map(|line| line.strip_prefix("done ")?.parse().ok());
    said.with_context(|| format!("{} {arguments:?} said: {text}", load.display()))
}

/// A number of samples, to calculate with.
#[expect(clippy::cast_precision_loss)]
fn as_number(count: u64) -> f64 {
    count as f64
}
