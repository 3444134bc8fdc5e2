//! Where threads wait. For how long is for `bench accept`.

use crate::collect::{Collecting, Killed, OFTEN};
use crate::support::{Sandbox, answer, program_as, run, says_there_is_nothing, skip};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const FUNCTIONS: [&str; 3] = ["sleeps", "locks", "reads"];
/// A timer ends sleeps, and threads of its own wake what wants a lock or reads.
const WAKERS: [&str; 2] = ["[woken by an interrupt]", "[woken by its own process]"];

fn waits(folder: &Path, process: &str, more: &[&str]) -> Option<Value> {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["top", "--json", "--off-cpu", "--top", "1000", "--process", process]).args(more);
    command.arg("--db").arg(folder);
    let ended = run(command);
    (!says_there_is_nothing(&ended)).then(|| serde_json::from_str(&ended.assert_code(0).stdout).unwrap())
}

fn has_rows(answer: Option<&Value>, names: &[&str]) -> bool {
    let rows = answer.map(|answer| answer["rows"].as_array().unwrap());
    rows.is_some_and(|rows| names.iter().all(|name| rows.iter().any(|row| row["name"] == *name)))
}

#[test]
fn waits_are_of_the_functions_that_wait_and_of_what_wakes_them() {
    let flags = [
        ("waits-without", &["-fomit-frame-pointer"][..]),
        ("waits-with", &["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]),
    ];
    let Some(collecting) = Collecting::start(&[OFTEN, &["--off-cpu"]].concat()) else { return };
    if !collecting.first.contains("off-cpu") {
        return skip(&format!("time off the CPU is not to be had here: {}", collecting.first));
    }
    let sandbox = Sandbox::new();
    let mut running = Vec::new();
    for (name, flags) in flags {
        let Some(program) = program_as("off_cpu.c", name, flags) else { return };
        // Waits of some milliseconds, longer than a sample and shorter, until it is killed.
        let mut command = Command::new(program);
        command.args(["1000000", "2000"]).arg(sandbox.path(name)).stdout(Stdio::null());
        running.push(Killed(command.spawn().unwrap()));
    }
    let folder = collecting.folder.clone();
    collecting.wait_for(|_| {
        flags.iter().all(|(name, _)| {
            has_rows(waits(&folder, name, &[]).as_ref(), &FUNCTIONS)
                && has_rows(waits(&folder, name, &["--by", "waker"]).as_ref(), &WAKERS)
        })
    });
    drop(running);
    let folder = collecting.end("-TERM");
    for (name, _) in flags {
        let all = waits(&folder, name, &[]).unwrap()["heading"]["samples"].as_u64();
        for (by, expected) in [("waker", &WAKERS[..]), ("wait", &["[off-CPU: waits]"])] {
            let by = waits(&folder, name, &["--by", by]).unwrap();
            assert!(has_rows(Some(&by), expected), "{expected:?}: {by:#}");
            let rows = by["rows"].as_array().unwrap();
            let sum: u64 = rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum();
            assert_eq!(Some(sum), all, "{by:#}");
        }
        // The other samples are not mixed with these.
        let on = answer(&["top", "--json", "--idle"], &folder);
        assert_eq!(on["heading"]["event"], "cpu-clock");
    }
    let flame = sandbox.path("flame.html");
    let mut command = sandbox.whatif();
    command.args(["flame", "--both", "--db"]).arg(&folder).arg("-o").arg(&flame);
    run(command).assert_code(0);
    let page = std::fs::read_to_string(flame).unwrap();
    assert!(page.contains(r#""kind":"waiting""#) && page.contains("cpu-clock and off-cpu"));
    std::fs::remove_dir_all(folder).unwrap();
}
