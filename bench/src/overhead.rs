//! What the profiler costs a program, in per cent of its rate.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::interval::Interval;
use crate::machine::{Machine, Patience};
use crate::profiler::{Mode, Whatif};
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Only the targets called this (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Runs in every mode
    #[arg(long, default_value_t = 7)]
    rounds: usize,

    /// Length of each run
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

/// The modes that are compared with a plain run, and what tables call them.
pub const MODES: [(Mode, &str); 3] =
    [(Mode::StartOnly, "attached"), (Mode::NoDelays, "+ sampling"), (Mode::Full, "+ delays")];

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    let chosen = program::chosen(&options.only)?;
    targets::build().context("building the targets")?;
    println!(
        "overhead in % of the rate, with 95 % interval. The last column contains the delays of the \
         experiments, which are no loss of speed but the measurement itself."
    );
    print!("{:<20}", "");
    for (_, name) in MODES {
        print!("   {name:^22}");
    }
    println!();
    for target in chosen {
        print!("{:<20}", target.name);
        let line = program::command_line(target, &[format!("seconds={}", options.seconds)])?;
        for overhead in overheads(&MODES, &line, target.point, options.rounds, machine, whatif)? {
            let Interval { estimate, low, high } = overhead.scaled(100.0);
            print!("   {estimate:>6.1} [{low:>6.1}, {high:>5.1}]");
        }
        println!();
    }
    println!("{}", machine.watch().sentence());
    Ok(())
}

/// What each of `modes` costs the program `line`, as a share of its rate.
pub fn overheads(
    modes: &[(Mode, &str)],
    line: &[OsString],
    point: &str,
    rounds: usize,
    machine: &Machine,
    whatif: &Whatif,
) -> Result<Vec<Interval>> {
    // Five minutes of repeats; then it is better to know something.
    let patience = Patience::new(10, Duration::from_mins(5));
    let mut overheads = vec![Vec::new(); modes.len()];
    for _ in 0..rounds {
        // The last is the plain program.
        let mut rates = vec![0.0; modes.len() + 1];
        let mut order: Vec<usize> = (0..rates.len()).collect();
        fastrand::shuffle(&mut order);
        for index in order {
            let rate = machine.patiently(&patience, || {
                whatif.forget()?;
                let mut command = match modes.get(index) {
                    Some((mode, _)) => whatif.run(*mode, line),
                    None => {
                        let mut plain = Command::new(&line[0]);
                        plain.args(&line[1..]);
                        plain
                    }
                };
                program::rate(&mut command, point)
            })?;
            rates[index] = rate.value;
        }
        for (overheads, rate) in overheads.iter_mut().zip(&rates) {
            overheads.push(rates[modes.len()] / rate - 1.0);
        }
    }
    Ok(overheads.iter().map(|values| Interval::of_median(values)).collect())
}
