//! Continuous profiles: what was flushed is what is read, whatever was done to the segments since.

#[path = "continuous/expected.rs"]
mod expected;

use std::collections::BTreeMap;
use std::path::Path;

use expected::{Expected, batch, setting};
use profile::continuous::{
    By, CodeImage, Database, Group, ImageKind, Label, MachineInfo, Offset, Retention, Selection, Store,
    Symbol, UnixSeconds,
};
use profile::{Error, Nanos};

const DAY: i64 = 86_400;
const START: i64 = 20_000 * DAY;

fn seconds(span: i64) -> Nanos {
    Nanos::new(span as u64 * 1_000_000_000)
}

fn machine(store: &mut Store, key: &str) -> profile::continuous::MachineId {
    let info = MachineInfo { key: key.into(), host: "host".into(), kernel: "6.1".into(), cpus: 2 };
    store.machine(&info).unwrap()
}

/// Compares every kind of query with the model.
fn check(folder: &Path, expected: &Expected, random: &mut fastrand::Rng) {
    let database = Database::open(folder).unwrap();
    for round in 0..6 {
        let selection = if round == 0 { Selection::default() } else { expected.selection(random) };
        assert_eq!(
            expected::by_position(&database.leaves(&selection).unwrap()),
            expected.leaves(&selection),
            "{selection:?}"
        );
        let tree = database.tree(&selection).unwrap();
        assert_eq!(expected::by_path(&tree), expected.paths(&selection), "{selection:?}");
        assert_eq!(database.by_label(&selection).unwrap(), expected.labels(&selection), "{selection:?}");
        for by in [By::Epoch, By::Machine, By::Label, By::Time(3600), By::Time(7200)] {
            let groups: BTreeMap<Group, _> = database
                .leaves_by(&selection, by)
                .unwrap()
                .into_iter()
                .map(|(group, leaves)| (group, expected::by_position(&leaves)))
                .filter(|(_, leaves)| !leaves.is_empty())
                .collect();
            assert_eq!(groups, expected.leaves_by(&selection, by), "{by:?} {selection:?}");
        }
        let books = database.books(&selection).unwrap();
        let sum: u64 = books.iter().map(|(_, books)| books.expected).sum();
        if selection.time.is_none() {
            assert_eq!(sum, expected.books(&selection));
        }
    }
}

#[test]
fn what_was_flushed_is_read_again_whatever_happens_between() {
    for seed in 0..3 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut expected = Expected::default();
        let mut store = Store::open(folder.path()).unwrap();
        let mut now = START;
        for epoch_number in 0..3 {
            let of = machine(&mut store, if epoch_number == 1 { "b" } else { "a" });
            let epoch = store.begin_epoch(of, &setting(), None, UnixSeconds(now)).unwrap();
            for _ in 0..random.usize(1..60) {
                now += random.i64(60..1200);
                // Clocks are set back.
                let at = if random.u8(..10) == 0 { now - random.i64(0..2 * DAY) } else { now };
                let batch = batch(&mut store, UnixSeconds(at - at.rem_euclid(60)), random);
                store.flush(epoch, &batch).unwrap();
                expected.add(of, epoch, &batch);
                match random.u8(..12) {
                    0 => check(folder.path(), &expected, random),
                    1 => {
                        drop(store);
                        store = Store::open(folder.path()).unwrap();
                    }
                    2 => {
                        let retention =
                            Retention { coarse_after: Some(seconds(2 * 3600)), ..Retention::default() };
                        store.collect_garbage(&retention, UnixSeconds(now)).unwrap();
                        // From here on only whole hours are asked for.
                    }
                    3..7 => drop(store.compact(UnixSeconds(now)).unwrap()),
                    _ => {}
                }
            }
            if random.bool() {
                store.end_epoch(epoch, UnixSeconds(now)).unwrap();
            }
        }
        while store.compact(UnixSeconds(now + 2 * DAY)).unwrap().read > 0 {}
        check(folder.path(), &expected, random);
        store
            .collect_garbage(
                &Retention { coarse_after: Some(seconds(1)), ..Retention::default() },
                UnixSeconds(now + 5 * DAY),
            )
            .unwrap();
        check(folder.path(), &expected, random);
        let removed = store
            .collect_garbage(
                &Retention { keep: Some(seconds(1)), ..Retention::default() },
                UnixSeconds(now + 5 * DAY),
            )
            .unwrap();
        assert_eq!(removed.samples, expected.samples());
        assert_eq!(Database::open(folder.path()).unwrap().leaves(&Selection::default()).unwrap(), vec![]);
        assert_eq!(Database::open(folder.path()).unwrap().span().unwrap(), None);
        let left = std::fs::read_dir(folder.path().join("segments")).unwrap().count();
        assert_eq!(left, 0);
    }
}

#[test]
fn an_empty_database_answers() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Database::open(folder.path()), Err(Error::NoDatabase { .. })));
    let mut store = Store::open(folder.path()).unwrap();
    let database = Database::open(folder.path()).unwrap();
    let all = Selection::default();
    assert!(database.leaves(&all).unwrap().is_empty());
    assert!(database.tree(&all).unwrap().nodes.is_empty());
    assert!(database.leaves_by(&all, By::Label).unwrap().is_empty());
    assert!(database.by_label(&all).unwrap().is_empty());
    assert!(database.books(&all).unwrap().is_empty());
    assert!(database.epochs().unwrap().is_empty());
    assert_eq!(database.span().unwrap(), None);
    assert_eq!(store.compact(UnixSeconds(START)).unwrap(), Default::default());
    store
        .collect_garbage(&Retention { most_bytes: Some(0), ..Retention::default() }, UnixSeconds(START))
        .unwrap();
}

