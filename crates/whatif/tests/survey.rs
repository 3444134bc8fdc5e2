//! What can be asked without an experiment: `whatif doctor`, `whatif points`, `--list-regions`; and regions that depend on
//! their callers.

use crate::support::{
    Ended, Sandbox, alone, have, program, program_as, region, run, skip, target, target_as,
};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Runs `whatif` with these arguments, then a program and its own; nothing is left in its folder.
#[track_caller]
fn whatif(arguments: &[&str], program: &Path, of_program: &[&str]) -> Ended {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(arguments).arg(program).args(of_program);
    let ended = run(command);
    assert!(std::fs::read_dir(sandbox.folder()).unwrap().next().is_none(), "something is left behind");
    ended
}

/// What `--list-regions` says, for so many seconds at most.
#[track_caller]
fn listed(seconds: &str, options: &[&str], program: &Path, of_program: &[&str]) -> String {
    let arguments = [&["run", "--list-regions", "--duration", seconds], options, &["--"]].concat();
    let ended = whatif(&arguments, program, of_program);
    assert!([Some(0), Some(7)].contains(&ended.code()), "{ended:#?}");
    ended.stderr
}

/// The share of the time, in per cent, in the line that begins with `label`.
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
fn the_doctor_says_what_there_is_and_what_it_means() {
    let Some(units) = program("units.c") else { return };
    let ended = whatif(&["doctor", "--json"], &units, &["--whatever", "it", "takes"]).assert_code(0);
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

    // What was asked about comes first.
    let text = whatif(&["doctor"], &units, &[]).assert_code(0).stdout;
    let (of_program, machine) = (text.find("debug information").unwrap(), text.find("This machine").unwrap());
    assert!(of_program < machine, "{text}");

    let ended = whatif(&["doctor"], Path::new("/no/such/program"), &[]).assert_code(1);
    assert!(ended.stdout.contains("problem") && ended.stdout.contains("was not found"), "{ended:#?}");
    let Some(marked) = program("exits.c") else { return };
    assert!(whatif(&["doctor"], &marked, &[]).assert_code(0).stdout.contains("marked in the source"));
}

#[test]
fn regions_are_listed_with_what_they_take() {
    let Some(units) = program("units.c") else { return };
    // It would run for much longer.
    assert!(share(&listed("1", &[], &units, &[]), "parse") > 50.0);
    // A program that ends first is no failure.
    let lines = listed("60", &["--granularity", "line"], &units, &["0.7"]);
    assert!(lines.contains("units.c:12"), "{lines}");
}

#[test]
fn what_is_called_steadily_is_suggested() {
    let Some(units) = program("units.c") else { return };
    let ended = whatif(&["points", "--duration", "1"], &units, &[]).assert_code(0);
    if ended.stderr.contains("no suggestions") {
        return skip("visits cannot be counted here");
    }
    let suggested: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("-p ")).collect();
    assert!(suggested.iter().any(|line| line.contains("-p fn:serve")), "{ended:#?}");
    // Both take all of the time; one of them twice as often.
    let try_this = ended.stderr.lines().find(|line| line.starts_with("Try: ")).unwrap();
    assert!(["fn:serve", "fn:parse", "units.c:"].iter().any(|place| try_this.contains(place)), "{try_this}");
    assert!(!ended.stderr.contains("-p fn:worker"), "it is called once: {ended:#?}");

    let ended = whatif(&["points", "--duration", "30"], &units, &["0.5"]).assert_code(7);
    assert!(ended.stderr.contains("no suggestions; the program ended"), "{ended:#?}");
}

#[test]
fn regions_are_chosen_as_asked() {
    let Some(call_path) = target("call_path") else { return };
    let by = |granularity: &str| listed("1", &["--granularity", granularity], &call_path, &["seconds=60"]);
    let paths = by("path");
    assert!(paths.contains("helper@A") && paths.contains("helper@B"), "{paths}");
    let modules = by("module");
    assert!(modules.contains("call_path.c") && !modules.contains("helper"), "{modules}");
    assert!(by("function").contains("helper call_path.c:"));
}

/// What a region gains at 100 %.
#[track_caller]
fn gain(name: &str, options: &[&str], program: &Path) -> f64 {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let options = [&["--speedup", "100", "--seed", "1"], options].concat();
    sandbox.profile(&options, program, &[]);
    let report = sandbox.report();
    let dots = region(&report, name)["points"][0]["speedups"].as_array().unwrap().clone();
    let dot = dots.iter().find(|dot| dot["speedup"] == 1.0).unwrap_or_else(|| panic!("{report:#}")).clone();
    dot["gain"].as_f64().unwrap()
}

