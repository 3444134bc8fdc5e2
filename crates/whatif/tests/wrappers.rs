//! Behind a wrapper: `whatif run -- taskset -c 0 program` profiles `program`, and to both it is as if there were no `whatif`.

use crate::support::{
    Ended, Sandbox, copy_to, have, program, program_as, run, same, skip, static_program, write_script,
};
use profile::Rows;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `whatif run` of these words, with these options.
fn whatif(sandbox: &Sandbox, options: &[&str], words: &[&str]) -> Command {
    let mut command = sandbox.whatif();
    command.args(["run", "-o"]).arg(sandbox.recording()).args(options).arg("--").args(words);
    command
}

fn script(sandbox: &Sandbox, name: &str, text: &str) -> PathBuf {
    let path = sandbox.path(name);
    write_script(&path, text);
    path
}

/// The programs that were profiled and sampled.
fn sampled(rows: &Rows) -> Vec<&str> {
    let sessions = rows.sessions.iter().filter(|session| session.samples.count > 0);
    sessions.map(|session| session.start.program_name()).collect()
}

/// The programs that were profiled.
fn profiled(sandbox: &Sandbox) -> Vec<String> {
    let rows = profile::Recording::open(&sandbox.recording()).unwrap().rows().unwrap();
    rows.sessions.iter().map(|session| session.start.program_name().to_owned()).collect()
}

/// Runs the words alone and behind `whatif`, and says that `live` was profiled, and nothing else is different. In the words, ENOUGH stands for
/// the file that ends `live`: it exists from the beginning without `whatif`, and behind it as soon as a sample was recorded.
#[track_caller]
fn profiles(options: &[&str], words: &[&str], code: i32) -> Ended {
    let sandbox = Sandbox::new();
    let enough = sandbox.enough();
    let words: Vec<String> =
        words.iter().map(|word| word.replace("ENOUGH", enough.to_str().unwrap())).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut alone = sandbox.command(words[0]);
    alone.args(&words[1..]);
    std::fs::write(&enough, "").unwrap();
    let native = run(alone);
    std::fs::remove_file(&enough).unwrap();
    let profiled = sandbox.run_until(whatif(&sandbox, options, &words), |rows| sampled(rows) == ["live"]);
    assert_eq!(native.code(), Some(code), "{native:#?}");
    assert_eq!((&native.stdout, native.status), (&profiled.stdout, profiled.status), "{profiled:#?}");
    profiled
}

#[test]
fn commands_that_start_others_are_followed() {
    let Some(live) = program("live.c") else { return };
    let live = live.to_str().unwrap();
    for before in [
        &["nice"][..],
        &["env", "-i", "A=1"],
        &["env", "-u", "HOME"],
        &["taskset", "-c", "0"],
        &["timeout", "60"],
        &["nohup"],
        &["setsid", "--wait"],
        &["ionice"],
        &["stdbuf", "-oL"],
        &["setpriv", "--nnp"],
        &["chrt", "--other", "0"],
        &["timeout", "60", "nice", "sh", "-c", "\"$0\" \"$@\""],
    ] {
        if !have(before[0]) {
            continue;
        }
        let words: Vec<&str> = before.iter().copied().chain([live, "90", "ENOUGH"]).collect();
        let ended = profiles(&[], &words, 7);
        assert!(ended.stderr.contains("profiling ") && ended.stderr.contains("live"), "{words:?} {ended:#?}");
    }
}

#[test]
fn shells_and_scripts_are_followed() {
    let Some(live) = program("live.c") else { return };
    let live = live.to_str().unwrap();
    profiles(&[], &["sh", "-c", &format!("exec {live} 90 ENOUGH")], 7);
    profiles(&[], &["sh", "-c", &format!("mkdir d && cd d && {live} 90 ENOUGH; rmdir ../d; exit 3")], 3);
    if have("bash") {
        profiles(&[], &["bash", "-c", &format!("x=$({live} 90 ENOUGH); echo \"$x\" $?; exit 3")], 3);
    }
    let sandbox = Sandbox::new();
    let helpers = format!(
        "#!/bin/sh -e\nmkdir -p made\ncp \"$0\" made/copy\nhere=$(dirname \"$0\")\necho \"$here\" $(id -u)\n{live} 90 \"$1\"\n"
    );
    let start = script(&sandbox, "start.sh", &helpers);
    profiles(&[], &[start.to_str().unwrap(), "ENOUGH"], 7);
    // As pyenv's: a script that finds the script that finds the program.
    let shim = format!(
        "#!/usr/bin/env bash\nset -e\nprogram=\"${{0##*/}}\"\nexec \"{}/inner\" \"$@\"\n",
        sandbox.folder().display()
    );
    script(&sandbox, "inner", &format!("#!/bin/sh\nexec env A=1 {live} \"$@\"\n"));
    let shim = script(&sandbox, "shim", &shim);
    if have("bash") {
        profiles(&[], &[shim.to_str().unwrap(), "90", "ENOUGH"], 7);
    }
}

