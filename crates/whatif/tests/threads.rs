//! Threads and processes of all kinds, under sampling and delays.

use crate::support::{DELAYS, Sandbox, point, program, program_as, run, skip};
use profile::WindowFlags;
use std::path::Path;

fn unharmed(which: &str) {
    let Some(threads) = program("threads.c") else { return };
    Sandbox::new().unharmed(&threads, &[which]);
}

#[test]
fn two_thousand_one_after_another() {
    let Some(threads) = program("threads.c") else { return };
    let sandbox = Sandbox::new();
    sandbox.unharmed(&threads, &["one_by_one"]);
    let report = sandbox.report();
    let codes: Vec<_> = report["warnings"].as_array().unwrap().iter().map(|w| w["code"].clone()).collect();
    assert!(!codes.contains(&"too-many-threads".into()), "{codes:?}");
}

#[test]
fn two_hundred_at_once() {
    unharmed("at_once");
}

#[test]
fn few_descriptors_are_enough() {
    // The program may open few files, and it is the program that they are for.
    let Some(threads) = program("threads.c") else { return };
    let sandbox = Sandbox::new();
    let inner = sandbox.profiling(DELAYS, &threads, &["at_once"]);
    let mut shell = sandbox.command("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    let ended = run(shell);
    assert!(ended.stdout.ends_with("done\n"), "{ended:#?}");
}

#[test]
fn forked_children_belong_to_the_session() {
    let Some(threads) = program("threads.c") else { return };
    let sandbox = Sandbox::new();
    let ended = sandbox.compare(&["--region", "other", "--speedup", "50"], &threads, &["forks"]);
    assert!(ended.stdout.ends_with("done\n"), "{ended:#?}");
    let report = sandbox.report();
    assert!(point(&report, "child")["visits"].as_u64() > Some(0), "{report:#}");
}

#[test]
fn executing_another_program_or_failing_to() {
    let Some(threads) = program("threads.c") else { return };
    for which in ["vforks", "execs", "failed_execs"] {
        let sandbox = Sandbox::new();
        // The thread that did so is the only one that then runs `other`, and must still be sampled. Whether its second is
        // enough for an answer depends on the machine.
        let ended = sandbox.compare(&["--region", "other", "--speedup", "50"], &threads, &[which]);
        assert_eq!(ended.stdout, "done\n");
        assert!(sandbox.samples("other") > 20, "{which}: {ended:#?}");
    }
}

#[test]
fn what_children_leave_behind_raises_no_doubt() {
    // Some have ended, some execute another program: none of them owes a pause.
    let Some(threads) = program("threads.c") else { return };
    let sandbox = Sandbox::new();
    sandbox.compare(&["--region", "other", "--speedup", "50"], &threads, &["leave_children"]).assert_code(0);
    let rows = profile::Recording::open(&sandbox.recording()).unwrap().rows().unwrap();
    let delayed: Vec<_> = rows.windows.iter().filter(|window| !window.speedup.is_zero()).collect();
    let balanced = delayed.iter().filter(|window| !window.flags.has(WindowFlags::UNBALANCED)).count();
    assert!(balanced > 0, "{delayed:#?}");
}

#[test]
fn deep_stacks() {
    unharmed("deep");
}

#[test]
fn coroutines_on_stacks_of_their_own() {
    unharmed("coroutines");
}

#[test]
fn c11_threads() {
    unharmed("c11");
}

#[test]
fn other_allocators() {
    let Some(threads) = program("threads.c") else { return };
    Sandbox::new().unharmed(&threads, &["allocators"]);
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    for name in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libmimalloc.so.2"] {
        let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
        let Some(library) = found else {
            skip(&format!("the part about {name}, which is not installed"));
            continue;
        };
        let sandbox = Sandbox::new();
        let mut command = sandbox.profiling(DELAYS, &threads, &["allocators"]);
        command.env("LD_PRELOAD", &library);
        let ended = run(command).assert_code(0);
        assert!(ended.stdout.ends_with("done\n"), "{ended:#?}");

        let flag = library.to_str().unwrap();
        let Some(linked) = program_as("threads.c", &format!("threads-{name}"), &[flag]) else { return };
        Sandbox::new().unharmed(&linked, &["allocators"]);
    }
}

/// Events that are told once are put off while they are still to come in virtual time, and none gets lost or outlives its connection.
#[test]
fn events_that_are_told_once_are_told() {
    let Some(edges) = program("edges.c") else { return };
    for how in ["edges", "one_shot"] {
        let sandbox = Sandbox::new();
        let options = ["--region", "work", "--speedup", "50,100"];
        let ended = sandbox.compare(&options, &edges, &[how, "8"]).assert_code(0);
        assert_eq!(ended.stdout, "done\n", "{how}: {ended:#?}");
    }
}
