//! Programs that execute others: all of them are one experiment.

use crate::support::{
    Ended, Sandbox, have, point, program, program_as, region, run, skip, static_program, target,
};
use kernel::visits::Means;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A program that executes another one, and that one.
fn master_and_worker() -> Option<(PathBuf, PathBuf)> {
    Some((program("master.c")?, program("worker.c")?))
}

/// The words after `master`: the worker is executed so many times, for so many jobs each, and ends with 7.
fn words(worker: &Path, times: u32, jobs: u32) -> Vec<String> {
    vec![times.to_string(), worker.display().to_string(), jobs.to_string(), "7".to_owned()]
}

fn profiled(sandbox: &Sandbox, options: &[&str], master: &Path, words: &[String]) -> Ended {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    sandbox.profile(options, master, &words)
}

#[test]
fn what_a_program_executes_is_profiled_with_it() {
    let Some((master, worker)) = master_and_worker() else { return };
    let words = words(&worker, 20, 60);
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command
        .args(["run", "--speedup", "50", "-o"])
        .arg(sandbox.recording())
        .arg("--")
        .arg(&master)
        .args(&words);
    let ended = run(command);
    let native = {
        let mut command = sandbox.command(&master);
        command.args(&words);
        run(command)
    };
    assert_eq!(native.code(), Some(7), "{native:#?}");
    // The report is on standard output as well.
    assert!(ended.code() == Some(7) && ended.stdout.starts_with(&native.stdout), "{ended:#?}");
    assert!(
        ended.stderr.contains("profiled with it") && ended.stderr.contains("worker (20 times)"),
        "{ended:#?}"
    );
    let report = sandbox.report();
    assert!(point(&report, "done")["visits"].as_u64().unwrap() > 100, "{report:#}");
    // 60 jobs take about fourteen times as long as a `prepare`, whatever else runs.
    let (jobs, prepares) = (sandbox.samples("job"), sandbox.samples("prepare"));
    assert!(prepares > 10 && jobs > 5 * prepares && jobs < 50 * prepares, "{jobs} {prepares} {report:#}");
    let image = |name: &str| region(&report, name)["image"]["path"].as_str().unwrap_or_default().to_owned();
    assert!(image("job").ends_with("worker") && image("prepare").ends_with("master"), "{report:#}");
    // Reports name the programs,
    assert_eq!(region(&report, "job")["program"], "worker", "{report:#}");
    assert!(ended.stderr.contains(" (worker)") && ended.stderr.contains("CPU time by program"), "{ended:#?}");
    // the time that each took,
    let of = |name: &str| {
        let programs = report["programs"].as_array().unwrap();
        programs
            .iter()
            .find(|program| program["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {report:#}"))
    };
    let share = |name: &str| of(name)["share"].as_f64().unwrap();
    assert!(share("worker") > 5.0 * share("master") && share("master") > 0.0, "{report:#}");
    assert!(of("worker")["processes"].as_u64() >= Some(20), "{report:#}");
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
    let mut command = sandbox.whatif();
    command.args(["run", "--no-delays", "-o"]).arg(sandbox.recording()).arg("--").arg(&master);
    // By `vfork`, by `posix_spawn`, and in its own place: each for much longer than a tick of the kernel's.
    command.args(words(&worker, 3, 200));
    let ended = run(command);
    assert_eq!(ended.code(), Some(7), "{ended:#?}");
    let note = ended.stderr.lines().find(|line| line.contains("could not be followed")).unwrap_or_default();
    assert!(note.contains("static-worker (it is statically linked"), "{ended:#?}");
    assert!(note.contains("at least") && note.contains("% of the CPU time"), "{ended:#?}");
    let report = sandbox.report();
    let programs = report["programs"].as_array().unwrap();
    let of = |name: &str| programs.iter().find(|program| program["name"] == name).unwrap();
    let worker = of("static-worker");
    assert!(worker["obstacle"].as_str().unwrap().contains("statically linked"), "{report:#}");
    assert!(worker["cpu_ns"].as_u64() > Some(0) && worker["samples"] == 0, "{report:#}");
    assert!(of("master")["obstacle"].is_null() && of("master")["samples"].as_u64() > Some(0), "{report:#}");
}

