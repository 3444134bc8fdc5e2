//! Continuous profiles: several databases become one, and old recordings still open.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::expected::{batch, setting};
use archive::{
    By, CodeImage, Database, Entry, EntryKind, Group, ImageId, Label, MachineInfo, Offset, Retention,
    Selection, Store, Symbol, UnixSeconds,
};
use profile::{Recorder, Recording};
use storage::{Error, Nanos};

const START: i64 = 20_000 * 86_400;

/// Stacks by name, which have no keys of one database in them.
type Named = BTreeMap<(String, Vec<(String, Offset)>), u64>;

fn named(folder: &Path) -> Named {
    let database = Database::open(folder).unwrap();
    let (images, labels) = (database.images().unwrap(), database.labels().unwrap());
    let machines = database.machines().unwrap();
    let mut named = Named::new();
    for (event, event_name) in database.events().unwrap() {
        for (&label, about) in &labels {
            for (&machine, info) in &machines {
                let of = Selection {
                    event: Some(event),
                    labels: Some(vec![label]),
                    machines: Some(vec![machine]),
                    ..Selection::default()
                };
                for (path, count) in crate::expected::by_path(&database.tree(&of).unwrap()) {
                    let path = path
                        .into_iter()
                        .map(|(image, offset)| (format!("{:?}", images[&image]), offset))
                        .collect();
                    let Label { process, cgroup, thread, pid, .. } = about;
                    *named
                        .entry((format!("{} {event_name} {process} {cgroup} {thread} {pid}", info.key), path))
                        .or_default() += count;
                }
            }
        }
    }
    named
}

fn books(folder: &Path) -> (usize, u64) {
    let database = Database::open(folder).unwrap();
    let books = database.books(&Selection::default()).unwrap();
    (books.len(), books.iter().map(|(_, books)| books.expected).sum())
}

/// A database of one machine with samples of these minutes; `other` names come in another order.
fn filled(folder: &Path, key: &str, minutes: std::ops::Range<i64>, seed: u64) -> Store {
    let mut store = Store::open(folder).unwrap();
    // So that the same key means something else.
    for number in 0..seed {
        let label = Label { process: format!("only here {number}"), cgroup: key.into(), ..Label::default() };
        store.label(&label).unwrap();
        store.event(&format!("only here {number}")).unwrap();
    }
    let info = MachineInfo { key: key.into(), host: key.into(), kernel: "6.1".into(), cpus: 2 };
    let machine = store.machine(&info).unwrap();
    let epoch = store.begin_epoch(machine, &setting(), Some(key), UnixSeconds(START)).unwrap();
    let random = &mut fastrand::Rng::with_seed(seed);
    for minute in minutes {
        let batch = batch(&mut store, UnixSeconds(START + minute * 60), random);
        store.flush(epoch, &batch).unwrap();
    }
    store
}

#[test]
fn merged_databases_have_the_samples_of_both() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [a, b, c] = [folders[0].path(), folders[1].path(), folders[2].path()];
    let mut first = filled(a, "a", 0..90, 1);
    let mut second = filled(b, "b", 0..30, 2);
    let image = first
        .image(&CodeImage {
            path: "/bin/1".into(),
            build_id: "00000001".into(),
            kind: archive::ImageKind::File,
        })
        .unwrap();
    let symbol = Symbol { function: "main".into(), file: "main.c".into(), line: 7 };
    first.add_symbols(image, &[(Offset(1), vec![symbol.clone()])]).unwrap();
    let mut sum = named(a);
    for (stack, count) in named(b) {
        *sum.entry(stack).or_default() += count;
    }
    let mut all = Store::open(c).unwrap();
    let [from_a, from_b] = [a, b].map(|folder| Database::open(folder).unwrap());
    for _ in 0..2 {
        // Twice is as good as once.
        all.merge(&from_b).unwrap();
        all.merge(&from_a).unwrap();
        assert_eq!(named(c), sum);
        assert_eq!(books(c).0, books(a).0 + books(b).0);
        assert_eq!(Database::open(c).unwrap().epochs().unwrap().len(), 2);
    }
    let images = Database::open(c).unwrap().images().unwrap();
    let merged: Vec<ImageId> =
        images.iter().filter(|(_, of)| of.path == "/bin/1").map(|(id, _)| *id).collect();
    assert_eq!(
        Database::open(c).unwrap().symbols(&merged[..1]).unwrap()[&merged[0]].named[&Offset(1)],
        vec![symbol]
    );

    // Nor does it matter what was merged on either side since.
    let now = UnixSeconds(START + 86_400 * 2);
    while all.compact(now, &mut || ()).unwrap().read > 0 {}
    all.merge(&from_a).unwrap();
    assert_eq!(named(c), sum);
    while first.compact(now, &mut || ()).unwrap().read > 0 {}
    while second.compact(now, &mut || ()).unwrap().read > 0 {}
    all.merge(&from_a).unwrap();
    all.merge(&from_b).unwrap();
    assert_eq!(named(c), sum);
    assert_eq!(books(c).1, books(a).1 + books(b).1);

    // A database has nothing to add to itself.
    all.merge(&Database::open(c).unwrap()).unwrap();
    assert_eq!(named(c), sum);
}