#[test]
fn the_program_with_the_points_is_the_one() {
    let (Some(placed), Some(live)) = (program("placed.c"), program("live.c")) else { return };
    let sandbox = Sandbox::new();
    // Not to end well: that may be reported as no answer.
    let both = format!("{} 0.05; {}; exit 3", live.display(), placed.display());
    let ended = run(whatif(&sandbox, &["-p", "fn:ended"], &["sh", "-c", &both])).assert_code(3);
    assert_eq!(profiled(&sandbox), ["placed"], "{ended:#?}");
    // Where none says which it is, each is tried.
    let sandbox = Sandbox::new();
    let ended = run(whatif(&sandbox, &[], &["sh", "-c", &both])).assert_code(3);
    assert_eq!(profiled(&sandbox).last().map(String::as_str), Some("placed"), "{ended:#?}");
    // The same by name.
    let sandbox = Sandbox::new();
    let ended = run(whatif(&sandbox, &["--follow", "pla*"], &["sh", "-c", &both])).assert_code(3);
    assert_eq!(profiled(&sandbox), ["placed"], "{ended:#?}");
}

#[test]
fn what_is_spawned_is_followed() {
    let (Some(spawner), Some(live)) = (program("spawner.c"), program("live.c")) else { return };
    let (spawner, live) = (spawner.to_str().unwrap(), live.to_str().unwrap());
    profiles(&["--follow", "live"], &[spawner, live, "90", "ENOUGH"], 7);
    // And what the spawned one executes.
    profiles(&["--follow", "live"], &[spawner, "nice", live, "90", "ENOUGH"], 7);
}

#[test]
fn wrapper_and_program_see_what_they_would() {
    let Some(surroundings) = program("surroundings.c") else { return };
    let Some(library) = program_as("nothing.c", "libnothing.so", &["-shared", "-fPIC"]) else { return };
    let surroundings = surroundings.to_str().unwrap();
    let shell = format!("env; ls -l /proc/self/fd | wc -l; exec {surroundings}");
    for preload in [None, Some(&library)] {
        for words in
            [&["nice", surroundings][..], &["sh", "-c", &shell], &["env", "-i", "LAST=x", surroundings]]
        {
            let sandbox = Sandbox::new();
            let with = |mut command: Command| {
                command.env_remove("_").env("EMPTY", "").env("LAST", "x=y");
                if let Some(library) = preload {
                    command.env("LD_PRELOAD", library);
                }
                run(command)
            };
            let mut alone = sandbox.command(words[0]);
            alone.args(&words[1..]);
            let native = with(alone);
            let profiled = with(whatif(&sandbox, &["--no-delays", "-q"], words));
            assert!(native.stdout.ends_with("done\n"), "{native:#?}");
            same(&native, &profiled);
        }
    }
}

#[test]
fn ends_are_passed_on() {
    let Some(exits) = program("exits.c") else { return };
    let exits = exits.to_str().unwrap();
    for words in [
        &["nice", exits, "42"][..],
        &["nice", exits, "signal9"],
        &["sh", "-c", "\"$0\" signal11; exit $?", exits],
        &["timeout", "30", exits, "3"],
        &["sh", "-c", "nosuchprogram; exit 5"],
        &["nice", "/no/such/program"],
        &["sh", "-c", "kill -TERM $$"],
    ] {
        let sandbox = Sandbox::new();
        let mut alone = sandbox.command(words[0]);
        alone.args(&words[1..]);
        let (native, profiled) = (run(alone), run(whatif(&sandbox, &[], words)));
        assert_eq!(
            (&native.stdout, native.status),
            (&profiled.stdout, profiled.status),
            "{words:?} {profiled:#?}"
        );
    }
    // However far it has come.
    if have("timeout") {
        run(whatif(&Sandbox::new(), &[], &["timeout", "0.3", exits, "0", "60"])).assert_code(124);
    }
}

/// A wrapper whose program has said that it runs.
fn running(
    sandbox: &Sandbox,
    options: &[&str],
    words: &[&str],
) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let mut command = whatif(sandbox, options, words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, lines)
}

