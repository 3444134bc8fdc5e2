//! Progress points: visits counted, places chosen.

use std::process::Command;

use anyhow::{Context as _, Result};
use sandbox::{Sandbox, point};
use targets::{TARGETS, path};

use crate::accept::check::{Check, Run, UNBOUNDED};

/// The checks.
pub const CHECKS: &[Check] = &[
    Check::of_runs("points::placed_latency_is_that_of_marked", 3, placed_latency),
    Check::of_runs("points::servers_print_their_latency", 2, latency_of_servers),
];

/// Of each thread; about two seconds.
const ROUNDS_OF_PLACED: &str = "5000";
/// How long a round takes that only computes, in microseconds.
const MIN_LATENCY_OF_ROUND_US: f64 = 10.0;
const MAX_LATENCY_OF_ROUND_US: f64 = 1_000_000.0;
const MIN_LATENCY_PLACED_BY_MARKED: f64 = 0.7;
const MAX_LATENCY_PLACED_BY_MARKED: f64 = 1.4;
const MIN_VISITS_PLACED_BY_MARKED: f64 = 0.97;
const MAX_VISITS_PLACED_BY_MARKED: f64 = 1.03;
const MAX_LATENCY_WITHOUT_WORK: f64 = 0.5;

/// Visits and latency of a pair that is placed from outside are those of the pair that the source marks, in the same windows.
fn placed_latency(run: &mut Run) -> Result<()> {
    let Some(placed) = sandbox::program("placed.c") else {
        run.inconclusive("there is no compiler of C");
        return Ok(());
    };
    let sandbox = Sandbox::new();
    let options = ["-p", "ended", "--latency", "fn:begun..fn:ended", "--speedup", "50"];
    let ended = sandbox.profile(&options, &placed, &[ROUNDS_OF_PLACED]);
    if ended.code() != Some(0) {
        run.inconclusive(format!("no answer: {}", ended.stderr));
        return Ok(());
    }
    let report = sandbox.report();
    let number = |name: &str, what: &str| {
        point(&report, name)[what].as_f64().with_context(|| format!("no {what} of {name}"))
    };
    let (placed, marked) = (number("begun..ended", "latency_ns")?, number("round", "latency_ns")?);
    let allowed = MIN_LATENCY_OF_ROUND_US..=MAX_LATENCY_OF_ROUND_US;
    run.measured("latency of the marked pair in µs", marked / 1e3, allowed);
    let allowed = MIN_LATENCY_PLACED_BY_MARKED..=MAX_LATENCY_PLACED_BY_MARKED;
    run.measured("latency of the placed pair by that of the marked one", placed / marked, allowed);
    let by = number("ended", "visits")? / number("marked", "visits")?;
    let allowed = MIN_VISITS_PLACED_BY_MARKED..=MAX_VISITS_PLACED_BY_MARKED;
    run.measured("visits of the placed point by those of the marked one", by, allowed);
    Ok(())
}

/// The latency of a server's requests shrinks with the work, beside which nothing else is in it.
fn latency_of_servers(run: &mut Run) -> Result<()> {
    for name in ["hyper_open", "hyper_think", "hyper_workers"] {
        let target = TARGETS.iter().find(|target| target.name == name).context("there is such a target")?;
        let program = path(name)?;
        let latency = |scale: &str| {
            let output =
                Command::new(&program).args(target.arguments).args([scale, "seconds=0.3"]).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let rate = text.lines().find_map(|line| line.strip_prefix("rate request ")?.parse::<f64>().ok());
            rate.map(|rate| 1.0 / rate).with_context(|| format!("no rate of requests: {text}"))
        };
        let by = latency("scale=0")? / latency("scale=1")?;
        let what = format!("latency of {name} without work by that with work");
        run.measured(what, by, -UNBOUNDED..=MAX_LATENCY_WITHOUT_WORK);
    }
    Ok(())
}