#[test]
fn a_helper_matters_as_its_callers_do() {
    let Some(callers) = program("callers.c") else { return };
    // Four fifths of the round, and one; less of it where others use the machine, but of both.
    let of = |name| gain(name, &["--region", name, "--duration", "4"], &callers);
    let (of_a, of_b) = (of("helper@A"), of("helper@B"));
    assert!((0.3..=0.95).contains(&of_a) && of_a > 2.0 * of_b, "{of_a} {of_b}");
    let of_a = gain("helper@A", &["--granularity", "path", "--duration", "6"], &callers);
    assert!((0.3..=0.95).contains(&of_a), "{of_a}");
}

#[test]
fn callers_are_found_without_frame_pointers() {
    let without = ["-fomit-frame-pointer", "-momit-leaf-frame-pointer"];
    // And with nothing but them.
    let only = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    for (name, flags) in [("call-path-without", &without), ("call-path-only", &only)] {
        let Some(call_path) = target_as("call_path", name, flags) else { return };
        let regions = ["--region", "A", "--region", "B", "--region", "helper@B"];
        let listed = listed("2", &regions, &call_path, &["seconds=60"]);
        // Both call the helper, which does all the work: 6 ms and 4 ms of it.
        let (of_a, of_b) = (share(&listed, "A+"), share(&listed, "B+"));
        assert!((45.0..=75.0).contains(&of_a) && (25.0..=55.0).contains(&of_b), "{name}: {listed}");
        assert!((share(&listed, "helper@B+") - of_b).abs() < 8.0, "{name}: {listed}");
    }
}

#[test]
fn time_in_a_library_belongs_to_its_caller() {
    let Some(fills) = program_as("fills.c", "fills-without", &["-fomit-frame-pointer"]) else { return };
    assert!(share(&listed("1", &[], &fills, &[]), "fill") > 85.0);
    // The kernel's library, which is no file.
    for (name, flag) in [("clock", "-fno-omit-frame-pointer"), ("clock-without", "-fomit-frame-pointer")] {
        let Some(clock) = program_as("clock.c", name, &[flag]) else { return };
        assert!(share(&listed("1", &[], &clock, &[]), "tick") > 85.0, "{name}");
    }
}

#[test]
fn code_that_is_made_at_run_time_has_names() {
    let Some(jit) = program("jit.c") else { return };
    assert!(share(&listed("60", &[], &jit, &[]), "js:hot") > 85.0);
}

#[test]
fn servers_are_asked_for_debug_information_if_the_user_names_some() {
    let Some(units) = program("units.c") else { return };
    if !have("objcopy") {
        return skip("without objcopy nothing can be stripped here");
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let objcopy = |arguments: &[&OsStr]| {
        let mut command = sandbox.command("objcopy");
        command.args(arguments);
        run(command).assert_code(0);
    };
    let (debug, stripped) = (sandbox.path("debug"), sandbox.path("units"));
    objcopy(&["--only-keep-debug".as_ref(), units.as_ref(), debug.as_ref()]);
    objcopy(&["--strip-all".as_ref(), units.as_ref(), stripped.as_ref()]);
    // Stands for the client, which would ask the servers: `knows` says whether they have it.
    let listed = |knows: bool| {
        let (folder, asked) = (sandbox.path("bin"), sandbox.path("asked"));
        std::fs::create_dir_all(&folder).unwrap();
        let answer = if knows { format!("echo {}", debug.display()) } else { "exit 1".to_owned() };
        let script = format!("#!/bin/sh\necho \"$@\" >> {}\n{answer}\n", asked.display());
        let client = folder.join("debuginfod-find");
        std::fs::write(&client, script).unwrap();
        std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut command = sandbox.whatif();
        command.env("DEBUGINFOD_URLS", "http://127.0.0.1:1").env("PATH", path);
        command.args(["run", "--list-regions", "--duration", "1", "--"]).arg(&stripped);
        let ended = run(command).assert_code(0);
        let asked = std::fs::read_to_string(&asked).unwrap();
        assert!(asked.lines().all(|line| line.starts_with("debuginfo ")), "{asked}");
        (ended.stderr, asked.lines().count())
    };
    let (without, asked) = listed(false);
    assert!(without.contains("the servers in DEBUGINFOD_URLS have none for"), "{without}");
    assert!(!without.contains("units.c:"), "{without}");
    assert_eq!(asked, 1, "only for the program, and once: {without}");
    let (with, _) = listed(true);
    assert!(with.contains("units.c:") && !with.contains("have none"), "{with}");
}
