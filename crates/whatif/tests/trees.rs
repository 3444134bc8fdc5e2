//! Programs that execute others: all of them are one experiment.

use crate::support::{
    Sandbox, can_count, have, program, program_as, region, run, samples_of, skip, static_program, visits_of,
    whatif,
};
use kernel::visits::Means;
use profile::{Nanos, Program, Rows, Window};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// More than any test waits for: what executes and works so often ends when the test has seen enough.
const MANY: u32 = 100_000;

/// A program that executes another one, and that one.
fn master_and_worker() -> Option<(PathBuf, PathBuf)> {
    Some((program("master.c")?, program("worker.c")?))
}

/// The words after `master`: the worker is executed so many times, for so many jobs each, and ends with 7.
fn words(worker: &Path, times: u32, jobs: u32) -> Vec<String> {
    vec![times.to_string(), worker.display().to_string(), jobs.to_string(), "7".to_owned()]
}

/// `whatif run` of the master and its words, with these options, not quiet.
fn profiling(sandbox: &Sandbox, options: &[&str], master: &Path, words: &[String]) -> Command {
    let mut command = sandbox.whatif();
    command.args(["run", "-o"]).arg(sandbox.recording()).args(options).arg("--").arg(master).args(words);
    command
}

/// What is known so far of a program.
fn known<'a>(rows: &'a Rows, name: &str) -> Option<&'a Program> {
    rows.sessions.iter().flat_map(|session| &session.programs).find(|program| program.name() == name)
}

#[test]
fn what_a_program_executes_is_profiled_with_it() {
    let Some((master, worker)) = master_and_worker() else { return };
    let sandbox = Sandbox::new();
    let command = profiling(&sandbox, &["--speedup", "50"], &master, &words(&worker, MANY, 60));
    let ended = sandbox.run_until(command, |rows| {
        // By each of the three ways, and again.
        known(rows, "worker").is_some_and(|worker| worker.processes > 4)
            && samples_of(rows, "job") > 0
            && samples_of(rows, "prepare") > 0
            && visits_of(rows, "done") > 0
            && rows.windows.iter().any(|window| rows.regions[&window.region].name == "job")
    });
    // All have ended as they would have. (The report is on standard output as well.)
    assert_eq!(ended.code(), Some(7), "{ended:#?}");
    let said = ended.stdout.lines().take_while(|line| !line.is_empty());
    let executed = said.take_while(|line| line.ends_with(": 700")).enumerate();
    let executed = executed.map(|(nth, line)| assert_eq!(line, format!("{}: 700", nth + 1))).count();
    assert!(executed >= 4, "{ended:#?}");
    let note = ended.stderr.lines().find(|line| line.contains("profiled with it")).unwrap_or_default();
    assert!(note.contains("worker (") && note.contains(" times)"), "{ended:#?}");
    let report = sandbox.report();
    let rows = sandbox.rows();
    for (name, program) in [("job", "worker"), ("prepare", "master")] {
        let region = rows.regions.values().find(|region| region.name == name).unwrap();
        assert!(region.image.path.ends_with(program), "{region:?}");
    }
    // Reports name the programs,
    assert_eq!(region(&report, "job")["program"], "worker", "{report:#}");
    let programs = report["programs"].as_array().unwrap();
    for name in ["worker", "master"] {
        assert!(programs.iter().any(|program| program["name"] == name), "{report:#}");
    }
    // and whose each stack is.
    let folded = exported(&sandbox, "folded");
    let of_function = |name: &str| -> Vec<&str> {
        folded.lines().filter(|line| line.contains(&format!(";{name};"))).collect()
    };
    let are_of = |lines: &[&str], program: &str| lines.iter().all(|line| line.starts_with(program));
    let (jobs, prepares) = (of_function("job"), of_function("prepare"));
    assert!(!jobs.is_empty() && are_of(&jobs, "worker;") && are_of(&prepares, "master;"), "{folded}");
}

/// The recording in another format.
fn exported(sandbox: &Sandbox, format: &str) -> String {
    let mut command = sandbox.whatif();
    command.args(["export", "--format", format]).arg(sandbox.recording());
    run(command).assert_code(0).stdout
}

