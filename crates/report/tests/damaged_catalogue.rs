//! Databases of continuous profiles whose catalogue somebody has changed: each column of each table, and rows that others refer to.

use crate::changes::{changes, free, peak, tables};
use archive::{
    Batch, Books, CodeImage, Count, ImageKind, Label, MachineInfo, Node, Offset, Setting, Store, Symbol,
    UnixSeconds,
};
use cycles::Flame;
use cycles::arguments::{
    Across, Causes, Compared, Diff, Epochs, Folder, List, Per, Stats, Top, Unknown, Which,
};
use profile::Nanos;
use report::cycles::{self as draw, Answer};
use report::terminal::Style;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long all readers may take for one database. They take some milliseconds on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the process may have used at most, in kilobytes.
const MEMORY: u64 = 1 << 20;
/// How many databases are changed at a time.
const READERS: usize = 4;
const START: i64 = 1_790_000_000;

/// A database with rows in every table of continuous profiles.
fn record(folder: &Path) {
    let mut store = Store::open(folder).unwrap();
    let info = MachineInfo { key: "a".into(), host: "host".into(), kernel: "6.1".into(), cpus: 2 };
    let machine = store.machine(&info).unwrap();
    let setting = Setting {
        scope: "machine".into(),
        mode: "stacks".into(),
        events: vec!["cpu-clock".into()],
        sampler: "perf".into(),
        rate_hz: 97.0,
        resolution: Nanos::from_millis(60_000),
        version: "0".into(),
        labels: [("region".to_owned(), "eu".to_owned())].into(),
    };
    for nth in 0..2 {
        let at = UnixSeconds(START + 3600 * nth);
        let epoch = store.begin_epoch(machine, &setting, Some("before"), at).unwrap();
        let event = store.event("cpu-clock").unwrap();
        let [label, other] = ["server", "worker"].map(|process| {
            store
                .label(&Label { process: process.into(), cgroup: "/web".into(), ..Label::default() })
                .unwrap()
        });
        let program = CodeImage { path: "/bin/server".into(), build_id: "0a".into(), kind: ImageKind::File };
        let image = store.image(&program).unwrap();
        let length = Nanos::from_millis(60_000);
        let batch = Batch {
            nodes: vec![
                Node { parent: Node::NONE, image, offset: Offset(0x1000) },
                Node { parent: 0, image, offset: Offset(0x2000) },
            ],
            counts: vec![
                Count { time: at, label, event, node: 1, count: 600 },
                Count { time: at, label: other, event, node: 1, count: 300 },
            ],
            books: vec![Books {
                event,
                start: at,
                length,
                expected: 903,
                stored: 900,
                unknown: 0,
                lost: 3,
                idle: 0,
                covered: length,
                own_cpu: Nanos::ZERO,
                kernel_cpu: Nanos::ZERO,
                resident: 1 << 20,
                squares: 0,
            }],
        };
        store.flush(epoch, &batch).unwrap();
        let named =
            |function: &str, line| vec![Symbol { function: function.into(), file: "server.c".into(), line }];
        let symbols = [(Offset(0x1000), named("main", 7)), (Offset(0x2000), named("serve", 90))];
        store.add_symbols(image, &symbols).unwrap();
        let happened =
            archive::EntryKind::ALL.map(|kind| archive::Entry { at, kind, value: 7.0, detail: "why".into() });
        store.note(epoch, &happened).unwrap();
        store.end_epoch(epoch, UnixSeconds(at.0 + 60)).unwrap();
    }
    drop(store);
    free(&folder.join("catalogue.db"));
}

