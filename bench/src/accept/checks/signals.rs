//! Signals, sandboxes, threads and corners of system calls under the profiler.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use corners::{CORNERS, Native, Outcome, Program, Runner, Sampler};
use profile::WindowFlags;
use sandbox::{DELAYS, Ended, Sandbox};

use crate::accept::check::{Check, Run};

/// The checks.
pub const CHECKS: &[Check] = &[
    Check::of_runs("signals::samples_come_although_all_signals_are_blocked", 2, all_blocked),
    Check::of_runs("signals::main_thread_handles_signals_to_the_process", 3, main_thread_handles),
    Check::of_runs("signals::timer_of_the_program_expires_at_its_rate", 1, timer_rate),
    Check::of_runs("threads::sandboxed_threads_are_sampled", 3, sandboxed),
    Check::of_runs("threads::forked_children_belong_to_the_session", 4, forked_children),
    Check::of_runs("threads::threads_are_sampled_after_exec_in_children", 4, executing),
    Check::of_runs("threads::children_leave_no_unpaid_delays", 2, children_left_behind),
    Check::of_runs("threads::threads_before_main_are_profiled", 2, before_main),
    Check::of_runs("threads::programs_with_sanitizers_are_sampled", 2, with_sanitizers),
    Check::of_runs("threads::a_server_with_edge_triggered_events_gets_an_answer", 9, edge_triggered),
    Check::of_runs("corners::real_programs_run_as_they_do_alone", 20, real_programs),
];

/// A region that takes a third of a second of CPU time or more has some hundred samples; the CPUs may be shared with others.
const MIN_SAMPLES_OF_REGION: u64 = 50;
/// Of signals to the process: another thread may handle one while the main thread has no CPU.
const MAX_SHARE_HANDLED_ELSEWHERE: f64 = 0.1;
/// The timer expires a hundred times per second of CPU time.
const MAX_EXPIRATIONS_PER_SECOND: f64 = 250.0;
const MIN_EXPIRATIONS_PER_SECOND: f64 = 20.0;

const SHIELDED: &[&str] = &["--region", "shielded", "--speedup", "50"];
const SANDBOXED_WORK: &[&str] = &["--region", "sandboxed_work", "--speedup", "50"];
const OTHER: &[&str] = &["--region", "other", "--speedup", "50"];
const WORK_OF_SERVER: &[&str] = &["--region", "work", "--speedup", "50,100"];

/// The program, compiled; the run is inconclusive without a compiler.
macro_rules! program {
    ($run:ident, $program:expr) => {
        match $program {
            Some(program) => program,
            None => {
                $run.inconclusive("it cannot be compiled here");
                return Ok(());
            }
        }
    };
}

fn is_done(run: &mut Run, ended: &Ended) {
    run.holds(format!("the program runs as it does alone: {ended:#?}"), ended.stdout.ends_with("done\n"));
}

/// What a program has measured: a line `NAME NUMBER` of its standard error.
fn printed(ended: &Ended, name: &str) -> Result<f64> {
    let number = ended.stderr.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = number.with_context(|| format!("no {name} in {ended:#?}"))?;
    Ok(number.parse()?)
}

fn all_blocked(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("signals.c"));
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(SHIELDED, &program, &["shielded"]);
    is_done(run, &ended);
    run.counted("samples of shielded", sandbox.samples("shielded"), MIN_SAMPLES_OF_REGION..=u64::MAX);
    Ok(())
}

/// By another sampler in each run.
fn main_thread_handles(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("reached.c"));
    let sampler = Sampler::ALL[usize::try_from(run.seed % 3)?].name();
    let options = [DELAYS, &["--sampler", sampler]].concat();
    let ended = Sandbox::new().profile(&options, &program, &["work", "calls", "read", "poll", "mutex"]);
    is_done(run, &ended);
    let share = printed(&ended, "elsewhere")? / printed(&ended, "handled")?;
    let what = format!("share of signals to the process that another thread handles, by {sampler}");
    run.measured(what, share, 0.0..=MAX_SHARE_HANDLED_ELSEWHERE);
    Ok(())
}

fn timer_rate(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("signals.c"));
    let ended = Sandbox::new().profile(OTHER, &program, &["timer"]);
    is_done(run, &ended);
    run.measured(
        "expirations of the program's profiling timer per second of CPU time",
        printed(&ended, "expirations_per_second")?,
        MIN_EXPIRATIONS_PER_SECOND..=MAX_EXPIRATIONS_PER_SECOND,
    );
    Ok(())
}

/// Under filters that allow it.
fn sandboxed(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("sandboxed.c"));
    for filter in ["harmless", "fails"] {
        let sandbox = Sandbox::new();
        let ended = sandbox.profile(SANDBOXED_WORK, &program, &[filter, "one"]);
        is_done(run, &ended);
        let samples = sandbox.samples("sandboxed_work");
        let what = format!("samples of a thread whose filter is '{filter}'");
        run.counted(what, samples, MIN_SAMPLES_OF_REGION..=u64::MAX);
    }
    Ok(())
}