#[test]
fn what_cannot_be_followed_is_named_with_its_time() {
    let Some((master, _)) = master_and_worker() else { return };
    let Some(worker) = static_program("worker.c", "static-worker") else { return };
    let sandbox = Sandbox::new();
    let command = profiling(&sandbox, &["--no-delays"], &master, &words(&worker, MANY, 200));
    // By `vfork`, by `posix_spawn`, and in its own place, until the kernel's tick has come in one of them.
    let ended = sandbox.run_until(command, |rows| {
        known(rows, "static-worker").is_some_and(|worker| worker.cpu > Nanos::ZERO)
            && known(rows, "master").is_some_and(|master| master.samples > 0)
    });
    assert_eq!(ended.code(), Some(7), "{ended:#?}");
    let note = ended.stderr.lines().find(|line| line.contains("could not be followed")).unwrap_or_default();
    assert!(note.contains("static-worker (it is statically linked"), "{ended:#?}");
    assert!(note.contains("at least") && note.contains("% of the CPU time"), "{ended:#?}");
    let report = sandbox.report();
    let programs = report["programs"].as_array().unwrap();
    let of = |name: &str| programs.iter().find(|program| program["name"] == name).unwrap();
    let worker = of("static-worker");
    assert!(worker["obstacle"].as_str().unwrap().contains("statically linked"), "{report:#}");
    assert!(worker["samples"] == 0 && of("master")["obstacle"].is_null(), "{report:#}");
}

#[test]
fn a_program_is_named_by_the_link_that_it_is_executed_by() {
    let Some((master, worker)) = master_and_worker() else { return };
    let sandbox = Sandbox::new();
    let link = sandbox.path("alias");
    std::os::unix::fs::symlink(&worker, &link).unwrap();
    let options = ["-q", "--no-delays", "--binary", "alias"];
    let command = profiling(&sandbox, &options, &master, &words(&link, MANY, 60));
    let ended = sandbox.run_until(command, |rows| samples_of(rows, "job") > 0);
    assert!(ended.code() == Some(7) && sandbox.samples("prepare") == 0, "{ended:#?}");
}

#[test]
fn source_files_may_be_those_of_one_program() {
    let Some((master, worker)) = master_and_worker() else { return };
    for (scope, has, lacks) in [("worker:*.c", "job", "prepare"), ("mast*:*.c", "prepare", "job")] {
        let sandbox = Sandbox::new();
        let options = ["-q", "--no-delays", "--scope", scope];
        let command = profiling(&sandbox, &options, &master, &words(&worker, MANY, 60));
        let ended = sandbox.run_until(command, |rows| samples_of(rows, has) > 0);
        assert!(ended.code() == Some(7) && sandbox.samples(lacks) == 0, "{scope}: {ended:#?}");
    }
}

#[test]
fn the_doctor_says_what_a_script_seems_to_execute() {
    let Some((_, worker)) = master_and_worker().filter(|_| have("sh")) else { return };
    let Some(fixed) = static_program("worker.c", "static-worker") else { return };
    let sandbox = Sandbox::new();
    let script = format!("{} 1 0 && exec {} 1 0", worker.display(), fixed.display());
    let mut command = sandbox.whatif();
    command.args(["doctor", "--", "sh", "-c", &script]);
    let ended = run(command);
    let line =
        |name: &str| ended.stdout.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(line("/worker").contains("ok      executes"), "{ended:#?}");
    let other = line("/static-worker");
    assert!(other.contains("warning executes") && other.contains("statically linked"), "{ended:#?}");
}

#[test]
fn without_following_only_the_first_program_is_profiled() {
    let Some((master, worker)) = master_and_worker() else { return };
    for options in [&["--no-follow"][..], &["--follow", "master*"]] {
        let sandbox = Sandbox::new();
        let options = [options, &["-q", "--no-delays"]].concat();
        let command = profiling(&sandbox, &options, &master, &words(&worker, MANY, 30));
        let ended = sandbox.run_until(command, |rows| samples_of(rows, "prepare") > 0);
        assert_eq!(ended.code(), Some(7), "{ended:#?}");
        assert!(!ended.stderr.contains("profiled with it"), "{ended:#?}");
        assert_eq!(sandbox.samples("job"), 0, "{ended:#?}");
    }
}

