//! Progress points in programs that mark none: `-p` and `--latency`.

mod support;

use perf::visits::Means;
use std::path::Path;
use support::{Sandbox, point, program, skip};

/// Whether visits can be counted here.
fn can_count() -> bool {
    let tried = perf::visits::cost(Means::Breakpoint);
    if let Err(error) = &tried {
        skip(&format!("no breakpoints here: {error}"));
    }
    tried.is_ok()
}

/// The line of `placed.c` that says `marker`.
fn line_of(marker: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/placed.c");
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().position(|line| line.contains(marker)).unwrap() + 1;
    format!("placed.c:{line}")
}

#[test]
fn visits_are_those_of_a_point_that_is_marked() {
    let Some(placed) = program("placed.c").filter(|_| can_count()) else { return };
    let line = line_of("a round is done");
    let sandbox = Sandbox::new();
    let options = ["-p", &line, "-p", "fn:ended", "--latency", "fn:begun..fn:ended", "--speedup", "50"];
    let ended = sandbox.profile(&options, &placed, &[]).assert_code(0);
    assert_eq!(ended.stdout, "done\n");
    let report = sandbox.report();
    let visits = |name| point(&report, name)["visits"].as_u64().unwrap();
    let marked = visits("marked");
    assert!(marked > 100, "{report:#}");
    // All points are read within a fraction of a millisecond, at the beginning and the end of every window.
    for name in [line.as_str(), "ended"] {
        assert!(visits(name).abs_diff(marked) <= 20 + marked / 50, "{name}: {} of {marked}", visits(name));
    }
    let latency = point(&report, "begun..ended")["latency_ns"].as_u64().unwrap();
    assert!((10_000..1_000_000_000).contains(&latency), "{latency} ns in {report:#}");
}

#[test]
fn an_inlined_function_is_visited_wherever_it_is() {
    let Some(placed) = program("placed.c").filter(|_| can_count()) else { return };
    let sandbox = Sandbox::new();
    sandbox.profile(&["-p", "fn:twice", "--speedup", "50"], &placed, &[]).assert_code(0);
    let report = sandbox.report();
    let visits = |name| point(&report, name)["visits"].as_u64().unwrap();
    let (marked, twice) = (visits("marked"), visits("twice"));
    assert!(marked > 100 && twice.abs_diff(2 * marked) <= 40 + marked / 25, "{twice} of {marked}");
}

#[test]
fn what_is_not_there_is_said_before_the_program_runs() {
    let Some(placed) = program("placed.c") else { return };
    let sandbox = Sandbox::new();
    for (place, advice) in [
        ("fn:endet", "ended"),
        ("placed.c:2", "nearest one that has is placed.c:"),
        ("plaecd.c:5", "placed.c"),
        ("ended", "-p server.rs:42"),
    ] {
        let ended = sandbox.profile(&["-p", place], &placed, &[]).assert_code(90);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(advice), "{place}: {ended:#?}");
    }
}
