//! Predictions against the truth: what really happens when a function's work is shrunk.
//!
//! [`mod@plan`] divides the time, `native` measures the truth, `profiler` and `coz` ask for predictions, and
//! [`row`] compares them.

pub mod plan;
pub mod row;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use targets::{TARGETS, Target};

use self::plan::{Enough, Plan, Shard, Wishes, Work};
use self::row::{Results, Row};
use crate::coz::Coz;
use crate::machine::{Machine, Measured, Patience};
use crate::native::{self, Truth};
use crate::output;
use crate::peer::Peer;
use crate::profiler::{Profiler, Question, Whatif};
use crate::program;
use crate::subject::Subject;

#[derive(Debug, Args)]
pub struct Options {
    /// Only the target of this name, or those of the program of this name (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// How long everything may take, building apart; all shards together, and without a peer
    /// [default: 25, with --quick 3]
    #[arg(long)]
    minutes: Option<f64>,

    /// A few targets, 50 and 100 % only: for CI, with generous bounds
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    wishes: Wishes,

    /// A further option of `whatif run` (may be repeated): --run-option=--sampler=timer
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    run_option: Vec<String>,

    /// Speedups in per cent [default: 25,50,75,100, with --quick 50,100]
    #[arg(long, value_delimiter = ',')]
    speedups: Vec<u32>,

    /// Only a part of the targets: 2/3 is the second of three
    #[arg(long, value_name = "I/N", default_value_t = Shard::ALL)]
    shard: Shard,

    /// Measure the truth only, without any profiler
    #[arg(long)]
    native: bool,

    /// Ask another profiler as well, which must be on PATH
    #[arg(long)]
    peer: Option<Peer>,

    /// Length of each of the peer's runs: one per region and speedup, and one without [default: 3.2]
    #[arg(long, value_name = "SECONDS")]
    peer_seconds: Option<f64>,

    /// Fail if our mean error over everything exceeds so many points
    #[arg(long, value_name = "POINTS")]
    assert: Option<f64>,

    /// Write everything to this file as well
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,

    /// Measure nothing, but sum up what --json wrote before (may be repeated)
    #[arg(long, value_name = "PATH", conflicts_with_all = ["only", "quick", "shard", "native", "peer"])]
    from: Vec<PathBuf>,
}

/// One of each kind: a single thread, the papers' example, a lock in C and in Rust, a queue, a barrier,
/// C++, calls that wait for the world, more threads than CPUs.
const QUICK: &[&str] = &[
    "single",
    "two_threads_rs",
    "mutex",
    "mutex_rs",
    "pipeline",
    "barrier",
    "wait_for",
    "io_sleep",
    "pool_4",
];

/// How often the same thing is measured again when others disturbed it.
const REPEATS: u32 = 2;

pub fn run(options: &Options, machine: &Machine, whatif: impl Fn() -> Result<Whatif>) -> Result<()> {
    let results = if options.from.is_empty() {
        measure(options, machine, whatif)?
    } else {
        let mut results = Results::default();
        for path in &options.from {
            results.add(read(path)?);
        }
        output::write(&results, options.json.as_deref())?;
        results
    };
    println!();
    for line in results.of_all() {
        println!("{line}");
    }
    match (options.assert, results.summaries.get("whatif")) {
        (Some(points), Some(summary)) if summary.mean_error <= points => Ok(()),
        (Some(points), Some(summary)) => bail!(
            "the mean error is {:.1} points, and --assert allows {points} (the rows above say where; \
             repeat on a machine that is idle before believing it)",
            summary.mean_error
        ),
        (Some(_), None) => bail!("nothing was predicted, so there is no error to judge with --assert"),
        (None, _) => Ok(()),
    }
}

fn measure(options: &Options, machine: &Machine, whatif: impl Fn() -> Result<Whatif>) -> Result<Results> {
    let speedups = match (options.speedups.is_empty(), options.quick) {
        (false, _) => options.speedups.clone(),
        (true, false) => vec![25, 50, 75, 100],
        (true, true) => vec![50, 100],
    };
    program::check_speedups(&speedups)?;
    options.wishes.check()?;
    let chosen = program::with_regions(chosen(options)?)?;
    let work = Work {
        targets: chosen.len(),
        regions: chosen.iter().map(|target| target.regions.len()).sum(),
        speedups: speedups.len(),
        profiles: usize::from(!options.native),
        peer: options.peer.is_some(),
    };
    let minutes = options.minutes.unwrap_or(if options.quick { 3.0 } else { 25.0 });
    let plan = plan(options, &work, minutes * 60.0);
    let mine = options.shard.part(chosen);

    let mut profilers: Vec<Box<dyn Profiler>> = Vec::new();
    let peer = options.peer.map(|Peer::Coz| Coz::find()).transpose()?;
    if !options.native {
        profilers.push(Box::new(whatif()?.with_options(&options.run_option)));
    }
    targets::build().context("building the targets")?;
    if let Some(coz) = peer {
        coz.build()?;
        profilers.push(Box::new(coz));
    }

    let regions: usize = mine.iter().map(|target| target.regions.len()).sum();
    let of_shard = Work { targets: mine.len(), regions, ..work };
    let planned = plan.duration(&of_shard);
    announce(&plan, &of_shard, planned, minutes * 60.0, options);
    let patience = Patience::new(REPEATS, Duration::from_secs_f64((planned / 6.0).max(10.0)));
    let began = Instant::now();
    let mut done = 0.0;
    let mut results = Results::new(profilers.iter().map(|profiler| profiler.name().to_owned()).collect());
    for (index, target) in mine.iter().enumerate() {
        eprintln!(
            "{} of {}: {} ({} of {} gone)",
            index + 1,
            mine.len(),
            target.name,
            clock(began.elapsed().as_secs_f64()),
            clock(began.elapsed().as_secs_f64() + planned - done)
        );
        match rows(target, &speedups, &plan, &profilers, machine, &patience) {
            Ok(rows) => {
                for row in &rows {
                    println!("{}", row.line(&results.profilers));
                }
                results.rows.extend(rows);
                for line in results.of_target(target.name) {
                    println!("{line}");
                }
            }
            // The others are worth knowing all the same.
            Err(error) => eprintln!("{}: {error:#}", target.name),
        }
        done += plan.duration(&Work { targets: 1, regions: target.regions.len(), ..work });
        results.summarise(machine.watch());
        // Written after every target: an interrupted night is not lost.
        output::write(&results, options.json.as_deref())?;
    }
    ensure!(!results.rows.is_empty(), "no target could be measured (the errors above say why)");
    Ok(results)
}

