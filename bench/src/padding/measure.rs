//! The truth about a pad, and the profiler's answer.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::catalogue::Latency;
use super::choose::{Padded, as_number};
use super::run::{Arrivals, Built, Patch, Setup};
use super::shared::Shared;
use super::stretch::Stretch;
use super::table::Open;
use crate::clocks;
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
    /// In an open loop: the same of the latency.
    pub latency_gains: Option<Vec<Interval>>,
    /// In an open loop: what requests there were, with the whole pad.
    pub open: Option<Open>,
    /// CPU time of the pad for each second of the run.
    pub share: f64,
    /// With the whole pad (see [`Stretch::pace`]).
    pub pace: f64,
    pub disturbed: bool,
}

/// What the profiler says.
#[derive(Clone, Debug)]
pub struct Answer {
    /// At the speedups at which it has an answer.
    pub predictions: Vec<Prediction>,
    /// Predictions of the latency, in an open loop.
    pub latency: Vec<Prediction>,
    /// What the profiler takes requests for, in an open loop.
    pub clock: Option<String>,
    pub audit: Option<Audit>,
    /// While it was at work.
    pub pace: f64,
}

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub built: &'a Built,
    pub padded: &'a Padded,
    /// In per cent.
    pub speedups: &'a [u32],
    /// How requests come, for every length of the pad.
    pub arrivals: Arrivals,
}

impl<'a> Question<'a> {
    fn is_open(&self) -> bool {
        self.arrivals != Arrivals::Closed
    }

    fn setup(&self, timed: bool) -> Setup<'a> {
        let patch = Patch::Pad(&self.padded.called.function, self.padded.iterations);
        Setup { patch, arrivals: self.arrivals, timed }
    }
}

/// Requests a second that the program answers with the whole pad, if clients ask without a pause.
pub fn capacity(built: &Built, padded: &Padded, seconds: f64) -> Result<f64> {
    let shared = built.shared()?;
    let patch = Patch::Pad(&padded.called.function, padded.iterations);
    let mut running = built.start(Setup::closed(patch), &shared)?;
    running.measure(seconds / 4.0)?;
    Ok(running.measure(seconds)?.rate())
}

/// Each round is a run of its own, in which the pad is shortened in every way. What is left without a pad is its call,
/// which counts and returns; it belongs to no region that is asked about, so it has to stay.
pub fn truth(question: &Question, effort: Effort, machine: &Machine, patience: &Patience) -> Result<Truth> {
    let (mut paces, mut speeds) = (Rounds::default(), Rounds::default());
    let (mut shares, mut whole, mut disturbed) = (Vec::new(), Stretch::default(), false);
    for _ in 0..effort.rounds {
        let measured = machine.patiently(patience, || round(question, effort.seconds))?;
        disturbed |= measured.disturbed;
        let (stretches, share) = measured.value;
        paces.push(stretches.iter().map(Stretch::pace).collect());
        if question.is_open() {
            speeds.push(stretches.iter().map(|one| Ok(1.0 / one.latency()?)).collect::<Result<_>>()?);
        }
        whole += *stretches.last().context("there is the whole pad")?;
        shares.push(share);
    }
    let open = match question.arrivals {
        Arrivals::Closed => None,
        Arrivals::Open { rate, connections } => {
            check_ends(question.built, &whole)?;
            let latency_nanos = whole.latency()? * whole.nanos_per_tick();
            Some(Open { rate, connections, busy: whole.utilisation(), latency_nanos, kept_up: whole.pace() })
        }
    };
    Ok(Truth {
        gains: paces.gains(1),
        latency_gains: open.is_some().then(|| speeds.gains(1)),
        open,
        share: mean(&shares).context("there must be a round")?,
        pace: whole.pace(),
        disturbed,
    })
}

/// What happened at every speedup and last with the whole pad; and the share of the time that the whole pad takes.
/// The time is cut into turns, each of them with every length of the pad in random order: whatever else becomes slower or faster on the machine
/// meanwhile does so for all of them.
fn round(question: &Question, seconds: f64) -> Result<(Vec<Stretch>, f64)> {
    let Question { built, padded, speedups, .. } = *question;
    let shared = built.shared()?;
    let mut running = built.start(question.setup(question.is_open()), &shared)?;
    let mut order: Vec<usize> = (0..=speedups.len()).collect();
    let mut sums = vec![Stretch::default(); order.len()];
    let mut calls_of_all = 0;
    let turns = turns(seconds);
    for _ in 0..turns {
        fastrand::shuffle(&mut order);
        for &index in &order {
            let speedup = speedups.get(index).copied().unwrap_or(0);
            shared.set_iterations(shortened(padded.iterations, speedup))?;
            sleep(SETTLE);
            let calls = shared.calls()?;
            sums[index] += running.measure(seconds / f64::from(turns))?;
            if speedup == 0 {
                calls_of_all += shared.calls()? - calls;
            }
        }
    }
    Ok((sums, as_number(calls_of_all) * padded.nanos / 1e9 / seconds))
}

/// The sum of latencies is that of requests only if each request ends once.
fn check_ends(built: &Built, whole: &Stretch) -> Result<()> {
    /// Of the requests: some begin while the counts are read.
    const SLACK: f64 = 0.03;
    let ends = whole.ends_per_visit();
    ensure!(
        (ends - 1.0).abs() < SLACK,
        "its requests end {ends:.2} times for each visit of {}: name other functions for its latency in the catalogue",
        built.program.point
    );
    Ok(())
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
pub fn predict(question: &Question, seconds: f64, whatif: &Whatif) -> Result<Answer> {
    let Question { built, speedups, .. } = *question;
    whatif.forget()?;
    let shared: Shared = built.shared()?;
    let listed = speedups.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let duration = seconds.to_string();
    let mut options = vec!["--quiet", "--region", REGION, "--speedup", &listed, "--duration", &duration];
    // Its name in the report, and its place.
    let latency = built
        .program
        .latency()
        .filter(|_| question.is_open())
        .map(|Latency { begin, end }| (format!("{begin}..{end}"), format!("fn:{begin}..fn:{end}")));
    if let Some((_, place)) = &latency {
        options.extend(["--latency", place]);
    }
    let command = whatif.run_with(&options, Mode::Full, &built.command_line(&shared));
    let mut running = built.start_as(command, question.setup(false), &shared)?;
    let begin = running.at_once()?;
    let status = running.wait(3.0 * seconds + 30.0)?;
    ensure!(
        status.code().is_some_and(|code| GOOD.contains(&code)),
        "whatif run failed ({status}), saying: {}",
        running.said()
    );
    let pace = Stretch::between(begin, running.at_once()?)?.pace();
    drop(running);
    let report: Report = whatif.report(&whatif.file())?;
    let about = |point: &str| report.answers_about(REGION, point, speedups);
    Ok(Answer {
        predictions: about(POINT),
        clock: latency.is_some().then(|| clocks::found(whatif, "accepted")).transpose()?,
        latency: latency.map_or_else(Vec::new, |(name, _)| about(&name)),
        audit: report.audit(REGION).cloned(),
        pace,
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
