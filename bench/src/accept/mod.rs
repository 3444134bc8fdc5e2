//! Everything about the profiler that is measured, judged by sampling plans that are fixed beforehand.
//!
//! A check ([`check`]) is run several times; how often, and what rejects it, is its plan ([`plan`]). A run that says nothing (no answer, a
//! busy machine, something that the machine lacks) is counted apart and never a failure. What was measured is printed beside what is
//! allowed, and appended to a log ([`log`]), so that drift shows as a trend.

mod check;
mod checks;
mod log;
mod plan;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use self::check::{Check, Ended, Run};
use self::plan::{Magnitudes, Plan, RunOutcome, Tally, Verdict};
use crate::audit::FAULTS;
use crate::machine::Machine;
use crate::profiler::Whatif;

#[derive(Debug, Args)]
pub struct Options {
    /// Only checks whose names contain one of these [default: all]
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,

    /// Print the names of the checks, and measure nothing
    #[arg(long)]
    list: bool,

    /// Draw checks at random, by --seed, and begin none that may take longer than what is left of so much time: 4m, 90s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,

    /// Append what was measured to this file, a line of JSON for each check
    #[arg(long, value_name = "LOG")]
    json: Option<PathBuf>,

    /// Leave out the checks that the file of --json has already: one log of them all, made in several parts
    #[arg(long, requires = "json")]
    rest: bool,

    /// Ask about this file, and print what that took: what one of the checks starts
    #[arg(long, hide = true, value_name = "FILE")]
    ask: Option<PathBuf>,

    /// Run the checks about accuracy with an engine that is broken on purpose, in each of the ways of `bench audit`, and print how many
    /// of these checks are rejected
    #[arg(long)]
    broken: bool,
}

/// What a check came to, and all of its runs.
#[derive(Debug)]
struct Judged {
    verdict: Verdict,
    tally: Tally,
    runs: Vec<Ended>,
    seconds: f64,
}

pub fn run(options: &Options, seed: u64, machine: &Machine, whatif: &Whatif) -> Result<()> {
    if let Some(file) = &options.ask {
        return checks::ask(file);
    }
    let is_chosen = |check: &Check| {
        options.only.is_empty() || options.only.iter().any(|part| check.name.contains(part.as_str()))
    };
    let mut checks: Vec<Check> = checks::all().into_iter().filter(is_chosen).collect();
    ensure!(!checks.is_empty(), "no check has such a name; --list prints them");
    let known = match options.json.as_ref().filter(|_| options.rest) {
        Some(log) => log::checks_in(log)?,
        None => BTreeMap::new(),
    };
    checks.retain(|check| !known.contains_key(check.name.as_ref()));
    if options.list {
        for check in &checks {
            println!("{}", check.name);
        }
        return Ok(());
    }
    sandbox::use_whatif(whatif.path());
    targets::build().context("building the targets")?;
    if options.broken {
        return find_broken_engines(options, seed, machine, whatif);
    }
    fastrand::seed(seed);
    if options.budget.is_some() {
        fastrand::shuffle(&mut checks);
    }
    println!("seed {seed}; {}", log::machine_sentence());
    let (began, mut verdicts, mut left_out) = (Instant::now(), Vec::new(), 0);
    for check in &checks {
        if options.budget.is_some_and(|budget| began.elapsed() + least_time(check) > budget) {
            left_out += 1;
            continue;
        }
        let judged = judge(check, seed, machine, whatif);
        print(check, &judged);
        if let Some(path) = &options.json {
            log::append(path, check, seed, &judged)?;
        }
        verdicts.push((check.name.clone(), judged.verdict));
    }
    let with = |verdict| verdicts.iter().filter(move |(_, one)| *one == verdict);
    let (accepted, rejected) = (with(Verdict::Accepted).count(), with(Verdict::Rejected).count());
    println!(
        "{accepted} accepted, {rejected} rejected, {} inconclusive, {left_out} left out for want of time; {}",
        with(Verdict::Inconclusive).count(),
        machine.watch().sentence()
    );
    let earlier = known.iter().filter(|(_, verdict)| **verdict == Verdict::Rejected);
    let now = with(Verdict::Rejected).map(|(name, _)| name.as_ref());
    let names: Vec<&str> = earlier.map(|(name, _)| name.as_str()).chain(now).collect();
    if !names.is_empty() {
        bail!("rejected: {} (repeat with --only NAME)", names.join(", "));
    }
    Ok(())
}

