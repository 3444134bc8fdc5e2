//! Threads and processes of all kinds, under sampling and delays: they run as they do alone. That they are sampled is measured by
//! `bench -- accept --only threads::`.

use crate::support::{DELAYS, Sandbox, program, program_as, run, skip};
use std::path::Path;

/// No thread of the program's first part runs this function.
const DELAYS_BY_OTHER: &[&str] = &["--region", "other", "--speedup", "50"];

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
fn children_are_forked_and_execute_other_programs() {
    let Some(threads) = program("threads.c") else { return };
    for which in ["forks", "vforks", "execs", "failed_execs", "leave_children"] {
        let ended = Sandbox::new().compare(DELAYS_BY_OTHER, &threads, &[which]);
        assert_eq!(ended.stdout, "done\n");
    }
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
        let ended = run(command).assert_success();
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
        let ended = sandbox.compare(&options, &edges, &[how, "3"]);
        assert_eq!(ended.stdout, "done\n", "{how}: {ended:#?}");
    }
}
