//! Progress points: the interface by its names, the header, the Rust package.
//!
//! What is counted is judged in whole runs (`--end-to-end`), whose windows begin before the program and end after it: the counts are those of the program.

use crate::support::{Sandbox, have, point, program, program_as, run, scratch, skip, workspace};
use profile::Recording;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What whole runs of a program have counted, and what the program itself has.
pub struct Counted {
    report: Value,
    /// What the program has printed in the runs that were measured, together.
    pub made: u64,
    /// The standard error of the command.
    pub said: String,
}

impl Counted {
    /// The visits of a point.
    #[track_caller]
    pub fn visits(&self, name: &str) -> u64 {
        point(&self.report, name)["visits"].as_u64().unwrap()
    }
}

/// Has a program run three times, which prints each time how often something was done, as the first word of a line. The first run finds out what runs; the others are
/// measured. None if nothing could be sampled.
#[track_caller]
pub fn whole_runs(options: &[&str], program: &Path, arguments: &[&str]) -> Option<Counted> {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--end-to-end", "--repeat", "3", "--speedup", "50", "-o"]).arg(sandbox.recording());
    command.args(options).arg("--").arg(program).args(arguments);
    let ended = run(command).assert_success();
    let first_words = ended.stdout.lines().filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
    let made: Vec<u64> = first_words.collect();
    assert!(made.len() == 3 && !ended.stderr.contains("unprofiled"), "{ended:#?}");
    let runs = Recording::open(&sandbox.recording()).unwrap().rows().unwrap().windows.len();
    if runs == 0 {
        skip("nothing could be sampled in a whole run");
        return None;
    }
    let made = made[3 - runs..].iter().sum();
    Some(Counted { report: sandbox.report(), made, said: ended.stderr })
}

#[test]
fn the_interface() {
    let Some(points) = program("points.c") else { return };
    let Some(counted) = whole_runs(&[], &points, &["interface"]) else { return };
    for i in 0..50 {
        assert_eq!(counted.visits(&format!("concurrent {i}")), 0);
    }
    // The thread in the background has made some.
    assert!(counted.visits("work") > 0);
}

fn unharmed(which: &str) {
    let Some(points) = program("points.c") else { return };
    let ended = Sandbox::new().profile(crate::support::DELAYS, &points, &[which]).assert_success();
    assert!(ended.stdout.ends_with("\ndone\n"), "{ended:#?}");
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
    let Some(counted) = whole_runs(&["--region", "hot"], &points, &["counts"]) else { return };
    assert_eq!(counted.visits("visit"), counted.made);
    assert_eq!(counted.visits("request"), counted.made);
}

#[test]
fn the_header_in_cpp() {
    let Some(header) = program("header.cpp") else { return };
    let Some(counted) = whole_runs(&["--region", "hot"], &header, &[]) else { return };
    let points = counted.report["points"].as_array().unwrap();
    let names = points.iter().map(|point| point["name"].as_str().unwrap());
    let [place] = names.filter(|name| name.contains("header.cpp:")).collect::<Vec<_>>()[..] else {
        panic!("{points:#?}")
    };
    assert_eq!((counted.visits(place), counted.visits("request")), (counted.made, counted.made));
    assert!(!points.iter().any(|point| point["name"] == "never"), "{points:#?}");
}

#[test]
fn the_macros_in_rust() {
    if !have("rustc") {
        return;
    }
    let library = scratch().join("libwhatif.rlib");
    let built = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=rlib", "--crate-name=whatif", "-Copt-level=2", "-o"])
        .arg(&library)
        .arg(workspace().join("crates/points/src/lib.rs"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let library = format!("whatif={}", library.display());
    let Some(macros) = program_as("macros.rs", "macros", &["--extern", &library]) else { return };
    let Some(counted) = whole_runs(&["--region", "macros::hot"], &macros, &[]) else { return };
    assert_eq!((counted.visits("round"), counted.visits("request")), (counted.made, counted.made));
}
