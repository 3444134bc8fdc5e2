//! Nothing is silent: every run without an answer has a status and a message of its own, and says what to do.

mod support;

use std::path::Path;
use support::{Ended, Sandbox, program, program_as, run};

#[track_caller]
fn assert_says(ended: Ended, status: i32, parts: &[&str]) {
    let ended = ended.assert_code(status);
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} is missing in {ended:#?}");
    }
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("whatif: ")).collect();
    assert_eq!(lines.len(), 1, "one message: {ended:#?}");
}

#[test]
fn every_failure_has_its_status_and_its_advice() {
    let Some(failing) = program("failing.c") else { return };
    for (options, argument, status, code, parts) in [
        (&[][..], "sleeps", 95, "no-samples", &["too little CPU time", "work to do"][..]),
        (&["--scope", "nosuch*"], "works", 96, "nothing-in-scope", &["none of", "--scope GLOB"]),
        (&["--region", "nosuch"], "works", 97, "region-never-ran", &["nosuch never ran"]),
        (&["--region", "hit"], "works", 97, "region-never-ran", &["similar", "hot"]),
        (&["--region", "main.c:77"], "works", 97, "region-never-ran", &["main.c:77 never ran"]),
        (&[], "points_nothing_out", 98, "no-progress-point", &["no progress point", "WHATIF_PROGRESS"]),
        (&[], "visits_once", 99, "point-never-reached", &["start-up", "profile a run that reaches"]),
        (&[], "brief", 100, "too-short", &["before an experiment was complete", "whatif run -o"]),
    ] {
        let sandbox = Sandbox::new();
        assert_says(sandbox.profile(options, &failing, &[argument]), status, parts);
        // Also for those who look at the recording later.
        let warnings = sandbox.report()["warnings"].clone();
        assert!(warnings.as_array().unwrap().iter().any(|w| w["code"] == code), "{code} in {warnings:#}");
        let mut report = sandbox.whatif();
        report.arg("report").arg(sandbox.recording());
        run(report).assert_code(0);
    }
}

#[test]
fn the_programs_own_failure_comes_first() {
    let Some(exits) = program("exits.c") else { return };
    Sandbox::new().profile(&["--scope", "nosuch*"], &exits, &["42"]).assert_code(42);
}

#[test]
fn without_debug_information_there_are_functions() {
    for (name, flags, region, names) in [
        ("failing-plain", &["-g0"][..], "hot", "the names of its symbol table"),
        ("failing-stripped", &["-g0", "-s"], "failing-stripped+0x", "their addresses"),
    ] {
        let Some(program) = program_as("failing.c", name, flags) else { return };
        let sandbox = Sandbox::new();
        let mut command = sandbox.whatif();
        command.args(["run", "--list-regions", "--duration", "1", "--"]).arg(&program).arg("works");
        let listed = run(command).assert_code(0).stderr;
        let first = listed.lines().find(|line| line.contains(" %  ")).unwrap_or_default();
        assert!(first.contains(region), "{listed}");
        // Experiments work as well, and the recording says what is missing.
        sandbox.profile(&["--speedup", "50", "--duration", "3"], &program, &["works"]).assert_code(0);
        let report = sandbox.report();
        assert!(report["regions"][0]["name"].as_str().unwrap().starts_with(region), "{report:#}");
        let warnings = report["warnings"].as_array().unwrap().clone();
        let said = warnings.iter().find(|warning| warning["code"] == "functions-only");
        let said = said.unwrap_or_else(|| panic!("{warnings:#?}"));
        assert!(said["message"].as_str().unwrap().ends_with(names), "{said:#}");
    }
}

#[test]
fn without_any_function() {
    let flags = ["-g0", "-s", "-fno-asynchronous-unwind-tables", "-Wl,--no-eh-frame-hdr"];
    let Some(stripped) = program_as("failing.c", "failing-without-anything", &flags) else { return };
    let sandbox = Sandbox::new();
    // Whoever names source files needs debug information.
    let ended = sandbox.profile(&["--scope", "*.c"], &stripped, &["works"]);
    assert_says(ended, 91, &["no debug information", "compile it with -g"]);
    assert!(!sandbox.recording().exists());
}