#[test]
fn visits_in_a_program_that_is_executed_are_counted() {
    if !can_count() {
        return;
    }
    let Some((master, worker)) = master_and_worker() else { return };
    let sandbox = Sandbox::new();
    let options = ["-q", "-p", "worker:fn:job", "--speedup", "50"];
    let command = profiling(&sandbox, &options, &master, &words(&worker, MANY, 60));
    let ended =
        sandbox.run_until(command, |rows| visits_of(rows, "done") > 0 && visits_of(rows, "worker:job") > 0);
    assert_eq!(ended.code(), Some(7), "{ended:#?}");
}

#[test]
fn a_place_is_chosen_in_a_program_that_is_executed() {
    if !can_count() {
        return;
    }
    // Only the worker has code that could be chosen.
    let Some(master) = program_as("master.c", "idle-executor", &["-DPREPARATION=0"]) else { return };
    let Some(worker) = program_as("worker.c", "unmarked-worker", &["-DUNMARKED"]) else { return };
    let sandbox = Sandbox::new();
    let command = profiling(&sandbox, &[], &master, &words(&worker, 2, MANY));
    let ended = sandbox.run_until(command, |rows| {
        rows.windows.iter().flat_map(|window| &window.visits).any(|visits| visits.count > 0)
    });
    assert_eq!(ended.code(), Some(7), "{ended:#?}");
    assert!(ended.stderr.contains("unmarked-worker:"), "{ended:#?}");
}

#[test]
fn a_shell_and_its_pipes_are_one_experiment() {
    let Some((_, worker)) = master_and_worker().filter(|_| have("sh")) else { return };
    let sandbox = Sandbox::new();
    let worker = worker.display();
    let pipe = format!("{worker} {MANY} 0 | {worker} {MANY} 0 | {worker} {MANY} 5");
    let mut command = sandbox.whatif();
    command.args(["run", "--speedup", "50", "-o"]).arg(sandbox.recording()).args(["--", "sh", "-c", &pipe]);
    let ended = sandbox.run_until(command, |rows| {
        visits_of(rows, "done") > 0 && known(rows, "worker").is_some_and(|worker| worker.processes == 3)
    });
    assert_eq!(ended.code(), Some(5), "{ended:#?}");
    assert!(ended.stderr.contains("worker (2 times)"), "{ended:#?}");
}

