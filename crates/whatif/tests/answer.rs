//! The answer itself, from end to end, and what can be done with a recording afterwards. What is measured is in
//! `bench accept --only answers::`.

use crate::support::{Sandbox, program, run};
use crate::synthetic::{Truth, record, rows};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

/// Runs until it is asked to end, for much longer than a run may hang.
const WITHOUT_END: &str = "1000";

#[test]
fn a_seed_and_regions_are_recorded() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let options = "--windows 4 --region hot --speedup 25,75 --seed 12345 --period 500";
    let options: Vec<&str> = options.split(' ').collect();
    for _ in 0..2 {
        let ended = sandbox.profile(&options, &exits, &["0", WITHOUT_END]).assert_success();
        assert_eq!(ended.stdout, "begin 0\n", "it is asked to end");
    }
    let report = sandbox.report();
    let sessions = report["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "two runs into one file: {report:#}");
    for session in sessions {
        assert_eq!(session["seed"], "12345");
        assert_eq!(session["sample_period_ns"], 500_000);
        assert_eq!(session["arguments"], serde_json::json!(["0", WITHOUT_END]));
        assert_eq!(session["exit_signal"], 15);
        assert_eq!(session["finished"], true);
    }
    let rows = sandbox.rows();
    for session in &rows.sessions {
        let windows: Vec<_> = rows.windows.iter().filter(|window| window.session == session.id).collect();
        assert!(windows.len() >= 4, "{windows:?}");
        for window in windows {
            let region = &rows.regions[&window.region];
            assert!(region.name == "hot" && region.line > Some(1), "{region:?}");
            assert!(region.file.as_ref().is_some_and(|file| file.ends_with("common.h")), "{region:?}");
            let snippet = &rows.snippets[&window.region];
            assert!(snippet.text.contains("88172645463325252"), "{snippet:?}");
            assert!([0.0, 0.25, 0.75].contains(&window.speedup.fraction()), "{window:?}");
        }
        assert!(session.samples.count > 0, "there are windows of a region only where it was sampled");
    }
    assert!(rows.points.values().any(|point| point.name == "work"), "{:?}", rows.points);
}

#[test]
fn a_duration_ends_the_program_or_lets_it_go_on() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let options = ["--duration", "1", "--region", "hot", "--speedup", "50"];
    let ended = sandbox.profile(&options, &exits, &["3", WITHOUT_END]).assert_success();
    assert!(!ended.stdout.contains("end"), "{ended:#?}");
    let sandbox = Sandbox::new();
    let options = ["--duration", "0.2", "--then", "continue"];
    let ended = sandbox.profile(&options, &exits, &["3", "0.5"]).assert_code(3);
    assert_eq!(ended.stdout, "begin 3\nend\n");
}

#[test]
fn a_program_without_experiments_is_run_three_times() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let options = ["--until-sure", "--precision", "0.001%", "--duration", "60"];
    let ended = sandbox.profile(&options, &exits, &["0", "0.05"]).assert_success();
    let sessions = sandbox.rows().sessions;
    assert!(sessions.len() >= 3, "{ended:#?}");
    assert_eq!(ended.stdout.matches("begin 0\n").count(), sessions.len(), "{ended:#?}");
    let repeats = sessions.iter().map(|session| session.start.repeat);
    assert!((0..).zip(repeats).all(|(nth, repeat)| nth == repeat), "{sessions:#?}");
}

#[test]
fn a_program_is_repeated_as_often_as_asked_and_not_after_a_failure() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(&["--repeat", "3"], &exits, &["0", "0.1"]).assert_success();
    assert_eq!(ended.stdout, "begin 0\nend\n".repeat(3));
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(&["--repeat", "3"], &exits, &["3", "0.1"]).assert_code(3);
    assert_eq!(ended.stdout, "begin 3\nend\n");
}

