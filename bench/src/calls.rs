//! What the profiler adds to single calls, in nanoseconds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::interval::{Interval, median};
use crate::machine::{Machine, Patience};
use crate::overhead::overheads;
use crate::profiler::{Mode, Whatif};
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Runs in every mode
    #[arg(long, default_value_t = 7)]
    rounds: usize,

    /// Calls of each kind in a run
    #[arg(long, default_value_t = 200_000)]
    iterations: u32,

    /// Length of each run of the contended program
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// The call that counts most, and what may be added to it.
const MEASURE: &str = "mutex";
const GOAL_NANOS: f64 = 30.0;

/// Attached, and sampling at speedup zero. (Experiments would add delays, which are no cost of a call.)
const WAYS: [(Mode, &str); 2] = [(Mode::StartOnly, "attached"), (Mode::NoDelays, "+ sampling")];

/// Where a round has the times without the profiler.
const NATIVE: usize = WAYS.len();

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    let calls = build("calls")?;
    let line: Vec<OsString> = vec![calls.into(), format!("iterations={}", options.iterations).into()];
    let rounds = rounds(&line, options.rounds, machine, whatif)?;
    println!("nanoseconds per call (pairs count as one), with 95 % interval");
    print!("{:<16} {:>9}", "", "native");
    for (_, name) in WAYS {
        print!("   {:>9}   {:^25}", name, "adds");
    }
    println!();
    let names: Vec<&String> = rounds[0][NATIVE].keys().collect();
    for name in names {
        let of = |way: usize| -> Result<Vec<f64>> {
            rounds
                .iter()
                .map(|round| round[way].get(name).copied().with_context(|| format!("no '{name}' in a run")))
                .collect()
        };
        let native = of(NATIVE)?;
        print!(
            "{:<16} {:>9.1}",
            name.split_once(' ').map_or(name.as_str(), |(_, name)| name),
            median(&native)
        );
        for way in 0..NATIVE {
            let with = of(way)?;
            let added: Vec<f64> = with.iter().zip(&native).map(|(with, native)| with - native).collect();
            let Interval { estimate, low, high } = Interval::of_median(&added);
            print!("   {:>9.1}   {estimate:>+7.1} [{low:>+7.1}, {high:>+7.1}]", median(&with));
            if name.ends_with(&format!(" {MEASURE}")) && estimate > GOAL_NANOS {
                print!(" (goal: {GOAL_NANOS})");
            }
        }
        println!();
    }
    contended(options, machine, whatif)?;
    println!("{}", machine.watch().sentence());
    Ok(())
}

/// A program of two threads and 100,000 lock operations a second.
fn contended(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    let line: Vec<OsString> = vec![build("contended")?.into(), format!("seconds={}", options.seconds).into()];
    let mut command = Command::new(&line[0]);
    let rate = program::rate(command.args(&line[1..]), "operation")?;
    println!("\ncontended lock, {rate:.0} lock operations a second: rate lost in %");
    let overheads = overheads(&WAYS, &line, "operation", options.rounds, machine, whatif)?;
    for ((_, name), overhead) in WAYS.iter().zip(overheads) {
        // An overhead is in per cent of the rate that is left.
        let lost = |overhead: f64| (1.0 - 1.0 / (1.0 + overhead)) * 100.0;
        println!(
            "{name:<16} {:>6.2} [{:.2}, {:.2}]",
            lost(overhead.estimate),
            lost(overhead.low),
            lost(overhead.high)
        );
    }
    Ok(())
}

/// Nanoseconds by call, in the program's order; in every way and last natively.
type Round = Vec<BTreeMap<String, f64>>;

fn rounds(line: &[OsString], count: usize, machine: &Machine, whatif: &Whatif) -> Result<Vec<Round>> {
    let patience = Patience::new(3, Duration::from_mins(2));
    (0..count)
        .map(|_| {
            let round = machine.patiently(&patience, || {
                let mut round = vec![BTreeMap::new(); NATIVE + 1];
                let mut order: Vec<usize> = (0..round.len()).collect();
                fastrand::shuffle(&mut order);
                for index in order {
                    whatif.forget()?;
                    let mut command = match WAYS.get(index) {
                        Some((mode, _)) => whatif.run(*mode, line),
                        None => {
                            let mut plain = Command::new(&line[0]);
                            plain.args(&line[1..]);
                            plain
                        }
                    };
                    let output = program::output(&mut command)?;
                    round[index] = parse(&String::from_utf8_lossy(&output.stdout));
                    ensure!(!round[index].is_empty(), "{command:?} printed no times (run it by hand)");
                }
                Ok(round)
            })?;
            Ok(round.value)
        })
        .collect()
}

/// Lines `call NAME NANOS`; the keys begin with the number of the line, so that they keep its order.
fn parse(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter_map(|line| line.strip_prefix("call ")?.rsplit_once(' '))
        .enumerate()
        .filter_map(|(number, (name, nanos))| Some((format!("{number:02} {name}"), nanos.parse().ok()?)))
        .collect()
}

/// One of the programs in `bench/c`.
pub fn build(name: &str) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name).with_extension("c");
    let folder = targets::build::folder()?;
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let program = folder.join(format!("bench-{name}"));
    targets::build::compile(&source, &program).with_context(|| format!("compiling {}", source.display()))?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_order() {
        let times = parse("hello\ncall b c 20.5\ncall a 3\nrate x 1\ncall bad x\n");
        let expected = [("00 b c".to_owned(), 20.5), ("01 a".to_owned(), 3.0)];
        assert_eq!(times.into_iter().collect::<Vec<_>>(), expected);
    }
}
