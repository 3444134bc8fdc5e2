//! `whatif ab`: two programs by turns.

use crate::support::{Ended, Sandbox, program, run};
use std::path::Path;

/// What `whatif ab` says about `turns.c` with some work and with half of it.
#[track_caller]
fn ab(sandbox: &Sandbox, options: &[&str], turns: &Path) -> Ended {
    let mut command = sandbox.whatif();
    command.arg("ab").args(options).arg("--").arg(turns).args(["before", "200000"]);
    command.arg("--").arg(turns).args(["after", "100000"]);
    run(command)
}

#[track_caller]
fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

#[test]
fn programs_that_end_run_by_turns_in_random_order() {
    let Some(turns) = program("turns.c") else { return };
    let sandbox = Sandbox::new();
    let options = [
        "--json",
        "--runs",
        "6",
        "--duration",
        "90",
        "--precision",
        "0.0001%",
        "--seed",
        "1",
        "--fail-if",
        "gain(cpu) < 10000%",
    ];
    let ended = ab(&sandbox, &options, &turns);
    let found = json(&ended);
    assert_eq!((&found["rounds"], &found["warmup"]), (&6.into(), &1.into()), "{found:#}");
    let differences = found["differences"].as_array().unwrap();
    let names: Vec<&str> =
        differences.iter().map(|difference| difference["quantity"].as_str().unwrap()).collect();
    assert_eq!(names, ["time", "cpu", "memory"]);
    for difference in differences {
        let number = |name: &str| difference[name].as_f64().unwrap_or_else(|| panic!("{difference:#}"));
        assert!(number("lo") <= number("gain") && number("gain") <= number("hi"), "{difference:#}");
    }
    assert!(differences[2]["before"][0].as_f64().unwrap() > 100_000.0, "bytes: {found:#}");
    // No program can gain more than all of its time.
    assert_eq!(ended.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("gain(cpu) < 10000%' holds"), "{ended:#?}");
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
    let ended = ab(&sandbox, &["--runs", "2", "--warmup", "0"], &turns).assert_code(0);
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
