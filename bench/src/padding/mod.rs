//! Real programs as ground truth: functions of programs that others wrote are padded, and the profiler is asked what the pad is worth.
//!
//! A program is compiled with room at the entry of every function (`-fpatchable-function-entry`). In a run one function calls a pad
//! first: a known loop, in a function of its own (`bench/padding/pad.c`). What the pad is worth is then measured, with the same program under the
//! same load and a shorter pad or none, and predicted, by asking for the region `added_pad`. So every function of every
//! program has a true number, and its sources are as they were published.
//!
//! Servers can be asked in an open loop (`--load`): requests come at times of their own, and their latency is measured and predicted as well.
//!
//! [`catalogue`] lists the programs, [`mod@build`] gets and compiles them, [`image`] finds their functions, [`mod@choose`] draws some, [`mod@run`] starts
//! them, with clients ([`connection`]) that wait for their answers or do not ([`open`]), [`stretch`] is what happened in a part of a run, [`measure`] asks both questions, [`table`] compares the answers. The program and the benchmark share a file ([`shared`]): the pad can be changed
//! while the program runs, and the visits of its progress point are counted there.
//!
//! # What it does not do
//!
//! It says nothing about code that waits, for a pad only works. It needs x86-64 and GCC. `docs/padding.md` says more.

mod build;
mod catalogue;
mod choose;
mod connection;
mod files;
mod image;
mod measure;
mod open;
mod run;
mod shared;
mod stretch;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use self::catalogue::Program;
use self::choose::{Padded, Pads, Plain};
use self::measure::{Answer, Question, capacity, predict, truth};
use self::open::Connections;
use self::run::{Arrivals, Built};
use self::table::{Measure, PaddedRow, Results, WHATIF};
use crate::interval::Interval;
use crate::machine::{Machine, Patience, Watch};
use crate::native::Effort;
use crate::output;
use crate::profiler::{Prediction, Whatif};
use crate::program;
use crate::truth::clock;
use crate::truth::plan::Shard;
use crate::truth::row::Row;

#[derive(Debug, Args)]
pub struct Options {
    /// Only the programs called this (may be repeated)
    #[arg(long, value_name = "PROGRAM")]
    only: Vec<String>,

    /// How many functions of each program are padded, drawn at random
    #[arg(long, default_value_t = 10)]
    functions: usize,

    /// Pad this function instead (may be repeated)
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,

    /// Measure nothing, but list the functions that run
    #[arg(long)]
    list: bool,

    /// Servers only: requests come at times of their own, as many as this part (in per cent) of the rate that the server reaches with the
    /// whole pad; their latency is measured as well
    #[arg(long, value_name = "PER_CENT", value_parser = clap::value_parser!(u32).range(1..=95))]
    load: Option<u32>,

    /// Which connection a request takes with --load
    #[arg(long, value_enum, default_value_t, requires = "load")]
    connections: Connections,

    /// Native rounds: each is a run with the pad, without it, and with parts of it
    #[arg(long, default_value_t = 9)]
    rounds: usize,

    /// Of each length of the pad in a round
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,

    /// Length of each run under the profiler
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    profile_seconds: f64,

    /// Speedups of the pad in per cent
    #[arg(long, value_delimiter = ',', default_value = "50,100")]
    speedups: Vec<u32>,

    /// Only a part of the programs: 2/3 is the second of three
    #[arg(long, value_name = "I/N", default_value_t = Shard::ALL)]
    shard: Shard,

    /// A further option of `whatif run` (may be repeated): --run-option=--sampler=timer
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    run_option: Vec<String>,

    /// Write everything to this file as well; what it has already is not measured again
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,

    /// Measure nothing, but sum up what --json wrote before (may be repeated)
    #[arg(long, value_name = "PATH", conflicts_with_all = ["only", "shard", "function", "list"])]
    from: Vec<PathBuf>,

    /// Fail if the mean error over everything exceeds so many points
    #[arg(long, value_name = "POINTS")]
    assert: Option<f64>,
}

impl Options {
    /// Those of `programs` that others ask, if that is what is wanted.
    fn asked(&self, programs: Vec<&'static Program>) -> Vec<&'static Program> {
        let (asked, others): (Vec<_>, Vec<_>) =
            programs.into_iter().partition(|program| self.load.is_none() || program.latency().is_some());
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().map(|program| program.name).collect();
            println!("skipped, because they have no clients, and --load is for servers: {}", names.join(" "));
        }
        asked
    }