/// What one tool makes of a database: all that it may draw.
fn drawn<A: Answer>(answer: &A) {
    for text in [answer.draw(Style::default()), answer.json()] {
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

type Asked = (&'static str, Box<dyn Fn(&Which) -> Result<(), String>>);

/// The tools, by their names.
fn tools() -> Vec<Asked> {
    fn wrong(error: impl std::fmt::Display) -> String {
        format!("{error:#}")
    }
    let causes = || Causes { recordings: Vec::new(), no_recordings: false };
    let top = move |which: &Which, by: &str| {
        let by = by.parse().unwrap();
        let args = Top { which: which.clone(), causes: causes(), by, top: 20, total: false, json: false };
        cycles::top(&args).map(|answer| drawn(&answer)).map_err(wrong)
    };
    let diff = move |which: &Which, before: &str, after: &str| {
        let conditions =
            ["share(*) > 2 * share(*, A) + 1%", "total(*, 1d..now) > 50%", "cpu(process:*, A) > 1"];
        let args = Diff {
            before: Some(before.into()),
            after: Some(after.into()),
            fail_if: conditions.map(|condition| condition.parse().unwrap()).into(),
            which: which.clone(),
            causes: causes(),
            by: Compared::Function,
            per: Per::Second,
            top: 20,
            flame: None,
            json: false,
        };
        drawn(&cycles::judge(&args));
        cycles::diff(&args).map(|answer| drawn(&answer)).map_err(wrong)
    };
    let stats = move |which: &Which, across| {
        let args = Stats {
            which: which.clone(),
            causes: causes(),
            across,
            by: Compared::Function,
            top: 20,
            json: false,
        };
        cycles::stats(&args).map(|answer| drawn(&answer)).map_err(wrong)
    };
    vec![
        ("top", Box::new(move |which| top(which, "function"))),
        ("top of images", Box::new(move |which| top(which, "image"))),
        ("top of lines", Box::new(move |which| top(which, "line"))),
        ("top of processes", Box::new(move |which| top(which, "process"))),
        ("diff of epochs", Box::new(move |which| diff(which, "1", "2"))),
        (
            "diff of times",
            Box::new(move |which| {
                diff(
                    which,
                    "2026-09-21T00:00:00Z..2026-09-21T14:30:00Z",
                    "2026-09-21T14:30:00Z..2026-09-22T00:00:00Z",
                )
            }),
        ),
        ("stats of epochs", Box::new(move |which| stats(which, Across::Epoch))),
        ("stats of hours", Box::new(move |which| stats(which, Across::Hour))),
        ("stats of processes", Box::new(move |which| stats(which, Across::Process))),
        (
            "flame",
            Box::new(|which| {
                let mut query = cycles::Query::new(which).map_err(wrong)?;
                let stacks = cycles::stacks(&mut query).map_err(wrong)?;
                let flame = Flame::new(&stacks);
                for text in [draw::page(&query.heading, &flame), draw::folded(&flame)] {
                    assert!(!text.contains('\u{1b}'));
                }
                draw::pprof(&query.heading, &stacks);
                draw::otlp(&query.heading, &stacks);
                Ok(())
            }),
        ),
        (
            "list",
            Box::new(move |which| {
                let args =
                    List { function: "serve".into(), which: which.clone(), causes: causes(), json: false };
                cycles::list(&args).map(|answer| drawn(&answer)).map_err(wrong)
            }),
        ),
        (
            "unknown",
            Box::new(|which| {
                let args = Unknown { which: which.clone(), top: 20, json: false };
                cycles::unknown(&args).map(|answer| drawn(&answer)).map_err(wrong)
            }),
        ),
        (
            "epochs",
            Box::new(|which| {
                let args = Epochs { folder: which.folder.clone(), name: None, json: false };
                cycles::epochs(&args).map(|answer| drawn(&answer)).map_err(wrong)
            }),
        ),
        (
            "history",
            Box::new(|which| {
                let history = cycles::history(which.folder.db.as_deref(), "1970-01-02");
                history.map(|answer| drawn(&answer)).map_err(wrong)
            }),
        ),
        // Selections look into the tables by themselves.
        (
            "top of a process",
            Box::new(move |which| {
                let one = Which {
                    process: Some("server".into()),
                    machine: Some("host".into()),
                    epoch: Some("2".into()),
                    image: Some("server".into()),
                    ..which.clone()
                };
                top(&one, "function")
            }),
        ),
    ]
}

/// What came of one tool, and what had been changed.
type Came = (String, std::thread::Result<Result<(), String>>);

/// Asks all tools after each of these changes to a database.
fn read(folder: &Path, changes: &[(String, Option<Value>)], to: &Sender<Came>) {
    let which = Which { folder: Folder { db: Some(folder.to_owned()) }, ..Which::default() };
    let path = folder.join("catalogue.db");
    let untouched = std::fs::read(&path).unwrap();
    for (sql, value) in changes {
        for beside in ["catalogue.db-wal", "catalogue.db-shm", "catalogue.db-journal"] {
            let _ = std::fs::remove_file(folder.join(beside));
        }
        std::fs::write(&path, &untouched).unwrap();
        let changed = Connection::open(&path).unwrap();
        changed.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF").unwrap();
        changed
            .execute(sql, params_from_iter(value.clone()))
            .unwrap_or_else(|error| panic!("{sql} {value:?}: {error}"));
        drop(changed);
        for (name, tool) in tools() {
            let came = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tool(&which)));
            to.send((format!("{name}: {sql} {value:?}"), came)).unwrap();
        }
    }
}

#[test]
fn no_row_of_a_catalogue_breaks_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    record(&whole);
    let catalogue = Connection::open(whole.join("catalogue.db")).unwrap();
    let tables = tables(&catalogue);
    assert_eq!(tables.len(), 12, "{tables:?}");
    let changes = changes(&catalogue);
    drop(catalogue);
    let which = Which { folder: Folder { db: Some(whole.clone()) }, ..Which::default() };
    for (name, tool) in tools() {
        tool(&which).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    let (to, from) = channel();
    let readers: Vec<_> = (0..READERS)
        .map(|first| {
            let asked: Vec<_> = changes.iter().skip(first).step_by(READERS).cloned().collect();
            let copy = folder.path().join(first.to_string());
            record(&copy);
            let to = to.clone();
            std::thread::spawn(move || read(&copy, &asked, &to))
        })
        .collect();
    drop(to);
    let (mut panics, mut refused) = (Vec::new(), 0);
    let all = changes.len() * tools().len();
    for _ in 0..all {
        match from.recv_timeout(PATIENCE) {
            Ok((_, Ok(Ok(())))) => {}
            Ok((what, Ok(Err(message)))) => {
                refused += 1;
                assert!(!message.contains("bug"), "{what}: {message}");
                assert!(!message.contains('\u{1b}'), "{what}: {message}");
            }
            Ok((what, Err(_))) => panics.push(what),
            Err(RecvTimeoutError::Timeout) => panic!("a change keeps a tool busy"),
            Err(RecvTimeoutError::Disconnected) => panic!("the reader has ended"),
        }
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(panics.is_empty(), "{} of {all}:\n{}", panics.len(), panics.join("\n"));
    assert!(refused > all / 10, "{refused} of {all}");
    assert!(peak() < MEMORY, "{} kB", peak());
}