#[test]
fn a_second_writer_is_told_who_the_first_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let refused = Store::open(folder.path()).unwrap_err();
    assert!(matches!(refused, Error::OtherWriter { .. }));
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
    drop(store);
    Store::open(folder.path()).unwrap();
}

#[test]
fn hostile_names_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let hostile = [
        "",
        "'; DROP TABLE segments; --",
        "a\0b",
        "\u{1b}[31m",
        "𝄞\n\t",
        "\u{202e}exe.\u{202d}",
        &"x".repeat(100_000),
    ];
    let of = machine(&mut store, hostile[1]);
    let mut setting = setting();
    setting.events = hostile[1..].iter().map(|name| (*name).to_owned()).collect();
    setting.rate_hz = f64::NAN;
    let epoch = store.begin_epoch(of, &setting, Some(hostile[2]), UnixSeconds(START)).unwrap();
    let mut expected = Vec::new();
    let mut batch = profile::continuous::Batch::default();
    for (at, text) in (0_u32..).zip(hostile) {
        let image =
            CodeImage { path: text.to_owned(), build_id: text.to_owned(), kind: ImageKind::Generated };
        let label = Label { process: text.to_owned(), cgroup: text.to_owned() };
        let (image_id, label_id) = (store.image(&image).unwrap(), store.label(&label).unwrap());
        let event = store.event(hostile[1]).unwrap();
        batch.nodes.push(profile::continuous::Node {
            parent: profile::continuous::Node::NONE,
            image: image_id,
            offset: Offset(u64::MAX),
        });
        batch.counts.push(profile::continuous::Count {
            time: UnixSeconds(START),
            label: label_id,
            event,
            node: at,
            count: u32::MAX,
        });
        batch.counts.push(profile::continuous::Count {
            time: UnixSeconds(START),
            label: label_id,
            event,
            node: at,
            count: 1,
        });
        expected.push((image_id, image, label_id, label));
    }
    store.flush(epoch, &batch).unwrap();
    let symbols: Vec<Symbol> = hostile
        .iter()
        .map(|text| Symbol { function: (*text).to_owned(), file: (*text).to_owned(), line: u32::MAX })
        .collect();
    store.add_symbols(expected[0].0, &[(Offset(u64::MAX), symbols.clone())]).unwrap();
    let database = Database::open(folder.path()).unwrap();
    for (image_id, image, label_id, label) in expected {
        assert_eq!(database.images().unwrap()[&image_id], image);
        assert_eq!(database.labels().unwrap()[&label_id], label);
        assert_eq!(database.by_label(&Selection::default()).unwrap()[&label_id], 1 << 32);
        if image.path.is_empty() {
            assert_eq!(database.symbols(image_id).unwrap()[&Offset(u64::MAX)], symbols);
        }
    }
    let epoch = &database.epochs().unwrap()[0];
    assert_eq!((epoch.name.as_deref(), &epoch.setting.events), (Some(hostile[2]), &setting.events));
}

#[test]
fn names_are_remembered_where_that_is_possible() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let of = machine(&mut store, "a");
    let epoch = store.begin_epoch(of, &setting(), None, UnixSeconds(START)).unwrap();
    let batch = batch(&mut store, UnixSeconds(START), &mut fastrand::Rng::with_seed(1));
    store.flush(epoch, &batch).unwrap();
    let image = batch.nodes[0].image;
    let name =
        |name: &str| vec![(Offset(7), vec![Symbol { function: name.into(), file: String::new(), line: 3 }])];
    let database = Database::open(folder.path()).unwrap();
    database.remember_symbols(image, &name("found"));
    assert_eq!(database.symbols(image).unwrap()[&Offset(7)][0].function, "found");
    // What was kept is not replaced by a reader, but by the writer.
    database.remember_symbols(image, &name("found again"));
    assert_eq!(database.symbols(image).unwrap()[&Offset(7)][0].function, "found");
    store.add_symbols(image, &name("known")).unwrap();
    assert_eq!(database.symbols(image).unwrap()[&Offset(7)][0].function, "known");
    // An image that has gone keeps no names.
    database.remember_symbols(profile::continuous::ImageId::new(4711), &name("nobody"));
    assert!(database.symbols(profile::continuous::ImageId::new(4711)).unwrap().is_empty());
}

#[test]
fn other_files_are_left_alone() {
    for content in [&b"not a database, but long enough to be taken for one by somebody"[..], b"x"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalogue.db");
        std::fs::write(&path, content).unwrap();
        for error in [Database::open(folder.path()).unwrap_err(), Store::open(folder.path()).unwrap_err()] {
            assert!(matches!(error, Error::NotADatabase { .. }), "{error:?}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    let folder = tempfile::tempdir().unwrap();
    let other = rusqlite::Connection::open(folder.path().join("catalogue.db")).unwrap();
    other.execute_batch("CREATE TABLE t (x); PRAGMA user_version = 9").unwrap();
    for error in [Database::open(folder.path()).unwrap_err(), Store::open(folder.path()).unwrap_err()] {
        assert!(matches!(error, Error::NotADatabase { .. }), "{error:?}");
    }
}
