//! `bench`: how right, how costly and how quick the profiler is.
//!
//! ```text
//! $ cargo run --release -p bench -- truth --quick
//! ```
//!
//! * `truth` compares predictions with what really happens when a function's work is shrunk.
//! * `overhead` runs the same programs with and without the profiler.
//! * `start` times how long the profiler takes to begin.
//! * `points` times one visit to a progress point in a program that is not profiled.
//!
//! Runs that are compared are interleaved in random order, runs during which others used the machine
//! are repeated, and every number comes with a 95 % bootstrap interval.
//!
//! In `sample → delay → experiment → record → profile → report` this stands outside, and looks at
//! the whole from where a user does: it starts the `whatif` command and reads its report.
//!
//! # What it does not do
//!
//! It links to no crate of the profiler, so a peer that is installed can be measured the same way.

#![forbid(unsafe_code)]

mod big;
mod interval;
mod machine;
mod overhead;
mod points;
mod profiler;
mod program;
mod start;
mod truth;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::machine::Machine;
use crate::profiler::Whatif;

/// Measures the profiler: its accuracy, its overhead and its start.
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
struct Bench {
    #[command(subcommand)]
    what: What,

    #[command(flatten)]
    shared: Shared,
}

/// Options of every command.
#[derive(Debug, Args)]
struct Shared {
    /// The `whatif` command to measure [default: the one cargo builds]
    #[arg(long, global = true, value_name = "PATH")]
    whatif: Option<PathBuf>,

    /// Repeat a run when others used more than this share of the machine meanwhile
    #[arg(long, global = true, value_name = "SHARE", default_value_t = 0.1)]
    busy: f64,

    /// Seed of the random orders and of the bootstrap
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Predictions against what really happens when a function's work is shrunk
    Truth(truth::Options),
    /// What the profiler costs: attached, sampling, and with experiments
    Overhead(overhead::Options),
    /// How long the profiler takes to begin
    Start(start::Options),
    /// One visit to a progress point in a program that is not profiled
    Points,
}

fn main() -> Result<()> {
    let Bench { what, shared } = Bench::parse();
    fastrand::seed(shared.seed);
    let machine = Machine::new(shared.busy);
    let whatif = || Whatif::find(shared.whatif.as_deref());
    match what {
        What::Truth(options) => truth::run(&options, &machine, whatif),
        What::Overhead(options) => overhead::run(&options, &machine, &whatif()?),
        What::Start(options) => start::run(&options, &machine, &whatif()?),
        What::Points => {
            points::run();
            Ok(())
        }
    }
}