fn forked_children(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("threads.c"));
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(OTHER, &program, &["forks"]);
    is_done(run, &ended);
    let visits = sandbox::point(&sandbox.report(), "child")["visits"].as_u64();
    run.counted("visits in a forked child", visits.unwrap_or(0), 1..=u64::MAX);
    Ok(())
}

/// The thread that did so is the only one that then runs `other`, and is still sampled.
fn executing(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("threads.c"));
    for which in ["vforks", "execs", "failed_execs"] {
        let sandbox = Sandbox::new();
        let ended = sandbox.profile(OTHER, &program, &[which]);
        is_done(run, &ended);
        let what = format!("samples of a thread after '{which}'");
        run.counted(what, sandbox.samples("other"), MIN_SAMPLES_OF_REGION..=u64::MAX);
    }
    Ok(())
}

/// Some have ended, some execute another program: none of them owes a pause.
fn children_left_behind(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("threads.c"));
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(OTHER, &program, &["leave_children"]);
    is_done(run, &ended);
    let rows = profile::Recording::open(&sandbox.recording())?.rows()?;
    let delayed = rows.windows.iter().filter(|window| !window.speedup.is_zero());
    let balanced = delayed.filter(|window| !window.flags.has(WindowFlags::UNBALANCED)).count();
    run.counted("balanced windows with delays", balanced.try_into()?, 1..=u64::MAX);
    run.holds(format!("there is an answer: {ended:#?}"), ended.code() == Some(0));
    Ok(())
}

/// The program's work is all in a thread that its constructor has created.
fn before_main(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("constructor.c"));
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(DELAYS, &program, &[]);
    is_done(run, &ended);
    let visits = sandbox::point(&sandbox.report(), "work")["visits"].as_u64();
    run.counted("visits in a thread that began before main", visits.unwrap_or(0), 1..=u64::MAX);
    run.counted("its samples", sandbox.samples("hot"), MIN_SAMPLES_OF_REGION..=u64::MAX);
    Ok(())
}

fn with_sanitizers(run: &mut Run) -> Result<()> {
    for sanitizer in ["address", "thread"] {
        let flag = format!("-fsanitize={sanitizer}");
        if !sandbox::compiles("cc", &flag) {
            run.inconclusive(format!("cc {flag} does not work here"));
            return Ok(());
        }
        let name = format!("mistakes-{sanitizer}");
        let program = program!(run, sandbox::program_as("mistakes.c", &name, &[&flag]));
        let sandbox = Sandbox::new();
        let ended = sandbox.profile(DELAYS, &program, &["none"]);
        is_done(run, &ended);
        let what = format!("samples of a program with the {sanitizer} sanitizer");
        run.counted(what, sandbox.samples("hot"), MIN_SAMPLES_OF_REGION..=u64::MAX);
    }
    Ok(())
}

fn edge_triggered(run: &mut Run) -> Result<()> {
    let program = program!(run, sandbox::program("edges.c"));
    let how = if run.seed.is_multiple_of(2) { "edges" } else { "one_shot" };
    let ended = Sandbox::new().profile(WORK_OF_SERVER, &program, &[how, "8"]);
    is_done(run, &ended);
    run.holds(format!("there is an answer: {ended:#?}"), ended.code() == Some(0));
    Ok(())
}

fn real_programs(run: &mut Run) -> Result<()> {
    static RUNNER: OnceLock<Runner> = OnceLock::new();
    let whatif = run.whatif.path();
    let runner = RUNNER.get_or_init(|| corners_by(whatif).expect("there is a compiler of C"));
    let mut ran = false;
    for corner in CORNERS.iter().filter(|corner| matches!(corner.program, Program::Script(_))) {
        let native = match runner.native(corner)? {
            Native::Ran(native) => native,
            Native::Skipped(why) => {
                sandbox::skip(&format!("{}: {why}", corner.name));
                continue;
            }
            Native::Unexpected(native) => {
                run.inconclusive(format!("{}, alone: {native:#?}", corner.name));
                continue;
            }
        };
        ran = true;
        let sampler = Sampler::ALL[usize::try_from(run.seed % 3)?];
        if let Outcome::Differs(how) = runner.profiled(corner, sampler, run.seed, &native)? {
            run.holds(format!("{}, {}: {how}", corner.name, sampler.name()), false);
        }
    }
    if !ran {
        run.inconclusive("none of the real programs is installed");
    }
    Ok(())
}

fn corners_by(whatif: &Path) -> Result<Runner> {
    Ok(Runner::new(whatif, &targets::build::folder()?.join("corners"))?)
}
