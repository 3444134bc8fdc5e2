//! Faults: each system call of the collector and of the controller fails once, at some of the times that it is made, with the errors
//! that it can have; reads and writes are cut short; and the power fails after each write.
//!
//! A harness of our own (`bench/c/faults.c`) stands between. `strace` counts the calls of each thread by itself, and cannot cut a
//! write: it can only lie about its length.

mod collector;
mod controller;
mod harness;
mod kinds;
mod power;
mod table;

use anyhow::Result;
use clap::{Args, ValueEnum};

use self::collector::Collector;
use self::controller::Controller;
use self::harness::Harness;
use crate::calls;
use crate::profiler::Whatif;

#[derive(Debug, Args)]
pub struct Options {
    /// Which of them [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,

    /// Only these system calls [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// Times that a system call fails, at most, for each error
    #[arg(long, default_value_t = 4)]
    times: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// System calls of `whatif collect`
    Collector,
    /// System calls of `whatif run`
    Controller,
    /// Power failures in both
    Power,
}

pub fn run(options: &Options, whatif: &Whatif) -> Result<()> {
    let harness = Harness::build()?;
    let wanted = |part| options.parts.is_empty() || options.parts.contains(&part);
    let mut findings = 0;
    if wanted(Part::Controller) {
        let witness = calls::build("witness")?;
        for (what, options_of_run) in [
            ("a program that counts its visits", &[][..]),
            ("visits that the kernel counts", &["-p", "fn:more", "--latency", "fn:work..fn:more"][..]),
        ] {
            println!("\nwhatif run: {what}\n");
            let half =
                Controller { whatif: whatif.path(), witness: witness.clone(), options: options_of_run };
            findings += table::print(&half, &harness, &options.only, options.times)?;
        }
    }
    if wanted(Part::Collector) {
        println!("\nwhatif collect\n");
        let half = Collector { whatif: whatif.path() };
        findings += table::print(&half, &harness, &options.only, options.times)?;
    }
    if wanted(Part::Power) {
        println!();
        findings += power::run(&harness, whatif.path(), &calls::build("witness")?, fastrand::u64(..))?;
    }
    anyhow::ensure!(findings == 0, "{findings} findings in all");
    Ok(())
}