#[test]
fn signals_go_to_the_wrapper_and_a_killed_controller_leaves_all_running() {
    let script = "trap 'echo got it; exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    let sandbox = Sandbox::new();
    let (mut child, mut lines) = running(&sandbox, &[], &["nice", "sh", "-c", script]);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), child.wait().unwrap().code()), ("got it\n", Some(9)));

    // The shell goes on to execute programs, with none to ask.
    let script = "echo ready; read line < gone; ls / > listed; expr 1 + 1; echo done";
    let sandbox = Sandbox::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, sandbox.path("gone"), rustix::fs::Mode::RWXU).unwrap();
    let (mut child, lines) = running(&sandbox, &[], &["nice", "sh", "-c", script]);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    std::fs::write(sandbox.path("gone"), "go\n").unwrap();
    let rest: Vec<String> = lines.lines().map(Result::unwrap).collect();
    assert_eq!(rest, ["2", "done"]);
    assert!(std::fs::metadata(sandbox.path("listed")).unwrap().len() > 0);
}

#[test]
fn the_time_that_is_given_ends_program_and_wrapper() {
    let Some(live) = program("live.c") else { return };
    let forever = format!("{} 60; while :; do sleep 0.01; done", live.display());
    let sandbox = Sandbox::new();
    let ended = run(whatif(&sandbox, &["--duration", "3s"], &["sh", "-c", &forever])).assert_success();
    assert_eq!(profiled(&sandbox), ["live"], "{ended:#?}");
    assert!(ended.stderr.contains("asking the program to end"), "{ended:#?}");
}

#[test]
fn what_cannot_be_followed_is_named() {
    let Some(live) = program("live.c") else { return };
    let live = live.to_str().unwrap();
    if let Some(fixed) = static_program("live.c", "live-static") {
        let sandbox = Sandbox::new();
        let ended = run(whatif(&sandbox, &[], &["nice", fixed.to_str().unwrap(), "0.1"])).assert_code(7);
        assert!(ended.stderr.contains("live-static (it is statically linked"), "{ended:#?}");
        assert!(ended.stderr.contains("--follow") && !sandbox.recording().exists(), "{ended:#?}");
    }
    // No program at all, none with the point, and two at once.
    let said = |options: &[&str], script: &str| {
        let sandbox = Sandbox::new();
        run(whatif(&sandbox, options, &["sh", "-c", script]))
    };
    let none = said(&[], "mkdir made; true").assert_code(103);
    assert!(none.stderr.contains("executed only") && none.stderr.contains("mkdir"), "{none:#?}");
    let lacks = said(&["-p", "fn:nowhere"], &format!("{live} 0.1; true")).assert_code(103);
    assert!(
        lacks.stderr.contains("live") && lacks.stderr.contains("fn:nowhere")
            || lacks.stderr.contains("nowhere"),
        "{lacks:#?}"
    );
    let sandbox = Sandbox::new();
    let another = sandbox.path("another-live");
    copy_to(Path::new(live), &another);
    let [another, enough, begin] =
        [another, sandbox.enough(), sandbox.path("begin")].map(|path| path.to_str().unwrap().to_owned());
    let two = format!(
        "{live} 90 {enough} & while [ ! -e {begin} ]; do sleep 0.01; done; {another} 90 {enough}; wait"
    );
    let two = sandbox.run_until(whatif(&sandbox, &[], &["sh", "-c", &two]), |rows| {
        // The other one begins when this one is profiled, and both end when the other one has joined.
        if sampled(rows) == ["live"] {
            std::fs::write(&begin, "").unwrap();
        }
        let programs = rows.sessions.iter().flat_map(|session| &session.programs);
        programs.into_iter().any(|program| program.name() == "another-live")
    });
    assert!(two.stderr.contains("profiled with it") && two.stderr.contains("another-live"), "{two:#?}");
}

#[test]
fn a_program_under_another_user_is_followed() {
    if !rustix::process::geteuid().is_root() || !have("setpriv") {
        return skip("needs root and setpriv");
    }
    let Some(live) = program("live.c") else { return };
    let open =
        tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let copy = open.path().join("live");
    copy_to(&live, &copy);
    let user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", copy.to_str().unwrap()];
    let words = [&user[..], &["90", "ENOUGH"]].concat();
    profiles(&["--sampler", "timer"], &words, 7);
}

#[test]
fn without_following_the_command_itself_is_profiled() {
    let sandbox = Sandbox::new();
    let loop_ = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 4";
    let options = ["--no-follow", "--binary", "*", "--no-delays"];
    run(whatif(&sandbox, &options, &["sh", "-c", loop_])).assert_code(4);
    assert_eq!(profiled(&sandbox).len(), 1);
    let both = run(whatif(&sandbox, &["--follow", "x", "--no-follow"], &["true"]));
    assert_eq!(both.code(), Some(2), "{both:#?}");
}

#[test]
fn the_group_gets_what_is_typed() {
    let Some(live) = program("live.c") else { return };
    let sandbox = Sandbox::new();
    let words = format!("echo ready; {} 60", live.display());
    let (mut child, _lines) = running(&sandbox, &[], &["sh", "-c", &words]);
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}
