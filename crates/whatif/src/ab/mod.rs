//! `whatif ab`: two programs by turns, and how much less time one of them needs.
//!
//! **Does:** run both in random order until the difference is known well enough. **Does not:** experiments, or profile: programs that end
//! by themselves run as if we were not there. **Constraints:** when to stop depends on how wide the interval is, not on where.

pub mod cli;
mod runner;
mod text;

use crate::compare::gate;
use crate::show;
use anyhow::Result;
use cli::Ab;
use profile::{Estimate, gain_by_turns};
use runner::{Runner, Taken};
use std::io::IsTerminal as _;
use std::time::Instant;

/// Rounds before the first look whether the difference is known: the width of an interval from fewer is chance.
const FEWEST: usize = 5;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Both commands, and what their runs took, round by round.
struct Turns {
    commands: (Vec<String>, Vec<String>),
    rounds: Vec<(Taken, Taken)>,
    /// Which was run when, warm-up runs left out.
    order: Vec<Side>,
    warmup: u32,
    /// Whether the difference is known as exactly as asked.
    enough: bool,
}

/// Something that runs take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Time,
    Cpu,
    Memory,
    /// Time between two visits.
    Visits,
}

impl Quantity {
    /// In seconds, or bytes.
    fn of(self, taken: Taken) -> f64 {
        match (self, taken) {
            (Self::Time, Taken::Whole { time, .. }) => time.as_secs_f64(),
            (Self::Cpu, Taken::Whole { cpu, .. }) => cpu.as_secs_f64(),
            (Self::Memory, Taken::Whole { memory, .. }) => memory as f64,
            (Self::Visits, Taken::Counted { period }) => period,
            _ => f64::NAN,
        }
    }

    /// As `--fail-if` and JSON call it.
    fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Visits => "visits",
        }
    }
}

impl Turns {
    /// What there is to compare, the most important first.
    fn quantities(&self) -> &'static [Quantity] {
        match self.rounds.first() {
            Some((Taken::Counted { .. }, _)) => &[Quantity::Visits],
            _ => &[Quantity::Time, Quantity::Cpu, Quantity::Memory],
        }
    }

    fn pairs(&self, of: Quantity) -> Vec<(f64, f64)> {
        self.rounds.iter().map(|(before, after)| (of.of(*before), of.of(*after))).collect()
    }

    /// See [`gain_by_turns`].
    fn gain(&self, of: Quantity) -> Estimate {
        gain_by_turns(&self.pairs(of))
    }
}

/// `whatif ab`. Returns the exit status.
pub fn ab(args: &Ab) -> Result<i32> {
    let precision = args.enough()?;
    let mut turns = Turns {
        commands: args.split()?,
        rounds: Vec::new(),
        order: Vec::new(),
        warmup: args.warmup,
        enough: false,
    };
    let runner = Runner::new(args)?;
    let mut random = args.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
    let progress = std::io::stderr().is_terminal();
    for _ in 0..args.warmup {
        runner.run(&turns.commands.0)?;
        runner.run(&turns.commands.1)?;
    }
    let begin = Instant::now();
    while !turns.enough && is_another(args, turns.rounds.len(), begin) {
        let round = round(&runner, &mut turns, &mut random)?;
        turns.rounds.push(round);
        let gain = turns.gain(turns.quantities()[0]);
        turns.enough = turns.rounds.len() >= FEWEST && gain.half_width() <= precision;
        if progress {
            kernel::say::put(&format!("\r\x1b[Kwhatif: {}", text::standing(turns.rounds.len(), &gain)));
        }
    }
    if progress {
        kernel::say::put("\r\x1b[K");
    }
    show::print(&if args.json { format!("{:#}", text::json(&turns)) } else { text::render(&turns) })?;
    Ok(args
        .fail_if
        .iter()
        .map(|condition| gate::judge_turns(condition, |name| named(&turns, name)))
        .max()
        .unwrap_or(0))
}

/// Whether there is time for another round; two are made in any case.
fn is_another(args: &Ab, done: usize, begin: Instant) -> bool {
    args.runs.is_none_or(|most| done < most as usize) && (done < 2 || begin.elapsed() < args.duration)
}

/// One run of each, in random order.
fn round(runner: &Runner<'_>, turns: &mut Turns, random: &mut fastrand::Rng) -> Result<(Taken, Taken)> {
    let (before, after) = &turns.commands;
    Ok(if random.bool() {
        turns.order.extend([Side::Before, Side::After]);
        (runner.run(before)?, runner.run(after)?)
    } else {
        turns.order.extend([Side::After, Side::Before]);
        let after = runner.run(after)?;
        (runner.run(before)?, after)
    })
}

/// What a condition is about.
fn named(turns: &Turns, name: &str) -> Result<Estimate, String> {
    let quantities = turns.quantities();
    let found = quantities.iter().find(|quantity| quantity.name() == name);
    found.map(|quantity| turns.gain(*quantity)).ok_or_else(|| {
        let names: Vec<String> =
            quantities.iter().map(|quantity| format!("gain({})", quantity.name())).collect();
        format!("what can be judged here is {}", names.join(", "))
    })
}
