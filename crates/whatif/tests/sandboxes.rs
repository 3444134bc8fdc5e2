//! Programs that put themselves into a sandbox, whose filter kills for what sampling and pauses need.

use crate::support::{DELAYS, Sandbox, program};

/// The same end and output as alone, by this sampler. Each way in which a filter kills is tried with both.
fn unharmed(sampler: &str, arguments: &[&str]) {
    let Some(sandboxed) = program("sandboxed.c") else { return };
    let options = [DELAYS, &["--sampler", sampler]].concat();
    let profiled = Sandbox::new().compare(&options, &sandboxed, arguments);
    assert!(profiled.stdout.ends_with("done\n"), "{profiled:#?}");
}

#[test]
fn strict_mode() {
    let Some(sandboxed) = program("sandboxed.c") else { return };
    for sampler in ["perf", "timer"] {
        let options = [DELAYS, &["--sampler", sampler]].concat();
        let profiled = Sandbox::new().compare(&options, &sandboxed, &["strict"]);
        assert_eq!(profiled.stdout, "begins\nstrict\n", "{profiled:#?}");
    }
}

#[test]
fn filters_of_one_thread() {
    unharmed("perf", &["kills_process", "one"]);
    unharmed("timer", &["kills_thread", "one"]);
    unharmed("perf", &["traps", "one"]);
}

#[test]
fn threads_that_are_made_later_inherit_the_filter() {
    unharmed("timer", &["kills_process", "later"]);
    unharmed("perf", &["kills_thread", "later"]);
    unharmed("timer", &["traps", "later"]);
}

#[test]
fn filters_of_all_threads() {
    unharmed("perf", &["kills_process", "all"]);
    unharmed("timer", &["kills_thread", "all"]);
    unharmed("perf", &["traps", "all"]);
}

#[test]
fn one_thread_of_several_and_one_process_of_two() {
    unharmed("timer", &["kills_process", "another"]);
    unharmed("perf", &["kills_process", "child"]);
}

#[test]
fn a_filter_that_a_program_executes_another_with() {
    let Some(sandboxed) = program("sandboxed.c") else { return };
    let profiled = Sandbox::new().compare(DELAYS, &sandboxed, &["executes", "exec"]);
    assert_eq!(profiled.stdout, "begins\nexecuted\n", "{profiled:#?}");
}

#[test]
fn filters_that_are_refused() {
    unharmed("perf", &["refused"]);
    unharmed("timer", &["refused"]);
}

#[test]
fn filters_that_allow_sampling_raise_no_warning() {
    // That the threads are sampled is measured by `bench -- accept --only signals::`.
    let Some(sandboxed) = program("sandboxed.c") else { return };
    for arguments in [["harmless", "one"], ["fails", "one"]] {
        let sandbox = Sandbox::new();
        sandbox.compare(DELAYS, &sandboxed, &arguments);
        assert!(!warned(&sandbox).contains("have installed a seccomp filter"), "{arguments:?}");
    }
}

fn warned(sandbox: &Sandbox) -> String {
    sandbox.report().to_string()
}

#[test]
fn the_user_is_told() {
    let Some(sandboxed) = program("sandboxed.c") else { return };
    let sandbox = Sandbox::new();
    sandbox.compare(DELAYS, &sandboxed, &["kills_process", "one"]);
    let told = warned(&sandbox);
    assert!(told.contains("1 threads of the program have installed a seccomp filter"), "{told}");

    let sandbox = Sandbox::new();
    let ended = sandbox.compare(DELAYS, &sandboxed, &["kills_process", "deadly"]);
    assert_eq!(ended.signal(), Some(31), "{ended:#?}");
    let told = warned(&sandbox);
    assert!(told.contains("SIGSYS ended the program"), "{told}");
}
