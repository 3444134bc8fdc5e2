//! How long the profiler takes to begin: what it adds to programs that return at once, and when the first experiment
//! begins in one that goes on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::big;
use crate::interval::Interval;
use crate::machine::{Machine, most_memory};
use crate::peer::{Peer, on_path};
use crate::profiler::{Mode, Whatif};
use crate::{program, recording};

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
    let cache = tempfile::tempdir()?;
    let bench = Bench { rounds: options.rounds, machine, whatif, cache: cache.path() };
    let big = big::program()?;
    println!("time to start and end, with 95 % interval");
    bench.ends_at_once(&targets::path("start_true")?, &[Way::Whatif], peer)?;
    let (line, function) = (big::line(), big::function());
    let points = [line.as_str(), &function].map(|place| [Way::Cold(place), Way::Warm(place)]);
    bench.ends_at_once(&big, &[&[Way::Whatif], points.as_flattened()].concat(), peer)?;
    println!("time from the command to the first experiment, and the most memory whatif takes meanwhile");
    points.as_flattened().iter().try_for_each(|way| bench.first_experiment(&big, *way))
}

/// Rounds between two looks at what others do.
const BATCH: usize = 5;

/// One way of starting a program.
#[derive(Clone, Copy, Debug)]
enum Way<'a> {
    Plain,
    Whatif,
    /// With a progress point at a place that has never been looked for.
    Cold(&'a str),
    /// With a progress point at a place that has been looked for before.
    Warm(&'a str),
    Peer(Peer),
}

impl Way<'_> {
    fn name(self) -> String {
        match self {
            Self::Plain => "plain".to_owned(),
            Self::Whatif => "whatif".to_owned(),
            Self::Cold(place) => format!("whatif -p {place}, the first time,"),
            Self::Warm(place) => format!("whatif -p {place}, again,"),
            Self::Peer(Peer::Coz) => "coz".to_owned(),
        }
    }
}

struct Bench<'a> {
    rounds: usize,
    machine: &'a Machine,
    whatif: &'a Whatif,
    /// What whatif keeps from one run to the next goes here.
    cache: &'a Path,
}

impl Bench<'_> {
    fn command(&self, way: Way, mode: Mode, line: &[&str]) -> Result<Command> {
        self.whatif.forget()?;
        let mut command = match way {
            Way::Plain => Command::new(line[0]),
            Way::Peer(peer) => run_under(peer, line[0], self.cache),
            Way::Whatif => self.whatif.run(mode, line),
            Way::Cold(place) | Way::Warm(place) => self.whatif.run_with(&["-p", place], mode, line),
        };
        if let Way::Cold(_) = way {
            for entry in std::fs::read_dir(self.cache.join("whatif")).into_iter().flatten() {
                let path = entry?.path();
                // But not the runtime: unpacking it is part of the very first run only.
                if path.is_dir() {
                    std::fs::remove_dir_all(path)?;
                }
            }
        }
        command.env("XDG_CACHE_HOME", self.cache);
        Ok(command)
    }

    fn ends_at_once(&self, program: &Path, with: &[Way], peer: Option<Peer>) -> Result<()> {
        let mut ways = [&[Way::Plain], with].concat();
        ways.extend(peer.map(Way::Peer));
        let line = [program.to_str().context("the path of the program is not text")?];
        let time = |way| -> Result<f64> {
            let mut command = self.command(way, Mode::StartOnly, &line)?;
            Ok(program::duration(&mut command)?.as_secs_f64() * 1e3)
        };
        // Fill the page cache and the profiler's own.
        for way in &ways {
            time(*way)?;
        }
        let mut times = vec![Vec::new(); ways.len()];
        // One round is too short to judge in clock ticks: a batch of them is repeated, or kept.
        while times[0].len() < self.rounds {
            let batch = self.machine.quietly(|| {
                (0..BATCH)
                    .map(|_| {
                        let mut order: Vec<usize> = (0..ways.len()).collect();
                        fastrand::shuffle(&mut order);
                        let mut round = vec![0.0; ways.len()];
                        for index in order {
                            if let Way::Warm(_) = ways[index] {
                                time(ways[index])?;
                            }
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

    /// A program that goes on for two seconds.
    fn first_experiment(&self, program: &Path, way: Way) -> Result<()> {
        let line = [program.to_str().context("the path of the program is not text")?, "2"];
        let run = || -> Result<(f64, f64)> {
            let mut command = self.command(way, Mode::Full, &line)?;
            let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            let mut most = 0.0;
            while child.try_wait()?.is_none() {
                most = memory(child.id()).unwrap_or(most);
                std::thread::sleep(Duration::from_millis(20));
            }
            let first = recording::first_experiment(&self.whatif.file())?;
            Ok(((first - began.as_secs_f64()) * 1e3, most))
        };
        run()?;
        let rounds = (self.rounds / 3).max(1);
        let runs = (0..rounds).map(|_| run()).collect::<Result<Vec<_>>>()?;
        let (times, memory): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
        println!("  {} {}, {:.0} MB", way.name(), shown(&times), memory.into_iter().fold(0.0, f64::max));
        Ok(())
    }
}

/// The most memory that a process has had so far, in MB; `None` if it has ended.
fn memory(pid: u32) -> Option<f64> {
    Some(most_memory(pid).ok()? as f64 / 1e6)
}

fn shown(milliseconds: &[f64]) -> String {
    let Interval { estimate, low, high } = Interval::of_median(milliseconds);
    format!("{estimate:.2} ms [{low:.2}, {high:.2}]")
}

/// `program` under the peer, which writes its profile to `folder`.
fn run_under(peer: Peer, program: &str, folder: &Path) -> Command {
    let Peer::Coz = peer;
    let mut command = Command::new("coz");
    command.arg("run").arg("--output").arg(folder.join("profile.coz")).arg("---").arg(program);
    command
}