#[test]
fn a_program_is_named_by_the_link_that_it_is_executed_by() {
    let Some((master, worker)) = master_and_worker() else { return };
    let sandbox = Sandbox::new();
    let link = sandbox.path("alias");
    std::os::unix::fs::symlink(&worker, &link).unwrap();
    let ended = profiled(&sandbox, &["--no-delays", "--binary", "alias"], &master, &words(&link, 4, 60));
    assert_eq!(ended.code(), Some(7), "{ended:#?}");
    let (jobs, prepares) = (sandbox.samples("job"), sandbox.samples("prepare"));
    assert!(jobs > 5 && prepares == 0, "{jobs} {prepares} {ended:#?}");
}

#[test]
fn source_files_may_be_those_of_one_program() {
    let Some((master, worker)) = master_and_worker() else { return };
    for (scope, has_jobs) in [("worker:*.c", true), ("mast*:*.c", false)] {
        let sandbox = Sandbox::new();
        let ended = profiled(&sandbox, &["--no-delays", "--scope", scope], &master, &words(&worker, 8, 60));
        assert_eq!(ended.code(), Some(7), "{ended:#?}");
        let (jobs, prepares) = (sandbox.samples("job"), sandbox.samples("prepare"));
        assert!((jobs > 5, prepares > 0) == (has_jobs, !has_jobs), "{jobs} {prepares} {ended:#?}");
    }
}

#[test]
fn the_idle_loop_of_a_master_is_not_suggested_before_what_its_workers_do() {
    if kernel::visits::cost(Means::Breakpoint).is_err() {
        return skip("no breakpoints here");
    }
    let Some(master) = program("idle_master.c") else { return };
    let Some(worker) = program_as("worker.c", "unmarked-worker", &["-DUNMARKED"]) else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["points", "--duration", "2", "--"]).arg(&master);
    command.arg(&worker).args(["1000000", "0"]);
    let ended = run(command);
    let suggested: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("  -p ")).collect();
    assert!(suggested.first().is_some_and(|line| line.contains("-p unmarked-worker:")), "{ended:#?}");
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
        let options = [options, &["--no-delays"]].concat();
        let ended = profiled(&sandbox, &options, &master, &words(&worker, 8, 30));
        assert_eq!(ended.code(), Some(7), "{ended:#?}");
        assert!(!ended.stderr.contains("profiled with it"), "{ended:#?}");
        assert!(sandbox.samples("prepare") > 5 && sandbox.samples("job") == 0, "{ended:#?}");
    }
}

#[test]
fn visits_in_a_program_that_is_executed_are_counted() {
    if kernel::visits::cost(Means::Breakpoint).is_err() {
        return skip("no breakpoints here");
    }
    let Some((master, worker)) = master_and_worker() else { return };
    let sandbox = Sandbox::new();
    let options = ["-p", "worker:fn:job", "--speedup", "50"];
    let ended = profiled(&sandbox, &options, &master, &words(&worker, 20, 60));
    assert_eq!(ended.code(), Some(7), "{ended:#?}");
    let report = sandbox.report();
    let visits = |name| point(&report, name)["visits"].as_u64().unwrap();
    let (marked, placed) = (visits("done"), visits("worker:job"));
    assert!(marked > 100, "{report:#}");
    assert!(placed.abs_diff(marked) <= 40 + marked / 50, "{placed} of {marked}");
}

#[test]
fn a_place_is_chosen_in_a_program_that_is_executed() {
    if kernel::visits::cost(Means::Breakpoint).is_err() {
        return skip("no breakpoints here");
    }
    let Some(master) = program("master.c") else { return };
    let Some(worker) = program_as("worker.c", "unmarked-worker", &["-DUNMARKED"]) else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "-o"]).arg(sandbox.recording()).arg("--").arg(&master);
    let ended = run({
        command.args(words(&worker, 2, 5000));
        command
    });
    assert_eq!(ended.code(), Some(7), "{ended:#?}");
    assert!(ended.stderr.contains("unmarked-worker:"), "{ended:#?}");
    let report = sandbox.report();
    let visits = report["points"].as_array().unwrap().iter().filter_map(|point| point["visits"].as_u64());
    assert!(visits.max().unwrap_or(0) > 100, "{report:#}");
}

