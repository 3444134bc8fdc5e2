//! Whether experiments disturb what they are compared with: the rate in windows at speedup 0 among
//! experiments, against a run in which all windows are such.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use targets::Target;

use crate::interval::{Interval, count};
use crate::machine::{Machine, Patience};
use crate::native::limit;
use crate::profiler::{Mode, Whatif};
use crate::program;
use crate::recording;

#[derive(Debug, Args)]
pub struct Options {
    /// Only the targets called this (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Runs of each kind
    #[arg(long, default_value_t = 4)]
    rounds: usize,

    /// Length of each run; half of one is without a speedup
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

/// In per cent of the rate.
const GOAL: f64 = 1.0;

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds >= 2, "--rounds must be at least 2, to see the noise");
    let mut chosen = program::chosen(&options.only)?;
    // Without regions there is hardly anything to experiment with. Rates of percentiles are not in recordings.
    chosen.retain(|target| !target.regions.is_empty() && !target.point.contains('/'));
    targets::build().context("building the targets")?;
    println!(
        "{} targets, {} rounds of two runs of {} s: about {:.0} min if the machine is otherwise idle",
        chosen.len(),
        options.rounds,
        options.seconds,
        (count(chosen.len() * options.rounds * 2) * (options.seconds + 0.4) / 60.0).ceil()
    );
    println!(
        "rate at speedup 0 among experiments, as a ratio to that in a run without experiments (goal: \
         within {GOAL} %)"
    );
    let mut within = 0;
    let mut ratios: Vec<f64> = Vec::new();
    for target in &chosen {
        match ratio(target, options, machine, whatif) {
            Ok((ratio, windows, disturbed)) => {
                let off = (ratio.estimate - 1.0) * 100.0;
                ratios.push(ratio.estimate);
                let goal = 1.0 - GOAL / 100.0..=1.0 + GOAL / 100.0;
                let verdict = if ratio.high < *goal.start() || ratio.low > *goal.end() {
                    "   MISSED"
                } else if !goal.contains(&ratio.estimate) || ratio.half_width() * 100.0 > GOAL {
                    "   too uncertain to tell (more --rounds or --seconds)"
                } else {
                    within += 1;
                    ""
                };
                println!(
                    "{:<20} {:>7.4} [{:.4}, {:.4}]  {off:>+6.2} %  {windows:>4} windows{}{verdict}",
                    target.name,
                    ratio.estimate,
                    ratio.low,
                    ratio.high,
                    if disturbed { "   (disturbed)" } else { "" }
                );
            }
            // The others are worth knowing all the same.
            Err(error) => eprintln!("{}: {error:#}", target.name),
        }
    }
    ensure!(!ratios.is_empty(), "no target could be measured (the errors above say why)");
    // One target says little in so short a time; whether experiments disturb baselines in general, all of them do.
    let Interval { estimate, low, high } = Interval::of_mean(&ratios).scaled(100.0);
    println!(
        "all: {:+.2} % [{:+.2}, {:+.2}]; {within} of {} surely within {GOAL} %; {}",
        estimate - 100.0,
        low - 100.0,
        high - 100.0,
        ratios.len(),
        machine.watch().sentence()
    );
    Ok(())
}

/// The ratio, over how many windows among experiments, and whether others disturbed it.
fn ratio(
    target: &Target,
    options: &Options,
    machine: &Machine,
    whatif: &Whatif,
) -> Result<(Interval, u64, bool)> {
    let line = program::command_line(target, &[format!("seconds={}", options.seconds)])?;
    let rate = |mode| {
        whatif.forget()?;
        program::output_within(&mut whatif.run(mode, &line), limit(options.seconds))?;
        recording::baseline(&whatif.file(), target.point)
    };
    let patience = Patience::new(2, Duration::from_secs_f64(options.seconds * 4.0));
    let mut logarithms = Vec::new();
    let (mut windows, mut disturbed) = (0, false);
    for _ in 0..options.rounds {
        let round = machine.patiently(&patience, || {
            // In random order: what drifts shall not look like a difference.
            let (mixed, alone) = if fastrand::bool() {
                let mixed = rate(Mode::Full)?;
                (mixed, rate(Mode::NoDelays)?)
            } else {
                let alone = rate(Mode::NoDelays)?;
                (rate(Mode::Full)?, alone)
            };
            Ok((mixed, alone))
        })?;
        let (mixed, alone) = round.value;
        logarithms.push((mixed.per_second() / alone.per_second()).ln());
        windows += mixed.windows;
        disturbed |= round.disturbed;
    }
    let Interval { estimate, low, high } = Interval::of_mean(&logarithms);
    Ok((Interval { estimate: estimate.exp(), low: low.exp(), high: high.exp() }, windows, disturbed))
}
