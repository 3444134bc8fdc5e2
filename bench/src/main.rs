//! `bench`: how right, how costly and how quick the profiler is.
//!
//! ```text
//! $ cargo run --release -p bench -- truth --quick
//! ```
//!
//! * `accept` judges all that is measured, by sampling plans.
//! * `truth` compares predictions, ours and those of a peer, with what really happens when a function's
//!   work is shrunk.
//! * `padding` compares predictions with the truth on real programs, in which one function after the other is padded.
//! * `mosaic` does so with random programs, new ones in every run, and shrinks those that it is most wrong about.
//! * `answer` times how long the profiler takes to find the best region and to know what it is worth.
//! * `calibration` counts how often its 95 % intervals hold the truth, and how often it sees an effect where
//!   there is none.
//! * `audit` breaks the engine on purpose, and counts how often the profiler notices.
//! * `rules` does so with one rule of the delay account switched off at a time.
//! * `overhead` runs the same programs with and without the profiler.
//! * `clocks` counts how often a run finds out whether requests wait for answers or come at times of their own.
//! * `calls` times single calls that the profiler interposes.
//! * `baseline` compares windows without a speedup among experiments with a run that has no others.
//! * `start` times how long the profiler takes to begin.
//! * `attach` attaches to programs that run, and compares what it says of them with what it says when it has launched them.
//! * `go` predicts for programs in Go, launched and attached to.
//! * `cycles` attaches to servers that other people wrote, again and again, while clients check every answer.
//! * `limits` runs programs with thousands of threads or libraries, and deep stacks.
//! * `collect` measures the collector of continuous profiles: cost, loss, accuracy, size, queries, crashes.
//! * `corners` runs a tiny program for each corner of system calls and signals alone and under each sampler, and compares.
//! * `faults` lets system calls of the controller and the collector fail, and the power after each of their writes.
//! * `fleet-worth` simulates fleets, and counts how often the interval of a region's worth across hosts holds the truth.
//! * `kills` kills processes of trees, or the controller, and looks for what is left over.
//! * `hostile` lets programs of an ordinary user make the collector remember as much as they can.
//! * `sanitizers` runs targets that are built with sanitizers.
//! * `slowdown` runs programs of many kinds beside the collector, and beside `perf record`.
//! * `soak` runs the collector, and a run with its page, for an hour, and says what grows.
//! * `tables` tries hash tables on samples of this machine, as section 5.4 of the continuous-profiling paper does.
//! * `points` times one visit to a progress point: marked, in a program that is not profiled, and placed from outside.
//!
//! Runs that are compared are interleaved in random order, runs during which others used the machine
//! are repeated, and every number comes with a 95 % interval.
//!
//! In `sample → delay → experiment → record → profile → report` this stands outside, and looks at
//! the whole from where a user does: it starts the `whatif` command and reads its report.
//!
//! # What it does not do
//!
//! It links to no crate of the profiler, so a peer that is installed can be measured the same way. Only `tables`, `fleet-worth`, a part of `collect`
//! and a part of `faults` are about something inside: they take samples, try tables, pool hosts, write days, and open what a power failure leaves, with our own code.

#![forbid(unsafe_code)]