#[test]
fn an_epoch_ends_when_all_of_it_is_there() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [a, b] = [folders[0].path(), folders[1].path()];
    let mut first = filled(a, "a", 0..40, 1);
    let from = Database::open(a).unwrap();
    first.end_epoch(from.epochs().unwrap()[0].id, UnixSeconds(START + 41 * 60)).unwrap();
    let (stacks, books) = (named(a), from.all_books().unwrap().len());
    // What a reader sees at each step.
    let seen: Arc<Mutex<Vec<(bool, usize)>>> = Arc::default();
    let (to, of) = (b.to_owned(), Arc::clone(&seen));
    let watcher = move |_: &'static str| {
        let reader = Database::open(&to).unwrap();
        if let [epoch] = &reader.epochs().unwrap()[..] {
            let (mut seen, now) =
                (of.lock().unwrap(), (epoch.ended.is_some(), reader.all_books().unwrap().len()));
            // All stacks are compared where the end is seen for the first time, because that takes long.
            if now.0 && !seen.iter().any(|(ended, _)| *ended) {
                assert_eq!((named(&to), now.1), (stacks.clone(), books));
            }
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        Ok(())
    };
    Store::open(b).unwrap();
    Store::watched(b, Box::new(watcher)).unwrap().merge(&from).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&(false, 0)) && seen.iter().any(|(ended, books)| !ended && *books > 0), "{seen:?}");
    assert_eq!(Database::open(b).unwrap().epochs().unwrap()[0].ended, Some(UnixSeconds(START + 41 * 60)));
}

#[test]
fn what_came_since_is_added() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [a, b] = [folders[0].path(), folders[1].path()];
    let mut first = filled(a, "a", 0..40, 1);
    let mut all = Store::open(b).unwrap();
    all.merge(&Database::open(a).unwrap()).unwrap();
    let epoch = Database::open(a).unwrap().epochs().unwrap()[0].id;
    let random = &mut fastrand::Rng::with_seed(4);
    for minute in 40..70 {
        let batch = batch(&mut first, UnixSeconds(START + minute * 60), random);
        first.flush(epoch, &batch).unwrap();
    }
    first.end_epoch(epoch, UnixSeconds(START + 71 * 60)).unwrap();
    while first.compact(UnixSeconds(START + 3 * 86_400), &mut || ()).unwrap().read > 0 {}
    all.merge(&Database::open(a).unwrap()).unwrap();
    assert_eq!(named(b), named(a));
    assert_eq!(books(b), books(a));
    let ended = Database::open(b).unwrap().epochs().unwrap()[0].ended;
    assert_eq!(ended, Some(UnixSeconds(START + 71 * 60)));
}

