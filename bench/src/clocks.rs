//! Which clock do arrivals from outside have? How often runs of several lengths find it out.
//!
//! The servers of `targets/c/world.c` and `targets/src/bin/hyper_rs.rs` are asked by another process in a closed loop, in an open one, or by both. The
//! profiler holds up some requests, and writes down what it takes them for.

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;
use targets::Target;

use crate::interval::count;
use crate::machine::Machine;
use crate::profiler::{Mode, Whatif};
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Only the target of this name, or those of the program of this name (may be repeated) [default: all kinds of load]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Runs of every length
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// Lengths of runs
    #[arg(long, value_delimiter = ',', default_values_t = [5.0, 15.0])]
    seconds: Vec<f64>,
}

/// The programs whose loads are known.
const PROGRAMS: &[&str] = &["world", "hyper_rs"];

/// What a report says about arrivals.
#[derive(Debug, Deserialize)]
struct Report {
    sessions: Vec<Session>,
}

#[derive(Debug, Deserialize)]
struct Session {
    arrivals: Vec<Arrivals>,
}

#[derive(Debug, Deserialize)]
struct Arrivals {
    kind: String,
    clock: String,
}

/// What a run has found out.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    right: usize,
    undecided: usize,
    wrong: usize,
}

impl Found {
    fn add(&mut self, clock: &str, truth: &str) {
        match clock {
            _ if clock == truth => self.right += 1,
            "undecided" => self.undecided += 1,
            _ => self.wrong += 1,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            right: self.right + other.right,
            undecided: self.undecided + other.undecided,
            wrong: self.wrong + other.wrong,
        }
    }

    fn line(self) -> String {
        let Self { right, undecided, wrong } = self;
        format!("{right} right, {undecided} undecided, {wrong} wrong")
    }
}

/// The whole number that an argument of the program gives, 0 where it is not there.
fn argument(target: &Target, name: &str) -> u32 {
    let given = |argument: &&str| argument.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    target.arguments.iter().find_map(given).unwrap_or(0)
}

/// By what requests come to `target`, and which clock they have; `None` where none come from outside.
fn truth(target: &Target) -> Option<(&'static str, &'static str)> {
    if !PROGRAMS.contains(&target.program) {
        return None;
    }
    let kind = match (argument(target, "over"), argument(target, "once")) {
        (1, _) => "datagrams",
        (2, _) => "pipe",
        (_, 1) => "listener",
        _ => "accepted",
    };
    let clock = match argument(target, "open") {
        0 => "closed",
        4 => "mixed",
        _ => "open",
    };
    Some((kind, clock))
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    targets::build().context("building the targets")?;
    let chosen = program::chosen(&options.only)?;
    let known: Vec<_> = chosen.into_iter().filter_map(|target| Some((target, truth(target)?))).collect();
    ensure!(
        !known.is_empty(),
        "these targets get nothing from outside; choose those of {} with --only",
        PROGRAMS.join(" or ")
    );
    for seconds in &options.seconds {
        let mut all = Found::default();
        println!("after {seconds} s");
        for (target, (kind, clock)) in &known {
            let mut found = Found::default();
            for _ in 0..options.rounds {
                found.add(&machine.quietly(|| ask(target, kind, *seconds, whatif))?, clock);
            }
            println!("  {:<18} {clock:<7} {}", target.name, found.line());
            all = all.and(found);
        }
        let runs = all.right + all.undecided + all.wrong;
        let share = |number| 100.0 * count(number) / count(runs);
        println!(
            "  of {runs} runs: {} ({:.0}, {:.0} and {:.0} %)",
            all.line(),
            share(all.right),
            share(all.undecided),
            share(all.wrong)
        );
    }
    println!("{}", machine.watch().sentence());
    Ok(())
}

/// What a run of so many seconds takes the arrivals for.
fn ask(target: &Target, kind: &str, seconds: f64, whatif: &Whatif) -> Result<String> {
    whatif.forget()?;
    let line = program::command_line(target, &[format!("seconds={}", seconds + 10.0)])?;
    let duration = seconds.to_string();
    let options = ["--quiet", "--region", target.regions[0], "--duration", &duration, "--then", "terminate"];
    program::output(&mut whatif.run_with(&options, Mode::Full, &line))?;
    found(whatif, kind)
}

/// What the last run took arrivals of a `kind` for.
pub fn found(whatif: &Whatif, kind: &str) -> Result<String> {
    let report: Report = whatif.report_as(&whatif.file())?;
    let mut arrivals = report.sessions.into_iter().flat_map(|session| session.arrivals);
    Ok(arrivals.find(|one| one.kind == kind).map_or_else(|| "undecided".to_owned(), |one| one.clock))
}

#[cfg(test)]
mod tests {
    use super::*;
    use targets::TARGETS;

    #[test]
    fn the_truth_is_in_the_arguments() {
        let of = |name| TARGETS.iter().find(|target| target.name == name).and_then(truth);
        assert_eq!(of("world_think"), Some(("accepted", "closed")));
        assert_eq!(of("world_both"), Some(("accepted", "mixed")));
        assert_eq!(of("world_udp"), Some(("datagrams", "open")));
        assert_eq!(of("world_pipe"), Some(("pipe", "open")));
        assert_eq!(of("world_once"), Some(("listener", "closed")));
        assert_eq!(of("world_udp_think_8"), Some(("datagrams", "closed")));
        assert_eq!(of("world_unix"), Some(("accepted", "open")));
        assert_eq!(of("world_unix_think"), Some(("accepted", "closed")));
        assert_eq!(of("hyper_open"), Some(("accepted", "open")));
        assert_eq!(of("hyper_think"), Some(("accepted", "closed")));
        assert_eq!(of("hyper_workers"), Some(("accepted", "open")));
        assert_eq!(of("single"), None);
    }

    #[test]
    fn what_is_not_known_is_not_wrong() {
        let mut found = Found::default();
        for clock in ["open", "undecided", "closed", "mixed"] {
            found.add(clock, "open");
        }
        assert_eq!((found.right, found.undecided, found.wrong), (1, 1, 2));
    }
}
