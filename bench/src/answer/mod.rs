//! How long it takes to find the region that is worth making faster, and to know what it is worth.
//!
//! The truth at 50 % says which region is the best; only targets where one is far ahead take part
//! ([`Winner`]). Then every profiler searches, told nothing but the program ([`search`]), and its answer is
//! looked at as it was at earlier times ([`times`]): from when on was the best region ranked first, with a gain at 50 %
//! within three points of the truth?
//!
//! The truth's own doubt is not added to those three points; where it is larger than they are, a line says so:
//! measure longer (`--rounds`, `--seconds`).

mod outcome;
mod search;
mod times;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use targets::Target;

use self::outcome::{Outcome, Results, Row, Winner};
use self::search::{Answer, Searcher, Task};
use crate::coz::Coz;
use crate::interval::count;
use crate::machine::{Machine, Patience};
use crate::native::{self, Effort};
use crate::output;
use crate::peer::Peer;
use crate::profiler::Whatif;
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Only the targets called this (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Searches per target, with the seeds from 1 on [default: 10, with --quick 3]
    #[arg(long, value_name = "N")]
    seeds: Option<usize>,

    /// How long each search may take [default: 20, with --quick 6]
    #[arg(long, value_name = "SECONDS")]
    most: Option<f64>,

    /// When a search is sure: as for `whatif run`; 1.2 % at 20 % is three points at 50 %
    #[arg(long, value_name = "PERCENT", default_value = "1.2%")]
    precision: String,

    /// Native runs of every variant, at least 2 [default: 8, with --quick 4]
    #[arg(long)]
    rounds: Option<usize>,

    /// Length of each native run
    #[arg(long, default_value_t = 0.6)]
    seconds: f64,

    /// Every target's functions work so much of their usual time that it is visited about so many times a second
    #[arg(long, value_name = "VISITS", default_value_t = 550.0)]
    rate: f64,

    /// A few targets and short searches
    #[arg(long)]
    quick: bool,

    /// Let another profiler search as well, which must be on PATH
    #[arg(long)]
    peer: Option<Peer>,

    /// Write everything to this file as well
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

/// Of every kind those where one region should be far ahead; the truth decides. (A region that only sleeps has
/// no samples to be found by, so it cannot be among them.)
const CANDIDATES: &[&str] = &[
    "mutex",
    "mutex_rs",
    "parking_lot_rs",
    "spin_lock",
    "rwlock",
    "readers",
    "pipeline",
    "pipeline_rs",
    "mpsc_rs",
    "condition_variable",
    "semaphore",
    "pipe_queue",
    "fork_join",
    "barrier",
    "barrier_rs",
    "wait_for",
];

const QUICK: &[&str] = &["mutex", "pipeline", "barrier"];

/// The only speedup at which truth and answer are compared.
const SPEEDUP: u32 = 50;

/// How often the same thing is measured again when others disturbed it.
const REPEATS: u32 = 2;

/// The options, with what they stand for.
struct Plan<'a> {
    seeds: usize,
    most: f64,
    precision: &'a str,
    effort: Effort,
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    let either = |full, quick| if options.quick { quick } else { full };
    let plan = Plan {
        seeds: options.seeds.unwrap_or(either(10, 3)),
        most: options.most.unwrap_or(if options.quick { 6.0 } else { 20.0 }),
        precision: &options.precision,
        effort: Effort { rounds: options.rounds.unwrap_or(either(8, 4)), seconds: options.seconds },
    };
    ensure!(plan.effort.rounds >= 2, "--rounds must be at least 2, to see the noise");
    ensure!(plan.seeds >= 1 && plan.most > 0.0, "--seeds and --most must be more than nothing");
    let mut chosen = match (options.only.is_empty(), options.quick) {
        (false, _) => program::chosen(&options.only)?,
        (true, true) => program::existing(QUICK),
        (true, false) => program::existing(CANDIDATES),
    };
    chosen.retain(|target| target.regions.len() >= 2);
    ensure!(options.rate > 0.0, "--rate must be more than nothing");
    ensure!(!chosen.is_empty(), "these targets have no two regions to choose from; name others with --only");
    let coz = options.peer.map(|Peer::Coz| Coz::find()).transpose()?;
    targets::build().context("building the targets")?;
    let chosen: Vec<&Target> =
        chosen.into_iter().map(|target| at_rate(target, options.rate)).collect::<Result<_>>()?;
    let mut searchers: Vec<&dyn Searcher> = vec![whatif];
    if let Some(coz) = &coz {
        coz.build()?;
        searchers.push(coz);
    }

    let planned = announce(&chosen, &plan, searchers.len());
    let patience = Patience::new(REPEATS, Duration::from_secs_f64((planned / 6.0).max(10.0)));
    let mut results = Results::default();
    for (index, target) in chosen.iter().enumerate() {
        eprintln!("{} of {}: {}", index + 1, chosen.len(), target.name);
        match rows(target, &plan, &searchers, machine, &patience) {
            Ok(rows) => results.rows.extend(rows),
            // The others are worth knowing all the same.
            Err(error) => eprintln!("{}: {error:#}", target.name),
        }
        results.summarise(machine.watch());
        // Written after every target: an interrupted night is not lost.
        output::write(&results, options.json.as_deref())?;
    }
    ensure!(!results.rows.is_empty(), "no target has a clear winner here (the lines above say why)");
    println!();
    let winners = results.rows.iter().filter(|row| row.profiler == searchers[0].name()).count();
    println!("{winners} targets with a clear winner");
    for (profiler, summary) in &results.summaries {
        println!("{}", summary.line("all", profiler));
    }
    for searcher in &searchers {
        let rows = || results.rows.iter().filter(|row| row.profiler == searcher.name());
        println!(
            "{:<20} {:<6} names the same region in all searches, the right one, on {} of {} targets",
            "",
            searcher.name(),
            rows().filter(|row| row.is_always_right()).count(),
            rows().count()
        );
    }
    println!("{:<20} {}", "", machine.watch().sentence());
    Ok(())
}

