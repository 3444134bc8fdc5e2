//! The truth: what really happens when a function's work is shrunk.

use std::process::Command;

use anyhow::Result;

use crate::interval::Interval;
use crate::machine::{Machine, Measured, Patience};
use crate::program;
use crate::rounds::Rounds;
use crate::subject::Subject;

/// How long and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    pub rounds: usize,
    /// Of each run.
    pub seconds: f64,
}

/// A region at a speedup in per cent, and the gain when it is really that much faster.
#[derive(Clone, Debug)]
pub struct Truth {
    pub region: String,
    pub speedup: u32,
    pub gain: Interval,
}

/// Runs of the unchanged program in a round: its noise is in the gain of each of so many variants.
pub fn unchanged_runs(variants: usize) -> usize {
    variants.isqrt().max(1)
}

/// Measures every region of `subject` at every speedup. A round runs every variant once and the unchanged program a
/// few times, in random order.
pub fn truths(
    subject: &dyn Subject,
    speedups: &[u32],
    effort: Effort,
    machine: &Machine,
    patience: &Patience,
) -> Result<Measured<Vec<Truth>>> {
    let regions = subject.regions();
    let variants: Vec<(&str, u32)> =
        regions.iter().flat_map(|region| speedups.iter().map(move |speedup| (*region, *speedup))).collect();
    let mut rounds = Rounds::default();
    let mut disturbed = false;
    for _ in 0..effort.rounds {
        let round = machine.patiently(patience, || round(subject, &variants, effort.seconds))?;
        disturbed |= round.disturbed;
        rounds.push(round.value);
    }
    let truths = variants.iter().zip(rounds.gains(unchanged_runs(variants.len())));
    let truths =
        truths.map(|(&(region, speedup), gain)| Truth { region: region.to_owned(), speedup, gain }).collect();
    Ok(Measured { value: truths, disturbed })
}

/// The rate of every variant, and last that of the program unchanged.
fn round(subject: &dyn Subject, variants: &[(&str, u32)], seconds: f64) -> Result<Vec<f64>> {
    let unchanged = unchanged_runs(variants.len());
    let mut rates = vec![1.0; variants.len() + 1];
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.extend(std::iter::repeat_n(variants.len(), unchanged));
    fastrand::shuffle(&mut order);
    for index in order {
        let mut extra = vec![format!("seconds={seconds}")];
        if let Some((region, speedup)) = variants.get(index) {
            extra.push(format!("{region}={}", 1.0 - f64::from(*speedup) / 100.0));
        }
        let rate = rate(subject, &extra, seconds)?;
        // Logarithms of rates are compared, so the mean is the geometric one.
        let runs = if index < variants.len() { 1 } else { unchanged };
        rates[index] *= rate.powf(1.0 / crate::interval::count(runs));
    }
    Ok(rates)
}

/// The rate of a program that is told with `extra` to run for `seconds`.
pub fn rate(subject: &dyn Subject, extra: &[String], seconds: f64) -> Result<f64> {
    let line = program::command_line(subject, extra)?;
    program::rate_within(Command::new(&line[0]).args(&line[1..]), subject.point(), limit(seconds))
}

/// When a program that should run for `seconds` hangs.
pub fn limit(seconds: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = seconds.ceil() as u32;
    3 * whole + 20
}
