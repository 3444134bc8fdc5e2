//! Behind a wrapper: `whatif run -- taskset -c 0 program` profiles `program`, and to both it is as if there were no `whatif`.

use crate::support::{Ended, Sandbox, have, program, program_as, run, same, skip, static_program};
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
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What was recorded: the programs that were profiled and sampled, and how many windows there were.
fn recorded(sandbox: &Sandbox) -> (Vec<String>, usize) {
    let rows = profile::Recording::open(&sandbox.recording()).unwrap().rows().unwrap();
    let sampled = rows.sessions.iter().filter(|session| session.samples.count > 0);
    (sampled.map(|session| session.start.program_name().to_owned()).collect(), rows.windows.len())
}

/// Runs the words alone and behind `whatif`, and says that the program was profiled, and nothing else is different.
#[track_caller]
fn profiles(options: &[&str], words: &[&str], code: i32) -> Ended {
    let sandbox = Sandbox::new();
    let mut alone = sandbox.command(words[0]);
    alone.args(&words[1..]);
    let native = run(alone);
    let profiled = run(whatif(&sandbox, options, words));
    assert_eq!(native.code(), Some(code), "{native:#?}");
    assert_eq!((&native.stdout, native.status), (&profiled.stdout, profiled.status), "{profiled:#?}");
    let programs = recorded(&sandbox).0;
    assert_eq!(programs, ["live"], "{profiled:#?}");
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
        let words: Vec<&str> = before.iter().copied().chain([live, "1"]).collect();
        let ended = profiles(&[], &words, 7);
        assert!(ended.stderr.contains("profiling ") && ended.stderr.contains("live"), "{words:?} {ended:#?}");
    }
}

#[test]
fn shells_and_scripts_are_followed() {
    let Some(live) = program("live.c") else { return };
    let live = live.to_str().unwrap();
    profiles(&[], &["sh", "-c", &format!("exec {live} 1")], 7);
    profiles(&[], &["sh", "-c", &format!("mkdir d && cd d && {live} 1; rmdir ../d; exit 3")], 3);
    if have("bash") {
        profiles(&[], &["bash", "-c", &format!("x=$({live} 1); echo \"$x\" $?; exit 3")], 3);
    }
    let sandbox = Sandbox::new();
    let helpers = format!(
        "#!/bin/sh -e\nmkdir -p made\ncp \"$0\" made/copy\nhere=$(dirname \"$0\")\necho \"$here\" $(id -u)\n{live} 1\n"
    );
    let start = script(&sandbox, "start.sh", &helpers);
    profiles(&[], &[start.to_str().unwrap()], 7);
    // As pyenv's: a script that finds the script that finds the program.
    let shim = format!(
        "#!/usr/bin/env bash\nset -e\nprogram=\"${{0##*/}}\"\nexec \"{}/inner\" \"$@\"\n",
        sandbox.folder().display()
    );
    script(&sandbox, "inner", &format!("#!/bin/sh\nexec env A=1 {live} \"$@\"\n"));
    let shim = script(&sandbox, "shim", &shim);
    if have("bash") {
        profiles(&[], &[shim.to_str().unwrap(), "1"], 7);
    }
}

#[test]
fn the_program_with_the_points_is_the_one() {
    let (Some(placed), Some(live)) = (program("placed.c"), program("live.c")) else { return };
    let sandbox = Sandbox::new();
    // Not to end well: that may be reported as few experiments.
    let both = format!("{} 0.05; {}; exit 3", live.display(), placed.display());
    let ended = run(whatif(&sandbox, &["-p", "fn:ended"], &["sh", "-c", &both])).assert_code(3);
    assert_eq!(recorded(&sandbox).0, ["placed"], "{ended:#?}");
    // Where none says which it is, the first comes first.
    let sandbox = Sandbox::new();
    let ended = run(whatif(&sandbox, &[], &["sh", "-c", &both]));
    assert_eq!(recorded(&sandbox).0.last().map(String::as_str), Some("placed"), "{ended:#?}");
    // The same by name.
    let sandbox = Sandbox::new();
    let ended = run(whatif(&sandbox, &["--follow", "pla*"], &["sh", "-c", &both])).assert_code(3);
    assert_eq!(recorded(&sandbox).0, ["placed"], "{ended:#?}");
}

#[test]
fn what_is_spawned_is_followed() {
    let (Some(spawner), Some(live)) = (program("spawner.c"), program("live.c")) else { return };
    let (spawner, live) = (spawner.to_str().unwrap(), live.to_str().unwrap());
    profiles(&["--follow", "live"], &[spawner, live, "1"], 7);
    // And what the spawned one executes.
    profiles(&["--follow", "live"], &[spawner, "nice", live, "1"], 7);
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
        &["timeout", "0.3", exits, "0", "60"],
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
    let ended = run(whatif(&sandbox, &["--duration", "3s"], &["sh", "-c", &forever]));
    let (programs, windows) = recorded(&sandbox);
    assert!(programs == ["live"] && windows > 0, "{programs:?} {windows} {ended:#?}");
    assert!(ended.stderr.contains("asking the program to end"), "{ended:#?}");
    // Few experiments may be no answer.
    assert!(matches!(ended.code(), Some(0 | 100)), "{ended:#?}");
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
    let two = said(&[], &format!("{live} 1.5 & sleep 0.4; {} 1; wait", copy_of(live).display()));
    assert!(two.stderr.contains("profiled with it") && two.stderr.contains("another-live"), "{two:#?}");
}

/// By another process: a child that another test forks meanwhile would have the file open for writing, and it could not be executed.
fn copy_to(program: &Path, copy: &Path) {
    assert!(Command::new("cp").arg(program).arg(copy).status().unwrap().success());
}

/// Another program.
fn copy_of(program: &str) -> PathBuf {
    let copy = Path::new(program).with_file_name("another-live");
    copy_to(Path::new(program), &copy);
    copy
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
    let user =
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", copy.to_str().unwrap(), "1"];
    profiles(&["--sampler", "timer"], &user, 7);
}

#[test]
fn without_following_the_command_itself_is_profiled() {
    let sandbox = Sandbox::new();
    let loop_ = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 4";
    let options = ["--no-follow", "--binary", "*", "--no-delays"];
    run(whatif(&sandbox, &options, &["sh", "-c", loop_])).assert_code(4);
    let programs = recorded(&sandbox).0;
    assert!(programs.len() == 1 && programs[0] != "live", "{programs:?}");
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