/// The runs that a check needs at least.
fn least_time(check: &Check) -> Duration {
    let runs = match check.plan {
        Plan::Runs => 3,
        Plan::Magnitude { .. } => 5,
    };
    Duration::from_secs((check.seconds * runs).into())
}

/// Runs a check until its plan has a verdict.
fn judge(check: &Check, seed: u64, machine: &Machine, whatif: &Whatif) -> Judged {
    let began = Instant::now();
    let (mut tally, mut magnitudes, mut runs) = (Tally::default(), Magnitudes::default(), Vec::new());
    let verdict = loop {
        let number = u64::try_from(runs.len()).unwrap_or(u64::MAX);
        let ended = run_once(check, seed.wrapping_add(number), machine, whatif);
        tally.add(ended.outcome);
        let verdict = match &check.plan {
            Plan::Runs => tally.verdict(),
            Plan::Magnitude { allowed } => {
                let is_conclusive = ended.outcome != RunOutcome::Inconclusive;
                let value = ended.measurements.first().filter(|_| is_conclusive).map(|one| one.value);
                magnitudes.add(value);
                magnitudes.verdict(allowed)
            }
        };
        runs.push(ended);
        if let Some(verdict) = verdict {
            break verdict;
        }
    };
    Judged { verdict, tally, runs, seconds: began.elapsed().as_secs_f64() }
}

/// A run that failed while others used the machine tells nothing.
fn run_once(check: &Check, seed: u64, machine: &Machine, whatif: &Whatif) -> Ended {
    let once = |ended: &mut Option<Ended>| {
        *ended = Some(Run::of(check, whatif, machine, seed));
        Ok(())
    };
    let mut ended = None;
    let others = machine.share_of_others(|| once(&mut ended));
    let mut ended = ended.expect("it was run");
    if let Ok(others) = others
        && others > machine.busy()
        && ended.outcome == RunOutcome::Failed
    {
        ended.outcome = RunOutcome::Inconclusive;
        ended.reasons.insert(0, format!("others used {:.0} % of the machine", others * 100.0));
    }
    ended
}

fn print(check: &Check, judged: &Judged) {
    let verdict = match judged.verdict {
        Verdict::Accepted => "accepted",
        Verdict::Rejected => "REJECTED",
        Verdict::Inconclusive => "inconclusive",
    };
    let Tally { passed, failed, inconclusive } = judged.tally;
    println!(
        "{verdict:<12} {} ({passed} passed, {failed} failed, {inconclusive} inconclusive, {:.0} s)",
        check.name, judged.seconds
    );
    // All runs have measured the same; the last one stands for them, unless others failed.
    let is_told = |ended: &&Ended| ended.outcome != RunOutcome::Passed;
    for ended in judged.runs.iter().filter(is_told) {
        for reason in &ended.reasons {
            println!("             {}", reason.replace('\n', "\n             "));
        }
    }
    if let Some(last) = judged.runs.last() {
        for measurement in &last.measurements {
            println!("           {}", measurement.sentence());
        }
    }
}

/// Whether the checks about accuracy find what is broken: each fault of `bench audit` on each target that it concerns.
fn find_broken_engines(options: &Options, seed: u64, machine: &Machine, whatif: &Whatif) -> Result<()> {
    let (all, mut rejected, mut trials) = (checks::all(), 0_u32, 0_u32);
    for fault in FAULTS {
        let broken = whatif.clone_with(fault.options)?;
        for target in fault.targets {
            let name = format!("truth::{target}");
            let chosen = options.only.is_empty()
                || options.only.iter().any(|part| name.contains(part) || fault.name.contains(part));
            let Some(check) = all.iter().find(|check| check.name == name && chosen) else {
                continue;
            };
            let judged = judge(check, seed, machine, &broken);
            print!("{:<32} ", fault.name);
            print(check, &judged);
            if let Some(path) = &options.json {
                log::append(path, check, seed, &judged)?;
            }
            trials += 1;
            rejected += u32::from(judged.verdict == Verdict::Rejected);
        }
    }
    println!("engines broken on purpose: {rejected} of {trials} checks rejected");
    Ok(())
}

/// `4m`, `90s`, or a number of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(number) => (number, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let number: u64 = number.parse().map_err(|_| format!("'{text}' is no time; write 90s or 4m"))?;
    Ok(Duration::from_secs(number * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_once() {
        let mut names: Vec<_> = checks::all().into_iter().map(|check| check.name).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("4m"), Ok(Duration::from_mins(4)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert!(duration("soon").is_err());
    }
}
