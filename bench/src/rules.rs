//! What each rule of the delay account is worth: the error with the rule, and without it.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use targets::Target;

use crate::interval::mean;
use crate::machine::{Machine, Patience};
use crate::native::{self, Effort, Truth};
use crate::profiler::{Question, Whatif};
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Only the rules of virtual time with these numbers (may be repeated) [default: all]
    #[arg(long = "rule", value_name = "N")]
    rules: Vec<u32>,

    /// Measure every rule on the targets called this (may be repeated) [default: those that need it]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Native runs of every variant
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// Length of each native run
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,

    /// Length of each profiled run
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    profile_seconds: f64,

    /// Speedups in per cent
    #[arg(long, value_delimiter = ',', default_values_t = [50, 100])]
    speedups: Vec<u32>,
}

/// A rule of virtual time, by its number in the documentation, and the targets that need it.
#[derive(Debug)]
struct Rule {
    number: u32,
    name: &'static str,
    targets: &'static [&'static str],
}

/// Without 2 (debts are paid) there is no speedup to measure, 9 (epochs) is how accounts are written down,
/// and 11 (books) only doubts: these have no switch.
const RULES: &[Rule] = &[
    Rule { number: 1, name: "credit: a maximum", targets: &["two_threads", "mutex", "pool_2", "pool_4"] },
    Rule { number: 3, name: "promptness", targets: &["two_threads", "mutex", "mutex_short", "barrier"] },
    Rule {
        number: 4,
        name: "pay before blocking or waking",
        targets: &["mutex", "mutex_short", "pipeline", "barrier"],
    },
    Rule {
        number: 5,
        name: "woken by a thread",
        targets: &["mutex", "barrier", "pipeline", "wait_for", "spin_barrier"],
    },
    Rule { number: 6, name: "woken by the world", targets: &["io_sleep", "idle"] },
    Rule { number: 7, name: "waiting for a CPU", targets: &["pipeline_saturated", "pool_4", "pool_8"] },
    Rule { number: 8, name: "pauses keep the CPU", targets: &["pipeline_saturated", "pool_4", "pool_8"] },
    Rule { number: 10, name: "inheritance", targets: &["two_threads", "short_lived", "fork_join"] },
];

/// The target that needs no rule.
const CONTROL: &str = "single";

/// How far the answers for one target are from the truth, in points; and how many were missing.
type Errors = (f64, usize);

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds >= 2, "--rounds must be at least 2, to see the noise");
    program::check_speedups(&options.speedups)?;
    for number in &options.rules {
        ensure!(
            RULES.iter().any(|rule| rule.number == *number),
            "there is no rule {number}; choose from {}",
            RULES.iter().map(|rule| rule.number.to_string()).collect::<Vec<_>>().join(" ")
        );
    }
    let rules: Vec<&Rule> = RULES
        .iter()
        .filter(|rule| options.rules.is_empty() || options.rules.contains(&rule.number))
        .filter_map(|rule| match whatif.knows(&["--without-rule", &rule.number.to_string()]) {
            Ok(true) => Some(Ok(rule)),
            Ok(false) => {
                println!("rule {} ({}) cannot be switched off in this whatif", rule.number, rule.name);
                None
            }
            Err(error) => Some(Err(error)),
        })
        .collect::<Result<_>>()?;
    ensure!(
        !rules.is_empty(),
        "this whatif has no `run --without-rule N` for these rules; name one that has it with --whatif PATH"
    );
    let chosen = if options.only.is_empty() { Vec::new() } else { program::chosen(&options.only)? };
    targets::build().context("building the targets")?;

    println!("mean error in points over all regions at {:?} %", options.speedups);
    println!("{:<34} {:<20} {:>8} {:>8} {:>8}", "without rule", "program", "with", "without", "change");
    let patience = Patience::new(2, Duration::from_mins(2));
    // Every target's truth, and the error with all rules.
    let mut whole: HashMap<&str, (Vec<Truth>, Errors)> = HashMap::new();
    for rule in rules {
        let targets = if chosen.is_empty() {
            program::existing(&[&[CONTROL], rule.targets].concat())
        } else {
            chosen.clone()
        };
        let without = ["--without-rule".to_owned(), rule.number.to_string()];
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for target in targets {
            if !whole.contains_key(target.name) {
                let effort = Effort { rounds: options.rounds, seconds: options.seconds };
                let truths = native::truths(target, &options.speedups, effort, machine, &patience)?.value;
                let errors = errors(target, &truths, &[], options, machine, &patience, whatif)?;
                whole.insert(target.name, (truths, errors));
            }
            let Some((truths, with)) = whole.get(target.name) else { continue };
            let without = errors(target, truths, &without, options, machine, &patience, whatif)?;
            let label = format!("{} {}", rule.number, rule.name);
            println!("{}", line(&label, target.name, *with, without));
            before.push(with.0);
            after.push(without.0);
        }
        if let (true, Some(before), Some(after)) = (before.len() > 1, mean(&before), mean(&after)) {
            println!(
                "{}",
                line(&format!("{} {}", rule.number, rule.name), "all of these", (before, 0), (after, 0))
            );
        }
    }
    println!("{}", machine.watch().sentence());
    Ok(())
}

fn line(rule: &str, program: &str, with: Errors, without: Errors) -> String {
    let missing =
        |missing: usize| if missing == 0 { String::new() } else { format!("{missing} without answer") };
    let doubts: Vec<String> = [("with", with.1), ("without", without.1)]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(which, count)| format!("{which} it {}", missing(count)))
        .collect();
    format!(
        "{rule:<34} {program:<20} {:>8.1} {:>8.1} {:>+8.1}   {}",
        with.0,
        without.0,
        without.0 - with.0,
        doubts.join(", ")
    )
    .trim_end()
    .to_owned()
}

/// Profiles every region with `options_of_run`.
fn errors(
    target: &Target,
    truths: &[Truth],
    options_of_run: &[String],
    options: &Options,
    machine: &Machine,
    patience: &Patience,
    whatif: &Whatif,
) -> Result<Errors> {
    let mut errors = Vec::new();
    let mut missing = 0;
    for region in target.regions {
        let question =
            Question { target, region, speedups: &options.speedups, seconds: options.profile_seconds };
        // A run that fails has no answer, and is judged by that.
        let answers = machine
            .patiently(patience, || whatif.predict_with(options_of_run, &question))
            .map(|measured| measured.value)
            .unwrap_or_else(|error| {
                eprintln!("{} {region}: {error:#}", target.name);
                Vec::new()
            });
        for truth in truths.iter().filter(|truth| truth.region == *region) {
            let answer = answers.iter().find(|answer| answer.speedup == truth.speedup);
            missing += usize::from(answer.is_none());
            let gain = answer.map_or(0.0, |answer| answer.gain);
            errors.push((gain - truth.gain.estimate).abs() * 100.0);
        }
    }
    let error = mean(&errors).with_context(|| format!("{} has no regions", target.name))?;
    Ok((error, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_numbers_in_order_and_targets() {
        assert!(RULES.is_sorted_by(|a, b| a.number < b.number));
        for rule in RULES {
            assert!(!rule.targets.is_empty(), "{rule:?}");
        }
    }

    #[test]
    fn a_line_names_what_is_missing() {
        assert_eq!(
            line("5 woken by a thread", "mutex", (2.0, 0), (11.5, 3)),
            "5 woken by a thread                mutex                     2.0     11.5     +9.5   \
             without it 3 without answer"
        );
    }
}