mod accept;
mod answer;
mod attach;
mod audit;
mod baseline;
mod big;
mod calibration;
mod calls;
mod clocks;
mod collect;
mod corners;
mod coz;
mod cycles;
mod faults;
mod fleet;
mod fleet_worth;
mod go;
mod hostile;
mod interval;
mod kills;
mod limits;
mod machine;
mod mosaic;
mod native;
mod output;
mod overhead;
mod padding;
mod peer;
mod points;
mod profiler;
mod program;
mod recording;
mod report;
mod rounds;
mod rules;
mod sanitizers;
mod slowdown;
mod soak;
mod start;
mod subject;
mod tables;
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
    /// All that is measured, judged by sampling plans: what `.ci/run` ends with
    Accept(accept::Options),
    /// Predictions against what really happens when a function's work is shrunk
    Truth(truth::Options),
    /// Predictions against the truth on real programs, with functions that are padded
    Padding(padding::Options),
    /// Predictions against the truth, of random programs
    Mosaic(mosaic::Options),
    /// How long it takes to find the best region and what it is worth
    Answer(answer::Options),
    /// How often the 95 % intervals hold the truth
    Calibration(calibration::Options),
    /// Whether the profiler notices when its engine is broken on purpose
    Audit(audit::Options),
    /// What each rule of the delay account is worth
    Rules(rules::Options),
    /// What the profiler costs: attached, sampling, and with experiments
    Overhead(overhead::Options),
    /// How often it finds out which clock requests from outside have
    Clocks(clocks::Options),
    /// What the profiler adds to single calls that it interposes
    Calls(calls::Options),
    /// Whether experiments disturb the windows without a speedup
    Baseline(baseline::Options),
    /// How long the profiler takes to begin
    Start(start::Options),
    /// What attaching costs a process, and whether it is told the same as when it is launched
    Attach(attach::Options),
    /// Programs in Go, launched and attached to, and what is true of them
    Go(go::Options),
    /// Servers that are attached to again and again while clients check their answers
    Cycles(cycles::Options),
    /// Programs with as much of one thing as there is
    Limits(limits::Options),
    /// The collector of continuous profiles: cost, loss, accuracy, size, queries, crashes
    Collect(collect::Options),
    /// What becomes of controller and collector when a system call or the power fails
    Faults(faults::Options),
    /// What a fleet costs: sending, room on a server, and answers over a thousand machines
    Fleet(fleet::Options),
    /// Whether what a region is worth across a fleet is right, and its interval honest, in simulated fleets
    FleetWorth(fleet_worth::Options),
    /// Corners of system calls and signals: the same alone and under each sampler?
    Corners(corners::Options),
    /// What is left over when a process of a tree, or the controller, is killed
    Kills(kills::Options),
    /// What hostile programs cost the collector
    Hostile(hostile::Options),
    /// How much slower programs get while the collector runs
    Slowdown(slowdown::Options),
    /// Targets that are built with sanitizers, with the profiler and without
    Sanitizers(sanitizers::Options),
    /// Whether memory, descriptors or threads grow in an hour
    Soak(soak::Options),
    /// Hash tables for samples: the paper's, its alternatives, and ours
    Tables(tables::Options),
    /// One visit to a progress point in a program that is not profiled
    Points,
    /// Build the targets (how `--peer` builds them elsewhere)
    #[command(hide = true)]
    BuildTargets,
}

fn main() -> Result<()> {
    let Bench { what, shared } = Bench::parse();
    fastrand::seed(shared.seed);
    let machine = Machine::new(shared.busy);
    let whatif = || Whatif::find(shared.whatif.as_deref());
    match what {
        What::Accept(options) => accept::run(&options, shared.seed, &machine, &whatif()?),
        What::Truth(options) => truth::run(&options, &machine, whatif),
        What::Padding(options) => padding::run(&options, &machine, whatif),
        What::Mosaic(options) => mosaic::run(&options, &machine, whatif),
        What::Answer(options) => answer::run(&options, &machine, &whatif()?),
        What::Calibration(options) => calibration::run(&options, &machine, whatif),
        What::Audit(options) => audit::run(&options, &machine, &whatif()?),
        What::Rules(options) => rules::run(&options, &machine, &whatif()?),
        What::Overhead(options) => overhead::run(&options, &machine, &whatif()?),
        What::Clocks(options) => clocks::run(&options, &machine, &whatif()?),
        What::Calls(options) => calls::run(&options, &machine, &whatif()?),
        What::Baseline(options) => baseline::run(&options, &machine, &whatif()?),
        What::Start(options) => start::run(&options, &machine, &whatif()?),
        What::Attach(options) => attach::run(&options, &machine, &whatif()?),
        What::Go(options) => go::run(&options, &machine, &whatif()?),
        What::Cycles(options) => cycles::run(&options, shared.seed, &machine, &whatif()?),
        What::Limits(options) => limits::run(&options, &machine, &whatif()?),
        What::Collect(options) => collect::run(&options, &machine, &whatif()?),
        What::Faults(options) => faults::run(&options, &whatif()?),
        What::Fleet(options) => fleet::run(&options, &machine, &whatif()?),
        What::FleetWorth(options) => fleet_worth::run(&options, shared.seed),
        What::Corners(options) => corners::run(&options, &whatif()?),
        What::Kills(options) => kills::run(&options, shared.seed, &whatif()?),
        What::Hostile(options) => hostile::run(&options, &machine, &whatif()?),
        What::Slowdown(options) => slowdown::run(&options, &machine, &whatif()?),
        What::Sanitizers(options) => sanitizers::run(&options, &whatif()?),
        What::Soak(options) => soak::run(&options, &whatif()?),
        What::Tables(options) => tables::run(&options),
        What::Points => points::run(&whatif()?),
        What::BuildTargets => coz::build_targets(),
    }
}