#[test]
fn a_shell_and_its_pipes_are_one_experiment() {
    let Some((_, worker)) = master_and_worker().filter(|_| have("sh")) else { return };
    let worker = worker.display();
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--speedup", "50", "-o"]).arg(sandbox.recording());
    command.args(["--", "sh", "-c", &format!("{worker} 1500 0 | {worker} 1200 0 | {worker} 900 5")]);
    let ended = run(command).assert_code(5);
    assert!(ended.stderr.contains("worker (2 times)"), "{ended:#?}");
    let visits = point(&sandbox.report(), "done")["visits"].as_u64().unwrap();
    assert!(visits > 300, "{visits} {ended:#?}");
}

#[test]
fn the_tree_goes_on_when_the_controller_is_killed() {
    let Some((master, worker)) = master_and_worker() else { return };
    let words = words(&worker, 20, 10);
    let sandbox = Sandbox::new();
    let native = {
        let mut command = sandbox.command(&master);
        command.args(&words);
        run(command)
    };
    let mut random = fastrand::Rng::new();
    for _ in 0..8 {
        let sandbox = Sandbox::new();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = sandbox.profiling(&["--speedup", "50"], &master, &words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.u64(100..900)));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        // It may have been killed before it had started the program.
        assert!(said == native.stdout || said.is_empty(), "{said:?} {native:#?}");
    }
}

#[test]
fn what_processes_hand_over_by_ends_a_wait_for_a_thread() {
    let Some(hands) = program("hands.c") else { return };
    for kind in ["eventfd", "pidfd", "flock", "lockf", "fcntl"] {
        let audit = audit_of(&hands, kind);
        let number = |name: &str| audit[name].as_f64().unwrap_or_else(|| panic!("{kind}: {audit:#}"));
        // Each wait for a thread is counted when it ends. (How long they took says less: a thread that loses its CPU in the call has waited for nothing that is known.)
        assert!(number("handovers") > 5.0 && number("in_waits_ns") > 0.0, "{kind}: {audit:#}");
    }
}

#[test]
fn a_program_that_waits_for_its_vforked_child_waits_for_something_known() {
    let Some(hands) = program("hands.c") else { return };
    let audit = audit_of(&hands, "vfork");
    let number = |name: &str| audit[name].as_f64().unwrap_or_else(|| panic!("{audit:#}"));
    // On a busy machine a part of it is waiting for a CPU.
    let known = number("in_world_ns") + number("in_waits_ns");
    assert!(number("in_world_ns") > 0.0 && number("unexplained_ns") < known, "{audit:#}");
}

#[test]
fn what_the_c_library_executes_by_a_shell_is_followed() {
    let (Some(shells), Some(worker)) = (program("shells.c"), program("worker.c")) else { return };
    let sandbox = Sandbox::new();
    let command = format!("{} 60 7", worker.display());
    sandbox.compare(&["--region", "job", "--speedup", "50"], &shells, &[&command, "0"]);
    let jobs = sandbox.samples("job");
    assert!(jobs > 100, "{jobs} samples");
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
    sandbox.profile(&options, &loads, &[plugin.to_str().unwrap()]).assert_code(0);
    let report = sandbox.report();
    let path = region(&report, "hot")["image"]["path"].as_str().unwrap_or_default().to_owned();
    assert!(path.ends_with("plugin.so") && sandbox.samples("hot") > 500, "{report:#}");
}

/// The sums of the audit of a run of `hands`.
fn audit_of(hands: &Path, kind: &str) -> serde_json::Value {
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(&["--region", "hot", "--speedup", "50"], hands, &[kind]);
    assert_eq!(ended.code(), Some(0), "{kind}: {ended:#?}");
    sandbox.explained("hot")["audit"].clone()
}

