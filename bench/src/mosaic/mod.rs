//! Random programs: predictions against the truth, by kind of program, the worst first.
//!
//! What a program is, and what its kinds are, is the business of the `mosaic` crate. Measuring and asking are those of
//! `truth`; here programs are drawn ([`piece`]), errors are added up ([`tally`]), and programs that predictions are
//! wrong about are made smaller ([`worst`]).
//!
//! Seeds are new in every run, so nothing can be tuned to them. They are printed, and `--first` or `--seed-list` repeats them.

pub mod piece;
mod tally;
mod worst;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use self::piece::Piece;
use self::worst::Shrinker;
use crate::coz::Coz;
use crate::interval::median;
use crate::machine::{Machine, Patience, Watch};
use crate::native;
use crate::output;
use crate::peer::Peer;
use crate::profiler::{Profiler, Whatif};
use crate::program;
use crate::truth::plan::{Enough, Plan, Shard, Wishes, Work};
use crate::truth::row::Row;
use crate::truth::{ask, clock};

#[derive(Debug, Args)]
pub struct Options {
    /// How many programs [default: 20, with --quick 6]
    #[arg(long, value_name = "N")]
    seeds: Option<usize>,

    /// Only programs with this kind of thing in them (docs/mosaic.md lists the kinds; may be repeated)
    #[arg(long, value_name = "KIND")]
    only: Vec<String>,

    /// The seed to begin with [default: from the clock]
    #[arg(long, value_name = "SEED")]
    first: Option<u64>,

    /// These seeds
    #[arg(long, value_name = "SEED,…", value_delimiter = ',', conflicts_with_all = ["seeds", "first", "only"])]
    seed_list: Vec<u64>,

    /// Only a part of the programs: 2/3 is the second of three
    #[arg(long, value_name = "I/N", default_value_t = Shard::ALL)]
    shard: Shard,

    /// Six programs, at most two regions of each, 50 and 100 % only: for CI, with generous bounds
    #[arg(long)]
    quick: bool,

    /// How long everything may take, building apart; all shards together, and without a peer
    /// [default: 1 per program, with --quick 1.2]
    #[arg(long)]
    minutes: Option<f64>,

    #[command(flatten)]
    wishes: Wishes,

    /// A further option of `whatif run` (may be repeated): --run-option=--sampler=timer
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    run_option: Vec<String>,

    /// Speedups in per cent [default: 25,50,75,100, with --quick 50,100]
    #[arg(long, value_delimiter = ',')]
    speedups: Vec<u32>,

    /// Ask another profiler as well, which must be on PATH
    #[arg(long)]
    peer: Option<Peer>,

    /// Make the programs that predictions are most wrong about smaller, as long as they stay wrong
    #[arg(long, value_name = "K", default_value_t = 0)]
    shrink: usize,

    /// How long each of them may take
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    shrink_minutes: f64,

    /// Fail if our median error exceeds so many points, not counting what the doubt of the truth explains: a program that starves
    /// when a region is gone can be off by any number of points
    #[arg(long, value_name = "POINTS")]
    assert: Option<f64>,

    /// Write everything to this file as well
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,

    /// Measure nothing, but sum up what --json wrote before (may be repeated)
    #[arg(long, value_name = "PATH", conflicts_with_all = ["seeds", "first", "seed_list", "only", "quick", "shard", "peer", "shrink"])]
    from: Vec<PathBuf>,
}

/// Everything that was measured, as in `--json`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Results {
    profilers: Vec<String>,
    pieces: Vec<Piece>,
    rows: Vec<Row>,
    machine: Watch,
    /// Smaller programs that are still wrong.
    #[serde(default)]
    shrunk: Vec<Piece>,
}

/// How often the same thing is measured again when others disturbed it.
const REPEATS: u32 = 2;
/// Programs that are named at the end.
const NAMED: usize = 10;