    fn pads(&self) -> Pads {
        if self.load.is_some() { Pads::OfRequests } else { Pads::OfRun }
    }
}

/// How often the same thing is measured again when others disturbed it.
const REPEATS: u32 = 2;

pub fn run(options: &Options, machine: &Machine, whatif: impl Fn() -> Result<Whatif>) -> Result<()> {
    program::check_speedups(&options.speedups)?;
    ensure!(options.rounds > 0 && options.seconds > 0.0, "there must be a round, and time to measure");
    let results = if options.from.is_empty() {
        let programs = options.asked(options.shard.part(catalogue::chosen(&options.only)?));
        ensure!(
            options.function.is_empty() || programs.len() == 1,
            "--function needs one program: name it with --only"
        );
        if programs.is_empty() {
            return Ok(());
        }
        if let Err(error) = build::possible() {
            println!("skipped: {error:#}");
            return Ok(());
        }
        if options.list {
            return list(&programs, options.pads());
        }
        let results = measure_all(options, &programs, machine, &whatif()?.with_options(&options.run_option))?;
        ensure!(!results.rows.is_empty(), "no function could be measured (the messages above say why)");
        results
    } else {
        let mut results = Results::default();
        for path in &options.from {
            results.add(read(path)?);
        }
        output::write(&results, options.json.as_deref())?;
        results
    };
    println!();
    for line in results.lines() {
        println!("{line}");
    }
    match (options.assert, &results.totals) {
        (Some(points), Some(totals)) if totals.mean > points => bail!(
            "the mean error is {:.1} points, and --assert allows {points} (the rows above say where; \
             repeat on a machine that is idle before believing it)",
            totals.mean
        ),
        (Some(_), None) => bail!("nothing was predicted, so there is no error to judge with --assert"),
        _ => Ok(()),
    }
}

/// How long a program is watched before functions are chosen, in each of two ways.
const WATCH_SECONDS: f64 = 1.0;