#[test]
fn threads_that_take_turns_at_a_client_are_credited_for_what_the_others_did() {
    let Some(world) = target("world") else { return };
    // The workers' credit, as a multiple of what was inserted: as much for each worker that waits. Where some of them have no CPU it is less.
    let credited = |arguments: &[&str]| {
        let sandbox = Sandbox::new();
        // The client is another program, which is not profiled.
        let options = ["--no-follow", "--region", "A", "--speedup", "100"];
        let arguments = [&["seconds=12", "once=1"], arguments].concat();
        let ended = sandbox.profile(&options, &world, &arguments);
        assert_eq!(ended.code(), Some(0), "{ended:#?}");
        let audit = &sandbox.explained("A")["audit"];
        let number = |name: &str| audit[name].as_f64().unwrap_or_else(|| panic!("{audit:#}"));
        number("answered_ns") / number("given_ns")
    };
    let four = credited(&["workers=5"]);
    assert!(four > 0.5, "{four} turns of four");
    // The listener stays a listener when a copy of it is closed.
    let four = credited(&["workers=5", "A=8", "closes=1"]);
    assert!(four > 0.6, "{four} turns of four");
}

#[test]
fn code_that_executed_programs_make_has_the_names_that_each_process_has_written() {
    let Some(makers) = program("makers.c") else { return };
    let sandbox = Sandbox::new();
    let ended = sandbox.compare(&["--no-delays"], &makers, &[]);
    assert_eq!(ended.code(), Some(0), "{ended:#?}");
    // So many milliseconds of CPU time each, at the same address, and a sample in each of them. What comes before the names are read has none,
    // which is much of it on a busy machine.
    let samples = |name: &str| sandbox.samples(&format!("js:{name}")) as f64;
    let all = ["one", "two", "inherited", "heir", "parent"].map(samples);
    for (samples, expected) in all.into_iter().zip([1200.0, 400.0, 600.0, 400.0, 200.0]) {
        assert!(samples > 0.2 * expected && samples < 1.3 * expected, "{all:?}");
    }
    assert_eq!((samples("forged"), samples("stale")), (0.0, 0.0));
    let folded = exported(&sandbox, "folded");
    let one = folded.lines().filter(|line| line.contains("main;") && line.contains(";js:one")).count();
    assert!(one > 0, "{folded}");
}

#[test]
fn code_that_executed_programs_make_is_sped_up_where_it_runs() {
    let Some(makers) = program("makers.c") else { return };
    let sandbox = Sandbox::new();
    sandbox.profile(&["--region", "js:one", "--speedup", "50"], &makers, &[]);
    let audit = &sandbox.explained("js:one")["audit"];
    assert!(audit["given_ns"].as_f64().is_some_and(|given| given > 0.0), "{audit:#}");
}

/// Has the visits to the guarded probe of `guarded` counted for two seconds, under the name that it has in `places`, which may be more.
#[track_caller]
fn count_guarded(mut command: Command, sandbox: &Sandbox, places: &[&str], words: &[&str]) {
    command.args(["run", "-q", "-o"]).arg(sandbox.recording()).args(["--region", "hot", "--speedup", "50"]);
    command.args(["--duration", "2", "--then", "continue"]);
    for place in places {
        command.args(["-p", place]);
    }
    command.arg("--").args(words);
    let ended = run(command);
    // All processes have seen their semaphores go up, and down again.
    assert!(ended.stdout.ends_with("done\n"), "{ended:#?}");
    let report = sandbox.report();
    let visits = |name| point(&report, name)["visits"].as_u64().unwrap();
    let probe = places.last().unwrap().replace("usdt:", "");
    let (marked, counted) = (visits("marked"), visits(&probe));
    assert!(marked > 100, "{report:#}");
    assert!(counted.abs_diff(marked) <= 40 + marked / 50, "{counted} of {marked}");
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
    if kernel::visits::cost(Means::Breakpoint).is_err() {
        return skip("no breakpoints here");
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
    if kernel::visits::cost(Means::Breakpoint).is_err() || !have("setpriv") {
        return skip("no breakpoints here, or no setpriv");
    }
    let (Some(master), Some(guarded)) = (program("master.c"), program("guarded.c")) else { return };
    for (place, words) in ways_to_run(&master, &guarded) {
        let sandbox = Sandbox::new();
        let mut other = sandbox.command(&guarded);
        let mut other = other.arg("watches").stdin(Stdio::piped()).spawn().unwrap();
        let mut command = sandbox.command("setpriv");
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]);
        command.arg(env!("CARGO_BIN_EXE_whatif"));
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
