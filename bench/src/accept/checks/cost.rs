//! What profiling costs, where it is known to cost most. Two binaries on one machine are compared by `bench overhead` and `bench start`.

use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::accept::check::{Check, Run};
use crate::overhead;
use crate::profiler::Mode;
use crate::program;

/// What starting and ending takes on a slow machine, beside an idle one's 10 to 30 ms.
const MAX_START_MS: f64 = 100.0;
/// Threads that wait for each other lose most by sampling: 16 to 27 % when this was written.
const MAX_LOSS_BY_SAMPLING_PERCENT: f64 = 45.0;
/// Of a program with short critical sections: 0 to 8 % when this was written.
const MAX_LOSS_BY_ATTACHING_PERCENT: f64 = 25.0;
/// In three seconds of two threads that take turns, with the kernel's tick.
const MIN_SAMPLES: u64 = 150;
/// A thread has events for its first samples: 0.9 when this was written.
const MIN_SHARE_BY_TIMER: f64 = 0.5;
/// Of one run that is timed.
const SECONDS: f64 = 0.8;

/// The checks.
pub const CHECKS: &[Check] = &[
    Check::of_magnitude("cost::start_and_end", 2, 0.0..=MAX_START_MS, start_and_end),
    Check::of_magnitude(
        "cost::sampling_of_threads_that_wait",
        4,
        -MAX_LOSS_BY_SAMPLING_PERCENT..=MAX_LOSS_BY_SAMPLING_PERCENT,
        |run| loss(run, "two_threads_rs", Mode::NoDelays, MAX_LOSS_BY_SAMPLING_PERCENT),
    ),
    Check::of_magnitude(
        "cost::attached_to_locks",
        4,
        -MAX_LOSS_BY_ATTACHING_PERCENT..=MAX_LOSS_BY_ATTACHING_PERCENT,
        |run| loss(run, "mutex", Mode::StartOnly, MAX_LOSS_BY_ATTACHING_PERCENT),
    ),
    Check::of_runs("cost::a_timer_samples_threads_that_run_for_microseconds", 4, short_runs),
];

/// What the profiler adds to a program that returns at once.
fn start_and_end(run: &mut Run) -> Result<()> {
    let line = [targets::path("start_true")?];
    let mut least = [f64::INFINITY; 2];
    for _ in 0..5 {
        run.whatif.forget()?;
        let ways = [&mut Command::new(&line[0]), &mut run.whatif.run(Mode::Full, &line)];
        for (least, command) in least.iter_mut().zip(ways) {
            *least = least.min(program::duration_of_any(command)?.as_secs_f64() * 1e3);
        }
    }
    run.measured(
        "milliseconds that are added to a program that returns at once",
        least[1] - least[0],
        0.0..=MAX_START_MS,
    );
    Ok(())
}

/// A run, as far as it says what took its samples.
#[derive(Deserialize)]
struct Samples {
    samples: u64,
    timed_samples: u64,
}

#[derive(Deserialize)]
struct Sessions {
    sessions: Vec<Samples>,
}

/// A client and a server that talk every tenth of a millisecond.
fn short_runs(run: &mut Run) -> Result<()> {
    if kernel::cpu::is_virtual() != Some(true) {
        run.inconclusive("on hardware events sample all threads");
        return Ok(());
    }
    let chosen = program::chosen(&["request_tcp_short".to_owned()])?;
    let line = program::command_line(chosen[0], &["seconds=3".to_owned()])?;
    run.whatif.forget()?;
    program::duration_of_any(&mut run.whatif.run(Mode::NoDelays, &line))?;
    let of: Sessions = run.whatif.report_as(&run.whatif.file())?;
    let of = of.sessions.first().context("the recording has no session")?;
    run.counted("samples", of.samples, MIN_SAMPLES..=u64::MAX);
    let share = of.timed_samples as f64 / of.samples.max(1) as f64;
    run.measured("share of samples that a timer took", share, MIN_SHARE_BY_TIMER..=1.0);
    Ok(())
}

fn loss(run: &mut Run, target: &str, mode: Mode, most: f64) -> Result<()> {
    let chosen = program::chosen(&[target.to_owned()])?;
    let line = program::command_line(chosen[0], &[format!("seconds={SECONDS}")])?;
    let losses = overhead::overheads(&[(mode, "")], &line, chosen[0].point, 2, run.machine, run.whatif)?;
    run.measured(format!("loss of speed of {target} in %"), losses[0].estimate * 100.0, -most..=most);
    Ok(())
}
