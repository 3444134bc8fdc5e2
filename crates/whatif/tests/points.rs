//! Progress points: the interface by its names, the header, the Rust package.

use crate::support::{Sandbox, have, point, program, program_as};
use std::process::Command;

fn unharmed(which: &str) -> Option<Sandbox> {
    let points = program("points.c")?;
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(crate::support::DELAYS, &points, &[which]).assert_success();
    assert_eq!(ended.stdout, "done\n", "{ended:#?}");
    Some(sandbox)
}

#[test]
fn the_interface() {
    let Some(sandbox) = unharmed("interface") else { return };
    let report = sandbox.report();
    for i in 0..50 {
        point(&report, &format!("concurrent {i}"));
    }
}

#[test]
fn a_full_table() {
    unharmed("full");
}

#[test]
fn waits_that_we_are_told_about() {
    unharmed("blocks");
}

#[test]
fn visits_are_those_that_the_program_made() {
    let Some(points) = program("points.c") else { return };
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(crate::support::DELAYS, &points, &["counts"]).assert_success();
    let mut lines = ended.stdout.lines();
    let made: u64 = lines.next().unwrap().parse().unwrap();
    assert_eq!(lines.next(), Some("done"), "the counter holds what the program counted: {ended:#?}");
    let report = sandbox.report();
    let seen = point(&report, "visit")["visits"].as_u64().unwrap();
    // Windows do not cover the whole run.
    assert!(seen > 0 && seen <= made, "{seen} of {made}");
    // Two threads, each always in a request but for moments: about as long as `hot` takes, whatever else
    // the machine does, and surely more than nothing.
    let latency = point(&report, "request")["latency_ns"].as_u64().unwrap();
    assert!((10_000..1_000_000_000).contains(&latency), "{latency} ns in {report:#}");
}

#[test]
fn the_header_in_cpp() {
    let Some(header) = program("header.cpp") else { return };
    let sandbox = Sandbox::new();
    sandbox.profile(&["--speedup", "50"], &header, &[]).assert_code(0);
    let report = sandbox.report();
    let points = report["points"].as_array().unwrap();
    let places = points.iter().filter(|point| point["name"].as_str().unwrap().contains("header.cpp:"));
    assert_eq!(places.count(), 1, "{report:#}");
    assert!(point(&report, "request")["latency_ns"].as_u64() > Some(0), "{report:#}");
    assert!(!points.iter().any(|point| point["name"] == "never"), "{report:#}");
    assert!(sandbox.samples("hot") > 10);
}

#[test]
fn the_macros_in_rust() {
    if !have("rustc") {
        return;
    }
    let folder = env!("CARGO_TARGET_TMPDIR");
    let library = format!("{folder}/libwhatif.rlib");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../points/src/lib.rs");
    let built = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=rlib", "--crate-name=whatif", "-Copt-level=2", "-o"])
        .args([&library, source])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let Some(macros) = program_as("macros.rs", "macros", &["--extern", &format!("whatif={library}")]) else {
        return;
    };
    let sandbox = Sandbox::new();
    let ended = sandbox.profile(&["--speedup", "50"], &macros, &[]).assert_code(0);
    assert_eq!(ended.stdout, "done\n");
    let report = sandbox.report();
    assert!(point(&report, "round")["visits"].as_u64() > Some(0), "{report:#}");
    assert!(point(&report, "request")["latency_ns"].as_u64() > Some(0), "{report:#}");
    assert!(sandbox.samples("macros::hot") > 10);
}
