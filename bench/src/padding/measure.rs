//! The truth about a pad, and the profiler's answer.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::choose::{Padded, as_number};
use super::run::{Built, Patch, between};
use super::shared::Shared;
use crate::interval::{Interval, mean};
use crate::machine::{Machine, Patience};
use crate::native::Effort;
use crate::profiler::{Mode, Prediction, Whatif};
use crate::report::{Audit, Report};
use crate::rounds::Rounds;

/// The function in `pad.c` that is asked about.
pub const REGION: &str = "added_pad";

/// The progress point in `pad.c`.
const POINT: &str = "visit";

/// What `whatif run` exits with when all is well, or when there was no answer.
const GOOD: [i32; 3] = [0, 100, 101];

/// After a change of the pad: queues reach their new length.
const SETTLE: Duration = Duration::from_millis(50);

/// What really happens without the pad, or with less of it.
#[derive(Clone, Debug)]
pub struct Truth {
    /// At each speedup, as shares of the period with the whole pad.
    pub gains: Vec<Interval>,
    /// CPU time of the pad for each second of the run.
    pub share: f64,
    /// Visits of each tick with the whole pad.
    pub rate: f64,
    pub disturbed: bool,
}

/// What the profiler says.
#[derive(Clone, Debug)]
pub struct Answer {
    /// At the speedups at which it has an answer.
    pub predictions: Vec<Prediction>,
    pub audit: Option<Audit>,
    /// Visits of each tick while it was at work.
    pub rate: f64,
}

/// Each round is a run of its own, in which the pad is shortened in every way. What is left without a pad is its call,
/// which counts and returns; it belongs to no region that is asked about, so it has to stay.
pub fn truth(
    built: &Built,
    padded: &Padded,
    speedups: &[u32],
    effort: Effort,
    machine: &Machine,
    patience: &Patience,
) -> Result<Truth> {
    let mut rounds = Rounds::default();
    let (mut shares, mut whole, mut disturbed) = (Vec::new(), Vec::new(), false);
    for _ in 0..effort.rounds {
        let measured = machine.patiently(patience, || round(built, padded, speedups, effort.seconds))?;
        disturbed |= measured.disturbed;
        let (rates, share) = measured.value;
        whole.extend(rates.last().copied());
        rounds.push(rates);
        shares.push(share);
    }
    let (share, rate) = mean(&shares).zip(mean(&whole)).context("there must be a round")?;
    Ok(Truth { gains: rounds.gains(1), share, rate, disturbed })
}

/// The rate at every speedup and last with the whole pad, in visits per tick; and the share of the time that the whole pad takes.
/// The time is cut into turns, each of them with every length of the pad in random order: whatever else becomes slower or faster on the machine
/// meanwhile does so for all of them.
fn round(built: &Built, padded: &Padded, speedups: &[u32], seconds: f64) -> Result<(Vec<f64>, f64)> {
    let shared = built.shared()?;
    let mut running = built.start(Patch::Pad(&padded.called.function, padded.iterations), &shared)?;
    let mut order: Vec<usize> = (0..=speedups.len()).collect();
    let mut sums = vec![(0, 0); order.len()];
    let mut calls_of_all = 0;
    let turns = turns(seconds);
    for _ in 0..turns {
        fastrand::shuffle(&mut order);
        for &index in &order {
            let speedup = speedups.get(index).copied().unwrap_or(0);
            shared.set_iterations(shortened(padded.iterations, speedup))?;
            sleep(SETTLE);
            let calls = shared.calls()?;
            let (visits, ticks) = running.measure(seconds / f64::from(turns))?;
            sums[index] = (sums[index].0 + visits, sums[index].1 + ticks);
            if speedup == 0 {
                calls_of_all += shared.calls()? - calls;
            }
        }
    }
    let rates = sums.iter().map(|(visits, ticks)| as_number(*visits) / as_number(*ticks)).collect();
    Ok((rates, as_number(calls_of_all) * padded.nanos / 1e9 / seconds))
}

/// Into how many parts the time of each length of the pad is cut.
fn turns(seconds: f64) -> u32 {
    /// A part has many visits, and is several times as long as queues take to settle.
    const PART: f64 = 0.25;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let turns = (seconds / PART).floor() as u32;
    turns.max(1)
}

fn shortened(iterations: u64, speedup: u32) -> u64 {
    iterations * u64::from(100 - speedup) / 100
}

/// What the profiler predicts for the pad.
pub fn predict(
    built: &Built,
    padded: &Padded,
    speedups: &[u32],
    seconds: f64,
    whatif: &Whatif,
) -> Result<Answer> {
    whatif.forget()?;
    let shared: Shared = built.shared()?;
    let listed = speedups.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let duration = seconds.to_string();
    let options = ["--quiet", "--region", REGION, "--speedup", &listed, "--duration", &duration];
    let command = whatif.run_with(&options, Mode::Full, &built.command_line(&shared));
    let patch = Patch::Pad(&padded.called.function, padded.iterations);
    let mut running = built.start_as(command, patch, &shared)?;
    let begin = shared.progress()?;
    let status = running.wait(3.0 * seconds + 30.0)?;
    ensure!(
        status.code().is_some_and(|code| GOOD.contains(&code)),
        "whatif run failed ({status}), saying: {}",
        running.said()
    );
    let (visits, ticks) = between(begin, shared.progress()?)?;
    drop(running);
    let report: Report = whatif.report(&whatif.file())?;
    Ok(Answer {
        predictions: report.answers_about(REGION, POINT, speedups),
        audit: report.audit(REGION).cloned(),
        rate: as_number(visits) / as_number(ticks),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_measurements_are_cut_into_turns() {
        for (seconds, expected) in [(0.1, 1), (0.25, 1), (1.0, 4), (1.1, 4)] {
            assert_eq!(turns(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn a_pad_that_is_twice_as_fast_is_half_as_long() {
        for (speedup, left) in [(0, 1000), (25, 750), (50, 500), (100, 0)] {
            assert_eq!(shortened(1000, speedup), left);
        }
    }
}