#[test]
fn a_collector_that_merges_meanwhile_is_no_damage() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [a, b] = [folders[0].path(), folders[1].path()];
    let mut first = filled(a, "a", 0..40, 1);
    let epoch = Database::open(a).unwrap().epochs().unwrap()[0].id;
    let mut is_first = true;
    // When images and labels have been read, there is a new one, and old segments become one with its.
    let watcher = move |step: &'static str| {
        if step == "write an event" && std::mem::take(&mut is_first) {
            let mut batch = batch(&mut first, UnixSeconds(START + 40 * 60), &mut fastrand::Rng::with_seed(9));
            let label = first
                .label(&Label { process: "new".into(), cgroup: String::new(), ..Label::default() })
                .unwrap();
            batch.counts.iter_mut().for_each(|count| count.label = label);
            first.flush(epoch, &batch).unwrap();
            while first.compact(UnixSeconds(START + 86_400 * 2), &mut || ()).unwrap().read > 0 {}
        }
        Ok(())
    };
    let mut all = Store::watched(b, Box::new(watcher)).unwrap();
    assert_eq!(all.merge(&Database::open(a).unwrap()).unwrap().len(), 0);
    let merged = named(b);
    assert!(merged.keys().any(|(label, _)| label.contains(" new ")), "{merged:?}");
    assert_eq!(merged, named(a));
}

#[test]
fn a_segment_that_cannot_be_read_is_left_out_of_a_merge_alone() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [a, b] = [folders[0].path(), folders[1].path()];
    let mut first = filled(a, "a", 0..5, 1);
    let (image, _) = Database::open(a).unwrap().images().unwrap().pop_first().unwrap();
    first
        .add_symbols(image, &[(Offset(1), vec![Symbol { function: "main".into(), ..Symbol::default() }])])
        .unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(a.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let contents: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    // One has other bytes, of another a file is gone; both are among the oldest.
    std::fs::write(&files[0], "nothing").unwrap();
    std::fs::remove_file(&files[2]).unwrap();

    let mut all = Store::open(b).unwrap();
    let mut left_out: Vec<_> = all
        .merge(&Database::open(a).unwrap())
        .unwrap()
        .into_iter()
        .map(|error| match error {
            Error::DamagedSegment { path, .. } => path,
            error => panic!("{error:?}"),
        })
        .collect();
    left_out.sort();
    assert_eq!(left_out, [files[0].clone(), files[2].clone()]);
    assert_eq!(std::fs::read_dir(b.join("segments")).unwrap().count(), files.len() - 4);
    assert_eq!(books(b), books(a));
    let merged = Database::open(b).unwrap();
    let images: Vec<ImageId> = merged.images().unwrap().into_keys().collect();
    assert!(merged.symbols(&images).unwrap().values().any(|known| !known.named.is_empty()));

    // Once they are back, they are added too.
    files.iter().zip(contents).for_each(|(file, content)| std::fs::write(file, content).unwrap());
    assert_eq!(all.merge(&Database::open(a).unwrap()).unwrap().len(), 0);
    assert_eq!(named(b), named(a));
}

#[test]
fn the_folder_is_kept_below_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path(), "a", 0..120, 1);
    while store.compact(UnixSeconds(START + 3 * 3600), &mut || ()).unwrap().read > 0 {}
    drop(store);
    // Another process has no keys in its hands any more.
    let mut store = Store::open(folder.path()).unwrap();
    let before = store.bytes().unwrap();
    // What may have stood for rare callers goes if nothing is left that it stands for.
    let images = || {
        let images = Database::open(folder.path()).unwrap().images().unwrap();
        images.values().filter(|image| image.path != archive::TOO_MANY_STACKS).count()
    };
    let sampled = images();
    let removed = store
        .collect_garbage(
            &Retention { most_bytes: Some(before - 1), ..Retention::default() },
            UnixSeconds(START),
            &mut || (),
        )
        .unwrap();
    assert!(store.bytes().unwrap() < before);
    // Labels that were never sampled were thrown out before any sample was.
    assert!(
        Database::open(folder.path())
            .unwrap()
            .labels()
            .unwrap()
            .values()
            .all(|of| of.process.starts_with('p'))
    );
    assert_eq!(images(), sampled);
    assert!(removed.bytes > 0);
    let removed = store
        .collect_garbage(
            &Retention { most_bytes: Some(0), ..Retention::default() },
            UnixSeconds(START),
            &mut || (),
        )
        .unwrap();
    assert!(removed.segments > 0 && removed.samples > 0);
    let database = Database::open(folder.path()).unwrap();
    assert!(database.images().unwrap().is_empty() && database.labels().unwrap().is_empty());
}

