//! Continuous profiles: whatever ends the writer, and whenever, what was flushed is there and nothing else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::expected::{Expected, batch, setting};
use archive::{Database, MachineInfo, Retention, Selection, Store, UnixSeconds};
use storage::{Error, Nanos};

const START: i64 = 20_000 * 86_400;

/// Copies what the writer's end would leave: all files but SQLite's index of its log, which is memory of processes.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if !entry.file_name().to_string_lossy().ends_with("-shm") {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn samples(database: &Database) -> u64 {
    let of = |event| Selection { event: Some(event), ..Selection::default() };
    let events = database.events().unwrap();
    events.into_keys().flat_map(|event| database.leaves(&of(event)).unwrap()).map(|leaf| leaf.count).sum()
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder.join("segments")).map_or(0, Iterator::count)
}

/// What a watcher does at each step.
type Act = Arc<Mutex<Box<dyn FnMut(&'static str) -> io::Result<()> + Send>>>;

fn acting(folder: &Path) -> (Store, Act) {
    let act: Act = Arc::new(Mutex::new(Box::new(|_| Ok(()))));
    let of = Arc::clone(&act);
    let store = Store::watched(folder, Box::new(move |step| (of.lock().unwrap())(step))).unwrap();
    (store, act)
}

fn begin(store: &mut Store) -> (archive::MachineId, archive::EpochId) {
    let info = MachineInfo { key: "a".into(), host: "host".into(), kernel: "6.1".into(), cpus: 2 };
    let machine = store.machine(&info).unwrap();
    (machine, store.begin_epoch(machine, &setting(), None, UnixSeconds(START)).unwrap())
}

#[test]
fn after_a_crash_at_any_step_all_flushes_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let copies = tempfile::tempdir().unwrap();
    let random = &mut fastrand::Rng::with_seed(3);
    let mut expected = Expected::default();
    let (mut store, act) = acting(folder.path());
    let (machine, epoch) = begin(&mut store);
    // What a crash would leave: where it was copied to, at which step, and between which numbers of samples.
    let found: Arc<Mutex<Vec<(PathBuf, &'static str)>>> = Arc::default();
    {
        let (found, from, to) = (Arc::clone(&found), folder.path().to_owned(), copies.path().to_owned());
        let mut number = 0;
        *act.lock().unwrap() = Box::new(move |step| {
            let mut found = found.lock().unwrap();
            number += 1;
            let to = to.join(number.to_string());
            copy(&from, &to);
            found.push((to, step));
            Ok(())
        });
    }
    let mut steps = std::collections::BTreeSet::new();
    for minute in 0..30 {
        let at = UnixSeconds(START + minute * 600);
        let batch = batch(&mut store, at, random);
        let before = expected.samples();
        expected.add(machine, epoch, &batch);
        found.lock().unwrap().clear();
        store.flush(epoch, &batch).unwrap();
        let flushing = found.lock().unwrap().drain(..).map(|found| (found, before)).collect::<Vec<_>>();
        // Merging and thinning out change no sums.
        while store.compact(at, &mut || ()).unwrap().read > 0 {}
        if minute % 10 == 9 {
            let retention =
                Retention { coarse_after: Some(Nanos::new(3_600_000_000_000)), ..Retention::default() };
            store.collect_garbage(&retention, at, &mut || ()).unwrap();
        }
        let merging =
            found.lock().unwrap().drain(..).map(|found| (found, expected.samples())).collect::<Vec<_>>();
        for ((copied, step), least) in flushing.into_iter().chain(merging) {
            steps.insert(step);
            let read = samples(&Database::open(&copied).unwrap());
            assert!(read == least || read == expected.samples(), "{step}: {read}, not {least}");
            let again = Store::open(&copied).unwrap();
            let database = Database::open(&copied).unwrap();
            assert_eq!(samples(&database), read, "{step}");
            let known: usize = rusqlite::Connection::open(copied.join("catalogue.db"))
                .unwrap()
                .query_row("SELECT 2 * count(*) FROM segments", [], |row| {
                    row.get::<_, i64>(0).map(|n| n as usize)
                })
                .unwrap();
            assert_eq!(files(&copied), known, "{step}: unknown files are gone");
            drop(again);
            fs::remove_dir_all(&copied).unwrap();
        }
    }
    for step in ["write the stacks", "sync the samples", "sync the folder", "commit", "remove a file"] {
        assert!(steps.contains(step), "{step} is in {steps:?}");
    }
}

#[test]
fn whatever_fails_in_a_flush_it_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let random = &mut fastrand::Rng::with_seed(5);
    let mut expected = Expected::default();
    let (mut store, act) = acting(folder.path());
    let (machine, epoch) = begin(&mut store);
    for round in 0..40_usize {
        let batch = batch(&mut store, UnixSeconds(START + 60 * round as i64), random);
        let (before, had) = (files(folder.path()), expected.samples());
        expected.add(machine, epoch, &batch);
        let mut left = round % 10;
        *act.lock().unwrap() = Box::new(move |_| {
            if left == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            left -= 1;
            Ok(())
        });
        let failed = store.flush(epoch, &batch);
        *act.lock().unwrap() = Box::new(|_| Ok(()));
        let database = Database::open(folder.path()).unwrap();
        if let Err(error) = failed {
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
            assert_eq!(files(folder.path()), before, "no file is left behind");
            assert_eq!(samples(&database), had);
            store.flush(epoch, &batch).unwrap();
        }
        assert_eq!(samples(&database), expected.samples());
        for name in database.labels().unwrap().into_values() {
            assert!(name.process.starts_with('p'));
        }
    }
    // Nor does a failure while segments are merged.
    for left in 0..200 {
        let mut left = left;
        *act.lock().unwrap() = Box::new(move |_| {
            left -= 1;
            if left < 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        let result = store.compact(UnixSeconds(START + 86_400), &mut || ());
        *act.lock().unwrap() = Box::new(|_| Ok(()));
        assert_eq!(samples(&Database::open(folder.path()).unwrap()), expected.samples());
        if result.is_ok_and(|merged| merged.read == 0) {
            break;
        }
    }
}

#[test]
fn readers_do_not_notice_that_segments_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let random = &mut fastrand::Rng::with_seed(9);
    let mut expected = Expected::default();
    let mut store = Store::open(folder.path()).unwrap();
    let (machine, epoch) = begin(&mut store);
    for minute in 0..300 {
        let batch = batch(&mut store, UnixSeconds(START + minute * 60), random);
        store.flush(epoch, &batch).unwrap();
        expected.add(machine, epoch, &batch);
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let database = Database::open(folder.path()).unwrap();
                let mut last = false;
                while !last {
                    last = done.load(std::sync::atomic::Ordering::Relaxed);
                    assert_eq!(samples(&database), expected.samples());
                }
            });
        }
        while store.compact(UnixSeconds(START + 2 * 86_400), &mut || ()).unwrap().read > 0 {}
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(files(folder.path()), 2);
}