#[test]
fn bad_options() {
    let Some(failing) = program("failing.c") else { return };
    for (options, parts) in [
        (&["--speedup", "0"][..], &["--speedup 0", "baselines", "--speedup 25,50,100"][..]),
        (&["--speedup", "101"], &["--speedup 101", "--speedup 25,50,100"]),
        (&["--speedup", "x"], &["--speedup x", "--speedup 25,50,100"]),
        (&["--speedup", "50,,10"], &["--speedup", "--speedup 25,50,100"]),
        (&["--duration", "0"], &["--duration 0", "seconds above zero"]),
        (&["--duration", "-1"], &["--duration"]),
        (&["--duration", "NaN"], &["--duration"]),
        (&["--duration", "1e300"], &["--duration"]),
        (&["--scope", "["], &["["]),
        (&["--exclude", "{a"], &["{a"]),
        (&["--binary", "["], &["--binary [", "'*libfoo*'"]),
        (&["--region", " "], &["--region is empty", "FILE:LINE"]),
        (&["--period", "5"], &["--period"]),
        (&["--seed", "x"], &["--seed"]),
        (&["--no-delays", "--speedup", "50"], &["--no-delays"]),
    ] {
        let sandbox = Sandbox::new();
        let ended = sandbox.profile(options, &failing, &["works"]);
        assert!(matches!(ended.code(), Some(2 | 90)), "{ended:#?}");
        for part in parts {
            assert!(ended.stderr.contains(part), "{part:?} is missing in {ended:#?}");
        }
        assert!(!ended.stderr.contains("panicked"), "{ended:#?}");
        assert_eq!(ended.stdout, "");
        assert!(!sandbox.recording().exists(), "{ended:#?}");
    }
}

#[test]
fn a_recording_that_cannot_be_written() {
    let Some(failing) = program("failing.c") else { return };
    let sandbox = Sandbox::new();
    let to = |output: &Path| {
        let mut command = sandbox.whatif();
        command.args(["run", "-q", "-o"]).arg(output).arg("--").arg(&failing).arg("works");
        let ended = run(command).assert_code(90);
        assert!(ended.stderr.starts_with("whatif: ") && ended.stderr.lines().count() > 1, "{ended:#?}");
        assert!(!ended.stderr.contains("bug"), "{ended:#?}");
        ended
    };
    to(Path::new("/no/such/folder/recording.db"));
    to(Path::new("/proc/recording.db"));
    to(sandbox.folder());
    // What is something else is left alone, to the byte.
    for content in [&b"a letter to my aunt\n"[..], b"SQLite format 3\0 but no more", &[0; 5000]] {
        let path = sandbox.path("precious");
        std::fs::write(&path, content).unwrap();
        let ended = to(&path);
        assert!(ended.stderr.contains("precious"), "{ended:#?}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
        let beside = std::fs::read_dir(sandbox.folder()).unwrap().count();
        assert_eq!(beside, 1, "nothing was put beside it");
    }
}

#[test]
fn recordings_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    let report = |arguments: &[&str]| {
        let mut command = sandbox.whatif();
        command.arg("report").args(arguments);
        run(command).assert_code(90).stderr
    };
    assert!(report(&[]).contains("whatif run -- PROGRAM"));
    assert!(report(&["missing.db"]).contains("whatif run -o missing.db -- PROGRAM"));
    std::fs::write(sandbox.path("letter.db"), "Dear aunt").unwrap();
    assert!(report(&["letter.db"]).contains("not a whatif recording"));
    std::fs::write(sandbox.path("empty.db"), "").unwrap();
    assert!(report(&["empty.db"]).contains("is empty"));
}
