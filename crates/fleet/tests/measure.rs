//! What sending costs, and what samples take on a server.
//!
//! ```text
//! $ cargo test --release -p whatif-fleet --test all measure:: -- --ignored --nocapture
//! ```

use crate::answers::{init, push, typed};
use crate::nodes::Nodes;
use crate::worth::push_recordings;
use crate::{experiments, machines};
use fleet::arguments::Command;
use fleet::command;
use std::time::Instant;

#[test]
#[ignore = "it measures"]
fn rows_and_bytes() {
    let Some(nodes) = Nodes::start(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    machines::write(folder.path(), 6, 300);
    init(&nodes);
    let url = &nodes.urls()[0];
    let begin = Instant::now();
    let pushed = push(url, folder.path()).unwrap();
    let sent = begin.elapsed().as_secs_f64();
    println!("{pushed:?} in {sent:.1} s: {:.0} rows a second", pushed.rows as f64 / sent);
    let Command::Status(args) = typed(&["status", "--url", url]) else { unreachable!() };
    let sizes = |when: &str| {
        let standing = command::status(&args).unwrap();
        for table in &standing.tables {
            println!(
                "{when}: {} {} rows, {} bytes, {} parts",
                table.name, table.rows, table.bytes, table.parts
            );
        }
        let bytes: u64 = standing.tables.iter().map(|table| table.bytes).sum();
        let samples = standing.tables.iter().find(|table| table.name == "samples").unwrap();
        println!(
            "{when}: {:.3} bytes a sample, {:.2} a row; {:.3} bytes a sample in all tables",
            samples.bytes as f64 / standing.samples as f64,
            samples.bytes as f64 / samples.rows as f64,
            bytes as f64 / standing.samples as f64
        );
        assert_eq!((standing.doubts.len(), standing.samples), (0, pushed.samples));
    };
    sizes("as sent");
    let tables =
        ["samples PARTITION 20260101", "books PARTITION 202601", "stacks", "images", "symbols", "epochs"];
    for table in tables {
        nodes.nodes[0].ask(&format!("OPTIMIZE TABLE whatif.{table} FINAL"));
    }
    sizes("merged");
    for words in [&["top"][..], &["top", "--by", "service,version,function"], &["diff", "1.0", "1.1"]] {
        let all: Vec<&str> = words.iter().copied().chain(["--url", url]).collect();
        let begin = Instant::now();
        match typed(&all) {
            Command::Top(args) => assert!(command::top(&args).is_ok_and(|top| !top.rows.is_empty())),
            Command::Diff(args) => assert!(command::diff(&args).is_ok_and(|diff| !diff.changes.is_empty())),
            other => panic!("{other:?}"),
        }
        println!("{}: {:.2} s", words.join(" "), begin.elapsed().as_secs_f64());
    }
}

/// Hosts in [`worth_of_many_hosts`], each with a run of either version.
const HOSTS: u32 = 500;

#[test]
#[ignore = "it measures"]
fn worth_of_many_hosts() {
    let Some(nodes) = Nodes::start(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    experiments::write(folder.path(), HOSTS);
    init(&nodes);
    let url = &nodes.urls()[0];
    let begin = Instant::now();
    let pushed = push_recordings(url, folder.path(), &[]).unwrap();
    let sent = begin.elapsed().as_secs_f64();
    println!("{pushed:?} in {sent:.1} s: {:.1} runs a second", pushed.runs as f64 / sent);
    for table in ["windows PARTITION 202601", "runs PARTITION 202601", "regions"] {
        nodes.nodes[0].ask(&format!("OPTIMIZE TABLE whatif.{table} FINAL"));
    }
    let Command::Status(args) = typed(&["status", "--url", url]) else { unreachable!() };
    let standing = command::status(&args).unwrap();
    for table in standing.tables.iter().filter(|table| ["windows", "runs", "regions"].contains(&&*table.name))
    {
        println!(
            "{}: {} rows, {:.1} bytes a row",
            table.name,
            table.rows,
            table.bytes as f64 / table.rows as f64
        );
    }
    assert_eq!((standing.windows, standing.broken_runs.len()), (pushed.windows, 0));
    let files = folder.path().to_str().unwrap();
    for from in [["--url", url], ["--recordings", files]] {
        let Command::Worth(args) = typed(&[&["worth"][..], &from].concat()) else { unreachable!() };
        let begin = Instant::now();
        let worths = command::worth(&args).unwrap();
        println!("worth {}: {:.2} s", from[0], begin.elapsed().as_secs_f64());
        assert_eq!((worths.hosts, worths.windows as u64), (HOSTS as usize, pushed.windows));
    }
}
