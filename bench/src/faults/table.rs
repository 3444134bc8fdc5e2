//! Table: calls × faults × outcomes of one half of the profiler.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::harness::{Ended, Harness};
use super::kinds::{CALLS, CANNOT_FAIL};

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All of it was done.
    WentOn,
    /// A part was not, and a message says so.
    Said,
    /// Nothing was done, and a message says so.
    Refused,
    /// The system call was not made so often.
    NotMade,
}

/// One half of the profiler.
pub trait Half {
    /// What is run, with everything that it writes in `folder`.
    fn line(&self, folder: &Path) -> Command;

    /// What became of it; an error is a finding. Not of a run in which the call was not made so often.
    fn judge(&self, folder: &Path, ended: &Ended) -> Result<Outcome>;
}

/// Lets each call fail, and prints what became of it. Returns how many findings there were.
pub fn print(half: &dyn Half, harness: &Harness, only: &[String], most: usize) -> Result<usize> {
    let counts = {
        let folder = tempfile::tempdir()?;
        let (ended, counts) = harness.count(&half.line(folder.path()), &folder.path().join("report"))?;
        anyhow::ensure!(
            half.judge(folder.path(), &ended)? == Outcome::WentOn,
            "without a fault it does not do all: {}",
            ended.stderr
        );
        counts
    };
    println!(
        "{:<18} {:<8} {:>7} {:>8} {:>6} {:>8} {:>9}  findings",
        "system call", "answer", "made", "went on", "said", "refused", "not made"
    );
    let mut findings = 0;
    for (call, faults) in CALLS {
        let made = counts.get(call).copied().unwrap_or(0);
        if made == 0 || !only.is_empty() && !only.iter().any(|only| only == call) {
            continue;
        }
        for &fault in faults {
            let mut outcomes: BTreeMap<Outcome, usize> = BTreeMap::new();
            let mut found = Vec::new();
            for nth in times(made, most) {
                let folder = tempfile::tempdir()?;
                let report = folder.path().join("report");
                let run = harness.inject((call, fault, nth), &half.line(folder.path()), &report);
                let judged = run.and_then(|(ended, done)| {
                    let judged = match &done {
                        Some(_) => half.judge(folder.path(), &ended),
                        None => Ok(Outcome::NotMade),
                    };
                    judged.map_err(|error| error.context(done.unwrap_or_default()))
                });
                match judged {
                    Ok(outcome) => *outcomes.entry(outcome).or_default() += 1,
                    Err(problem) => found.push(format!("{nth}: {problem:#}")),
                }
            }
            let of = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
            println!(
                "{call:<18} {:<8} {made:>7} {:>8} {:>6} {:>8} {:>9}  {}",
                fault.name(),
                of(Outcome::WentOn),
                of(Outcome::Said),
                of(Outcome::Refused),
                of(Outcome::NotMade),
                found.len()
            );
            found.iter().for_each(|found| println!("    {found}"));
            findings += found.len();
        }
    }
    let known =
        |call: &&String| CALLS.iter().any(|(known, _)| known == call) || CANNOT_FAIL.contains(&call.as_str());
    let untried: Vec<&str> = counts.keys().filter(|call| !known(call)).map(String::as_str).collect();
    println!("\n{findings} findings");
    if !untried.is_empty() {
        println!("made, but not tried (add them to bench/src/faults/kinds.rs): {}", untried.join(" "));
    }
    Ok(findings)
}

/// The first time, the last, and some between.
fn times(made: usize, most: usize) -> Vec<usize> {
    let most = most.min(made);
    let mut times: Vec<usize> = (0..most).map(|nth| 1 + nth * (made - 1) / (most - 1).max(1)).collect();
    times.dedup();
    times
}

/// What no run may say or do, whatever fails.
pub fn check_manners(ended: &Ended) -> Result<()> {
    let stderr = &ended.stderr;
    anyhow::ensure!(!stderr.contains("this is a bug"), "{}", said(stderr));
    if has_no_signal_stack(ended) {
        return Ok(());
    }
    anyhow::ensure!(!stderr.contains("panicked"), "{}", said(stderr));
    anyhow::ensure!(ended.status.code().is_some(), "ended by a signal: {} {}", ended.status, said(stderr));
    Ok(())
}

/// Whether a thread had no memory for its signal stack: the standard library panics then, in the thread and before ours can do anything
/// about it. A program that is being profiled ends as it would have in spite of it.
pub fn has_no_signal_stack(ended: &Ended) -> bool {
    ended.stderr.contains("alternative stack")
}

/// The first line that matters.
pub fn said(stderr: &str) -> &str {
    let is_first = |line: &&str| line.starts_with("whatif") || line.contains("panicked");
    stderr.lines().find(is_first).or(stderr.lines().next()).unwrap_or_default()
}
