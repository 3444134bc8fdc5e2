//! Programs that are built with the address sanitizer or the thread sanitizer, of GCC and of clang: under the profiler they run as they
//! do alone, and what the sanitizers find is what they find without it.

use crate::support::{DELAYS, Ended, Sandbox, compiles, program_by, same, skip, target_by};
use std::collections::BTreeSet;
use std::path::PathBuf;

const COMPILERS: [&str; 2] = ["gcc", "clang"];
const SANITIZERS: [&str; 2] = ["address", "thread"];

/// A program for each compiler and sanitizer that this machine has.
fn built(name: &str, build: impl Fn(&str, &str, &[&str]) -> Option<PathBuf>) -> Vec<(PathBuf, &'static str)> {
    let mut programs = Vec::new();
    for compiler in COMPILERS {
        for sanitizer in SANITIZERS {
            let flag = format!("-fsanitize={sanitizer}");
            if compiles(compiler, &flag) {
                let program = build(compiler, &format!("{name}-{compiler}-{sanitizer}"), &[&flag]);
                programs.extend(program.map(|program| (program, sanitizer)));
            } else {
                skip(&format!("{compiler} {flag} does not work here"));
            }
        }
    }
    programs
}

/// What sanitizers have found, without addresses and numbers of processes.
fn found(ended: &Ended) -> BTreeSet<String> {
    let summaries = ended.stderr.lines().filter_map(|line| line.strip_prefix("SUMMARY: "));
    let words = |line: &str| line.split(' ').take(3).collect::<Vec<_>>().join(" ");
    summaries.map(words).collect()
}

/// The mistakes that a sanitizer finds in `mistakes.c`, natively and under the profiler.
fn finds(mistake: &str, by: &str, expected: &str) {
    let build = |compiler: &str, name: &str, flags: &[&str]| program_by(compiler, "mistakes.c", name, flags);
    for (program, sanitizer) in built("mistakes", build) {
        let sandbox = Sandbox::new();
        let (native, profiled) =
            (sandbox.native(&program, &[mistake]), sandbox.profile(DELAYS, &program, &[mistake]));
        same(&native, &profiled);
        assert_eq!(found(&native), found(&profiled), "{native:#?}\n{profiled:#?}");
        let finds = sanitizer == by;
        let named = found(&profiled).iter().any(|summary| summary.contains(expected));
        assert_eq!(named, finds, "{profiled:#?}");
        assert!(finds || profiled.stdout.ends_with("done\n"), "{profiled:#?}");
    }
}

#[test]
fn a_program_without_mistakes_runs_as_it_does_alone() {
    finds("none", "none", "Sanitizer");
}

#[test]
fn an_overflow_is_still_found() {
    finds("overflow", "address", "heap-buffer-overflow");
}

#[test]
fn a_race_is_still_found() {
    finds("race", "thread", "data race");
}

#[test]
fn targets_get_no_report() {
    for target in ["mutex", "event_loop", "pipeline"] {
        let build = |compiler: &str, name: &str, flags: &[&str]| target_by(compiler, target, name, flags);
        for (program, _) in built(target, build) {
            let sandbox = Sandbox::new();
            let mut command = sandbox.profiling(&["--speedup", "50"], &program, &["seconds=1", "scale=0.1"]);
            // Targets end without waiting for their threads.
            command.env("TSAN_OPTIONS", "report_thread_leaks=0");
            let ended = crate::support::run(command);
            assert!(ended.stdout.starts_with("rate "), "{ended:#?}");
            assert_eq!(found(&ended), BTreeSet::new(), "{ended:#?}");
            assert!(ended.is_success(), "{ended:#?}");
        }
    }
}
