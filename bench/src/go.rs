//! Programs in Go: what is predicted for their regions, launched and attached to, and what making these faster really brings.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::interval::Interval;
use crate::machine::Machine;
use crate::native::limit;
use crate::profiler::{Mode, Prediction, Whatif};
use crate::program;

/// What the program can be, and how many microseconds its regions take.
const MODES: [(&str, f64, f64); 6] = [
    ("mutex", 200.0, 300.0),
    ("pipeline", 300.0, 500.0),
    ("pool", 200.0, 300.0),
    ("rwmutex", 300.0, 200.0),
    ("select", 300.0, 200.0),
    ("http", 400.0, 300.0),
];
const REGIONS: [(&str, bool); 2] = [("main.regionA", true), ("main.regionB", false)];
const SPEEDUPS: [u32; 2] = [50, 100];

#[derive(Debug, Args)]
pub struct Options {
    /// Only these programs
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// Build the program with C code (what the package net has of it), so that it has a C library besides
    #[arg(long)]
    with_c: bool,

    /// Seconds that each prediction may take
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,

    /// How often each true gain is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Seconds of each of these runs
    #[arg(long, default_value_t = 2.0)]
    run: f64,
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    let folder = tempfile::tempdir()?;
    let program = build(folder.path(), options.with_c)?;
    let speed = program::output_within(Command::new(&program).arg("speed"), limit(5.0))?.stdout;
    let speed = String::from_utf8(speed)?.trim().to_owned();
    println!(
        "gain if a region were faster, in per cent of the time per visit: truth; launched, and attached to, with the errors"
    );
    let (mut errors, mut held, mut all) = (Vec::new(), 0, 0);
    for (mode, a, b) in MODES {
        if !options.only.is_empty() && !options.only.iter().any(|one| one == mode) {
            continue;
        }
        let line = |a: f64, b: f64, seconds: f64| {
            vec![
                program.to_string_lossy().into_owned(),
                mode.to_owned(),
                a.to_string(),
                b.to_string(),
                seconds.to_string(),
                speed.clone(),
            ]
        };
        for (region, is_a) in REGIONS {
            let usual = line(a, b, options.seconds + 20.0);
            let answers =
                [false, true].map(|is_attached| predict(&usual, region, options, whatif, is_attached));
            for speedup in SPEEDUPS {
                let rest = 1.0 - f64::from(speedup) / 100.0;
                let faster = if is_a { (a * rest, b) } else { (a, b * rest) };
                let truth = truth(options, &|is_faster| {
                    let (a, b) = if is_faster { faster } else { (a, b) };
                    line(a, b, options.run)
                })?;
                print!(
                    "  {mode:<9} {region} {speedup:>3} %  {:>5.1} ± {:.1}",
                    truth.estimate * 100.0,
                    truth.half_width() * 100.0
                );
                for answer in &answers {
                    all += 1;
                    let found =
                        answer.as_ref().ok().and_then(|all| all.iter().find(|one| one.speedup == speedup));
                    let Some((found, low, high)) = found.and_then(|one| Some((one, one.low?, one.high?)))
                    else {
                        print!("    no answer       ");
                        continue;
                    };
                    let error = found.gain - truth.estimate;
                    errors.push(error.abs());
                    held += u32::from(low <= truth.high && truth.low <= high);
                    print!(
                        "  {:>6.1} ± {:<4.1} ({:>+5.1})",
                        found.gain * 100.0,
                        (high - low) * 50.0,
                        error * 100.0
                    );
                }
                println!();
            }
            for answer in answers {
                if let Err(error) = answer {
                    println!("  {mode:<9} {region}: {error:#}");
                }
            }
        }
    }
    ensure!(!errors.is_empty(), "there was no answer");
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let worst = errors.iter().copied().fold(0.0, f64::max);
    println!(
        "mean error {:.1} points, worst {:.1}; {} of {all} answered, {held} intervals agree with the truth",
        mean * 100.0,
        worst * 100.0,
        errors.len()
    );
    println!("{}", machine.watch().sentence());
    Ok(())
}

fn build(folder: &Path, with_c: bool) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/go/main.go");
    let program = folder.join("go");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&program).arg(source);
    command.env("CGO_ENABLED", if with_c { "1" } else { "0" });
    let status = command.status().context("install Go (golang-go)")?;
    ensure!(status.success(), "{command:?} failed");
    Ok(program)
}

/// The gain per visit, by turns.
fn truth(options: &Options, line: &dyn Fn(bool) -> Vec<String>) -> Result<Interval> {
    let mut gains = Vec::new();
    for _ in 0..options.rounds {
        let [usual, faster] = [false, true].map(|is_faster| {
            let line = line(is_faster);
            let output = program::output_within(Command::new(&line[0]).args(&line[1..]), limit(options.run))?;
            rate(&String::from_utf8_lossy(&output.stdout))
                .with_context(|| format!("{line:?} printed no rate"))
        });
        gains.push(1.0 - usual? / faster?);
    }
    Ok(Interval::of_mean(&gains))
}

/// `N visits in S s`.
fn rate(printed: &str) -> Option<f64> {
    let words: Vec<&str> = printed.split_ascii_whitespace().collect();
    let (visits, seconds): (f64, f64) = (words.first()?.parse().ok()?, words.get(3)?.parse().ok()?);
    Some(visits / seconds)
}

fn predict(
    line: &[String],
    region: &str,
    options: &Options,
    whatif: &Whatif,
    is_attached: bool,
) -> Result<Vec<Prediction>> {
    const POINT: &str = "fn:main.done";
    let speedups = SPEEDUPS.map(|speedup| speedup.to_string()).join(",");
    let duration = options.seconds.to_string();
    let asked = ["--quiet", "--region", region, "--speedup", &speedups, "-p", POINT, "--duration", &duration];
    whatif.forget()?;
    let limit = limit(options.seconds + 20.0);
    if is_attached {
        let mut running =
            Command::new(&line[0]).args(&line[1..]).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        sleep(Duration::from_millis(300));
        let attached = program::output_within(&mut whatif.attach(&asked, running.id()), limit);
        let is_there = running.try_wait()?.is_none();
        running.kill()?;
        running.wait()?;
        attached?;
        ensure!(is_there, "the program has ended");
    } else {
        program::output_within(&mut whatif.run_with(&asked, Mode::Full, line), limit)?;
    }
    Ok(whatif.report(&whatif.file())?.answers_about(region, "main.done", &SPEEDUPS))
}
