//! What can be asked without an experiment: `whatif doctor`, `whatif points`, `--list-regions`.

mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{Sandbox, program, program_as, region, run, target, target_as};

/// Only one program at a time here: what the others take of the machine is measured.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_doctor_says_what_there_is_and_what_it_means() {
    let Some(units) = program("units.c") else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["doctor", "--json"]).arg(&units).args(["--whatever", "it", "takes"]);
    let ended = run(command).assert_code(0);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let findings = |part: &str| json[part].as_array().unwrap().clone();
    let about = |part: &str, topic: &str| {
        let found = findings(part).into_iter().find(|finding| finding["topic"] == topic);
        found.unwrap_or_else(|| panic!("nothing about {topic}: {json:#}"))
    };
    for topic in
        ["kernel", "samples", "breakpoints", "uprobes", "open files", "CPUs", "other programs", "runtime"]
    {
        about("machine", topic);
    }
    assert_eq!(about("program", "debug information")["state"], "ok");
    assert_eq!(about("program", "callers")["state"], "ok");
    let points = about("program", "progress points");
    assert_eq!(points["state"], "note");
    assert!(points["advice"].as_str().unwrap().contains("whatif points"), "{points:#}");
    for finding in findings("machine").iter().chain(&findings("program")) {
        assert_eq!(finding["state"] != "ok", finding["means"].is_string(), "{finding:#}");
    }

    let mut command = sandbox.whatif();
    command.args(["doctor", "/no/such/program"]);
    let ended = run(command).assert_code(1);
    assert!(ended.stdout.contains("problem") && ended.stdout.contains("was not found"), "{ended:#?}");
}

#[test]
fn marked_programs_are_known() {
    let Some(exits) = program("exits.c") else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.arg("doctor").arg(&exits);
    assert!(run(command).assert_code(0).stdout.contains("marked in the source"));
}

#[test]
fn regions_are_listed_with_what_they_take() {
    let Some(units) = program("units.c") else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--list-regions", "--duration", "1", "--"]).arg(&units);
    let ended = run(command).assert_code(0);
    let first = ended.stderr.lines().find(|line| line.contains(" %  ")).unwrap_or_default().to_owned();
    assert!(first.contains("parse units.c:"), "{ended:#?}");
    let share: f64 = first.split_whitespace().next().unwrap().parse().unwrap();
    assert!(share > 50.0, "{ended:#?}");
    assert!(std::fs::read_dir(sandbox.folder()).unwrap().next().is_none(), "no recording is left");

    // Without an end of its own it ends by itself, and a program that ends first is no failure.
    let mut command = sandbox.whatif();
    command
        .args(["run", "--list-regions", "--granularity", "line", "--duration", "60", "--"])
        .arg(&units)
        .arg("0.7");
    let ended = run(command).assert_code(7);
    assert!(ended.stderr.contains("units.c:12"), "{ended:#?}");
}

#[test]
fn what_is_called_steadily_is_suggested() {
    let Some(units) = program("units.c") else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["points", "--duration", "1"]).arg(&units);
    let ended = run(command).assert_code(0);
    if ended.stderr.contains("no suggestions") {
        return support::skip("visits cannot be counted here");
    }
    let suggested: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("-p ")).collect();
    assert!(suggested.iter().any(|line| line.contains("-p fn:serve")), "{ended:#?}");
    // Both take all of the time; one of them twice as often.
    let try_this = ended.stderr.lines().find(|line| line.starts_with("Try: ")).unwrap();
    assert!(
        try_this.contains("fn:serve") || try_this.contains("fn:parse") || try_this.contains("units.c:"),
        "{try_this}"
    );
    assert!(!ended.stderr.contains("-p fn:worker"), "it is called once: {ended:#?}");
}

#[test]
fn a_program_that_ends_at_once_has_no_suggestions() {
    let Some(units) = program("units.c") else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["points", "--duration", "30"]).arg(&units).arg("0.5");
    let ended = run(command).assert_code(7);
    assert!(ended.stderr.contains("no suggestions; the program ended"), "{ended:#?}");
}