#[test]
fn segments_that_are_gone_are_an_error_until_the_writer_forgets_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let (_, epoch) = begin(&mut store);
    let batch = batch(&mut store, UnixSeconds(START), &mut fastrand::Rng::with_seed(1));
    store.flush(epoch, &batch).unwrap();
    drop(store);
    for entry in fs::read_dir(folder.path().join("segments")).unwrap().map(Result::unwrap) {
        fs::remove_file(entry.path()).unwrap();
    }
    let database = Database::open(folder.path()).unwrap();
    let error = database.leaves(&Selection::default()).unwrap_err();
    assert!(matches!(error, Error::DamagedSegment { .. }), "{error:?}");
    drop(Store::open(folder.path()).unwrap());
    assert!(database.leaves(&Selection::default()).unwrap().is_empty());
}

#[test]
fn segments_with_other_bytes_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let (_, epoch) = begin(&mut store);
    let random = &mut fastrand::Rng::with_seed(1);
    let batch = batch(&mut store, UnixSeconds(START), random);
    store.flush(epoch, &batch).unwrap();
    let database = Database::open(folder.path()).unwrap();
    let right = samples(&database);
    for entry in fs::read_dir(folder.path().join("segments")).unwrap().map(Result::unwrap) {
        let whole = fs::read(entry.path()).unwrap();
        for _ in 0..200 {
            let mut broken = whole.clone();
            if random.bool() {
                broken.truncate(random.usize(..whole.len()));
            } else {
                broken[random.usize(..whole.len())] ^= 1 << random.u8(..8);
            }
            fs::write(entry.path(), &broken).unwrap();
            // `by_label` reads both files.
            let error = database.by_label(&Selection::default()).unwrap_err();
            assert!(
                matches!(&error, Error::DamagedSegment { path, .. } if *path == entry.path()),
                "{error:?}"
            );
        }
        fs::write(entry.path(), &whole).unwrap();
    }
    assert_eq!(samples(&database), right);
}

#[test]
fn a_segment_that_cannot_be_read_does_not_keep_others_from_being_merged_or_removed() {
    let (later, thin) = (
        UnixSeconds(START + 2 * 86_400),
        Retention { coarse_after: Some(Nanos::new(1)), ..Retention::default() },
    );
    for (is_file, merged) in [(true, true), (false, true), (true, false), (false, false)] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let (_, epoch) = begin(&mut store);
        let random = &mut fastrand::Rng::with_seed(7);
        let mut known: Vec<PathBuf> = Vec::new();
        let mut damaged = PathBuf::new();
        for flush in 0..4 {
            let batch = batch(&mut store, UnixSeconds(START + 300 * flush), random);
            store.flush(epoch, &batch).unwrap();
            let all =
                fs::read_dir(folder.path().join("segments")).unwrap().map(|entry| entry.unwrap().path());
            let new: Vec<PathBuf> = all.filter(|path| !known.contains(path)).collect();
            if flush == 1 {
                damaged = new.iter().find(|path| path.to_str().unwrap().contains("samples")).unwrap().clone();
            }
            known.extend(new);
        }
        if is_file {
            fs::write(&damaged, b"nothing").unwrap();
        } else {
            // What the file system refuses to read.
            fs::remove_file(&damaged).unwrap();
            fs::create_dir(&damaged).unwrap();
        }
        let error = if merged {
            store.compact(later, &mut || ()).unwrap_err()
        } else {
            store.collect_garbage(&thin, later, &mut || ()).unwrap_err()
        };
        match &error {
            Error::DamagedSegment { path, .. } => assert_eq!(*path, damaged),
            error => panic!("{error:?}"),
        }
        // That was reported once.
        while store.compact(later, &mut || ()).unwrap().read > 0 {}
        // The one before it, it, and those after it.
        assert_eq!(files(folder.path()), 6);
        store.collect_garbage(&thin, later, &mut || ()).unwrap();
        let keep = Retention { keep: Some(Nanos::new(1_000_000_000)), ..thin };
        assert_eq!(store.collect_garbage(&keep, later, &mut || ()).unwrap().segments, 3);
        assert_eq!(files(folder.path()), usize::from(!is_file));
    }
}