#[test]
fn what_is_older_than_it_is_kept_goes_with_its_books() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path(), "a", 0..60, 1);
    let before = books(folder.path()).0;
    let keep = Retention { keep: Some(Nanos::new(1_800_000_000_000)), ..Retention::default() };
    let removed = store.collect_garbage(&keep, UnixSeconds(START + 3600), &mut || ()).unwrap();
    assert!(removed.segments > 20);
    let left = Database::open(folder.path()).unwrap();
    assert!(left.span().unwrap().unwrap().end > UnixSeconds(START + 1800));
    assert!((1..before).contains(&books(folder.path()).0));
}

#[test]
fn an_epoch_that_was_not_ended_ends_with_its_last_flush() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path(), "a", 0..10, 1);
    let info = MachineInfo { key: "a".into(), ..MachineInfo::default() };
    let machine = store.machine(&info).unwrap();
    let end = Database::open(folder.path()).unwrap().span().unwrap().unwrap().end;
    store.begin_epoch(machine, &setting(), None, UnixSeconds(START + 86_400)).unwrap();
    let epochs = Database::open(folder.path()).unwrap().epochs().unwrap();
    assert_eq!(epochs[0].ended, Some(end));
    assert_eq!(epochs[1].ended, None);
}

#[test]
fn collectors_that_were_killed_before_their_first_write_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path(), "a", 0..10, 1);
    let machine = *Database::open(folder.path()).unwrap().machines().unwrap().keys().next().unwrap();
    for crash in 1..20 {
        let at = UnixSeconds(START + 3600 + crash);
        let epoch = store.begin_epoch(machine, &setting(), None, at).unwrap();
        // What is in the journal goes as well.
        let began = Entry { at, kind: EntryKind::Began, value: 0.0, detail: String::new() };
        store.note(epoch, &[began]).unwrap();
    }
    store.collect_garbage(&Retention::default(), UnixSeconds(START + 7200), &mut || ()).unwrap();
    let epochs = Database::open(folder.path()).unwrap().epochs().unwrap();
    // The one that has something, and the last one, which runs.
    let ended: Vec<bool> = epochs.iter().map(|epoch| epoch.ended.is_some()).collect();
    assert_eq!(ended, [true, false]);
    assert_eq!(Database::open(folder.path()).unwrap().journal().unwrap().len(), 1);
}

#[test]
fn nothing_is_removed_where_a_link_leads_and_nothing_waits_for_a_pipe() {
    use std::os::unix::fs::symlink;
    let elsewhere = tempfile::tempdir().unwrap();
    let victim = elsewhere.path().join("19700101-0123456789abcdef.stacks.parquet");
    std::fs::write(&victim, "not ours").unwrap();
    for link in ["segments", "symbols", "writer.lock"] {
        let folder = tempfile::tempdir().unwrap();
        drop(filled(folder.path(), "a", 0..3, 1));
        let link = folder.path().join(link);
        let target = match link.is_dir() {
            true => std::fs::remove_dir_all(&link).map(|()| elsewhere.path().to_owned()),
            false => std::fs::remove_file(&link).map(|()| victim.clone()),
        };
        let target = target.unwrap_or_else(|_| elsewhere.path().to_owned());
        symlink(target, &link).unwrap();
        assert!(matches!(Store::open(folder.path()).unwrap_err(), Error::Io { .. }), "{}", link.display());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "not ours");
    }
    // Segments that are no files are told as damaged, and the collector goes on.
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), "a", 0..3, 1));
    for entry in std::fs::read_dir(folder.path().join("segments")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    }
    let error = Database::open(folder.path()).unwrap().leaves(&Selection::default()).unwrap_err();
    assert!(matches!(error, Error::DamagedSegment { .. }), "{error}");
    let mut store = Store::open(folder.path()).unwrap();
    assert!(store.compact(UnixSeconds(START + 2 * 86_400), &mut || ()).is_err());
}