pub fn run(options: &Options, machine: &Machine, whatif: impl Fn() -> Result<Whatif>) -> Result<()> {
    let results = if options.from.is_empty() {
        measure(options, machine, whatif)?
    } else {
        let mut results = Results::default();
        for path in &options.from {
            results.add(read(path)?);
        }
        output::write(&results, options.json.as_deref())?;
        results.print();
        results
    };
    let asked = results.rows.iter().filter(|row| row.predictions.contains_key("whatif"));
    let errors: Vec<f64> = asked.map(|row| row.sure_error("whatif")).collect();
    let error = (!errors.is_empty()).then(|| median(&errors));
    match (options.assert, error) {
        (Some(points), Some(error)) if error > points => bail!(
            "half of the predictions lie more than {error:.1} points outside the truth's intervals, and --assert allows {points} (the lines above say which programs, and how to \
             repeat them on a machine that is idle)"
        ),
        (Some(_), None) => bail!("nothing was predicted, so there is no error to judge with --assert"),
        _ => Ok(()),
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
    let pieces = drawn(options)?;
    let peer = options.peer.map(|Peer::Coz| Coz::find()).transpose()?;
    let whatif = whatif()?.with_options(&options.run_option);
    targets::build::build_programs(["mosaic"]).context("building the mosaic")?;
    let mut profilers: Vec<Box<dyn Profiler + '_>> = vec![Box::new(&whatif)];
    if let Some(coz) = peer {
        coz.build()?;
        profilers.push(Box::new(coz));
    }
    let of = |pieces: &[Piece]| Work {
        targets: pieces.len(),
        regions: pieces.iter().map(|piece| piece.regions.len()).sum(),
        speedups: speedups.len(),
        profiles: 1,
        peer: options.peer.is_some(),
    };
    let minutes =
        options.minutes.unwrap_or(if options.quick { 1.2 } else { crate::interval::count(pieces.len()) });
    let enough = Enough { rounds: 9, seconds: 1.0, profile_seconds: if options.quick { 5.0 } else { 20.0 } };
    let plan = Plan::new(&of(&pieces), &options.wishes, &enough, minutes * 60.0);
    let mine = options.shard.part(pieces);
    announce(&mine, &of(&mine), &plan);

    let patience =
        Patience::new(REPEATS, Duration::from_secs_f64((plan.duration(&of(&mine)) / 6.0).max(10.0)));
    let began = Instant::now();
    let mut results = Results {
        profilers: profilers.iter().map(|profiler| profiler.name().to_owned()).collect(),
        ..Results::default()
    };
    for (index, piece) in mine.iter().enumerate() {
        let gone = clock(began.elapsed().as_secs_f64());
        eprintln!("{} of {}: {} ({gone} gone)", index + 1, mine.len(), piece.name);
        match native::truths(piece, &speedups, plan.effort, machine, &patience) {
            Ok(truths) => {
                let rows = ask(piece, &truths, &speedups, &plan, &profilers, machine, &patience);
                for row in &rows {
                    println!("{}", row.line(&results.profilers));
                }
                results.rows.extend(rows);
                results.pieces.push(piece.clone());
            }
            // The others are worth knowing all the same.
            Err(error) => eprintln!("{}: {error:#}", piece.name),
        }
        results.machine = machine.watch();
        // Written after every program: an interrupted night is not lost.
        output::write(&results, options.json.as_deref())?;
    }
    ensure!(!results.rows.is_empty(), "no program could be measured (the errors above say why)");
    results.print();
    let shrinker = Shrinker { plan: &plan, whatif: &whatif, machine, minutes: options.shrink_minutes };
    results.shrink(options.shrink, &shrinker)?;
    output::write(&results, options.json.as_deref())?;
    Ok(results)
}

/// The programs that were asked for; all shards together.
fn drawn(options: &Options) -> Result<Vec<Piece>> {
    /// Seeds looked at for each program with a certain kind.
    const PATIENCE: u64 = 2000;
    let regions = if options.quick { 2 } else { 3 };
    if !options.seed_list.is_empty() {
        return Ok(options.seed_list.iter().map(|seed| Piece::of_seed(*seed, regions)).collect());
    }
    ensure!(
        options.shard == Shard::ALL || options.first.is_some(),
        "shards divide the same programs: give all of them the same --first SEED"
    );
    let wanted = options.seeds.unwrap_or(if options.quick { 6 } else { 20 });
    let first = options.first.unwrap_or_else(seed_of_now);
    let has = |piece: &Piece| options.only.iter().all(|kind| piece.kinds.contains(kind));
    let looked_at = first..first.saturating_add(PATIENCE * wanted as u64);
    let pieces = looked_at.map(|seed| Piece::of_seed(seed, regions)).filter(has);
    let pieces: Vec<Piece> = pieces.filter(|piece| !piece.regions.is_empty()).take(wanted).collect();
    ensure!(
        pieces.len() == wanted && wanted > 0,
        "there are only {} such programs among many (docs/mosaic.md lists the kinds for --only)",
        pieces.len()
    );
    Ok(pieces)
}

/// Nine digits: short enough to be typed.
fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis() % 1_000_000_000).unwrap_or(0)
}

