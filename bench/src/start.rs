//! How long the profiler takes to begin: what it adds to programs that return at once.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::big;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::peer::{Peer, on_path};
use crate::profiler::{Mode, Whatif};
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Starts of every program in every way
    #[arg(long, default_value_t = 30)]
    rounds: usize,

    /// Also time another profiler, if it is installed
    #[arg(long)]
    peer: Option<Peer>,
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    targets::build().context("building the targets")?;
    let peer = options.peer.filter(|peer| {
        let Peer::Coz = peer;
        let installed = on_path("coz").is_some();
        if !installed {
            println!("coz is not on PATH; install it to compare");
        }
        installed
    });
    println!("time to start and end, with 95 % interval");
    for program in [targets::path("start_true")?, big::program()?] {
        measure(&program, options.rounds, peer, machine, whatif)?;
    }
    Ok(())
}

/// Rounds between two looks at what others do.
const BATCH: usize = 5;

/// One way of starting a program.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Whatif,
    Peer(Peer),
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Whatif => "whatif",
            Self::Peer(Peer::Coz) => "coz",
        }
    }
}

fn measure(
    program: &Path,
    rounds: usize,
    peer: Option<Peer>,
    machine: &Machine,
    whatif: &Whatif,
) -> Result<()> {
    let mut ways = vec![Way::Plain, Way::Whatif];
    ways.extend(peer.map(Way::Peer));
    let folder = tempfile::tempdir()?;
    let time = |way| -> Result<f64> {
        whatif.forget()?;
        let mut command = match way {
            Way::Plain => Command::new(program),
            Way::Whatif => whatif.run(Mode::StartOnly, &[program]),
            Way::Peer(peer) => run_under(peer, program, folder.path()),
        };
        Ok(program::duration(&mut command)?.as_secs_f64() * 1e3)
    };
    // Fill the page cache and the profiler's own.
    for way in &ways {
        time(*way)?;
    }
    let mut times = vec![Vec::new(); ways.len()];
    // One round is too short to judge in clock ticks: a batch of them is repeated, or kept.
    while times[0].len() < rounds {
        let batch = machine.quietly(|| {
            (0..BATCH)
                .map(|_| {
                    let mut order: Vec<usize> = (0..ways.len()).collect();
                    fastrand::shuffle(&mut order);
                    let mut round = vec![0.0; ways.len()];
                    for index in order {
                        round[index] = time(ways[index])?;
                    }
                    Ok(round)
                })
                .collect::<Result<Vec<_>>>()
        })?;
        for round in batch {
            for (times, time) in times.iter_mut().zip(round) {
                times.push(time);
            }
        }
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let megabytes = std::fs::metadata(program)?.len() / 1_000_000;
    println!("{name} ({megabytes} MB)");
    println!("  plain: {}", shown(&times[0]));
    for (way, with) in ways.iter().zip(&times).skip(1) {
        let added: Vec<f64> = with.iter().zip(&times[0]).map(|(with, plain)| with - plain).collect();
        println!("  {} adds: {}", way.name(), shown(&added));
    }
    Ok(())
}

fn shown(milliseconds: &[f64]) -> String {
    let Interval { estimate, low, high } = Interval::of_median(milliseconds);
    format!("{estimate:.2} ms [{low:.2}, {high:.2}]")
}

/// `program` under the peer, which writes its profile to `folder`.
fn run_under(peer: Peer, program: &Path, folder: &Path) -> Command {
    let Peer::Coz = peer;
    let mut command = Command::new("coz");
    command.arg("run").arg("--output").arg(folder.join("profile.coz")).arg("---").arg(program);
    command
}
