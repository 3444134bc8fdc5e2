//! To the program, its children and all processes around it, `whatif run -- program` is `program`.

use crate::support::{DELAYS, Sandbox, have, program, program_as, run, run_with, same, scratch, skip};
use std::process::Command;

#[test]
fn exit_codes_are_passed_on() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    // Without samples no status of ours comes in between; with them, one may.
    sandbox.compare(&["--start-only"], &exits, &["0"]).assert_code(0);
    sandbox.compare(&[], &exits, &["0", "1.5"]);
    for (how, code) in
        [("1", 1), ("42", 42), ("255", 255), ("_exit", 3), ("quick_exit", 4), ("thread", 5), ("detached", 6)]
    {
        sandbox.compare(&[], &exits, &[how]).assert_code(code);
    }
    let last = sandbox.compare(&[], &exits, &["main_first"]);
    assert!(last.stdout.contains("the other thread is the last"), "{last:#?}");
}

#[test]
fn deaths_are_passed_on() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    for signal in [5, 6, 9, 11, 13, 15, 34] {
        let ended = sandbox.compare(&[], &exits, &[&format!("signal{signal}")]);
        assert_eq!(ended.signal(), Some(signal), "{ended:#?}");
    }
}

#[test]
fn what_surrounds_the_program_is_unchanged() {
    let Some(surroundings) = program("surroundings.c") else { return };
    let Some(library) = program_as("nothing.c", "libnothing.so", &["-shared", "-fPIC"]) else {
        return;
    };
    let input: String = (0..3000).map(|line| format!("line {line} of standard input\n")).collect();
    // With descriptors, dispositions and a mask that are not the usual ones, and a preloaded library.
    let script = "trap '' PIPE USR2 HUP; exec 5</dev/null 9</dev/null; exec env -u _ \"$@\"";
    for preload in [None, Some(&library)] {
        let run_from = |inner: Command, sandbox: &Sandbox| {
            let mut shell = sandbox.command("sh");
            shell.args(["-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args());
            shell.env("EMPTY", "").env("LAST", "x=y");
            if let Some(library) = preload {
                shell.env("LD_PRELOAD", library);
            }
            run_with(shell, input.as_bytes())
        };
        let sandbox = Sandbox::new();
        let native = run_from(sandbox.command(&surroundings), &sandbox);
        let profiled = run_from(sandbox.profiling(DELAYS, &surroundings, &[]), &sandbox);
        assert!(native.stdout.ends_with("done\n"), "{native:#?}");
        for expected in ["descriptor 9\n", "child 2\n", "child 3\n", "LAST=x=y\n", "line 2999 of"] {
            assert!(native.stdout.contains(expected), "{expected} in {}", native.stdout);
        }
        assert_eq!(native.stdout.contains("LD_PRELOAD"), preload.is_some());
        same(&native, &profiled);
    }
}

#[test]
fn a_blocked_signal_stays_blocked() {
    // A parent that has SIGURG, which carries our samples, and others blocked: so has the program.
    if !have("perl") {
        return;
    }
    let Some(surroundings) = program("surroundings.c") else { return };
    let sandbox = Sandbox::new();
    let blocking = |inner: Command| {
        let block =
            "use POSIX; my $s = POSIX::SigSet->new(23, 12, 10); sigprocmask(SIG_BLOCK, $s); exec @ARGV";
        let mut perl = sandbox.command("perl");
        perl.args(["-e", block]).arg(inner.get_program()).args(inner.get_args()).env("LC_ALL", "C");
        run(perl)
    };
    let blocked = |text: &str| {
        text.lines().take_while(|line| !line.starts_with("child")).fold(
            String::new(),
            // The kernel's mask is not what the program asks for: see `signals` in the runtime.
            |all, line| if line.starts_with("blocked") { all + line + "\n" } else { all },
        )
    };
    let native = blocking(sandbox.command(&surroundings));
    let profiled = blocking(sandbox.profiling(DELAYS, &surroundings, &[]));
    assert!(blocked(&native.stdout).contains("blocked 23\n"), "{native:#?}");
    assert_eq!(blocked(&native.stdout), blocked(&profiled.stdout));
}

#[test]
fn nothing_of_ours_is_on_standard_output() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let native = sandbox.native(&exits, &["0", "1.2"]);
    let mut command = sandbox.whatif();
    command.arg("run").args(DELAYS).arg("--").arg(&exits).args(["0", "1.2"]); // not quiet
    let profiled = run(command);
    same(&native, &profiled);
    assert!(profiled.stderr.contains("recorded in whatif-exits-"), "{profiled:#?}");
    // Nothing is left in the folder but the recording.
    let left: Vec<_> = std::fs::read_dir(sandbox.folder()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn errno_is_the_originals() {
    let Some(errnos) = program("errnos.c") else { return };
    Sandbox::new().unharmed(&errnos, &[]);
}

#[test]
fn threads_can_be_cancelled() {
    let Some(cancel) = program("cancel.c") else { return };
    Sandbox::new().unharmed(&cancel, &[]);
}

#[test]
fn exceptions_and_destructors_run() {
    let Some(exceptions) = program("exceptions.cpp") else { return };
    Sandbox::new().unharmed(&exceptions, &[]);
}

#[test]
fn threads_may_begin_before_main() {
    let Some(alone) = program("constructor.c") else { return };
    let folder = scratch().display().to_string();
    let Some(_) = program_as("constructor.c", "libearly.so", &["-shared", "-fPIC", "-DLIBRARY"]) else {
        return;
    };
    let linked = program_as(
        "constructor.c",
        "constructor-linked",
        &["-DLINKED", "-L", &folder, "-learly", &format!("-Wl,-rpath,{folder}")],
    );
    let Some(linked) = linked else { return };
    for program in [&alone, &linked] {
        Sandbox::new().unharmed(program, &[]);
    }
}

#[test]
fn a_terminal_is_not_needed() {
    let Some(exits) = program("exits.c") else { return };
    if !have("setsid") {
        return;
    }
    let sandbox = Sandbox::new();
    let inner = sandbox.profiling(&[], &exits, &["7"]);
    let mut command = sandbox.command("setsid");
    command.arg("-w").arg(inner.get_program()).args(inner.get_args());
    let ended = run(command);
    if ended.stderr.contains("unrecognized") {
        return skip("setsid knows no -w");
    }
    ended.assert_code(7);
}