#[test]
fn the_tree_goes_on_when_the_controller_is_killed() {
    const TIMES: u32 = 20;
    let Some((master, worker)) = master_and_worker() else { return };
    let words = words(&worker, TIMES, 10);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let native = Sandbox::new().native(&master, &words).stdout;
    // As soon as the master has said so much: after a child by each of the three ways, and before the first one.
    for lines in [0, 1, 2, 3, 7, 18] {
        let sandbox = Sandbox::new();
        let mut command = sandbox.profiling(&["--speedup", "50"], &master, &words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        for _ in 0..lines {
            assert!(output.read_line(&mut said).unwrap() > 0, "it ended early: {said:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        output.read_to_string(&mut said).unwrap();
        // It may have been killed before it had started the program.
        assert!(said == native || lines == 0 && said.is_empty(), "{said:?} {native:?}");
    }
}

/// Runs `hands` until a window's audit is as it is to be.
#[track_caller]
fn audit_shows(kind: &str, shows: impl Fn(&profile::Audit) -> bool) {
    let Some(hands) = program("hands.c") else { return };
    let sandbox = Sandbox::new();
    let command = sandbox.profiling(&["--region", "hot", "--speedup", "50"], &hands, &[kind]);
    let is_shown = |window: &Window| window.audit.as_ref().is_some_and(&shows);
    sandbox.run_until(command, |rows| rows.windows.iter().any(is_shown)).assert_success();
}

#[test]
fn what_processes_hand_over_by_ends_a_wait_for_a_thread() {
    for kind in ["eventfd", "pidfd", "flock", "lockf", "fcntl"] {
        audit_shows(kind, |audit| audit.handovers > 0 && audit.in_waits > Nanos::ZERO);
    }
}

#[test]
fn a_program_that_waits_for_its_vforked_child_waits_for_something_known() {
    audit_shows("vfork", |audit| audit.in_world > Nanos::ZERO);
}

#[test]
fn what_the_c_library_executes_by_a_shell_is_followed() {
    let (Some(shells), Some(worker)) = (program("shells.c"), program("worker.c")) else { return };
    let sandbox = Sandbox::new();
    let job = format!("{} 60 7", worker.display());
    let command = sandbox.profiling(&["--region", "job", "--speedup", "50"], &shells, &[&job, "0"]);
    let profiled = sandbox.run_until(command, |rows| samples_of(rows, "job") > 0);
    crate::support::same(&sandbox.native(&shells, &[&job, "0"]), &profiled);
}

#[test]
fn the_environment_is_left_alone_where_another_thread_may_see_it() {
    let (Some(shells), Some(worker)) = (program("shells.c"), program("worker.c")) else { return };
    let command = format!("{} 6 7", worker.display());
    let sandbox = Sandbox::new();
    let native = sandbox.native(&shells, &[&command, "1"]);
    let profiled = sandbox.profile(&["--no-delays"], &shells, &[&command, "1"]);
    assert!(native.code() == Some(0) && profiled.stdout.starts_with(&native.stdout), "{profiled:#?}");
    assert_eq!(sandbox.samples("job"), 0, "it is not profiled");
}

#[test]
fn code_that_only_a_forked_child_has_is_known() {
    let Some(loads) = program("loads.c") else { return };
    let Some(plugin) = program_as("plugin.c", "plugin.so", &["-shared", "-fPIC"]) else { return };
    let sandbox = Sandbox::new();
    let options = ["--binary", "*plugin.so", "--speedup", "50"];
    let command = sandbox.profiling(&options, &loads, &[plugin.to_str().unwrap()]);
    sandbox.run_until(command, |rows| samples_of(rows, "serve") > 0).assert_success();
    let rows = profile::Recording::open(&sandbox.recording()).unwrap().rows().unwrap();
    let serve = rows.regions.values().find(|region| region.name == "serve").unwrap();
    assert!(serve.image.path.ends_with("plugin.so"), "{serve:?}");
}

#[test]
fn code_that_executed_programs_make_has_the_names_that_each_process_has_written() {
    let Some(makers) = program("makers.c") else { return };
    let sandbox = Sandbox::new();
    // Each function goes on until a sample of it was recorded.
    let mut missing = vec!["one", "two", "inherited", "heir", "parent"];
    let command = sandbox.profiling(&["--no-delays"], &makers, &[]);
    let profiled = sandbox.run_until(command, |rows| {
        missing.retain(|name| {
            let is_seen = samples_of(rows, &format!("js:{name}")) > 0;
            if is_seen {
                std::fs::write(sandbox.path(&format!("enough.{name}")), "").unwrap();
            }
            !is_seen
        });
        missing.is_empty()
    });
    crate::support::same(&sandbox.native(&makers, &[]), &profiled);
    for name in ["js:forged", "js:stale"] {
        assert_eq!(sandbox.samples(name), 0, "{name}");
    }
    let folded = exported(&sandbox, "folded");
    assert!(folded.lines().any(|line| line.contains("main;") && line.contains(";js:one")), "{folded}");
}

#[test]
fn code_that_executed_programs_make_is_sped_up_where_it_runs() {
    let Some(makers) = program("makers.c") else { return };
    let sandbox = Sandbox::new();
    for name in ["two", "inherited", "heir", "parent"] {
        std::fs::write(sandbox.path(&format!("enough.{name}")), "").unwrap();
    }
    let command = sandbox.profiling(&["--region", "js:one", "--speedup", "50"], &makers, &[]);
    let is_given = |window: &Window| window.audit.is_some_and(|audit| audit.given > Nanos::ZERO);
    let given = |rows: &Rows| {
        let is_seen = rows.windows.iter().any(is_given);
        if is_seen {
            std::fs::write(sandbox.path("enough.one"), "").unwrap();
        }
        is_seen
    };
    sandbox.run_until(command, given).assert_success();
}

/// Has the visits to the guarded probe of `guarded` counted, under the name that it has in `places`, which may be more.
#[track_caller]
fn count_guarded(mut command: Command, sandbox: &Sandbox, places: &[&str], words: &[&str]) {
    command.args(["run", "-q", "-o"]).arg(sandbox.recording()).args(["--region", "hot", "--speedup", "50"]);
    // What is left then goes on without being profiled.
    command.args(["--until-exit", "first"]);
    for place in places {
        command.args(["-p", place]);
    }
    command.arg("--").args(words);
    let probe = places.last().unwrap().replace("usdt:", "");
    let ended =
        sandbox.run_until(command, |rows| visits_of(rows, "marked") > 0 && visits_of(rows, &probe) > 0);
    // All processes have seen their semaphores go up, and the one that was left has seen it go down again.
    assert!(ended.stdout.contains("done\n") && ended.stdout.contains("counted down\n"), "{ended:#?}");
}

/// The words that run `guarded` as the first program, as one that the first one executes, and as the only one that has the probe; and the place of that.
fn ways_to_run<'a>(master: &'a Path, guarded: &'a Path) -> [(&'static str, Vec<&'a str>); 3] {
    let [master, guarded] = [master, guarded].map(|path| path.to_str().unwrap());
    [
        ("usdt:shop:sold", vec![guarded, "works"]),
        ("usdt:shop:sold", vec![guarded, "executes"]),
        ("guarded*:usdt:shop:sold", vec![master, "1", guarded, "works"]),
    ]
}

#[test]
fn guarded_probes_are_counted_in_whichever_program_they_are() {
    if !can_count() {
        return;
    }
    // A file of its own: uprobes count what other tests run as well.
    let guarded = program_as("guarded.c", "guarded-by-any-means", &[]);
    let (Some(master), Some(guarded)) = (program("master.c"), guarded) else { return };
    for (place, words) in ways_to_run(&master, &guarded) {
        let sandbox = Sandbox::new();
        count_guarded(sandbox.whatif(), &sandbox, &[place], &words);
    }
}

#[test]
fn guarded_probes_take_no_privilege_and_others_are_left_alone() {
    if !can_count() {
        return;
    }
    if !have("setpriv") {
        return skip("no setpriv");
    }
    let (Some(master), Some(guarded)) = (program("master.c"), program("guarded.c")) else { return };
    for (place, words) in ways_to_run(&master, &guarded) {
        let sandbox = Sandbox::new();
        let mut other = sandbox.command(&guarded);
        let mut other = other.arg("watches").stdin(Stdio::piped()).spawn().unwrap();
        let mut command = sandbox.command("setpriv");
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]);
        command.arg(whatif());
        count_guarded(command, &sandbox, &[place], &words);
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success(), "what is not profiled is left alone");
    }
}

#[test]
fn guarded_probes_are_counted_by_the_kernel_when_no_breakpoint_is_left() {
    let have_both = [Means::Breakpoint, Means::Uprobe].map(kernel::visits::cost);
    if have_both.iter().any(Result::is_err) {
        return skip("no breakpoints or no uprobes here");
    }
    let guarded = program_as("guarded.c", "guarded-by-uprobes", &[]);
    let (Some(master), Some(guarded)) = (program("master.c"), guarded) else { return };
    let sandbox = Sandbox::new();
    let functions = ["first", "second", "third", "fourth"].map(|name| format!("guarded*:fn:{name}"));
    let mut places: Vec<&str> = functions.iter().map(String::as_str).collect();
    let [.., (place, words)] = ways_to_run(&master, &guarded);
    places.push(place);
    count_guarded(sandbox.whatif(), &sandbox, &places, &words);
}
