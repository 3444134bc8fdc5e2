//! The cost of a visit to a progress point: marked, in a program that is not profiled (this one), and placed from outside, in one that is.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::interval::Interval;
use crate::profiler::{Mode, Whatif};

const VISITS: u32 = 200_000_000;
/// Rounds of programs whose visits are counted from outside.
const ROUNDS: usize = 7;

pub fn run(whatif: &Whatif) -> Result<()> {
    marked();
    targets::build().context("building the targets")?;
    println!("one visit to a place that is named with -p, in ns, with 95 % interval of {ROUNDS} rounds");
    // Behind the first instruction of the function, only a breakpoint counts.
    let line = line_of("behind the first instruction")?;
    for (what, place, calls) in [
        ("a function that the program counts itself", "visited", "20000000"),
        ("a breakpoint", &line, "100000"),
    ] {
        let costs: Vec<f64> = (0..ROUNDS)
            .map(|_| Ok(timed(whatif, Some(place), calls)? - timed(whatif, None, calls)?))
            .collect::<Result<_>>()?;
        let Interval { estimate, low, high } = Interval::of_mean(&costs);
        println!("  {what}: {estimate:.1} [{low:.1}, {high:.1}]");
    }
    Ok(())
}

/// The line of `visits.c` that says `marker`.
fn line_of(marker: &str) -> Result<String> {
    let path = targets::path("visits")?;
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/c/visits.c");
    let text =
        std::fs::read_to_string(&source).with_context(|| format!("the source of {}", path.display()))?;
    let line = text.lines().position(|line| line.contains(marker)).context("no such line")? + 1;
    Ok(format!("visits.c:{line}"))
}

/// Nanoseconds that a call takes, while visits to `place` are counted if there is one.
fn timed(whatif: &Whatif, place: Option<&str>, calls: &str) -> Result<f64> {
    let program = targets::path("visits")?;
    let line = [program.to_str().context("the path of the program is not text")?, calls];
    whatif.forget()?;
    let output = match place {
        Some(place) => whatif.run_with(&["-p", place], Mode::StartOnly, &line).output()?,
        None => whatif.run(Mode::StartOnly, &line).output()?,
    };
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(!said.trim().is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    said.trim().parse().with_context(|| format!("not a number: {said}"))
}

fn marked() {
    let empty = nanos_per_turn(|| {});
    let visit = nanos_per_turn(|| whatif::progress!("bench"));
    println!(
        "one visit: {:.2} ns (a turn of the loop takes {empty:.2} ns without it, {visit:.2} ns with it)",
        visit - empty
    );
}

/// The quickest of five measurements.
fn nanos_per_turn(body: impl Fn()) -> f64 {
    (0..5)
        .map(|_| {
            let began = Instant::now();
            for turn in 0..VISITS {
                body();
                black_box(turn);
            }
            began.elapsed().as_secs_f64() * 1e9 / f64::from(VISITS)
        })
        .fold(f64::INFINITY, f64::min)
}
