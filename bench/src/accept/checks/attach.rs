//! Attaching, letting go, and agents.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use profile::Recording;
use sandbox::{HANG, Sandbox, point};
use serde_json::Value;

use crate::accept::check::{Check, Run, UNBOUNDED};

/// The checks.
pub const CHECKS: &[Check] = &[
    Check::of_runs("attach::processes_are_sampled_in_place", 7, sampled_in_place),
    Check::of_runs("attach::delays_end_soon", 2, delays_end_soon),
];

/// In three seconds with a sample in each millisecond of CPU time.
const MIN_SAMPLES_OF_ATTACHED_PROGRAM: u64 = 100;
const MIN_VISITS_OF_ATTACHED_PROGRAM: u64 = 100;
const MAX_MS_UNTIL_NO_THREAD_IS_DELAYED: f64 = 500.0;

/// A program that runs, and has said that it is ready.
struct Ready(Child);

impl Ready {
    fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("it has an output")?;
        let ready = Self(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        anyhow::ensure!(line == "ready\n", "it says {line:?}");
        Ok(ready)
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process, and a master with workers, have as many samples and visits as they should.
fn sampled_in_place(run: &mut Run) -> Result<()> {
    for (source, counted) in [("attached.c", "short_lived"), ("prefork.c", "handle")] {
        let Some(program) = sandbox::program(source) else {
            run.inconclusive("there is no compiler of C");
            return Ok(());
        };
        let ready = Ready::start(&program)?;
        let sandbox = Sandbox::new();
        let mut command = sandbox.whatif();
        command.args(["attach", "--duration", "3", "-p", &format!("fn:{counted}"), "-o"]);
        command.arg(sandbox.recording()).arg(ready.0.id().to_string());
        let ended = sandbox::run(command);
        if !ended.is_success() {
            run.inconclusive(format!("{source} cannot be attached to: {}", ended.stderr));
            return Ok(());
        }
        let samples = sandbox.samples("work");
        run.counted(format!("samples of {source}"), samples, MIN_SAMPLES_OF_ATTACHED_PROGRAM..=u64::MAX);
        let visits = point(&sandbox.report(), counted)["visits"].as_u64().unwrap_or(0);
        run.counted(format!("visits in {source}"), visits, MIN_VISITS_OF_ATTACHED_PROGRAM..=u64::MAX);
    }
    Ok(())
}

/// From the moment at which a session is told to end until no thread is delayed. (docs/fleet.md shows it.)
fn delays_end_soon(run: &mut Run) -> Result<()> {
    let Some(program) = sandbox::program("served.c") else {
        run.inconclusive("there is no compiler of C");
        return Ok(());
    };
    let ready = Ready::start(&program)?;
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["attach", "--ordered", "-q", "--region", "work", "--speedup", "50", "-p", "fn:handle"]);
    command.arg("-o").arg(sandbox.recording()).arg(ready.0.id().to_string());
    let mut session = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = session.stdin.take().context("it has an input")?;
    let began = Instant::now();
    let has_experiments = || {
        let rows = Recording::open(&sandbox.recording()).and_then(|recording| recording.rows());
        rows.is_ok_and(|rows| rows.windows.len() >= 4)
    };
    while !has_experiments() {
        if session.try_wait()?.is_some() || began.elapsed() > HANG {
            session.kill()?;
            session.wait()?;
            run.inconclusive("there were no experiments");
            return Ok(());
        }
        // It ends when it hears nothing.
        writeln!(input)?;
        std::thread::sleep(Duration::from_millis(50));
    }
    // In the midst of one.
    std::thread::sleep(Duration::from_millis(run.seed % 50));
    let asked = kernel::clock::monotonic().0 as f64;
    input.write_all(b"{\"halt\": \"enough\"}\n")?;
    let said = String::from_utf8(session.wait_with_output()?.stdout)?;
    let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let Some(halted) = lines.map(|line| line["halted"].clone()).find(Value::is_object) else {
        bail!("it does not say that it was halted: {said}");
    };
    let number = |name: &str| halted[name].as_f64().with_context(|| format!("no {name} in {halted}"));
    let took = (number("asked_ns")? + number("still_after_ns")? - asked) / 1e6;
    run.measured("ms until no thread was delayed", took, -UNBOUNDED..=MAX_MS_UNTIL_NO_THREAD_IS_DELAYED);
    Ok(())
}
