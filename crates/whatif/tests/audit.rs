//! The audit of every run: sound runs balance, and an engine that is broken on purpose is noticed.

use crate::support::{Sandbox, alone, program, region, run, target};
use std::path::Path;

/// Profiles a region at 50 %; the report.
#[track_caller]
fn report(options: &[&str], region: &str, program: &Path, arguments: &[&str]) -> serde_json::Value {
    let sandbox = Sandbox::new();
    let all = [&["--region", region, "--speedup", "50", "--seed", "1"], options].concat();
    sandbox.profile(&all, program, arguments).assert_code(0);
    sandbox.report()
}

#[test]
fn work_that_looks_like_waiting_is_work() {
    let _alone = alone();
    let Some(busy) = program("busy.c") else { return };
    for (kind, function) in [("jump", "jump"), ("stack", "stack"), ("lock", "locked")] {
        let sandbox = Sandbox::new();
        let options = ["--region", function, "--speedup", "50", "--seed", "1"];
        sandbox.profile(&options, &busy, &[kind, "3"]).assert_code(0);
        let explained = sandbox.explained(function);
        let sum = |name: &str| explained["audit"][name].as_f64().unwrap();
        // It is the whole program. Taken for spinning, it would be worth nothing.
        assert!(sum("given_ns") > 1e8, "{kind}: {explained:#}");
        assert!(sum("withheld_spinning_ns") < 0.02 * sum("expected_ns"), "{kind}: {explained:#}");
        assert!(!explained["audit"]["doubts"].to_string().contains("spinning"), "{kind}: {explained:#}");
    }
}

#[test]
fn an_engine_that_is_broken_is_not_trusted() {
    let _alone = alone();
    let (Some(single), Some(pipeline)) = (target("single"), target("pipeline")) else { return };
    // The first and the last stage hardly work: however busy the machine is, they wait.
    let (plain, waiting) = (&["seconds=4"][..], &["seconds=4", "A_ms=0.2", "C_ms=0.2"][..]);
    for (options, name, target, arguments, doubt) in [
        (&["--fault", "spins"][..], "A", &single, plain, "spinning"),
        (&["--fault", "credits"], "A", &single, plain, "credit"),
        (&["--leave-out", "pthread_cond_wait"], "B", &pipeline, waiting, "unexplained-waits"),
        (&["--fault", "threads-as-world"], "B", &pipeline, waiting, "credit-for-waits"),
    ] {
        let report = report(options, name, target, arguments);
        let of = region(&report, name);
        assert_eq!(of["audit"]["trusted"], false, "{options:?}: {of:#}");
        let doubts = of["audit"]["doubts"].as_array().unwrap();
        assert!(doubts.iter().any(|found| found == doubt), "{options:?}: {of:#}");
        assert_eq!(of["verdict"], "not-trusted", "{options:?}: {of:#}");
        assert!(report["sentence"].as_str().unwrap().contains("not to be trusted"), "{report:#}");
    }
}

#[test]
fn the_explanation_shows_the_sums() {
    let _alone = alone();
    let Some(single) = target("single") else { return };
    let sandbox = Sandbox::new();
    let options = ["--region", "A", "--speedup", "50", "--seed", "1"];
    sandbox.profile(&options, &single, &["seconds=3"]).assert_code(0);
    let explained = sandbox.explained("A");
    let number = |name: &str| explained["audit"][name].as_f64().unwrap_or_else(|| panic!("{explained:#}"));
    // A is 60 % of one thread.
    assert!(number("expected_ns") > 1e8 && number("given_ns") > 1e8, "{explained:#}");
    // Samples stand for what others had the CPU for, too.
    assert!(number("cpu_ns") + number("queued_ns") > number("expected_ns"), "{explained:#}");
    let mut command = sandbox.whatif();
    command.args(["report", "--explain", "A"]).arg(sandbox.recording());
    let text = run(command).assert_code(0).stdout;
    assert!(text.contains("Audit") && text.contains("it balances"), "{text}");
}