fn list(programs: &[&'static Program], pads: Pads) -> Result<()> {
    let mut failed = Vec::new();
    for program in programs {
        if let Err(error) = list_one(program, pads) {
            eprintln!("{}: {error:#}", program.name);
            failed.push(program.name);
        }
    }
    ensure!(
        failed.is_empty(),
        "these programs did not run: {} (the messages above say why)",
        failed.join(" ")
    );
    Ok(())
}

fn list_one(program: &'static Program, pads: Pads) -> Result<()> {
    let built = Built::new(program)?;
    let plain = Plain::of(&built, WATCH_SECONDS)?;
    println!("{}: {}; {:.0} visits of {} a second", program.name, program.about, plain.rate, program.point);
    println!(
        "{:>14} {:>12}  function (those with - are called too often or too rarely)",
        "calls/s", "calls/visit"
    );
    for called in &plain.called {
        let mark = if pads.suit(called) { ' ' } else { '-' };
        println!("{:>14.0} {:>12.3} {mark}{}", called.per_second, called.per_visit, called.function.name);
    }
    Ok(())
}

fn measure_all(
    options: &Options,
    programs: &[&'static Program],
    machine: &Machine,
    whatif: &Whatif,
) -> Result<Results> {
    let results = match &options.json {
        Some(path) if path.exists() => read(path)?,
        _ => Results::default(),
    };
    let before = results.machine;
    let mut session = Session { options, machine, whatif, results, before };
    println!(
        "gain in % of the period with the pad: truth [95 % interval], then the prediction and its error"
    );
    let began = Instant::now();
    for (index, program) in programs.iter().enumerate() {
        eprintln!(
            "{} of {}: {}, {} ({} gone)",
            index + 1,
            programs.len(),
            program.name,
            program.about,
            clock(began.elapsed().as_secs_f64())
        );
        // The others are worth knowing all the same.
        if let Err(error) = session.measure(program) {
            eprintln!("{}: {error:#}", program.name);
        }
    }
    Ok(session.results)
}

/// What is known so far, and with what it becomes more.
struct Session<'a> {
    options: &'a Options,
    machine: &'a Machine,
    whatif: &'a Whatif,
    results: Results,
    /// What others did while earlier results were measured.
    before: Watch,
}

impl Session<'_> {
    /// Everything about one program.
    fn measure(&mut self, program: &'static Program) -> Result<()> {
        let built = Built::new(program)?;
        let known = self.known(program);
        if self.options.function.is_empty() && known.len() >= self.options.functions {
            eprintln!("{} functions of {} have been measured already", known.len(), program.name);
            return Ok(());
        }
        let plain = Plain::of(&built, WATCH_SECONDS)?;
        let chosen = if self.options.function.is_empty() {
            plain.choose(&built, self.options.pads(), &known, self.options.functions - known.len())?
        } else {
            let named = self
                .options
                .function
                .iter()
                .map(|name| plain.padded_by_name(&built, self.options.pads(), name));
            named.collect::<Result<Vec<Padded>>>()?
        };
        let effort = Effort { rounds: self.options.rounds, seconds: self.options.seconds };
        let parts = self.options.speedups.len() + 1;
        #[expect(clippy::cast_precision_loss)]
        let planned = (effort.rounds * parts) as f64 * effort.seconds + self.options.profile_seconds;
        for padded in &chosen {
            let patience = Patience::new(REPEATS, Duration::from_secs_f64((planned / 6.0).max(10.0)));
            match self.rows(&built, padded, effort, &patience) {
                Ok(rows) => self.keep(rows)?,
                Err(error) => eprintln!("{} {}: {error:#}", program.name, padded.called.function.name),
            }
        }
        for line in self.results.lines().iter().filter(|line| line.starts_with(&format!("{} ", program.name)))
        {
            println!("{line}");
        }
        Ok(())
    }

    /// The functions of `program` that have been measured already under the same load.
    fn known(&self, program: &Program) -> Vec<String> {
        let rows = self.results.rows.iter();
        let rows = rows.filter(|row| row.row.target == program.name && row.load == self.options.load);
        let rows =
            rows.filter(|row| row.open.is_none_or(|open| open.connections == self.options.connections));
        let mut names: Vec<String> = rows.map(|row| row.row.region.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn rows(
        &self,
        built: &Built,
        padded: &Padded,
        effort: Effort,
        patience: &Patience,
    ) -> Result<Vec<PaddedRow>> {
        let (speedups, load) = (&self.options.speedups, self.options.load);
        let arrivals = match load {
            None => Arrivals::Closed,
            Some(per_cent) => {
                let best = self.machine.patiently(patience, || capacity(built, padded, WATCH_SECONDS))?.value;
                Arrivals::Open {
                    rate: best * f64::from(per_cent) / 100.0,
                    connections: self.options.connections,
                }
            }
        };
        let question = Question { built, padded, speedups, arrivals };
        let truth = truth(&question, effort, self.machine, patience)?;
        let asked = self
            .machine
            .patiently(patience, || predict(&question, self.options.profile_seconds, self.whatif))?;
        let Answer { predictions, latency, clock, audit, pace } = asked.value;
        let rows = |of: Measure, gains: &[Interval], predictions: &[Prediction]| {
            let row = |(speedup, gain): (&u32, &Interval)| PaddedRow {
                row: Row {
                    target: built.program.name.to_owned(),
                    region: padded.called.function.name.clone(),
                    speedup: *speedup,
                    truth: *gain,
                    predictions: [(
                        WHATIF.to_owned(),
                        predictions.iter().find(|answer| answer.speedup == *speedup).copied(),
                    )]
                    .into(),
                    disturbed: truth.disturbed || asked.disturbed,
                },
                of,
                load,
                open: truth.open,
                clock: clock.clone(),
                calls_per_second: padded.called.per_second,
                pad_nanos: padded.nanos,
                pad_share: truth.share,
                profiled_rate: Some(pace / truth.pace),
                untrusted: audit.as_ref().and_then(|audit| audit.doubt().map(str::to_owned)),
            };
            speedups.iter().zip(gains).map(row).collect::<Vec<_>>()
        };
        let mut all = rows(Measure::Throughput, &truth.gains, &predictions);
        if let Some(gains) = &truth.latency_gains {
            all.extend(rows(Measure::Latency, gains, &latency));
        }
        Ok(all)
    }

    /// Written after every function: an interrupted night is not lost.
    fn keep(&mut self, rows: Vec<PaddedRow>) -> Result<()> {
        for row in &rows {
            println!("{}", row.line());
        }
        self.results.rows.extend(rows);
        self.results.machine = self.before.and(self.machine.watch());
        self.results.summarise();
        output::write(&self.results, self.options.json.as_deref())
    }
}

fn read(path: &Path) -> Result<Results> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not what `bench padding --json` writes", path.display()))
}
