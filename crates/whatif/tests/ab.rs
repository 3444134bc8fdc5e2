//! `whatif ab`: two programs by turns.

use crate::support::{Ended, Sandbox, alone, program, run, skip};
use kernel::visits::Means;
use std::path::Path;

/// What `whatif ab` says about `turns.c` with WORK and twice as much.
#[track_caller]
fn ab(sandbox: &Sandbox, options: &[&str], turns: &Path, more: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.arg("ab").args(options).arg("--").arg(turns).args(["before", "1000000"]).args(more);
    command.arg("--").arg(turns).args(["after", "500000"]).args(more);
    run(command)
}

#[track_caller]
fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

/// Half of the work is half of the time; what the machine does meanwhile is in the interval.
#[track_caller]
fn assert_half(difference: &serde_json::Value) {
    let number = |name: &str| difference[name].as_f64().unwrap_or_else(|| panic!("{difference:#}"));
    assert!(number("lo") - 0.2 <= 0.5 && 0.5 <= number("hi") + 0.2, "{difference:#}");
    assert!(number("lo") <= number("gain") && number("gain") <= number("hi"), "{difference:#}");
}

#[test]
fn programs_that_end_run_by_turns_in_random_order() {
    let Some(turns) = program("turns.c") else { return };
    let _alone = alone();
    let sandbox = Sandbox::new();
    let options =
        ["--json", "--runs", "6", "--precision", "0.0001%", "--seed", "1", "--fail-if", "gain(cpu) > 10%"];
    let ended = ab(&sandbox, &options, &turns, &[]);
    let found = json(&ended);
    assert_eq!((&found["rounds"], &found["warmup"]), (&6.into(), &1.into()), "{found:#}");
    let differences = found["differences"].as_array().unwrap();
    let names: Vec<&str> =
        differences.iter().map(|difference| difference["quantity"].as_str().unwrap()).collect();
    assert_eq!(names, ["time", "cpu", "memory"]);
    assert_half(&differences[0]);
    assert_half(&differences[1]);
    assert!(differences[2]["before"][0].as_f64().unwrap() > 100_000.0, "{found:#}");
    // CPU time does not depend on what else runs: half of it is certainly more than a tenth.
    assert_eq!(ended.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("gain(cpu) > 10%' holds"), "{ended:#?}");
    // What really ran when: both in each round, and not always the same one first.
    let order = std::fs::read_to_string(sandbox.path("order")).unwrap();
    let ran: Vec<&str> = order.lines().skip(2).collect();
    let said: Vec<&str> =
        found["order"].as_array().unwrap().iter().map(|side| side.as_str().unwrap()).collect();
    assert_eq!(ran, said);
    let firsts: Vec<&str> = ran.chunks(2).map(|round| round[0]).collect();
    assert!(ran.chunks(2).all(|round| round[0] != round[1]), "{ran:?}");
    assert!(firsts.contains(&"before") && firsts.contains(&"after"), "{firsts:?}");
}

#[test]
fn people_read_plain_words() {
    let Some(turns) = program("turns.c") else { return };
    let sandbox = Sandbox::new();
    let ended = ab(&sandbox, &["--runs", "2", "--warmup", "0"], &turns, &[]).assert_code(0);
    for part in [
        "time per run",
        "CPU time",
        "95 % interval",
        "2 rounds in random order, without warm-up",
        "whatif run",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {ended:#?}");
    }
}

#[test]
fn programs_that_do_not_end_are_counted() {
    let Some(turns) = program("turns.c") else { return };
    if let Err(error) = kernel::visits::cost(Means::Breakpoint) {
        return skip(&format!("no breakpoints here: {error}"));
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let options = ["--json", "--runs", "3", "--seconds", "1", "-p", "unit", "--warmup", "0"];
    let found = json(&ab(&sandbox, &options, &turns, &["forever"]).assert_code(0));
    assert_eq!(found["differences"].as_array().unwrap().len(), 1);
    assert_eq!(found["differences"][0]["quantity"], "visits");
    assert_half(&found["differences"][0]);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let Some(turns) = program("turns.c") else { return };
    let sandbox = Sandbox::new();
    let said = |words: &[&str], status: i32| {
        let mut command = sandbox.whatif();
        command.arg("ab").args(words);
        run(command).assert_code(status).stderr
    };
    let turns = turns.to_str().unwrap();
    assert!(said(&["--", turns, "x", "1"], 2).contains("whatif ab -- BEFORE"));
    assert!(said(&["--precision", "0", "--", turns, "--", turns], 2).contains("--precision 1%"));
    assert!(said(&["--", turns, "--", turns], 90).contains("exit code 3"));
    assert!(said(&["--", "/no/such/program", "--", turns], 90).contains("cannot be started"));
}
