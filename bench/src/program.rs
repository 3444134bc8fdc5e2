//! Choosing and running a program: its rate, or its duration.

use std::ffi::OsString;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use targets::{TARGETS, Target};

use crate::subject::Subject;

/// The targets called `only`, by their own name or by that of their program; all, if none is.
pub fn chosen(only: &[String]) -> Result<Vec<&'static Target>> {
    let is_called = |target: &Target, name: &str| target.name == name || target.program == name;
    for name in only {
        ensure!(
            TARGETS.iter().any(|target| is_called(target, name)),
            "there is no target '{name}'; choose from: {}",
            TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(" ")
        );
    }
    let is_chosen = |target: &&Target| only.is_empty() || only.iter().any(|name| is_called(target, name));
    Ok(TARGETS.iter().filter(is_chosen).collect())
}

/// Those of `names` that there are; prints which are missing.
pub fn existing(names: &[&str]) -> Vec<&'static Target> {
    let find = |name: &&str| {
        let found = TARGETS.iter().find(|target| target.name == *name);
        if found.is_none() {
            eprintln!("there is no target '{name}' here; going on without it");
        }
        found
    };
    names.iter().filter_map(find).collect()
}

/// Those that have regions to predict; there must be some.
pub fn with_regions(mut chosen: Vec<&'static Target>) -> Result<Vec<&'static Target>> {
    chosen.retain(|target| !target.regions.is_empty());
    ensure!(!chosen.is_empty(), "these targets have no regions to predict; choose others with --only");
    Ok(chosen)
}

/// Refuses what is no speedup.
pub fn check_speedups(speedups: &[u32]) -> Result<()> {
    ensure!(
        speedups.iter().all(|speedup| (1..=100).contains(speedup)),
        "--speedups lie between 1 and 100 (per cent)"
    );
    Ok(())
}

/// The command line of `subject` with `extra` arguments.
pub fn command_line(subject: &dyn Subject, extra: &[String]) -> Result<Vec<OsString>> {
    let path = subject.program()?;
    let arguments = subject.arguments().into_iter().map(OsString::from);
    Ok([path.into_os_string()].into_iter().chain(arguments).chain(extra.iter().map(OsString::from)).collect())
}

/// Runs `command` and returns the last rate that it printed for `point`, in visits per second.
pub fn rate(command: &mut Command, point: &str) -> Result<f64> {
    rate_within(command, point, LIMIT)
}

/// As [`rate`]; a command that takes more than `limit` seconds hangs.
pub fn rate_within(command: &mut Command, point: &str, limit: u32) -> Result<f64> {
    let output = output_within(command, limit)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = parse_rate(&text, point)
        .with_context(|| format!("{command:?} printed no rate of '{point}', but:\n{text}"))?;
    ensure!(rate > 0.0, "{command:?} never reached '{point}' (run it by hand to see why)");
    Ok(rate)
}

/// Runs `command` and returns how long it took.
pub fn duration(command: &mut Command) -> Result<Duration> {
    let began = Instant::now();
    checked(command)?;
    Ok(began.elapsed())
}

/// How long `command` runs, however it ends.
pub fn duration_of_any(command: &mut Command) -> Result<Duration> {
    let began = Instant::now();
    command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} does not start"))?;
    Ok(began.elapsed())
}

/// Runs `command` to its end, or kills it with all its children when it hangs.
pub fn output(command: &mut Command) -> Result<Output> {
    output_within(command, LIMIT)
}

/// As [`output`]; a command that takes more than `limit` seconds hangs.
pub fn output_within(command: &mut Command, limit: u32) -> Result<Output> {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=5", &limit.to_string()]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    checked(&mut limited)
}

/// Seconds; nothing that is measured here takes as long.
const LIMIT: u32 = 600;

/// What `whatif run` exits with when a program went well, but too few windows were any good: its rate and
/// its recording are as good as any.
const NO_ANSWER: [i32; 2] = [100, 101];

fn checked(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?} does not start (is it installed?)"))?;
    if output.status.success() || output.status.code().is_some_and(|code| NO_ANSWER.contains(&code)) {
        return Ok(output);
    }
    let status = match output.status.code() {
        Some(124 | 137) => "it hangs, and was killed".to_owned(),
        _ => output.status.to_string(),
    };
    bail!(
        "{command:?} failed ({status}), saying:\n{}(run it by hand to see more)",
        String::from_utf8_lossy(&output.stderr)
    )
}

fn parse_rate(text: &str, point: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| {
        let (name, rate) = line.strip_prefix("rate ")?.rsplit_once(' ')?;
        if name == point { rate.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rate_of_the_point_counts() {
        let text = "hello\nrate item 3\nrate a b 2.5\nrate item 4.0\nrate other 1\n";
        for (point, rate) in [("item", Some(4.0)), ("a b", Some(2.5)), ("b", None), ("nothing", None)] {
            assert_eq!(parse_rate(text, point), rate, "{point}");
        }
    }
}
