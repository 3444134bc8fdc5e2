//! Every target builds, runs, prints its rate, and refuses what it does not know.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use targets::build::build_without_cargo;
use targets::{TARGETS, Target, path};

/// The target's program; nothing if it was left out, for the reason that is printed.
fn built(target: &Target) -> Option<PathBuf> {
    let program = path(target.name).inspect_err(|reason| eprintln!("{reason}")).ok()?;
    if target.program == "sqlite" && !program.exists() {
        eprintln!("sqlite is left out: it is built with --features sqlite, or with the whole workspace");
        return None;
    }
    Some(program)
}

fn rate(output: &str, point: &str) -> Option<f64> {
    let of_point =
        |line: &str| line.strip_prefix("rate ")?.strip_prefix(point)?.strip_prefix(' ')?.parse().ok();
    output.lines().find_map(of_point)
}

/// Programs ask for the time between rounds, and so finish one, however busy the machine: several run at a time, because most of them
/// wait.
#[test]
fn every_target_prints_a_rate() {
    build_without_cargo().unwrap();
    let left = Mutex::new(TARGETS.iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(target) = next() {
                    prints_a_rate(target);
                }
            });
        }
    });
    assert!(Command::new(path("start_true").unwrap()).status().unwrap().success());
}

const AT_A_TIME: usize = 4;

fn prints_a_rate(target: &Target) {
    let Some(program) = built(target) else { return };
    let without = target.regions.iter().map(|region| (format!("{region}=0"), "seconds=0.1"));
    for (variant, seconds) in without.chain([("scale=0.5".to_owned(), "seconds=0.3")]) {
        let output =
            Command::new(&program).args(target.arguments).args([&variant, seconds]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{} {variant}: {output:?}", target.name);
        let rate = rate(&text, target.point);
        assert!(rate.is_some_and(|rate| rate > 0.0), "{} {variant}: {text}", target.name);
    }
    let unknown = Command::new(&program).arg("Q=1").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{}", target.name);
}

/// How it shrinks with the work is for `bench accept --only points::`.
#[test]
fn a_server_prints_the_latency_of_its_requests_as_well() {
    build_without_cargo().unwrap();
    for name in ["hyper_open", "hyper_think", "hyper_workers"] {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        let mut server = Command::new(path(name).unwrap());
        let output = server.args(target.arguments).args(["scale=1", "seconds=0.3"]).output().unwrap();
        let rate = rate(&String::from_utf8_lossy(&output.stdout), "request");
        assert!(rate.is_some(), "{name}: {output:?}");
    }
}

/// Compilers merge functions that do the same, and inline or clone others (in release builds).
#[test]
fn every_region_is_a_function_of_its_own() {
    build_without_cargo().unwrap();
    for target in TARGETS {
        let Some(program) = built(target) else { continue };
        let output = Command::new("nm").arg("-C").arg(program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for region in target.regions {
            let is_region = |line: &&str| {
                let name = line.split_whitespace().nth(2).unwrap_or_default();
                let name = name.trim_end_matches("()");
                name == *region || name == format!("{}::{region}", target.program)
            };
            let found = text.lines().filter(is_region).count();
            let expected = match (target.program, *region) {
                ("inlined" | "inlined_rs", "A") => 0,
                ("generic_rs", "A") => 3,
                _ => 1,
            };
            assert_eq!(found, expected, "{} {region}", target.name);
        }
    }
}
