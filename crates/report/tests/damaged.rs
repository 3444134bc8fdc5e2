//! Recordings whose rows somebody has changed: each column of each table, and rows that others refer to.

use crate::changes::{changes, free, peak, tables};
use crate::synthetic::{Truth, rows, with_latency};
use profile::*;
use report::{coz, csv, firefox, folded, html, json, markdown, pprof, terminal};
use rusqlite::{Connection, params_from_iter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How long all readers may take for one recording. They take a few milliseconds on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the process may have used at most, in kilobytes.
const MEMORY: u64 = 1 << 20;

/// A recording with rows in every table, of which SQLite keeps nothing but the values.
fn record(path: &Path) {
    let truth = |name, slope| Truth { name, slope, noise: 0.1, blocks: 10 };
    let mut rows = with_latency(rows(&[truth("hash.c:90", 0.1), truth("hash.c:88", 0.55)]));
    let (one, other) = (RegionId::new(1), RegionId::new(2));
    rows.regions.get_mut(&other).unwrap().kind = RegionKind::Function;
    for window in &mut rows.windows {
        let audit =
            Audit { cpu: Nanos::from_millis(90), watched: Nanos::from_millis(100), ..Audit::default() };
        window.audit = Some(audit);
        let begin = window.in_flight[0].begin;
        window.latencies = vec![Latencies { begin, counts: vec![(Nanos::new(1_200), 30)] }];
        let whole = window.whole(PointId::new(1));
        window.visits[0].span = Some(Span { visits: whole.visits, ..whole });
    }
    rows.snippets.insert(one, Snippet { first_line: 88, text: "for (;;)\n    insert();".into() });
    rows.production.push(Production {
        session: SessionId::new(1),
        region: one,
        share: 0.25,
        samples: 900,
        since: UnixSeconds(1_790_000_000),
        until: UnixSeconds(1_790_003_600),
        hosts: 2,
    });
    let function = |name: &str| Function { name: name.into(), ..Function::default() };
    rows.functions = (1..).map(FunctionId::new).zip(["main", "insert"].map(function)).collect();
    let frame = |parent: i64, function, line| Frame {
        parent: Some(parent).filter(|parent| *parent > 0).map(StackId::new),
        function: FunctionId::new(function),
        line: Some(line),
        inlined: false,
    };
    rows.stacks = (1..).map(StackId::new).zip([frame(0, 1, 3), frame(1, 2, 88), frame(2, 2, 90)]).collect();
    rows.sessions[0].programs = vec![Program {
        path: "/bin/static".into(),
        obstacle: Some("it is static".into()),
        processes: 2,
        samples: 0,
        cpu: Nanos::from_millis(70),
    }];
    let worker = Thread { tid: 8, name: "worker".into(), ..rows.sessions[0].threads[0].clone() };
    rows.sessions[0].threads.push(worker);
    rows.stack_samples = [2, 3]
        .map(|stack| StackSamples {
            session: SessionId::new(1),
            stack: StackId::new(stack),
            count: 700,
            weight: Nanos::from_millis(700),
        })
        .into();
    let warning = Warning { code: "busy".into(), message: "m".into(), advice: "a".into() };
    rows.warnings.push((SessionId::new(1), warning));
    let mut to = Recorder::create(path).unwrap();
    to.add(&rows).unwrap();
    to.close().unwrap();
    free(path);
}

/// What every reader makes of a recording.
fn read(path: &Path, untouched: &Profile) -> Result<(), Error> {
    let options = EstimateOptions { resamples: 20, ..EstimateOptions::default() };
    let rows = Recording::open(path)?.rows()?;
    let mut merged = Recorder::create(&path.with_extension("merged"))?;
    let added = merged.add(&rows).and_then(|()| merged.close());
    let _ = std::fs::remove_file(path.with_extension("merged"));
    added?;
    let mut builds = Builds::default();
    let _ = builds.add(rows.sessions.iter().flat_map(|session| &session.images));
    let profile = Profile::new(rows, &options);
    let style = terminal::Style::default();
    for text in [
        terminal::render(&profile, style),
        json::render(&profile),
        json::render_whole(&profile),
        html::render(&profile),
        coz::render_legacy(&profile),
        coz::render_jsonl(&profile),
        firefox::render(&profile),
        folded::render(&profile),
        csv::render(&profile),
        markdown::render(&profile),
    ] {
        assert!(!text.contains('\u{1b}'));
    }
    assert!(!pprof::render(&profile).is_empty());
    for region in ["88", "90", "insert"] {
        if let Ok(explanation) = profile.explain(region) {
            terminal::render_explanation(&explanation, style);
            terminal::render_curves(&explanation, style);
            json::render_explanation(&explanation);
        }
    }
    for (before, after) in [(untouched, &profile), (&profile, untouched)] {
        let comparison = Comparison::new(before, after, &options);
        terminal::render_comparison(&comparison, style);
        json::render_comparison(&comparison);
        html::render_comparison(&comparison);
    }
    Ok(())
}

#[test]
fn no_row_breaks_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    record(&whole);
    let from = Connection::open(&whole).unwrap();
    let tables = tables(&from);
    assert_eq!(tables.len(), 21, "{tables:?}");
    let changes = changes(&from);
    drop(from);
    let untouched = Recording::open(&whole).unwrap().rows().unwrap();
    let untouched = Arc::new(Profile::new(untouched, &EstimateOptions::default()));
    assert!(untouched.regions.len() == 2 && untouched.points.len() == 2);
    read(&whole, &untouched).unwrap();

    let (to, from) = channel();
    let of_reader = changes.clone();
    let path = folder.path().join("changed.db");
    let reader = std::thread::spawn(move || {
        for (sql, value) in of_reader {
            std::fs::copy(&whole, &path).unwrap();
            let changed = Connection::open(&path).unwrap();
            changed.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF").unwrap();
            changed.execute(&sql, params_from_iter(value.clone())).unwrap();
            drop(changed);
            to.send(catch_unwind(AssertUnwindSafe(|| read(&path, &untouched)))).unwrap();
        }
    });
    let (mut panics, mut refused) = (Vec::new(), 0);
    for (sql, value) in &changes {
        match from.recv_timeout(PATIENCE) {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                refused += 1;
                let message = error.to_string();
                let table = sql.split(' ').find(|word| tables.iter().any(|table| table == word)).unwrap();
                assert!(message.contains("damaged"), "{sql} {value:?}: {message}");
                assert!(message.contains("record again"), "{sql} {value:?}: {message}");
                assert!(
                    tables.iter().any(|table| message.contains(&format!("`{table}`"))),
                    "{sql}: {message}"
                );
                // What the change was to is at fault, or what refers to it.
                let is_referred_to =
                    ["sessions", "regions", "points", "windows", "functions", "stacks"].contains(&table);
                assert!(is_referred_to || message.contains(&format!("`{table}`")), "{sql}: {message}");
                assert!(!message.contains('\u{1b}'), "{message}");
            }
            Ok(Err(_)) => panics.push(format!("{sql} {value:?}")),
            Err(RecvTimeoutError::Timeout) => panic!("{sql} {value:?} keeps the readers busy"),
            Err(RecvTimeoutError::Disconnected) => panic!("the reader has ended before {sql} {value:?}"),
        }
    }
    reader.join().unwrap();
    assert!(panics.is_empty(), "{} of {}:\n{}", panics.len(), changes.len(), panics.join("\n"));
    assert!(refused > changes.len() / 4, "{refused} of {}", changes.len());
    assert!(peak() < MEMORY, "{} kB", peak());
}
