//! Continuous profiles: what was flushed is what is read, whatever was done to the segments since.

use std::collections::BTreeMap;
use std::path::Path;

use crate::expected::{Expected, batch, setting};
use archive::{
    By, CodeImage, Database, Group, ImageKind, Label, MachineInfo, Offset, Retention, Selection, Store,
    Symbol, UnixSeconds,
};
use storage::{Error, Nanos};

const DAY: i64 = 86_400;
const START: i64 = 20_000 * DAY;

fn seconds(span: i64) -> Nanos {
    Nanos::new(span as u64 * 1_000_000_000)
}

fn machine(store: &mut Store, key: &str) -> archive::MachineId {
    let info = MachineInfo { key: key.into(), host: "host".into(), kernel: "6.1".into(), cpus: 2 };
    store.machine(&info).unwrap()
}

/// Compares every kind of query with the model.
fn check(folder: &Path, expected: &Expected, random: &mut fastrand::Rng) {
    let database = Database::open(folder).unwrap();
    for round in 0..6 {
        let selection = if round == 0 { Selection::default() } else { expected.selection(random) };
        assert_eq!(
            crate::expected::by_position(&database.leaves(&selection).unwrap()),
            expected.leaves(&selection),
            "{selection:?}"
        );
        let tree = database.tree(&selection).unwrap();
        assert_eq!(crate::expected::by_path(&tree), expected.paths(&selection), "{selection:?}");
        assert_eq!(database.by_label(&selection).unwrap(), expected.labels(&selection), "{selection:?}");
        for by in [By::Epoch, By::Machine, By::Label, By::LabelAndEpoch, By::Time(3600), By::Time(7200)] {
            let parts = database.parts(&selection, by).unwrap();
            let groups: BTreeMap<Group, _> = parts
                .groups
                .iter()
                .map(|(group, leaves)| (*group, crate::expected::by_place(&parts.positions, leaves)))
                .filter(|(_, leaves)| !leaves.is_empty())
                .collect();
            assert_eq!(groups, expected.leaves_by(&selection, by), "{by:?} {selection:?}");
            let forest = database.forest(&selection, by).unwrap();
            assert_eq!(crate::expected::by_path(&forest.tree), expected.paths(&selection), "{selection:?}");
            let places: Vec<_> = (0..forest.tree.len()).map(|frame| forest.tree.position(frame)).collect();
            let groups: BTreeMap<Group, _> = forest
                .groups
                .iter()
                .map(|(group, leaves)| (*group, crate::expected::by_place(&places, leaves)))
                .filter(|(_, leaves)| !leaves.is_empty())
                .collect();
            assert_eq!(groups, expected.leaves_by(&selection, by), "{by:?} {selection:?}");
        }
        for without in database.images().unwrap().into_keys().take(2) {
            let cells = database.cells(&selection, 7200, &[without].into()).unwrap();
            assert_eq!(cells, expected.cells(&selection, 7200, without), "{without:?} {selection:?}");
        }
        let books = database.books(&selection).unwrap();
        let sum: u64 = books.iter().map(|(_, books)| books.expected).sum();
        assert_eq!(sum, expected.books(&selection), "{selection:?}");
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
                        store.collect_garbage(&retention, UnixSeconds(now), &mut || ()).unwrap();
                        // From here on only whole hours are asked for.
                    }
                    3..7 => drop(store.compact(UnixSeconds(now), &mut || ()).unwrap()),
                    _ => {}
                }
            }
            if random.bool() {
                store.end_epoch(epoch, UnixSeconds(now)).unwrap();
            }
        }
        while store.compact(UnixSeconds(now + 2 * DAY), &mut || ()).unwrap().read > 0 {}
        check(folder.path(), &expected, random);
        store
            .collect_garbage(
                &Retention { coarse_after: Some(seconds(1)), ..Retention::default() },
                UnixSeconds(now + 5 * DAY),
                &mut || (),
            )
            .unwrap();
        check(folder.path(), &expected, random);
        let removed = store
            .collect_garbage(
                &Retention { keep: Some(seconds(1)), ..Retention::default() },
                UnixSeconds(now + 5 * DAY),
                &mut || (),
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
    assert!(database.tree(&all).unwrap().is_empty());
    assert!(database.parts(&all, By::Label).unwrap().groups.is_empty());
    assert!(database.by_label(&all).unwrap().is_empty());
    assert!(database.books(&all).unwrap().is_empty());
    assert!(database.epochs().unwrap().is_empty());
    assert_eq!(database.span().unwrap(), None);
    assert_eq!(store.compact(UnixSeconds(START), &mut || ()).unwrap(), Default::default());
    store
        .collect_garbage(
            &Retention { most_bytes: Some(0), ..Retention::default() },
            UnixSeconds(START),
            &mut || (),
        )
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
    let mut batch = archive::Batch::default();
    for (at, text) in (0_u32..).zip(hostile) {
        let image =
            CodeImage { path: text.to_owned(), build_id: text.to_owned(), kind: ImageKind::Generated };
        let label = Label { process: text.to_owned(), cgroup: text.to_owned(), ..Label::default() };
        let (image_id, label_id) = (store.image(&image).unwrap(), store.label(&label).unwrap());
        let event = store.event(hostile[1]).unwrap();
        batch.nodes.push(archive::Node {
            parent: archive::Node::NONE,
            image: image_id,
            offset: Offset(u64::MAX),
        });
        batch.counts.push(archive::Count {
            time: UnixSeconds(START),
            label: label_id,
            event,
            node: at,
            count: u32::MAX,
        });
        batch.counts.push(archive::Count {
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
        .map(|text| Symbol { function: (*text).into(), file: (*text).into(), line: u32::MAX })
        .collect();
    store.add_symbols(expected[0].0, &[(Offset(u64::MAX), symbols.clone())]).unwrap();
    let database = Database::open(folder.path()).unwrap();
    for (image_id, image, label_id, label) in expected {
        assert_eq!(database.images().unwrap()[&image_id], image);
        assert_eq!(database.labels().unwrap()[&label_id], label);
        assert_eq!(database.by_label(&Selection::default()).unwrap()[&label_id], 1 << 32);
        if image.path.is_empty() {
            assert_eq!(database.symbols(&[image_id]).unwrap()[&image_id].named[&Offset(u64::MAX)], symbols);
        }
    }
    let epoch = &database.epochs().unwrap()[0];
    assert_eq!((epoch.name.as_deref(), &epoch.setting.events), (Some(hostile[2]), &setting.events));
}

#[test]
fn a_writer_that_runs_for_weeks_keeps_only_what_is_used() {
    use archive::{Batch, Count, Node};
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let of = machine(&mut store, "a");
    let epoch = store.begin_epoch(of, &setting(), None, UnixSeconds(START)).unwrap();
    let image = |number: i64| CodeImage {
        path: format!("/build/{number}/conftest"),
        build_id: String::new(),
        kind: ImageKind::File,
    };
    let label =
        |number: i64| Label { process: format!("cc-{number}"), cgroup: String::new(), ..Label::default() };
    let flush = |store: &mut Store, time: i64, numbers: std::ops::Range<i64>| {
        let event = store.event("cpu-clock").unwrap();
        let mut batch = Batch::default();
        for number in numbers {
            let (image, label) = (store.image(&image(number)).unwrap(), store.label(&label(number)).unwrap());
            let node = batch.nodes.len() as u32;
            batch.nodes.push(Node { parent: Node::NONE, image, offset: Offset(1) });
            batch.counts.push(Count { time: UnixSeconds(time), label, event, node, count: 1 });
        }
        store.flush(epoch, &batch).unwrap();
    };
    let garbage = |store: &mut Store, now| {
        let retention = Retention { keep: Some(seconds(1)), ..Retention::default() };
        store.collect_garbage(&retention, UnixSeconds(now), &mut || ()).unwrap();
    };
    for minute in 0..24 {
        flush(&mut store, START + 60 * minute, 1000 * minute..1000 * (minute + 1));
        garbage(&mut store, START + 60 * minute + 3600);
    }
    let database = Database::open(folder.path()).unwrap();
    // Those that the writer knows by heart may stay.
    let left = (database.images().unwrap().len(), database.labels().unwrap().len());
    assert!(left.0 < 10_000 && left.1 < 10_000, "{left:?} of 24,000");
    // What has gone comes again, under another key.
    flush(&mut store, START + DAY, 0..10);
    let (images, labels) = (database.images().unwrap(), database.labels().unwrap());
    let leaves = database.leaves(&Selection::default()).unwrap();
    assert_eq!(leaves.len(), 10);
    assert!(leaves.iter().all(|leaf| images[&leaf.image].path.starts_with("/build/")));
    let by_label = database.by_label(&Selection::default()).unwrap();
    assert!(by_label.keys().all(|key| labels[key].process.starts_with("cc-")) && by_label.len() == 10);
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
        |name: &str| vec![(Offset(7), vec![Symbol { function: name.into(), file: "".into(), line: 3 }])];
    let database = Database::open(folder.path()).unwrap();
    database.remember_symbols(image, &name("found"), 1);
    assert_eq!(database.symbols(&[image]).unwrap()[&image].named[&Offset(7)][0].function, "found".into());
    // What was kept is not replaced by a reader, but by the writer.
    database.remember_symbols(image, &name("found again"), 1);
    assert_eq!(database.symbols(&[image]).unwrap()[&image].named[&Offset(7)][0].function, "found".into());
    store.add_symbols(image, &name("known")).unwrap();
    assert_eq!(database.symbols(&[image]).unwrap()[&image].named[&Offset(7)][0].function, "known".into());
    // What has no name is remembered as well, until one is found; a name that there is stays.
    let known = || database.symbols(&[image]).unwrap().remove(&image).unwrap();
    for searched in [5, 6] {
        database.remember_symbols(image, &[(Offset(7), vec![]), (Offset(8), vec![])], searched);
        assert_eq!(known().nameless, [(Offset(8), searched)].into());
        assert_eq!(known().named.len(), 1);
    }
    let found = [(Offset(8), name("late")[0].1.clone())];
    database.remember_symbols(image, &found, 7);
    assert_eq!((known().nameless.len(), &known().named[&Offset(8)]), (0, &found[0].1));
    // An image that has gone keeps no names.
    database.remember_symbols(archive::ImageId::new(4711), &name("nobody"), 1);
    let nowhere = archive::ImageId::new(4711);
    assert!(database.symbols(&[nowhere]).unwrap()[&nowhere].named.is_empty());
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

#[test]
fn a_catalogue_of_layout_12_is_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let random = &mut fastrand::Rng::with_seed(1);
    let flush = |at: i64, random: &mut fastrand::Rng| {
        let mut store = Store::open(folder.path()).unwrap();
        let of = machine(&mut store, "a");
        let epoch = store.begin_epoch(of, &setting(), None, UnixSeconds(at)).unwrap();
        let batch = batch(&mut store, UnixSeconds(at), random);
        store.flush(epoch, &batch).unwrap();
        batch.books.iter().map(|books| books.squares).sum::<u64>()
    };
    let squares = || {
        let database = Database::open(folder.path()).unwrap();
        let books = database.books(&Selection::default()).unwrap();
        (books.len(), books.iter().map(|(_, books)| books.squares).sum::<u64>())
    };
    let _ = flush(START, random);
    let before = squares().0;
    let catalogue = rusqlite::Connection::open(folder.path().join("catalogue.db")).unwrap();
    catalogue.execute_batch("ALTER TABLE books DROP COLUMN squares; PRAGMA user_version = 12;").unwrap();
    drop(catalogue);
    assert_eq!(squares(), (before, 0));
    let written = flush(START + 3600, random);
    let (rows, after) = squares();
    assert!(rows > before && 0 < after && after <= written, "{rows} {after} {written}");
}

/// More samples than are sorted at a time.
#[test]
fn large_segments_are_merged_frame_by_frame() {
    const FRAMES: u32 = 50_000;
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let of = machine(&mut store, "a");
    let epoch = store.begin_epoch(of, &setting(), None, UnixSeconds(START)).unwrap();
    let (event, image) = (
        store.event("cpu-clock").unwrap(),
        store
            .image(&CodeImage { path: "/bin/large".into(), build_id: String::new(), kind: ImageKind::File })
            .unwrap(),
    );
    let labels = ["a", "b", "c"].map(|process| {
        store
            .label(&Label { process: process.to_owned(), cgroup: String::new(), ..Label::default() })
            .unwrap()
    });
    // Every flush numbers the frames in another way.
    let offset = |flush: i64, frame: u32| Offset(u64::from((frame + 7919 * flush as u32) % FRAMES));
    let samples = |flush: i64, label: usize, offset: Offset| 1 + (offset.0 + flush as u64 * label as u64) % 5;
    let mut all: BTreeMap<(UnixSeconds, usize), u64> = BTreeMap::new();
    for flush in 0..3 {
        let time = UnixSeconds(START + 60 * flush);
        let mut batch = archive::Batch::default();
        for frame in 0..FRAMES {
            let offset = offset(flush, frame);
            batch.nodes.push(archive::Node { parent: archive::Node::NONE, image, offset });
            for (nth, label) in labels.into_iter().enumerate() {
                let count = samples(flush, nth, offset);
                *all.entry((time, nth)).or_default() += count;
                let count = count as u32;
                batch.counts.push(archive::Count { time, label, event, node: frame, count });
            }
        }
        store.flush(epoch, &batch).unwrap();
    }
    let mut breaths = 0;
    let merged = store.compact(UnixSeconds(START + 2 * DAY), &mut || breaths += 1).unwrap();
    assert_eq!((merged.read, merged.written), (3, 1));
    assert!(breaths > 3, "{breaths}");
    let database = Database::open(folder.path()).unwrap();
    let leaves = crate::expected::by_position(&database.leaves(&Selection::default()).unwrap());
    assert_eq!(leaves.len(), FRAMES as usize);
    for (&(_, offset), &count) in &leaves {
        let all = (0..3).flat_map(|flush| (0..3).map(move |nth| samples(flush, nth, offset)));
        assert_eq!(count, all.sum::<u64>(), "{offset:?}");
    }
    for ((time, nth), count) in all {
        let of = Selection {
            time: Some(time..UnixSeconds(time.0 + 60)),
            labels: Some(vec![labels[nth]]),
            ..Selection::default()
        };
        assert_eq!(database.leaves(&of).unwrap().iter().map(|leaf| leaf.count).sum::<u64>(), count);
    }
    // Sorted by frame, they take much less than the three that they were made of.
    assert!(merged.bytes.1 * 3 < merged.bytes.0 * 2, "{merged:?}");
}

#[test]
fn rare_stacks_of_a_day_give_up_callers_and_no_samples() {
    use archive::{Batch, Count, Node, TOO_MANY_STACKS};
    // Each flush has a stack that all of its samples share the outer frames of, and 90,000 that nothing shares.
    const RARE: u32 = 90_000;
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let machine =
        store.machine(&MachineInfo { key: "a".into(), host: "a".into(), ..MachineInfo::default() }).unwrap();
    let setting = archive::Setting { resolution: Nanos::from_millis(60_000), ..archive::Setting::default() };
    let epoch = store.begin_epoch(machine, &setting, None, UnixSeconds(START)).unwrap();
    let event = store.event("cpu-clock").unwrap();
    let path = "/bin/rare".to_owned();
    let image = store.image(&CodeImage { path, build_id: String::new(), kind: ImageKind::File }).unwrap();
    let label = store.label(&Label { process: "rare".into(), ..Label::default() }).unwrap();
    let mut samples: BTreeMap<Offset, u64> = BTreeMap::new();
    for flush in 0..3_u32 {
        let mut batch = Batch::default();
        let mut frame = |parent, offset| {
            batch.nodes.push(Node { parent, image, offset: Offset(offset) });
            batch.nodes.len() as u32 - 1
        };
        let main = frame(Node::NONE, 1);
        let run = frame(main, 2);
        let mut nodes = vec![(frame(run, 3), Offset(3), 50_000)];
        for rare in 0..RARE {
            // Callers of its own, and one of a thousand positions.
            let caller = frame(run, u64::from(10_000 + flush * RARE + rare));
            let offset = 100 + u64::from(rare % 1000);
            nodes.push((frame(caller, offset), Offset(offset), 1));
        }
        let time = UnixSeconds(START + 60 * i64::from(flush));
        for (node, offset, count) in nodes {
            batch.counts.push(Count { time, label, event, node, count });
            *samples.entry(offset).or_default() += u64::from(count);
        }
        store.flush(epoch, &batch).unwrap();
    }
    let merged = store.compact(UnixSeconds(START + 2 * DAY), &mut || ()).unwrap();
    assert_eq!((merged.read, merged.written), (3, 1));
    let database = Database::open(folder.path()).unwrap();
    let leaves = crate::expected::by_position(&database.leaves(&Selection::default()).unwrap());
    let expected = samples.iter().map(|(&offset, &count)| ((image, offset), count)).collect();
    assert_eq!(leaves, expected);
    // What the rows of the samples say is what the frames say.
    let minute =
        Selection { time: Some(UnixSeconds(START + 60)..UnixSeconds(START + 120)), ..Selection::default() };
    assert_eq!(database.leaves(&minute).unwrap().iter().map(|leaf| leaf.count).sum::<u64>(), 140_000);
    let tree = database.tree(&Selection::default()).unwrap();
    assert!(tree.len() < 2000, "{}", tree.len());
    let images = database.images().unwrap();
    let mut totals = tree.counts.clone();
    for frame in (0..tree.len()).rev() {
        if let Some(parent) = tree.parent(frame) {
            totals[parent] += totals[frame];
        }
    }
    let marks: Vec<usize> =
        (0..tree.len()).filter(|&frame| images[&tree.position(frame).0].path == TOO_MANY_STACKS).collect();
    assert_eq!(marks.len(), 1);
    assert_eq!(totals[marks[0]], 3 * u64::from(RARE));
    // The callers that all share have what they had.
    let run = tree.parent(marks[0]).unwrap();
    assert_eq!((tree.position(run).1, totals[run]), (Offset(2), 3 * (50_000 + u64::from(RARE))));
}

#[test]
fn names_of_generated_code_go_with_its_samples() {
    use archive::{Batch, Count, Node};
    const FRAMES: u64 = 12_000;
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let of = machine(&mut store, "a");
    let epoch = store.begin_epoch(of, &setting(), None, UnixSeconds(START)).unwrap();
    let generated =
        CodeImage { path: "[generated by java]".into(), build_id: String::new(), kind: ImageKind::Generated };
    let mut image = None;
    for day in 0..2_i64 {
        let of_day = (FRAMES * day as u64..FRAMES * (day as u64 + 1)).map(Offset);
        let event = store.event("cpu-clock").unwrap();
        let label = store
            .label(&Label { process: "java".into(), cgroup: String::new(), ..Label::default() })
            .unwrap();
        let image = *image.insert(store.image(&generated).unwrap());
        let mut batch = Batch::default();
        let mut names = Vec::new();
        for offset in of_day {
            let node = batch.nodes.len() as u32;
            batch.nodes.push(Node { parent: Node::NONE, image, offset });
            batch.counts.push(Count { time: UnixSeconds(START + DAY * day), label, event, node, count: 1 });
            let function = format!("f{}", offset.0).as_str().into();
            names.push((offset, vec![Symbol { function, ..Symbol::default() }]));
        }
        store.flush(epoch, &batch).unwrap();
        store.add_symbols(image, &names).unwrap();
    }
    let keep = Retention { keep: Some(seconds(DAY)), ..Retention::default() };
    let removed = store.collect_garbage(&keep, UnixSeconds(START + DAY + 3600), &mut || ()).unwrap();
    assert_eq!(removed.segments, 1);
    let image = image.unwrap();
    let database = Database::open(folder.path()).unwrap();
    let named = database.symbols(&[image]).unwrap().remove(&image).unwrap().named;
    assert_eq!(named.len() as u64, FRAMES);
    assert!(named.keys().all(|offset| offset.0 >= FRAMES));
}
