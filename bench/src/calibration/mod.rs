//! How often the 95 % intervals hold the truth, and how often an effect is seen where there is none.
//!
//! The truth, the questions and the time are those of `truth`; here every question is asked with several seeds,
//! and a **cell** is one region at one speedup with one seed. The cells of one run share its baseline, and those
//! of one region its truth, so they are worth less than as many independent ones, and the interval of the
//! coverage itself ([`coverage::Share`]) is a little too narrow.

pub mod coverage;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use targets::Target;

use self::coverage::{Coverage, FalseAlarms, PROFILER};
use crate::machine::{Machine, Patience, Watch};
use crate::native;
use crate::output;
use crate::profiler::{Prediction, Profiler, Question, Whatif};
use crate::program;
use crate::truth::plan::{Enough, Plan, Wishes, Work};
use crate::truth::row::Row;
use crate::truth::{ask, clock};

#[derive(Debug, Args)]
pub struct Options {
    /// Only the targets called this (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// How long everything may take, building apart [default: 22, with --quick 1.5]
    #[arg(long)]
    minutes: Option<f64>,

    /// Few targets and two seeds
    #[arg(long)]
    quick: bool,

    /// Profiled runs of every region, with the seeds from 1 on [default: 3, with --quick 2]
    #[arg(long, value_name = "N")]
    seeds: Option<usize>,

    #[command(flatten)]
    wishes: Wishes,

    /// Speedups in per cent
    #[arg(long, value_delimiter = ',', default_values_t = [25, 50, 75, 100])]
    speedups: Vec<u32>,

    /// Write everything to this file as well
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

/// One or two of each kind, with regions that help much, little and not at all: a single thread, the papers'
/// example, locks, queues, barriers, calls that wait for the world, a fork and a join, more threads than CPUs.
const TARGETS: &[&str] = &[
    "single",
    "two_threads_rs",
    "mutex",
    "mutex_rs",
    "rwlock",
    "pipeline",
    "semaphore",
    "barrier",
    "wait_for",
    "request_socketpair",
    "io_sleep",
    "fork_join",
    "pool_4",
];

const QUICK: &[&str] = &["single", "mutex", "barrier"];

/// How often the same thing is measured again when others disturbed it.
const REPEATS: u32 = 2;

/// Our profiler with its random choices fixed.
struct Seeded<'a> {
    whatif: &'a Whatif,
    seed: usize,
}

impl Profiler for Seeded<'_> {
    fn name(&self) -> &'static str {
        PROFILER
    }

    fn predict(&self, question: &Question) -> Result<Vec<Prediction>> {
        self.whatif.predict_with(&["--seed".to_owned(), self.seed.to_string()], question)
    }
}

/// Everything that was measured, as in `--json`.
#[derive(Debug, Default, Serialize)]
struct Results {
    overall: Option<Coverage>,
    /// By speedup in per cent.
    by_speedup: BTreeMap<u32, Coverage>,
    false_alarms: FalseAlarms,
    machine: Watch,
    /// One per region, speedup and seed.
    rows: Vec<Row>,
}

impl Results {
    /// Brings the derived numbers up to date.
    fn summarise(&mut self, machine: Watch) {
        self.machine = machine;
        self.overall = Coverage::of(&self.rows.iter().collect::<Vec<_>>());
        self.by_speedup = coverage::by_speedup(&self.rows);
        self.false_alarms = FalseAlarms::of(&self.rows);
    }

    fn lines(&self) -> Vec<String> {
        let per_speedup = self.by_speedup.iter();
        let mut lines: Vec<String> =
            per_speedup.map(|(speedup, coverage)| coverage.line(&format!("{speedup} %"))).collect();
        lines.extend(self.overall.map(|coverage| coverage.line("all")));
        lines.push(self.false_alarms.line());
        lines.push(self.machine.sentence());
        lines
    }
}

