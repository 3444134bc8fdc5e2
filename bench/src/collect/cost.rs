//! What collecting costs a machine whose CPUs are all busy.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::daemon::{Daemon, books, cpu_of};
use super::{Bench, as_number};
use crate::interval::Interval;
use crate::peer::on_path;

/// The load runs for so long before a collector is measured: names and labels are read once, and what a sample costs is measured again after ten
/// seconds.
const SETTLING: u32 = 12;

/// One run.
struct Ran {
    /// CPU time that the profiler used before it was measured, in milliseconds.
    start: f64,
    /// Rounds of the load per second.
    work: f64,
    /// CPU time of the profiler, as a part of the machine's.
    own: f64,
    /// CPU time of the profiler for each sample, in nanoseconds.
    each: f64,
    /// What the kernel takes for a sample, in nanoseconds.
    kernel: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    Whatif { stacks: bool },
    Perf,
}

impl Bench<'_> {
    pub fn cost(&self) -> Result<()> {
        println!(
            "cost on a machine whose CPUs are all busy, medians of {} runs with 95 % intervals",
            self.options.rounds
        );
        println!(
            "{:<28} {:>7} {:>9} {:>20} {:>20} {:>12} {:>12} {:>20}",
            "",
            "Hz",
            "start ms",
            "own ns/sample",
            "own % of machine",
            "kernel ns",
            "all-in %",
            "load slower %"
        );
        let cpus = std::thread::available_parallelism()?.get();
        let perf = on_path("perf");
        let mut ways = vec![Way::Plain, Way::Whatif { stacks: true }, Way::Whatif { stacks: false }];
        if perf.is_some() {
            ways.push(Way::Perf);
        } else {
            println!("perf is not on PATH; install linux-perf to compare");
        }
        for &rate in &self.options.rates {
            let mut runs: Vec<Vec<Ran>> = ways.iter().map(|_| Vec::new()).collect();
            for _ in 0..self.options.rounds {
                let mut order: Vec<usize> = (0..ways.len()).collect();
                fastrand::shuffle(&mut order);
                for way in order {
                    let ran = self.machine.quietly(|| self.ran(ways[way], rate, cpus, perf.as_deref()))?;
                    runs[way].push(ran);
                }
            }
            let (plain, profiled) = runs.split_first().context("there is a plain way")?;
            let plain = Interval::of_median(&plain.iter().map(|ran| ran.work).collect::<Vec<_>>()).estimate;
            for (way, runs) in ways[1..].iter().zip(profiled) {
                let of =
                    |value: fn(&Ran) -> f64| Interval::of_median(&runs.iter().map(value).collect::<Vec<_>>());
                let slower: Vec<f64> = runs.iter().map(|ran| 100.0 * (1.0 - ran.work / plain)).collect();
                let (own, kernel) = (of(|ran| 100.0 * ran.own), of(|ran| ran.kernel));
                let all_in = own.estimate + kernel.estimate * f64::from(rate) / 1e7;
                let name = match way {
                    Way::Plain => "plain",
                    Way::Whatif { stacks: true } => "whatif collect",
                    Way::Whatif { stacks: false } => "whatif collect --pc-only",
                    Way::Perf => "perf record -a -g",
                };
                println!(
                    "{name:<28} {rate:>7} {:>9.0} {:>20} {:>20} {:>12.0} {all_in:>12.3} {:>20}",
                    of(|ran| ran.start).estimate,
                    text(of(|ran| ran.each), 0),
                    text(own, 3),
                    kernel.estimate,
                    text(Interval::of_median(&slower), 2),
                );
            }
        }
        Ok(())
    }

    fn ran(&self, way: Way, rate: u32, cpus: usize, perf: Option<&Path>) -> Result<Ran> {
        let seconds = self.options.seconds.to_string();
        let load = || self.run_load(&["mix", &cpus.to_string(), &seconds]);
        let folder = tempfile::tempdir()?;
        let rate_text = rate.to_string();
        let machine = f64::from(self.options.seconds) * 1e9 * crate::interval::count(cpus);
        match way {
            Way::Plain => Ok(Ran { start: 0.0, work: load()?, own: 0.0, each: 0.0, kernel: 0.0 }),
            Way::Whatif { stacks } => {
                let mut options = vec!["--rate", &rate_text, "--max-cpu", "100%"];
                if !stacks {
                    options.push("--pc-only");
                }
                let daemon = Daemon::start(self.whatif.path(), folder.path(), &options)?;
                self.run_load(&["mix", &cpus.to_string(), &SETTLING.to_string()])?;
                let before = daemon.all_cpu()?;
                let work = load()?;
                let own = daemon.all_cpu()? - before;
                let state = daemon.state().context("the collector has not said how it is")?;
                daemon.end()?;
                let samples = books(folder.path())?.rate() * machine / 1e9;
                let kernel = state["kernel_cost_of_a_sample_ns"].as_f64().unwrap_or(f64::NAN);
                Ok(Ran {
                    start: before / 1e6,
                    work,
                    own: own / machine,
                    each: own / samples.max(1.0),
                    kernel,
                })
            }
            Way::Perf => {
                let file = folder.path().join("perf.data");
                let mut command = Command::new(perf.context("perf is there")?);
                command
                    .args(["record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", &rate_text, "-o"])
                    .arg(&file);
                let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
                sleep(Duration::from_millis(700));
                let before = cpu_of(child.id())?;
                let work = load()?;
                let own = cpu_of(child.id())? - before;
                Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
                child.wait()?;
                let samples = f64::from(rate) * machine / 1e9;
                Ok(Ran {
                    start: before / 1e6,
                    work,
                    own: own / machine,
                    each: own / samples,
                    kernel: f64::NAN,
                })
            }
        }
    }
}

fn text(interval: Interval, digits: usize) -> String {
    let Interval { estimate, low, high } = interval;
    format!("{estimate:.digits$} [{low:.digits$}, {high:.digits$}]")
}

/// A part in per cent.
pub fn per_cent(part: u64, whole: u64) -> f64 {
    100.0 * as_number(part) / as_number(whole.max(1))
}
