//! The first hour: programs that mark no progress point, run as they are.

use crate::support::{Ended, Sandbox, alone, program, program_as, run, skip};
use kernel::visits::Means;
use std::path::Path;

/// Whether visits can be counted here.
fn can_count() -> bool {
    let tried = kernel::visits::cost(Means::Breakpoint);
    if let Err(error) = &tried {
        skip(&format!("no breakpoints here: {error}"));
    }
    tried.is_ok()
}

/// `whatif points` about a program.
#[track_caller]
fn points(program: &Path) -> Ended {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["points", "--duration", "1s", "--"]).arg(program);
    run(command).assert_code(0)
}

/// `whatif run` with these options into the sandbox's recording, not quiet.
#[track_caller]
fn run_with(sandbox: &Sandbox, options: &[&str], program: &Path, arguments: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.args(["run", "-o"]).arg(sandbox.recording()).args(options).arg("--").arg(program).args(arguments);
    run(command)
}

#[track_caller]
fn warnings(report: &serde_json::Value) -> Vec<String> {
    let code = |warning: &serde_json::Value| warning["code"].as_str().unwrap().to_owned();
    report["warnings"].as_array().unwrap().iter().map(code).collect()
}

#[test]
fn forked_workers_are_seen() {
    let Some(workers) = program("workers.c").filter(|_| can_count()) else { return };
    let ended = points(&workers);
    let serve = ended.stderr.lines().find(|line| line.contains("-p fn:serve"));
    let serve = serve.unwrap_or_else(|| panic!("{ended:#?}"));
    // Visits a second, and what counting them costs beside them.
    let rate: f64 = serve.split_whitespace().next().unwrap().parse().unwrap();
    assert!(rate > 2.0 && serve.matches('%').count() == 3, "{serve}");
    assert!(ended.stderr.contains("cost"), "{ended:#?}");
}

#[test]
fn the_library_that_has_the_time_is_looked_into() {
    let Some(library) = program_as("pool.c", "libpool.so", &["-shared", "-fPIC"]).filter(|_| can_count())
    else {
        return;
    };
    let folder = library.parent().unwrap().to_str().unwrap();
    let (search, path) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    let Some(pool) = program_as("pool.c", "pool", &["-DPROGRAM", &search, "-lpool", &path]) else { return };
    let ended = points(&pool);
    assert!(ended.stderr.contains("most of the time is in libpool.so"), "{ended:#?}");
    let line =
        ended.stderr.lines().find(|line| line.starts_with("Try: ")).unwrap_or_else(|| panic!("{ended:#?}"));
    assert!(line.contains("--binary pool --binary libpool.so -p "), "{line}");
    // It runs as it is printed.
    let sandbox = Sandbox::new();
    let whatif = env!("CARGO_BIN_EXE_whatif");
    let typed = line.strip_prefix("Try: whatif run --duration 60 ").unwrap();
    let mut shell = sandbox.command("sh");
    shell.arg("-c").arg(format!("{whatif} run -q --duration 2s -o recording.db {typed}"));
    let ran = run(shell);
    assert!(matches!(ran.code(), Some(0 | 100)), "{ran:#?}");
    let report = sandbox.report();
    assert!(report["points"][0]["visits"].as_u64().unwrap() > 0, "{report:#}");
}

#[test]
fn without_a_point_a_place_is_chosen_while_the_program_runs() {
    let Some(units) = program("units.c").filter(|_| can_count()) else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ended = run_with(&sandbox, &["--duration", "8s", "--seed", "1"], &units, &[]);
    assert!(matches!(ended.code(), Some(0 | 100)), "{ended:#?}");
    assert!(ended.stderr.contains("no progress point is marked in this program"), "{ended:#?}");
    assert!(ended.stderr.contains("count as progress"), "{ended:#?}");
    let report = sandbox.report();
    assert!(warnings(&report).contains(&"chosen-point".to_owned()), "{report:#}");
    let name = report["points"][0]["name"].as_str().unwrap();
    assert!(["serve", "parse"].contains(&name), "{name}");
    assert!(report["points"][0]["visits"].as_u64().unwrap() > 10, "{report:#}");
    // It was whatif that stopped it, and the report says so.
    assert_eq!(report["sessions"][0]["stopped"], true);
    let mut text = sandbox.whatif();
    text.args(["report", "--details"]).arg(sandbox.recording());
    let text = run(text).assert_code(0).stdout;
    assert!(text.contains("stopped by whatif after") && !text.contains("killed by signal"), "{text}");
}