pub fn run(options: &Options, machine: &Machine, whatif: impl Fn() -> Result<Whatif>) -> Result<()> {
    program::check_speedups(&options.speedups)?;
    options.wishes.check()?;
    let seeds = options.seeds.unwrap_or(if options.quick { 2 } else { 3 });
    ensure!(seeds >= 1, "--seeds must be at least 1");
    let chosen = match (options.only.is_empty(), options.quick) {
        (false, _) => program::chosen(&options.only)?,
        (true, true) => program::existing(QUICK),
        (true, false) => program::existing(TARGETS),
    };
    let chosen = program::with_regions(chosen)?;
    targets::build().context("building the targets")?;
    let whatif = whatif()?;

    let work = Work {
        targets: chosen.len(),
        regions: chosen.iter().map(|target| target.regions.len()).sum(),
        speedups: options.speedups.len(),
        profiles: seeds,
        peer: false,
    };
    let seconds = options.minutes.unwrap_or(if options.quick { 1.5 } else { 22.0 }) * 60.0;
    let plan = plan(options, &work, seconds);
    announce(&plan, &work, seconds);
    let patience = Patience::new(REPEATS, Duration::from_secs_f64((plan.duration(&work) / 8.0).max(10.0)));
    let began = Instant::now();
    let mut results = Results::default();
    for (index, target) in chosen.iter().enumerate() {
        let gone = clock(began.elapsed().as_secs_f64());
        eprintln!("{} of {}: {} ({gone} gone)", index + 1, chosen.len(), target.name);
        match rows(target, options, seeds, &plan, &whatif, machine, &patience) {
            Ok(rows) => {
                if let Some(coverage) = Coverage::of(&rows.iter().collect::<Vec<_>>()) {
                    println!("{}", coverage.line(target.name));
                }
                results.rows.extend(rows);
            }
            // The others are worth knowing all the same.
            Err(error) => eprintln!("{}: {error:#}", target.name),
        }
        results.summarise(machine.watch());
        // Written after every target: an interrupted night is not lost.
        output::write(&results, options.json.as_deref())?;
    }
    ensure!(!results.rows.is_empty(), "no target could be measured (the errors above say why)");
    println!();
    for line in results.lines() {
        println!("{line}");
    }
    Ok(())
}

fn plan(options: &Options, work: &Work, seconds: f64) -> Plan {
    Plan::new(work, &options.wishes, &Enough { rounds: 9, seconds: 1.0, profile_seconds: 12.0 }, seconds)
}

fn announce(plan: &Plan, work: &Work, allowed: f64) {
    let Work { targets, regions, speedups, profiles, .. } = *work;
    let planned = plan.duration(work);
    println!(
        "{targets} targets, {} cells ({regions} regions, {speedups} speedups, {profiles} seeds): {} native rounds \
         of {:.2} s, {:.1} s of profiling per region and seed; about {} if the machine is otherwise idle",
        regions * speedups * profiles,
        plan.effort.rounds,
        plan.effort.seconds,
        plan.profile_seconds,
        clock(planned)
    );
    if planned > allowed {
        println!("this does not fit into {}: allow more --minutes, or fewer --seeds", clock(allowed));
    }
    println!(
        "how many 95 % intervals hold the truth, whose own uncertainty is taken into account, and how many its \
         best estimate [95 % interval of that share]"
    );
}

/// The cells of one target.
fn rows(
    target: &'static Target,
    options: &Options,
    seeds: usize,
    plan: &Plan,
    whatif: &Whatif,
    machine: &Machine,
    patience: &Patience,
) -> Result<Vec<Row>> {
    let speedups = &options.speedups;
    let truths = native::truths(target, speedups, plan.effort, machine, patience)?;
    let mut rows = Vec::new();
    for seed in 1..=seeds {
        let seeded: [Box<dyn Profiler + '_>; 1] = [Box::new(Seeded { whatif, seed })];
        rows.extend(ask(target, &truths, speedups, plan, &seeded, machine, patience));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_cells_in_the_time() {
        let chosen = program::existing(TARGETS);
        assert_eq!(chosen.len(), TARGETS.len());
        let regions = chosen.iter().map(|target| target.regions.len()).sum();
        let work = Work { targets: chosen.len(), regions, speedups: 4, profiles: 3, peer: false };
        assert!(regions * 4 * 3 >= 200);
        let enough = Enough { rounds: 9, seconds: 1.0, profile_seconds: 12.0 };
        let plan = Plan::new(&work, &Wishes::default(), &enough, 22.0 * 60.0);
        assert!(plan.duration(&work) <= 22.0 * 60.0, "{plan:?}");
        assert!(plan.effort.rounds >= 4, "{plan:?}");
    }
}
