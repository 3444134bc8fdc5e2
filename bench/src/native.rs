//! The truth: what really happens when a function's work is shrunk.

use std::process::Command;

use anyhow::Result;
use targets::Target;

use crate::interval::Interval;
use crate::machine::{Machine, Measured, Patience};
use crate::program;
use crate::rounds::Rounds;

/// How long and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    pub rounds: usize,
    /// Of each run.
    pub seconds: f64,
}

/// A region at a speedup in per cent, and the gain when it is really that much faster.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    pub region: &'static str,
    pub speedup: u32,
    pub gain: Interval,
}

/// Measures every region of `target` at every speedup. A round runs the unchanged program and every
/// variant once, in random order.
pub fn truths(
    target: &'static Target,
    speedups: &[u32],
    effort: Effort,
    machine: &Machine,
    patience: &Patience,
) -> Result<Measured<Vec<Truth>>> {
    let variants: Vec<(&'static str, u32)> = target
        .regions
        .iter()
        .flat_map(|region| speedups.iter().map(move |speedup| (*region, *speedup)))
        .collect();
    let mut rounds = Rounds::default();
    let mut disturbed = false;
    for _ in 0..effort.rounds {
        let round = machine.patiently(patience, || round(target, &variants, effort.seconds))?;
        disturbed |= round.disturbed;
        rounds.push(round.value);
    }
    let truths = variants.iter().zip(rounds.gains());
    let truths = truths.map(|(&(region, speedup), gain)| Truth { region, speedup, gain }).collect();
    Ok(Measured { value: truths, disturbed })
}

/// The rate of every variant, and last that of the program unchanged.
fn round(target: &Target, variants: &[(&str, u32)], seconds: f64) -> Result<Vec<f64>> {
    let mut rates = vec![0.0; variants.len() + 1];
    let mut order: Vec<usize> = (0..rates.len()).collect();
    fastrand::shuffle(&mut order);
    for index in order {
        let mut extra = vec![format!("seconds={seconds}")];
        if let Some((region, speedup)) = variants.get(index) {
            extra.push(format!("{region}={}", 1.0 - f64::from(*speedup) / 100.0));
        }
        let line = program::command_line(target, &extra)?;
        let mut command = Command::new(&line[0]);
        rates[index] = program::rate_within(command.args(&line[1..]), target.point, limit(seconds))?;
    }
    Ok(rates)
}

/// When a program that should run for `seconds` hangs.
pub fn limit(seconds: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = seconds.ceil() as u32;
    3 * whole + 20
}