#[test]
fn without_any_place_there_is_the_plain_profile() {
    let Some(failing) = program("failing.c") else { return };
    let sandbox = Sandbox::new();
    let ended = run_with(&sandbox, &[], &failing, &["points_nothing_out"]).assert_code(0);
    assert!(ended.stderr.contains("nothing says what counts as a unit of work"), "{ended:#?}");
    let report = sandbox.report();
    assert!(warnings(&report).contains(&"no-progress-point".to_owned()), "{report:#}");
    assert!(sandbox.samples("hot") > 0);
    // Whoever only looks at the status is told by the status.
    let quiet = Sandbox::new();
    quiet.profile(&[], &failing, &["points_nothing_out"]).assert_code(98);
}

#[test]
fn a_point_that_is_never_visited_makes_no_run_longer() {
    let Some(units) = program("units.c").filter(|_| can_count()) else { return };
    let sandbox = Sandbox::new();
    // It is visited once, before the first experiment: windows get longer and longer, up to 1.6 s.
    let ended = run_with(&sandbox, &["-p", "fn:main", "--duration", "4s"], &units, &[]);
    assert!(matches!(ended.code(), Some(99 | 100)), "{ended:#?}");
    let rows = profile::Recording::open(&sandbox.recording()).unwrap().rows().unwrap();
    let last =
        rows.windows.iter().map(|window| (window.start + window.elapsed).as_secs_f64()).fold(0.0, f64::max);
    assert!(last > 0.0 && last < 5.0, "{last} s: {:?}", rows.windows);
}

#[test]
fn a_point_that_is_visited_too_often_is_refused_with_something_cooler() {
    let Some(often) = program("often.c").filter(|_| can_count()) else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    // A line: functions count their visits themselves.
    let ended = run_with(&sandbox, &["-p", "often.c:9", "--duration", "60s"], &often, &[]).assert_code(90);
    assert!(ended.stderr.contains("counting visits to often.c:9 takes"), "{ended:#?}");
    assert!(ended.stderr.contains("-p fn:seldom"), "{ended:#?}");
    assert!(!ended.stderr.lines().any(|line| line.trim_start().starts_with("-p often.c:9")), "{ended:#?}");
}

#[test]
fn a_point_that_cannot_be_placed_ends_the_run_at_once() {
    let Some(placed) = program("placed.c").filter(|_| can_count()) else { return };
    let sandbox = Sandbox::new();
    // A CPU has four breakpoints, and more take a privilege.
    let privileged = kernel::visits::cost(Means::Uprobe).is_ok();
    let places = ["begun", "ended", "hot", "main"];
    let mut command = if privileged {
        if !crate::support::have("setpriv") {
            return;
        }
        let mut command = sandbox.command("setpriv");
        command
            .args(["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"])
            .arg(env!("CARGO_BIN_EXE_whatif"));
        command
    } else {
        sandbox.whatif()
    };
    command.arg("run").arg("-o").arg(sandbox.recording());
    for place in places {
        command.args(["-p", place]);
    }
    // Samples cannot stand in for the ends of a latency.
    command.args(["--latency", "rounds..now", "--"]).arg(&placed);
    let ended = run(command);
    if ended.code() == Some(0) {
        return skip("the privilege to use uprobes cannot be given up here");
    }
    assert!(ended.code() == Some(90) && ended.stdout.is_empty(), "nothing of it has run: {ended:#?}");
    assert!(ended.stderr.contains("cannot count visits: the CPU has four breakpoints"), "{ended:#?}");
}

#[test]
fn the_stop_signal_is_the_users_choice() {
    let Some(stubborn) = program("stubborn.c") else { return };
    let sandbox = Sandbox::new();
    let options = ["--duration", "1s", "--stop-signal", "sigint"];
    let ended = run_with(&sandbox, &options, &stubborn, &[]);
    assert!(ended.stderr.contains("asking the program to end (SIGINT;"), "{ended:#?}");
    assert_eq!(sandbox.report()["sessions"][0]["exit_code"], 0);
    let wrong = run_with(&sandbox, &["--stop-signal", "KILL"], &stubborn, &[]).assert_code(2);
    assert!(wrong.stderr.contains("TERM, INT, QUIT"), "{wrong:#?}");
}

#[test]
fn what_was_typed_wrongly_has_the_status_of_usage_errors() {
    let Some(units) = program("units.c") else { return };
    for options in [
        &["-p", "units.c:0"][..],
        &["-p", "src/units.c"],
        &["-p", "nosuch"],
        &["--latency", "fn:serve"],
        &["--speedup", "0"],
        &["--precision", "x"],
        &["--duration", "5x"],
        &["--binary", "["],
    ] {
        let sandbox = Sandbox::new();
        let ended = run_with(&sandbox, options, &units, &["0.1"]).assert_code(2);
        assert!(ended.stdout.is_empty() && !sandbox.recording().exists(), "{options:?}: {ended:#?}");
    }
}
