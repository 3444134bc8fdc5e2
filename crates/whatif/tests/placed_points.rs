//! Progress points in programs that mark none: `-p` and `--latency`.

use crate::support::{Sandbox, point, program, program_as, run, skip};
use kernel::visits::Means;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Whether visits can be counted here.
fn can_count() -> bool {
    let tried = kernel::visits::cost(Means::Breakpoint);
    if let Err(error) = &tried {
        skip(&format!("no breakpoints here: {error}"));
    }
    tried.is_ok()
}

/// Whether the code of a process can be changed through `/proc`: this one's, which stays as it is.
fn can_change_code() -> bool {
    let at = (can_change_code as fn() -> bool) as usize as u64;
    let mut byte = [0];
    let tried = OpenOptions::new().read(true).write(true).open("/proc/self/mem").and_then(|memory| {
        memory.read_exact_at(&mut byte, at)?;
        memory.write_all_at(&byte, at)
    });
    if let Err(error) = &tried {
        skip(&format!("code cannot be changed here: {error}"));
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
    let options = ["-p", &line, "-p", "ended", "--latency", "fn:begun..fn:ended", "--speedup", "50"];
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
    // Both are of the same windows, so that a busy machine makes both longer.
    let latency = |name| point(&report, name)["latency_ns"].as_u64().unwrap();
    let (placed, marked) = (latency("begun..ended"), latency("round"));
    assert!(placed.abs_diff(marked) <= 50_000 + marked / 4, "{placed} ns, marked {marked} ns in {report:#}");
}

#[test]
fn a_program_counts_visits_to_its_functions_itself() {
    let Some(counted) = program("counted.c").filter(|_| can_count() && can_change_code()) else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--speedup", "50", "-o"]).arg(sandbox.recording());
    let points = [
        ("from_global", 1),
        ("sign", 2),
        ("in_register", 1),
        ("entered_within", 1),
        ("loops", 1),
        ("calls", 1),
    ];
    for (name, _) in points {
        command.args(["-p", name]);
    }
    command.arg("--").arg(&counted);
    let ended = run(command).assert_code(0);
    assert_eq!(ended.stdout, "done\n");
    let says = "3 functions that the program counts itself (some ns a visit) and 3 hardware breakpoints";
    assert!(ended.stderr.contains(says), "{ended:#?}");
    let report = sandbox.report();
    let visits = |name| point(&report, name)["visits"].as_u64().unwrap();
    let marked = visits("marked");
    assert!(marked > 100, "{report:#}");
    for (name, each) in points {
        let expected = each * marked;
        assert!(
            visits(name).abs_diff(expected) <= 40 + expected / 50,
            "{name}: {} of {expected}",
            visits(name)
        );
    }
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
        ("placed.c:x", "-p server.rs:42"),
    ] {
        let ended = sandbox.profile(&["-p", place], &placed, &[]).assert_code(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(advice), "{place}: {ended:#?}");
    }
}

/// A program that loads a library when it runs, and the library.
fn host_and_plugin() -> Option<(PathBuf, PathBuf)> {
    let host = program_as("plugin.c", "plugin-host", &["-DHOST"]).filter(|_| can_count())?;
    Some((host, program_as("plugin.c", "plugin.so", &["-shared", "-fPIC"])?))
}

#[test]
fn a_point_may_be_in_the_program_when_only_a_library_is_named() {
    let Some((host, plugin)) = host_and_plugin() else { return };
    let sandbox = Sandbox::new();
    let options = ["-p", "fn:call", "--binary", "*plugin.so", "--no-delays"];
    let ended = sandbox.profile(&options, &host, &[plugin.to_str().unwrap()]).assert_code(0);
    assert!(!ended.stderr.contains("not loaded"), "{ended:#?}");
    let report = sandbox.report();
    let visits = |name| point(&report, name)["visits"].as_u64().unwrap();
    let (marked, called) = (visits("marked"), visits("call"));
    assert!(marked > 100 && called.abs_diff(marked) <= 20 + marked / 50, "{called} of {marked}");
}

#[test]
fn a_library_may_be_loaded_later_and_again() {
    let Some((host, plugin)) = host_and_plugin() else { return };
    let sandbox = Sandbox::new();
    let options = ["-p", "fn:serve", "--binary", "*plugin.so", "--region", "hot", "--speedup", "50"];
    let ended = sandbox.profile(&options, &host, &[plugin.to_str().unwrap()]).assert_code(0);
    assert_eq!(ended.stdout, "done\n");
    let report = sandbox.report();
    let visits = |name| point(&report, name)["visits"].as_u64().unwrap();
    let (marked, served) = (visits("marked"), visits("serve"));
    assert!(marked > 100 && served.abs_diff(marked) <= 20 + marked / 50, "{served} of {marked}");
    // Most of the samples of both times, for the program does nothing else: without the second they were half.
    let hot = report["regions"].as_array().unwrap().iter().find(|region| region["name"] == "hot");
    let share = hot.and_then(|region| region["share"].as_f64());
    assert!(share.is_some_and(|share| share > 0.7), "{share:?} in {report:#}");

    let ended = Sandbox::new();
    let never =
        ended.profile(&["-p", "fn:nosuch", "--binary", "*plugin.so"], &host, &[plugin.to_str().unwrap()]);
    assert!(never.code() == Some(0), "there is a point besides: {never:#?}");
    let report = ended.report();
    let warnings = report["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "point-not-found"), "{warnings:#?}");
}