#[test]
fn a_helper_matters_as_its_callers_do() {
    let Some(call_path) = target("call_path") else { return };
    let _alone = alone();
    let gain = |path: &str| {
        let sandbox = Sandbox::new();
        let options = ["--region", path, "--speedup", "100", "--seed", "1", "--duration", "6"];
        sandbox.profile(&options, &call_path, &["seconds=60"]).assert_code(0);
        let report = sandbox.report();
        let dots = region(&report, path)["points"][0]["speedups"].as_array().unwrap().clone();
        let dot =
            dots.iter().find(|dot| dot["speedup"] == 1.0).unwrap_or_else(|| panic!("{report:#}")).clone();
        dot["gain"].as_f64().unwrap()
    };
    // A works 6 ms and B 4 ms until both meet: without the helper A would be ready at once, B would not matter.
    let (of_a, of_b) = (gain("helper@A"), gain("helper@B"));
    assert!((0.2..=0.45).contains(&of_a), "{of_a}");
    assert!(of_b.abs() <= 0.15, "{of_b}");
}

#[test]
fn regions_are_chosen_as_asked() {
    let Some(call_path) = target("call_path") else { return };
    let _alone = alone();
    let listed = |granularity: &str| {
        let sandbox = Sandbox::new();
        let mut command = sandbox.whatif();
        command.args(["run", "--list-regions", "--duration", "1", "--granularity", granularity, "--"]);
        command.arg(&call_path).arg("seconds=60");
        run(command).assert_code(0).stderr
    };
    let paths = listed("path");
    assert!(paths.contains("helper@A") && paths.contains("helper@B"), "{paths}");
    let modules = listed("module");
    assert!(modules.contains("call_path.c") && !modules.contains("helper"), "{modules}");
    assert!(listed("function").contains("helper call_path.c:"));
}

/// The share of the time, in per cent, in the line of `--list-regions` that begins with `label`.
#[track_caller]
fn share(listed: &str, label: &str) -> f64 {
    let line = listed.lines().find(|line| {
        let mut words = line.split_whitespace();
        words.nth(1) == Some("%") && words.nth(1) == Some(label)
    });
    let line = line.unwrap_or_else(|| panic!("{label} is not in {listed}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn callers_are_found_without_frame_pointers() {
    let without = ["-fomit-frame-pointer", "-momit-leaf-frame-pointer"];
    let Some(call_path) = target_as("call_path", "call-path-without", &without) else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args([
        "run",
        "--list-regions",
        "--duration",
        "2",
        "--region",
        "A",
        "--region",
        "B",
        "--region",
        "helper@B",
        "--",
    ]);
    let listed = run({
        command.arg(&call_path).arg("seconds=60");
        command
    })
    .assert_code(0)
    .stderr;
    // Both call the helper, which does all the work: 6 ms and 4 ms of it.
    let (of_a, of_b) = (share(&listed, "A+"), share(&listed, "B+"));
    assert!((45.0..=75.0).contains(&of_a) && (25.0..=55.0).contains(&of_b), "{listed}");
    assert!((share(&listed, "helper@B+") - of_b).abs() < 8.0, "{listed}");
}

#[test]
fn time_in_a_library_belongs_to_its_caller() {
    let Some(fills) = program_as("fills.c", "fills-without", &["-fomit-frame-pointer"]) else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--list-regions", "--duration", "1", "--"]).arg(&fills);
    let listed = run(command).assert_code(0).stderr;
    assert!(share(&listed, "fill") > 85.0, "{listed}");
}

#[test]
fn code_that_is_made_at_run_time_has_names() {
    let Some(jit) = program("jit.c") else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--list-regions", "--duration", "60", "--"]).arg(&jit);
    let listed = run(command).assert_code(0).stderr;
    assert!(share(&listed, "js:hot") > 85.0, "{listed}");
}