#[test]
fn a_catalogue_has_tables_and_no_programs() {
    for program in [
        "ALTER TABLE books RENAME TO other; CREATE VIEW books AS SELECT * FROM other",
        "CREATE TRIGGER t AFTER INSERT ON epochs BEGIN DELETE FROM segments; END",
    ] {
        let folder = tempfile::tempdir().unwrap();
        drop(filled(folder.path(), "a", 0..3, 1));
        let catalogue = folder.path().join("catalogue.db");
        rusqlite::Connection::open(&catalogue).unwrap().execute_batch(program).unwrap();
        let Err(error) = Database::open(folder.path()) else { panic!("{program}") };
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert!(Store::open(folder.path()).is_err(), "{program}");
    }
}

#[test]
fn a_day_that_was_thinned_out_in_part_can_be_thinned_out_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path(), "a", 0..0, 1);
    let epoch = Database::open(folder.path()).unwrap().epochs().unwrap()[0].id;
    let random = &mut fastrand::Rng::with_seed(5);
    let write = |store: &mut Store, hours: std::ops::Range<i64>, random: &mut fastrand::Rng| {
        for minute in (hours.start * 60..hours.end * 60).step_by(7) {
            let batch = batch(store, UnixSeconds(START + minute * 60), random);
            store.flush(epoch, &batch).unwrap();
        }
        let now = UnixSeconds(START + hours.end * 3600 + 300);
        while store.compact(now, &mut || ()).unwrap().read > 0 {}
        now
    };
    let thin = Retention { coarse_after: Some(Nanos::new(3600 * 1_000_000_000)), ..Retention::default() };
    let now = write(&mut store, 0..4, random);
    store.collect_garbage(&thin, now, &mut || ()).unwrap();
    // The day is over: its hours become one, whether they were thinned out or not.
    let _ = write(&mut store, 4..24, random);
    store.collect_garbage(&thin, UnixSeconds(START + 2 * 86_400), &mut || ()).unwrap();
    let database = Database::open(folder.path()).unwrap();
    let by_minute = database.parts(&Selection::default(), By::Time(60)).unwrap().groups;
    let buckets: Vec<Group> =
        by_minute.into_iter().filter(|(_, leaves)| !leaves.is_empty()).map(|(group, _)| group).collect();
    let hours: Vec<Group> = (0..24).map(|hour| Group::Time(UnixSeconds(START + hour * 3600))).collect();
    assert_eq!(buckets, hours);
    assert!(std::fs::read_dir(folder.path().join("segments")).unwrap().count() <= 4);
}

#[test]
fn a_recording_of_an_older_layout_has_no_continuous_profiles() {
    for version in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalogue.db");
        Recorder::create(&path).unwrap().close().unwrap();
        let connection = rusqlite::Connection::open(&path).unwrap();
        for table in [
            "audits",
            "symbols",
            "books",
            "segments",
            "names",
            "code_images",
            "labels",
            "events",
            "epoch_events",
            "epochs",
            "machines",
            "production",
            "arrivals",
        ] {
            connection.execute_batch(&format!("DROP TABLE {table}")).unwrap();
        }
        if version == 1 {
            for column in ["span_visits", "span_elapsed_ns", "span_required_ns"] {
                connection.execute_batch(&format!("ALTER TABLE visits DROP COLUMN {column}")).unwrap();
            }
        }
        connection.pragma_update(None, "user_version", version).unwrap();
        drop(connection);
        assert!(Recording::open(&path).unwrap().rows().unwrap().sessions.is_empty());
        let database = Database::open(folder.path()).unwrap();
        assert!(database.epochs().unwrap().is_empty());
        assert!(database.leaves(&Selection::default()).unwrap().is_empty());
        database.remember_symbols(ImageId::new(1), &[(Offset(1), vec![Symbol::default()])], 1);
        // The writer brings it up to date.
        drop(filled(folder.path(), "a", 0..3, 1));
        assert_eq!(database.epochs().unwrap().len(), 1);
        assert!(Recording::open(&path).unwrap().rows().unwrap().sessions.is_empty());
    }
}

#[test]
fn a_catalogue_of_a_newer_layout_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path()).unwrap());
    let connection = rusqlite::Connection::open(folder.path().join("catalogue.db")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert!(matches!(Database::open(folder.path()), Err(Error::Newer { .. })));
    assert!(matches!(Store::open(folder.path()), Err(Error::Newer { .. })));
}
