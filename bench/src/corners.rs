//! Corners of system calls and signals: a table of them and of samplers, which says where a program ended and saw the same as alone.

use anyhow::{Result, ensure};
use clap::Args;
use corners::{CORNERS, Corner, Native, Outcome, Runner, Sampler};

use crate::profiler::Whatif;

#[derive(Debug, Args)]
pub struct Options {
    /// Only corners, or groups of them, whose names contain one of these [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// How often each is run alone and under each sampler
    #[arg(long, default_value_t = 1)]
    rounds: u64,
}

/// Runs of one corner.
#[derive(Debug, Default)]
struct Row {
    /// Why it could not be run, or what it did alone that the table does not say.
    alone: Option<String>,
    /// Runs that were the same, and how one was not, for each sampler.
    same: [u64; 3],
    other: [Option<String>; 3],
}

pub fn run(options: &Options, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    let runner = Runner::new(whatif.path(), &targets::build::folder()?.join("corners"))?;
    let is_chosen = |corner: &&Corner| {
        let in_it = |only: &String| corner.name.contains(only.as_str()) || corner.group() == only;
        options.only.is_empty() || options.only.iter().any(in_it)
    };
    let (mut findings, mut known, mut gone) = (0, 0, 0);
    println!("{:<11} {:<34} {:>12} {:>12} {:>12}", "", "", "perf", "perf-user", "timer");
    for corner in CORNERS.iter().filter(is_chosen) {
        let row = measure(options, &runner, corner)?;
        print!("{:<11} {:<34}", corner.group(), corner.name);
        if let Some(why) = row.alone {
            println!(" {why}");
            continue;
        }
        for (sampler, same) in Sampler::ALL.into_iter().zip(row.same) {
            let all = same == options.rounds;
            known += u64::from(!all && corner.known(sampler).is_some());
            gone += u64::from(all && corner.known(sampler).is_some());
            findings += u64::from(!all && corner.known(sampler).is_none());
            print!(" {:>12}", cell(same, options.rounds, corner.known(sampler).is_some()));
        }
        println!();
        for (sampler, other) in Sampler::ALL.into_iter().zip(row.other) {
            match (corner.known(sampler), other) {
                (Some(why), None) => println!("    {}: the same, although '{why}'", sampler.name()),
                (None, Some(how)) => println!("    {}: {how}", sampler.name()),
                _ => {}
            }
        }
        if let Some(differs) = corner.differs {
            println!("    known: {}", differs.why);
        }
    }
    println!(
        "\n{findings} differ, {known} differ as known, {gone} are the same although they were known to differ"
    );
    Ok(())
}

fn cell(same: u64, rounds: u64, is_known: bool) -> String {
    let share = if rounds == 1 { String::new() } else { format!(" {}/{rounds}", rounds - same) };
    match (same == rounds, is_known) {
        (true, _) => "ok".to_owned(),
        (false, true) => format!("known{share}"),
        (false, false) => format!("differs{share}"),
    }
}

fn measure(options: &Options, runner: &Runner, corner: &Corner) -> Result<Row> {
    let mut row = Row::default();
    for round in 0..options.rounds {
        let native = match runner.native(corner)? {
            Native::Ran(native) => native,
            Native::Skipped(why) => return Ok(Row { alone: Some(format!("skipped: {why}")), ..row }),
            Native::Unexpected(native) => {
                let how = format!("ended otherwise than the table says, alone: {native:?}");
                return Ok(Row { alone: Some(how), ..row });
            }
        };
        for (index, sampler) in Sampler::ALL.into_iter().enumerate() {
            // The round is the seed: with some the first experiment begins with its delays (2 does), with others without.
            match runner.profiled(corner, sampler, round + 2, &native)? {
                Outcome::Same => row.same[index] += 1,
                Outcome::Differs(how) => row.other[index] = Some(how),
            }
        }
    }
    Ok(row)
}
