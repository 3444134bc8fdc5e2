//! Where threads wait, against what a program knows of itself.

use crate::support::{Sandbox, program_as, run, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const FUNCTIONS: [&str; 4] = ["sleeps", "locks", "reads", "syncs"];

/// A collector of the whole machine; none, said aloud, where there can be none.
fn collector(sandbox: &Sandbox, db: &Path) -> Option<Child> {
    let mut command = sandbox.whatif();
    command.args(["collect", "--off-cpu", "--rate", "199", "--max-cpu", "100%", "--db"]).arg(db);
    command.args(["--interval", "1h", "--resolution", "1h"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().map_or_else(String::new, Result::unwrap);
    // Whatever else it says must have somewhere to go.
    std::thread::spawn(move || lines.for_each(drop));
    if first.contains("off-cpu") {
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    skip(&format!("time off the CPU is not to be had here: {first}"));
    None
}

fn end(mut collector: Child) {
    assert!(Command::new("kill").arg(collector.id().to_string()).status().unwrap().success());
    assert!(collector.wait().unwrap().success());
}

fn top(sandbox: &Sandbox, db: &Path, arguments: &[&str]) -> Value {
    let mut command = sandbox.whatif();
    command.args(["top", "--json", "--top", "1000", "--db"]).arg(db).args(arguments);
    let ended = run(command).assert_code(0);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Seconds of each function, with all it calls.
fn waited(top: &Value) -> BTreeMap<String, f64> {
    let each = top["heading"]["nanos_per_sample"].as_f64().unwrap();
    let rows = top["rows"].as_array().unwrap().iter();
    let mut sums = BTreeMap::new();
    for row in rows {
        let seconds = row["total"].as_f64().unwrap_or(0.0) * each / 1e9;
        *sums.entry(row["name"].as_str().unwrap().to_owned()).or_insert(0.0) += seconds;
    }
    sums
}

#[test]
fn waits_have_their_length_and_the_functions_that_wait() {
    let flags = [
        ("waits-without", &["-fomit-frame-pointer"][..]),
        ("waits-with", &["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]),
    ];
    let sandbox = Sandbox::new();
    let db = sandbox.path("db");
    let mut said = Vec::new();
    let Some(collector) = collector(&sandbox, &db) else { return };
    for (name, flags) in flags {
        let Some(program) = program_as("off_cpu.c", name, flags) else {
            return end(collector);
        };
        // Waits of some milliseconds, longer than a sample and shorter.
        let output = Command::new(program).args(["6", "2000"]).arg(sandbox.path("file")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        said.push((name, String::from_utf8(output.stdout).unwrap()));
    }
    end(collector);
    for (name, said) in said {
        let words: Vec<&str> = said.split_whitespace().collect();
        let truth: Vec<f64> = words.chunks(2).map(|pair| pair[1].parse().unwrap()).collect();
        let all: f64 = truth.iter().sum();
        let answer = top(&sandbox, &db, &["--off-cpu", "--process", name]);
        let found = waited(&answer);
        // The same time by who ended it, and by how threads waited: a timer ends sleeps, another thread lets go of the lock.
        for (by, expected) in [
            ("waker", &["[woken by an interrupt]", "[woken by its own process]"][..]),
            ("wait", &["[off-CPU: waits]"]),
        ] {
            let by = top(&sandbox, &db, &["--off-cpu", "--process", name, "--by", by]);
            let rows = by["rows"].as_array().unwrap();
            for name in expected {
                assert!(rows.iter().any(|row| row["name"] == **name), "{name}: {by:#}");
            }
            let samples: u64 = rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum();
            assert_eq!(Some(samples), answer["heading"]["samples"].as_u64());
        }
        let seconds: Vec<f64> =
            FUNCTIONS.iter().map(|name| found.get(*name).copied().unwrap_or(0.0)).collect();
        let sum: f64 = seconds.iter().sum();
        println!("{name}: {said}  found {seconds:.3?}");
        // On a busy machine some records find no room, and unwind tables have not been read when the first waits end. Then less is found,
        // and the books or the stacks say so; but never more.
        let is_mark = |name: &str| name.starts_with("[truncated");
        let truncated: f64 = found.iter().filter(|(name, _)| is_mark(name)).map(|(_, seconds)| seconds).sum();
        let lost = answer["heading"]["books"]["lost"].as_u64().expect("the books say what was lost");
        // Seconds that one observation stands for: where threads wait often, one for many.
        let number = |name: &str| answer["heading"][name].as_f64().unwrap();
        let observation = number("samples_at_a_time") * number("nanos_per_sample") / 1e9;
        let by_chance = |seconds: f64| 5.0 * ((seconds + observation) * observation).sqrt();
        for ((function, truth), found) in FUNCTIONS.iter().zip(&truth).zip(&seconds) {
            let most = 1.2 * truth + 0.1 + by_chance(*truth);
            assert!(*found < most, "{name}: {function} {truth:.3} {found:.3} of {most:.3}");
            // Its callers may have been missing all the time.
            let is_told = lost > 0 || truncated > 0.5 * truth;
            assert!(
                *found > 0.0 || is_told || by_chance(*truth) > *truth,
                "{name}: {function} {truth:.3}, {truncated:.3} s truncated"
            );
        }
        assert!(sum < 1.05 * all + by_chance(all), "{name}: {said} {found:#?}");
        let is_told = lost > 0 || truncated > 0.0;
        // Some of the time that the program measures it runs.
        if sum < 0.8 * all || number("samples_at_a_time") > 4.0 {
            assert!(is_told || sum > 0.8 * all - by_chance(all), "{name}: {said} {found:#?}");
            println!(
                "{name}: shares are not compared, because {lost} samples were lost and {truncated:.3} s truncated, and an observation is of {observation:.3} s"
            );
        } else {
            let off = 0.05 + truncated / (sum + truncated);
            for ((function, truth), found) in FUNCTIONS.iter().zip(&truth).zip(&seconds) {
                let (truth, found) = (truth / all, found / sum);
                let difference = (truth - found).abs();
                assert!(
                    difference < off || lost > 0,
                    "{name}: {function} {truth:.3} {found:.3} {truncated:.3}"
                );
            }
        }
        // Timers wake what sleeps, and threads of its own what wants a lock or reads.
        let of_it = found.get("[woken by its own process]").copied().unwrap_or(0.0);
        let by_interrupts = found.get("[woken by an interrupt]").copied().unwrap_or(0.0);
        assert!(of_it > 0.7 * (seconds[1] + seconds[2]), "{found:#?}");
        assert!(by_interrupts > 0.7 * seconds[0], "{found:#?}");
        // The other samples are not mixed with these.
        let on = top(&sandbox, &db, &["--process", name]);
        assert_eq!(on["heading"]["event"], "cpu-clock");
    }
    let flame = sandbox.path("flame.html");
    let mut command = sandbox.whatif();
    command.args(["flame", "--both", "--db"]).arg(&db).arg("-o").arg(&flame);
    run(command).assert_code(0);
    let page = std::fs::read_to_string(flame).unwrap();
    assert!(page.contains(r#""kind":"waiting""#) && page.contains("cpu-clock and off-cpu"));
}