/// The target with functions that work so much of their usual time that it is visited so often. It is kept for good, like
/// the table it is from.
fn at_rate(target: &'static Target, rate: f64) -> Result<&'static Target> {
    /// Long enough to count visits.
    const SECONDS: f64 = 0.6;
    let usual = native::rate(target, &[format!("seconds={SECONDS}")], SECONDS)?;
    // To two digits, so that the same machine makes the same targets.
    let scale = (usual / rate * 100.0).round() / 100.0;
    Ok(scaled(target, scale.max(0.01)))
}

fn scaled(target: &'static Target, scale: f64) -> &'static Target {
    let argument: &'static str = Box::leak(format!("scale={scale}").into_boxed_str());
    let arguments = [target.arguments, &[argument]].concat();
    Box::leak(Box::new(Target { arguments: Box::leak(arguments.into_boxed_slice()), ..*target }))
}

/// Says what comes, and returns how many seconds it takes at most.
fn announce(chosen: &[&Target], plan: &Plan, searchers: usize) -> f64 {
    /// Starting, ending, and reading the answer at all times.
    const AROUND: f64 = 1.5;
    let regions: usize = chosen.iter().map(|target| target.regions.len()).sum();
    let Effort { rounds, seconds } = plan.effort;
    let native = count((regions + chosen.len()) * rounds) * seconds;
    let planned = native + count(chosen.len() * plan.seeds * searchers) * (plan.most + AROUND);
    println!(
        "{} targets, {rounds} native rounds of {seconds:.2} s, then {} searches of up to {:.1} s each; at most \
         {:.0} min if the machine is otherwise idle",
        chosen.len(),
        plan.seeds,
        plan.most,
        (planned / 60.0).ceil()
    );
    println!(
        "time until the best region is ranked first and its gain at {SPEEDUP} % is within {:.0} points of the \
         truth, for good",
        outcome::NEAR * 100.0
    );
    planned
}

/// Measures the truth of one target, and lets every profiler search. No rows if no region is clearly the best.
fn rows(
    target: &'static Target,
    plan: &Plan,
    searchers: &[&dyn Searcher],
    machine: &Machine,
    patience: &Patience,
) -> Result<Vec<Row>> {
    let truths = native::truths(target, &[SPEEDUP], plan.effort, machine, patience)?;
    let Some(winner) = Winner::of(&truths.value) else {
        println!("{:<20} has no clear winner, and is left out", target.name);
        return Ok(Vec::new());
    };
    let gain = winner.gain.scaled(100.0);
    let doubt = if winner.gain.half_width() > outcome::NEAR {
        "   too uncertain to judge by (more --rounds or --seconds)"
    } else {
        ""
    };
    println!(
        "{:<20} {:.0} visits a second; truth: {} gains {:.1} [{:.1}, {:.1}], {:.1} more than any other{doubt}{}",
        target.name,
        native::rate(target, &[format!("seconds={}", plan.effort.seconds)], plan.effort.seconds)?,
        winner.region,
        gain.estimate,
        gain.low,
        gain.high,
        winner.lead * 100.0,
        if truths.disturbed { "   (disturbed)" } else { "" }
    );
    let mut rows = Vec::new();
    for searcher in searchers {
        let mut row = Row {
            target: target.name.to_owned(),
            profiler: searcher.name().to_owned(),
            winner: winner.clone(),
            outcomes: Vec::new(),
            failed: 0,
        };
        for seed in 1..=plan.seeds {
            let task = Task { target, seed, most: plan.most, precision: plan.precision };
            match outcome(*searcher, &task, &winner, machine, patience) {
                Ok(outcome) => row.outcomes.push(outcome),
                // A search that fails never has the answer.
                Err(error) => {
                    eprintln!("{}, {}, seed {seed}: {error:#}", target.name, searcher.name());
                    row.failed += 1;
                }
            }
        }
        println!("{}", row.line());
        rows.push(row);
    }
    Ok(rows)
}

fn outcome(
    searcher: &dyn Searcher,
    task: &Task,
    winner: &Winner,
    machine: &Machine,
    patience: &Patience,
) -> Result<Outcome> {
    let searched = machine.patiently(patience, || searcher.search(task))?;
    let search = searched.value;
    let last = (search.at)(search.seconds)?;
    let grid = times::grid(search.seconds);
    let mut known: Vec<Option<Answer>> = vec![None; grid.len()];
    let mut at = |seconds: f64| -> Result<Answer> {
        let nth = grid.iter().position(|time| *time == seconds).context("a time that is not of the grid")?;
        if known[nth].is_none() {
            known[nth] = Some((search.at)(seconds)?);
        }
        known[nth].clone().context("just answered")
    };
    let right_after = times::settled::<anyhow::Error>(&grid, |seconds| Ok(winner.is(&at(seconds)?)))?;
    let ranked_after =
        times::settled::<anyhow::Error>(&grid, |seconds| Ok(winner.is_first_in(&at(seconds)?)))?;
    Ok(Outcome {
        seed: task.seed,
        right_after,
        ranked_after,
        ended_after: search.seconds,
        sure: search.sure,
        first: last.first,
        gain: last.gain,
        named: last.named,
        disturbed: searched.disturbed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_exist_and_have_something_to_choose_from() {
        for name in [CANDIDATES, QUICK].concat() {
            let target = targets::TARGETS.iter().find(|target| target.name == name);
            assert!(target.is_some_and(|target| target.regions.len() >= 2), "{name}");
        }
    }
}