/// The targets that were asked for. Of the quick ones, those that exist.
fn chosen(options: &Options) -> Result<Vec<&'static Target>> {
    if !options.quick || !options.only.is_empty() {
        return program::chosen(&options.only);
    }
    Ok(program::existing(QUICK))
}

fn plan(options: &Options, work: &Work, seconds: f64) -> Plan {
    let enough = if options.quick {
        Enough { rounds: 3, seconds: 0.5, profile_seconds: 5.0 }
    } else {
        Enough { rounds: 9, seconds: 1.0, profile_seconds: 20.0 }
    };
    Plan::new(work, &options.wishes, &enough, seconds).with_peer_seconds(options.peer_seconds)
}

fn announce(plan: &Plan, work: &Work, planned: f64, allowed: f64, options: &Options) {
    let Work { targets, regions, speedups, profiles, peer } = *work;
    let mut text = format!(
        "{targets} of {} targets, {regions} regions at {speedups} speedups: {} native rounds of {:.2} s",
        TARGETS.len(),
        plan.effort.rounds,
        plan.effort.seconds
    );
    if profiles > 0 {
        text += &format!(", {:.1} s of profiling per region", plan.profile_seconds);
    }
    if peer {
        text += &format!(", {:.1} s of the peer per region and speedup", plan.peer_seconds);
    }
    println!("{text}; about {} if the machine is otherwise idle", clock(planned));
    if !peer && options.shard == Shard::ALL && planned > allowed {
        println!(
            "this does not fit into {}: allow more --minutes, or divide it with --shard 1/2",
            clock(allowed)
        );
    }
    println!("gain in % of the period: truth [95 % interval], then each prediction and its error");
}

/// Minutes and seconds.
pub fn clock(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = seconds.max(0.0).round() as u64;
    format!("{}:{:02} min", whole / 60, whole % 60)
}

/// Measures and asks everything about one target.
fn rows(
    target: &'static Target,
    speedups: &[u32],
    plan: &Plan,
    profilers: &[Box<dyn Profiler>],
    machine: &Machine,
    patience: &Patience,
) -> Result<Vec<Row>> {
    let truths = native::truths(target, speedups, plan.effort, machine, patience)?;
    Ok(ask(target, &truths, speedups, plan, profilers, machine, patience))
}

/// Asks everything about one subject whose truth is known.
pub fn ask(
    target: &dyn Subject,
    truths: &Measured<Vec<Truth>>,
    speedups: &[u32],
    plan: &Plan,
    profilers: &[Box<dyn Profiler + '_>],
    machine: &Machine,
    patience: &Patience,
) -> Vec<Row> {
    let mut rows: Vec<Row> = truths
        .value
        .iter()
        .map(|truth| Row {
            target: target.name().to_owned(),
            region: truth.region.clone(),
            speedup: truth.speedup,
            truth: truth.gain,
            predictions: profilers.iter().map(|profiler| (profiler.name().to_owned(), None)).collect(),
            disturbed: truths.disturbed,
        })
        .collect();
    for profiler in profilers {
        for region in target.regions() {
            let question = Question {
                target,
                region,
                speedups,
                seconds: if profiler.name() == "whatif" { plan.profile_seconds } else { plan.peer_seconds },
            };
            // A profiler that fails has no answer, and the next question is asked all the same.
            let (answers, disturbed) = match machine.patiently(patience, || profiler.predict(&question)) {
                Ok(measured) => (measured.value, measured.disturbed),
                Err(error) => {
                    eprintln!("{} {region}, {}: {error:#}", target.name(), profiler.name());
                    continue;
                }
            };
            for row in rows.iter_mut().filter(|row| row.region == region) {
                row.disturbed |= disturbed;
                if let Some(answer) = answers.iter().find(|answer| answer.speedup == row.speedup) {
                    row.predictions.insert(profiler.name().to_owned(), Some(*answer));
                }
            }
        }
    }
    rows
}

fn read(path: &Path) -> Result<Results> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not what `bench truth --json` writes", path.display()))
}
