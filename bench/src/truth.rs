//! Predictions against the truth: what really happens when a function's work is shrunk.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use targets::Target;

use crate::interval::{Interval, mean};
use crate::machine::Machine;
use crate::profiler::{Prediction, Profiler, Question, Whatif};
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Only the targets called this (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Native runs of every variant
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Length of each native run
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// Length of each profiled run
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    profile_seconds: f64,

    /// Speedups in per cent
    #[arg(long, value_delimiter = ',', default_values_t = [25, 50, 75, 100])]
    speedups: Vec<u32>,

    /// Two short rounds and short profiled runs: a smoke test, not a measurement
    #[arg(long)]
    quick: bool,

    /// Measure the truth only, without any profiler
    #[arg(long)]
    native: bool,

    /// Write everything to this file as well
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

/// One region of one target at one speedup. Gains are shares of the period: 1 − p_s/p_0.
#[derive(Debug, Serialize)]
struct Row {
    target: &'static str,
    region: &'static str,
    /// In per cent.
    speedup: u32,
    truth: Interval,
    /// By profiler; one that has no answer is absent.
    predictions: BTreeMap<&'static str, Prediction>,
}

impl Row {
    /// Prediction minus truth, in points. No answer is judged like the answer "nothing".
    fn error(&self, profiler: &str) -> f64 {
        let gain = self.predictions.get(profiler).map_or(0.0, |answer| answer.gain);
        (gain - self.truth.estimate) * 100.0
    }
}

pub fn run(options: &Options, machine: &Machine, whatif: impl Fn() -> Result<Whatif>) -> Result<()> {
    let (rounds, seconds, profile_seconds) = if options.quick {
        (2, 0.7, 5.0)
    } else {
        (options.rounds, options.seconds, options.profile_seconds)
    };
    ensure!(
        rounds > 0 && options.speedups.iter().all(|speedup| (1..=100).contains(speedup)),
        "there must be a round, and speedups lie between 1 and 100 %"
    );
    let mut chosen = program::chosen(&options.only)?;
    chosen.retain(|target| !target.regions.is_empty());
    targets::build().context("building the targets")?;
    let profilers: Vec<Box<dyn Profiler>> =
        if options.native { Vec::new() } else { vec![Box::new(whatif()?)] };

    println!("gain in % of the period: truth [95 % interval], then each prediction and its error");
    let mut rows = Vec::new();
    for target in chosen {
        let mut of_target = truths(target, &options.speedups, rounds, seconds, machine)?;
        for profiler in &profilers {
            let line = program::command_line(target, &[format!("seconds={profile_seconds}")])?;
            for region in target.regions {
                let question = Question {
                    command_line: &line,
                    point: target.point,
                    region,
                    speedups: &options.speedups,
                };
                // A profiler that fails has no answer, and the next question is asked all the same.
                let answers = machine.quietly(|| profiler.predict(&question)).unwrap_or_else(|error| {
                    eprintln!("{} {region}: {error:#}", target.name);
                    Vec::new()
                });
                for row in of_target.iter_mut().filter(|row| row.region == *region) {
                    if let Some(answer) = answers.iter().find(|answer| answer.speedup == row.speedup) {
                        row.predictions.insert(profiler.name(), *answer);
                    }
                }
            }
        }
        for row in &of_target {
            print_row(row, &profilers);
        }
        for profiler in &profilers {
            print_summary(target.name, &of_target, profiler.name());
        }
        rows.extend(of_target);
        // Written after every target: an interrupted night is not lost.
        if let Some(path) = &options.json {
            fs::write(path, serde_json::to_vec_pretty(&rows)?)
                .with_context(|| format!("writing {} (is its folder there?)", path.display()))?;
        }
    }
    for profiler in &profilers {
        print_summary("all", &rows, profiler.name());
    }
    Ok(())
}

/// Measures every region at every speedup. A round runs the unchanged program and every variant
/// once, in random order; gains are taken within a round.
fn truths(
    target: &'static Target,
    speedups: &[u32],
    rounds: usize,
    seconds: f64,
    machine: &Machine,
) -> Result<Vec<Row>> {
    let variants: Vec<(&'static str, u32)> = target
        .regions
        .iter()
        .flat_map(|region| speedups.iter().map(move |speedup| (*region, *speedup)))
        .collect();
    let mut gains = vec![Vec::new(); variants.len()];
    for _ in 0..rounds {
        // The last is the program unchanged.
        let mut rates = vec![0.0; variants.len() + 1];
        let mut order: Vec<usize> = (0..rates.len()).collect();
        fastrand::shuffle(&mut order);
        for index in order {
            let mut extra = vec![format!("seconds={seconds}")];
            if let Some((region, speedup)) = variants.get(index) {
                extra.push(format!("{region}={}", 1.0 - f64::from(*speedup) / 100.0));
            }
            let line = program::command_line(target, &extra)?;
            rates[index] =
                machine.quietly(|| program::rate(Command::new(&line[0]).args(&line[1..]), target.point))?;
        }
        let unchanged = rates[variants.len()];
        for (gains, rate) in gains.iter_mut().zip(&rates) {
            gains.push(1.0 - unchanged / rate);
        }
    }
    let rows = variants.iter().zip(gains).map(|(&(region, speedup), gains)| Row {
        target: target.name,
        region,
        speedup,
        truth: Interval::of_median(&gains),
        predictions: BTreeMap::new(),
    });
    Ok(rows.collect())
}

fn print_row(row: &Row, profilers: &[Box<dyn Profiler>]) {
    let truth = row.truth.scaled(100.0);
    print!(
        "{:<20} {:<4} {:>3} %   {:>6.1} [{:>5.1}, {:>5.1}]",
        row.target, row.region, row.speedup, truth.estimate, truth.low, truth.high
    );
    for profiler in profilers {
        let name = profiler.name();
        match row.predictions.get(name) {
            Some(answer) => print!(
                "   {name} {:>6.1} [{:>5.1}, {:>5.1}]  {:>+6.1}",
                answer.gain * 100.0,
                answer.low * 100.0,
                answer.high * 100.0,
                row.error(name)
            ),
            None => print!("   {name} has no answer"),
        }
    }
    println!();
}

fn print_summary(of: &str, rows: &[Row], profiler: &str) {
    let errors: Vec<f64> = rows.iter().map(|row| row.error(profiler).abs()).collect();
    let Some(average) = mean(&errors) else { return };
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let answered: Vec<bool> = rows
        .iter()
        .filter_map(|row| {
            let answer = row.predictions.get(profiler)?;
            Some((answer.low..=answer.high).contains(&row.truth.estimate))
        })
        .collect();
    let covered = answered.iter().filter(|covered| **covered).count();
    println!(
        "{of:<20} {profiler}: mean error {average:.1} points, worst {worst:.1}; {} of {} answered, \
         {covered} intervals contain the truth\n",
        answered.len(),
        rows.len()
    );
}
