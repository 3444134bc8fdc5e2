//! How much slower programs get while the collector runs: Table 3 of "Continuous Profiling: Where Have All the Cycles Gone?", on the
//! programs of today, with `perf record` as one more column.
//!
//! What the collector costs is a fraction of what two runs of a program differ by, so this needs many runs and tells what is
//! large. `bench -- collect --only cost` accounts for the rest.

mod configuration;
mod table;
mod workload;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::machine::Machine;
use crate::peer::on_path;
use crate::profiler::Whatif;
use configuration::Configuration;
use table::Table;
use workload::{Place, WORKLOADS, Workload};

#[derive(Debug, Args)]
pub struct Options {
    /// Only these workloads [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    /// Only these configurations, besides the one without a profiler [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    configurations: Vec<Profiler>,

    /// Samples per second and CPU
    #[arg(long, value_delimiter = ',', default_values_t = [97, 997, 5200])]
    rates: Vec<u32>,

    /// Runs of everything that is compared
    #[arg(long, default_value_t = 10)]
    rounds: usize,
}

/// What runs beside the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profiler {
    /// `whatif collect`, of the clock or of cycles
    Cycles,
    /// `whatif collect --events default`: a second event
    Default,
    /// `whatif collect --events mux`: several, in turns
    Mux,
    /// `perf record -a -g`
    Perf,
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(
        options.rounds > 1,
        "there must be two rounds at least: one tells nothing of how much runs differ"
    );
    let place = Place::new()?;
    let workloads = chosen(&options.only)?;
    let profilers = match options.configurations.as_slice() {
        [] => Profiler::value_variants().to_vec(),
        some => some.to_vec(),
    };
    let perf = on_path("perf");
    if perf.is_none() && profilers.contains(&Profiler::Perf) {
        println!("perf is not on PATH; install linux-perf to compare");
    }
    // Without a profiler twice, for everything is compared with it.
    let mut configurations = vec![Configuration::Base, Configuration::Base];
    for &rate in &options.rates {
        for &profiler in profilers.iter().filter(|profiler| **profiler != Profiler::Perf || perf.is_some()) {
            configurations.push(Configuration::Profiled { profiler, rate });
        }
    }
    let mut table = Table::new(&workloads, &configurations);
    for _ in 0..options.rounds {
        let mut order: Vec<usize> = (0..configurations.len()).collect();
        fastrand::shuffle(&mut order);
        let mut round = vec![Vec::new(); configurations.len()];
        for index in order {
            let pass =
                || configurations[index].pass(whatif.path(), perf.as_deref(), || times(&workloads, &place));
            let pass = machine.quietly(pass)?;
            table.reached(index, pass.rate);
            round[index] = pass.times;
        }
        table.add(round);
    }
    print!("{table}");
    println!("{}", machine.watch().sentence());
    Ok(())
}

/// How long each of the workloads takes, in seconds; they run in random order.
fn times(workloads: &[Workload], place: &Place) -> Result<Vec<f64>> {
    let mut order: Vec<usize> = (0..workloads.len()).collect();
    fastrand::shuffle(&mut order);
    let mut times = vec![0.0; workloads.len()];
    for index in order {
        times[index] = workloads[index].run(place)?;
    }
    Ok(times)
}

/// The workloads of these names whose programs are installed.
fn chosen(only: &[String]) -> Result<Vec<Workload>> {
    for name in only {
        ensure!(
            WORKLOADS.iter().any(|workload| workload.name == name),
            "there is no workload '{name}'; choose from: {}",
            WORKLOADS.map(|workload| workload.name).join(" ")
        );
    }
    let mut chosen = Vec::new();
    for workload in WORKLOADS
        .into_iter()
        .filter(|workload| only.is_empty() || only.iter().any(|name| name == workload.name))
    {
        match on_path(workload.needs) {
            Some(_) => chosen.push(workload),
            None => println!("{}: {} is not on PATH", workload.name, workload.needs),
        }
    }
    ensure!(!chosen.is_empty(), "none of the workloads can run here");
    Ok(chosen)
}