#[test]
fn a_program_that_was_asked_to_end_is_not_run_again() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.profiling(&["--repeat", "2"], &exits, &["0", "0.6"]);
    // There is no such file, so each run goes on until it is asked to end.
    command.arg(sandbox.path("nothing"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("begin 0"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    assert_eq!(said.collect::<Vec<_>>(), [""; 0]);
    assert_eq!(sandbox.rows().sessions.len(), 1);
}

#[test]
fn neither_delays_nor_samples_when_told_so() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    sandbox.profile(&["--start-only"], &exits, &["0", "0.3"]).assert_success();
    let report = sandbox.report();
    assert_eq!(report["sessions"][0]["samples"], 0, "{report:#}");
    let sandbox = Sandbox::new();
    sandbox.profile(&["--no-delays", "--windows", "4"], &exits, &["0", WITHOUT_END]).assert_success();
    let rows = sandbox.rows();
    assert!(rows.sessions[0].samples.count > 0 && rows.windows.len() >= 4, "{rows:#?}");
    assert!(rows.windows.iter().all(|window| window.speedup.is_zero()), "{}", sandbox.windows());
}

#[test]
fn a_recording_is_shown_and_exported() {
    let sandbox = Sandbox::new();
    for name in ["whatif-older-20000101-000000.db", "whatif-newer-20000101-000000.db"] {
        let mut rows = rows(&[Truth { name: "hash.c:88", slope: 0.5, noise: 0.02, blocks: 20 }]);
        rows.sessions[0].start.arguments = vec![name.to_owned()];
        record(&sandbox.path(name), &rows);
    }
    // The newest is the one that was written last.
    let old = std::fs::File::options().append(true).open(sandbox.path("whatif-older-20000101-000000.db"));
    old.unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let whatif = |arguments: &[&str]| {
        let mut command = sandbox.whatif();
        command.args(arguments);
        run(command).assert_code(0)
    };
    // Without a file: the newest.
    let report: serde_json::Value = serde_json::from_str(&whatif(&["report", "--json"]).stdout).unwrap();
    assert_eq!(report["sessions"][0]["arguments"][0], "whatif-newer-20000101-000000.db");
    let shown = whatif(&["report"]);
    assert!(shown.stdout.contains("hash.c:88") && shown.stderr.is_empty(), "{shown:#?}");
    assert!(!shown.stdout.contains('\x1b'), "no colours where no terminal is: {shown:#?}");
    assert!(whatif(&["report", "--top", "1"]).stdout.contains("hash.c:88"));

    let json = whatif(&["export", "--format", "json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json.stdout).unwrap(), report);
    let coz = whatif(&["export", "--format", "coz"]).stdout;
    assert!(coz.starts_with("startup\ttime="), "{coz}");
    assert!(
        coz.contains("\nexperiment\tselected=") && coz.contains("throughput-point\tname=requests"),
        "{coz}"
    );
    let lines = whatif(&["export", "--format", "coz-jsonl"]).stdout;
    assert!(lines.lines().count() > 2, "{lines}");
    for line in lines.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    whatif(&["export", "--format", "coz", "-o", "exported.coz"]);
    assert_eq!(std::fs::read_to_string(sandbox.path("exported.coz")).unwrap().trim_end(), coz.trim_end());

    // A reader that has seen enough is not told of an error.
    for arguments in [&["report"][..], &["export", "--format", "json"], &["report", "--json"]] {
        let mut command = sandbox.whatif();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    }
}

#[test]
fn programs_end_as_without_us_whatever_their_handlers_do_while_threads_pause() {
    let Some(handlers) = program("handlers.c") else { return };
    for mode in ["write", "jump", "getchar"] {
        let sandbox = Sandbox::new();
        let options = ["--region", "A", "--speedup", "75", "--seed", "1"];
        sandbox.profile(&options, &handlers, &[mode, "1"]).assert_code(3);
        let session = &sandbox.rows().sessions[0];
        assert_eq!(session.end.map(|end| end.exit), Some(profile::Exit::Code(3)));
    }
}
