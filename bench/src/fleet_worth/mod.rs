//! What a region is worth across a fleet: simulated hosts whose true slopes are known.
//!
//! No program runs. Each host draws visits for windows with and without a speedup, and its slope is made of their sums, as in a
//! recording; `profile::meta_analysis` then puts the hosts together. Counted is how far off its answers are, and how often its
//! intervals hold the truth: of fleets of ten thousand hosts and of few, that are alike and that are not, with windows few and many and noise of several
//! kinds. Beside it stands what textbooks do, with each host's own variance.

mod drift;
mod plan;
mod pooled;
mod scenario;
mod tally;
mod world;

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;

#[derive(Debug, Args)]
pub struct Options {
    /// Fewer fleets, for a minute
    #[arg(long)]
    quick: bool,

    /// How many fleets: 1 is a thousand of 10,000 hosts for each scenario [default: 0.4, with --quick 0.05]
    #[arg(long, value_name = "TIMES")]
    effort: Option<f64>,
}

pub fn run(options: &Options, seed: u64) -> Result<()> {
    let effort = options.effort.unwrap_or(if options.quick { 0.05 } else { 0.4 });
    ensure!(effort > 0.0 && effort <= 20.0, "--effort must be above 0 and at most 20");
    let started = Instant::now();
    pooled::run(effort, seed);
    plan::run(effort, seed);
    drift::run(effort, seed);
    println!(
        "\nlow, wide: certainly fewer than 93 or more than 97 % of the intervals hold the truth; with a question mark: by what was counted, \
         which may be chance. {:.0} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
