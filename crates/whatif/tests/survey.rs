//! What can be asked without an experiment: `whatif doctor`, `whatif points`, `--list-regions`; and regions that depend on
//! their callers.

use crate::support::{Ended, Sandbox, have, program, program_as, run, skip};
use std::ffi::OsStr;
use std::path::Path;

/// Runs `whatif` with these arguments, then a program and its own; nothing is left in its folder.
#[track_caller]
fn whatif(arguments: &[&str], program: &Path, of_program: &[&str]) -> Ended {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(arguments).arg(program).args(of_program);
    let ended = run(command);
    assert!(std::fs::read_dir(sandbox.folder()).unwrap().next().is_none(), "something is left behind");
    ended
}

/// What `--list-regions` says of a program that ends when its work is done, and so was sampled for as long as that takes.
#[track_caller]
fn listed(options: &[&str], program: &Path, of_program: &[&str]) -> String {
    let arguments = [&["run", "--list-regions", "--duration", "90"], options, &["--"]].concat();
    let ended = whatif(&arguments, program, of_program);
    assert!([Some(0), Some(7)].contains(&ended.code()), "{ended:#?}");
    ended.stderr
}

/// Whether a region is listed that begins with `label`, with samples of its own.
fn has(listed: &str, label: &str) -> bool {
    listed.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, "%", samples, of, ..] if of == label && samples != "0")
    })
}

/// Serves of each worker, rounds and calls that take half a second of CPU time or more, which is hundreds of samples.
const SERVES: &[&str] = &["0", "400"];
const ROUNDS: &[&str] = &["150"];
const FILLS: &[&str] = &["2000"];
const TICKS: &[&str] = &["250"];

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
    let functions = listed(&[], &units, SERVES);
    assert!(has(&functions, "parse"), "{functions}");
    let lines = listed(&["--granularity", "line"], &units, SERVES);
    assert!(has(&lines, "units.c:12"), "{lines}");
}

#[test]
fn programs_that_end_too_soon_get_no_suggestions() {
    let Some(units) = program("units.c") else { return };
    let ended = whatif(&["points", "--duration", "30"], &units, &["0.5"]).assert_code(7);
    assert!(ended.stderr.contains("no suggestions; the program ended"), "{ended:#?}");
}

#[test]
fn regions_are_chosen_as_asked() {
    let Some(callers) = program("callers.c") else { return };
    let by = |granularity: &str| listed(&["--granularity", granularity], &callers, ROUNDS);
    let paths = by("path");
    assert!(paths.contains("helper@A") && paths.contains("helper@B"), "{paths}");
    let modules = by("module");
    assert!(has(&modules, "callers.c") && !modules.contains("helper"), "{modules}");
    assert!(by("function").contains("helper callers.c:"));
}

#[test]
fn callers_are_found_without_frame_pointers() {
    let without = ["-fomit-frame-pointer", "-momit-leaf-frame-pointer"];
    // And with nothing but them.
    let only = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    for (name, flags) in [("callers-tables", &without), ("callers-pointers", &only)] {
        let Some(callers) = program_as("callers.c", name, flags) else { return };
        let listed = listed(&["--region", "A", "--region", "B", "--region", "helper@B"], &callers, ROUNDS);
        // The helper does all the work of both.
        assert!(["A+", "B+", "helper@B+"].iter().all(|region| has(&listed, region)), "{name}: {listed}");
    }
}

#[test]
fn time_in_a_library_belongs_to_its_caller() {
    let without = ["-fomit-frame-pointer"];
    let Some(fills) = program_as("fills.c", "fills-without", &without) else { return };
    let listed_of_fills = listed(&[], &fills, FILLS);
    assert!(has(&listed_of_fills, "fill"), "{listed_of_fills}");
    // The kernel's library, which is no file.
    for (name, flag) in [("clock", "-fno-omit-frame-pointer"), ("clock-without", "-fomit-frame-pointer")] {
        let Some(clock) = program_as("clock.c", name, &[flag]) else { return };
        let listed = listed(&[], &clock, TICKS);
        assert!(has(&listed, "tick"), "{name}: {listed}");
    }
}

#[test]
fn servers_are_asked_for_debug_information_if_the_user_names_some() {
    let Some(units) = program("units.c") else { return };
    if !have("objcopy") {
        return skip("without objcopy nothing can be stripped here");
    }
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
        let text = sandbox.path("client");
        std::fs::write(&text, script).unwrap();
        // By another process: a file that this one has open for writing cannot be executed.
        let mut install = sandbox.command("install");
        install.args(["-m", "755"]).args([&text, &client]);
        run(install).assert_code(0);
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut command = sandbox.whatif();
        command.env("DEBUGINFOD_URLS", "http://127.0.0.1:1").env("PATH", path);
        command.args(["run", "--list-regions", "--duration", "90", "--"]).arg(&stripped).args(SERVES);
        let ended = run(command).assert_code(7);
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