fn announce(pieces: &[Piece], work: &Work, plan: &Plan) {
    println!(
        "{} programs, {} regions at {} speedups: {} native rounds of {:.2} s, {:.1} s of profiling per region; about {} if \
         the machine is otherwise idle",
        work.targets,
        work.regions,
        work.speedups,
        plan.effort.rounds,
        plan.effort.seconds,
        plan.profile_seconds,
        clock(plan.duration(work))
    );
    let seeds: Vec<&str> =
        pieces.iter().map(|piece| piece.name.strip_prefix("seed=").unwrap_or(&piece.name)).collect();
    println!("repeat with: --seed-list {}", seeds.join(","));
    println!("gain in % of the period: truth [95 % interval], then each prediction and its error");
}

impl Results {
    fn add(&mut self, other: Self) {
        for profiler in other.profilers {
            if !self.profilers.contains(&profiler) {
                self.profilers.push(profiler);
            }
        }
        self.pieces.extend(other.pieces);
        self.rows.extend(other.rows);
        self.shrunk.extend(other.shrunk);
        self.machine = self.machine.and(other.machine);
    }

    fn print(&self) {
        for profiler in &self.profilers {
            println!("\n{profiler} by kind, the worst first; a program counts for each of its kinds");
            for line in tally::by_kind(&self.pieces, &self.rows, profiler) {
                println!("{line}");
            }
        }
        println!("\n{} programs, {}", self.pieces.len(), self.machine.sentence());
        for line in tally::lines(&self.rows, &self.profilers) {
            println!("{line}");
        }
        println!("\nthe worst programs");
        for run in worst::worst(&self.rows, NAMED) {
            let seed = run.target.strip_prefix("seed=").unwrap_or(run.target);
            println!(
                "{:>5.1} points at {}: bench mosaic --seed-list {seed}; mosaic {} plan",
                run.worst(),
                run.region,
                run.target
            );
        }
    }

    /// Shrinks the worst programs.
    fn shrink(&mut self, most: usize, shrinker: &Shrinker) -> Result<()> {
        let mut shrunk = Vec::new();
        for run in worst::worst(&self.rows, most) {
            let Some(piece) = self.pieces.iter().find(|piece| piece.name == run.target) else { continue };
            match shrinker.shrink(piece, &run)? {
                Some(program) => {
                    println!("\n{} shrunk, wrong about {}:\n{program}", piece.name, run.region);
                    println!("mosaic program='{}'", program.text());
                    shrunk.push(Piece::of_program(format!("{} shrunk", piece.name), &program, run.region));
                }
                None => println!("\n{}: the error does not come again", piece.name),
            }
        }
        self.shrunk.extend(shrunk);
        Ok(())
    }
}

fn read(path: &Path) -> Result<Results> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not what `bench mosaic --json` writes", path.display()))
}
