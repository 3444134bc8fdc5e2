//! The database: what is written comes back, whatever happens to the writer.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::synthetic::{line, session, window};
use profile::*;
use rusqlite::Connection;

const HOSTILE: &str = "a\tb\nc\"d'e\\f\u{1b}[2J\u{202e}g\0h";

const SPAN: Span = Span { visits: 6, elapsed: Nanos::new(90_000_001), required: Nanos::new(17) };

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.whatif");
    (folder, path)
}

/// Writes one session with two regions and `blocks` blocks.
fn write(to: &mut Recorder, blocks: i64) -> SessionId {
    let id = to.begin_session(&session(0).start).unwrap();
    let region = to.intern_region(&line("hash.c:88")).unwrap();
    let hostile = to.intern_region(&Region { function: None, file: None, ..line(HOSTILE) }).unwrap();
    let requests = Point { name: "requests".into(), kind: PointKind::Throughput };
    let requests = to.intern_point(&requests).unwrap();
    let begin = to.intern_point(&Point { name: HOSTILE.into(), kind: PointKind::Begin }).unwrap();
    for block in 0..blocks {
        let pair =
            [(0, Speedup::ZERO), (1, Speedup::from_percent(25).unwrap())].map(|(index, speedup)| Window {
                visits: vec![Visits { point: requests, count: 7, span: (index == 1).then_some(SPAN) }],
                in_flight: vec![InFlight { begin, integral: VisitNanos::new(-3) }],
                latencies: vec![Latencies {
                    begin,
                    counts: vec![(Nanos::new(1200), 3), (Nanos::new(1300), 9)],
                }],
                flags: WindowFlags::UNBALANCED.with(WindowFlags::CUT),
                ..window(id.get(), block, index, if block % 2 == 0 { region } else { hostile }.get(), speedup)
            });
        to.add_block(&pair).unwrap();
    }
    id
}

/// `main` calls `work` twice; one stack is truncated.
fn stacks(count: u64) -> Stacks {
    let function = |name: &str, file: Option<&str>| {
        let image = Image { path: "/bin/server".into(), build_id: Some("ab12".into()) };
        Function { name: name.into(), file: file.map(str::to_owned), image }
    };
    let frame = |parent, function, line, inlined| Frame { parent, function, line, inlined };
    Stacks {
        functions: vec![function("main", Some("/src/m.c")), function(HOSTILE, None), Function::truncated()],
        frames: vec![
            frame(None, 0, Some(3), false),
            frame(Some(0), 1, None, true),
            frame(Some(0), 1, Some(9), false),
            frame(None, 2, None, false),
            frame(Some(3), 1, None, false),
        ],
        samples: vec![(1, count, Nanos::new(10 * count)), (2, 3, Nanos::new(30)), (4, 1, Nanos::new(5))],
    }
}

fn finish(to: &mut Recorder, id: SessionId) {
    let region = to.intern_region(&line("hash.c:88")).unwrap();
    let whole = session(0);
    for count in [5, 9] {
        let samples = RegionSamples { session: id, region, count, weight: Nanos::new(10 * count) };
        to.set_samples(id, &whole.samples, &[samples]).unwrap();
    }
    for count in [5, 7] {
        to.set_stacks(id, &stacks(count)).unwrap();
    }
    to.set_arrivals(id, &whole.arrivals).unwrap();
    let unfinished = Program { samples: 1, ..whole.programs[0].clone() };
    to.set_programs(id, &[unfinished]).unwrap();
    to.set_programs(id, &whole.programs).unwrap();
    let unfinished = Thread { running: Nanos::ZERO, name: String::new(), ..whole.threads[0].clone() };
    to.set_threads(id, &[unfinished]).unwrap();
    to.set_threads(id, &whole.threads).unwrap();
    // What is there stays.
    to.set_overhead(id, &whole.overhead).unwrap();
    to.set_overhead(id, &whole.overhead).unwrap();
    to.add_image(id, &whole.images[0]).unwrap();
    to.add_snippet(region, &Snippet { first_line: 86, text: HOSTILE.into() }).unwrap();
    let warning = Warning { code: "busy".into(), message: "m".into(), advice: "a".into() };
    to.add_warning(id, &warning).unwrap();
    to.add_warning(id, &warning).unwrap();
    to.finish_session(
        id,
        &SessionEnd { duration: whole.end.unwrap().duration, exit: Exit::Signal(15), stopped: true },
    )
    .unwrap();
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

#[test]
fn everything_comes_back() {
    let (_folder, path) = folder();
    let mut to = Recorder::create(&path).unwrap();
    let id = write(&mut to, 3);
    finish(&mut to, id);
    to.close().unwrap();
    assert!(!beside(&path, "-wal").exists() && !beside(&path, "-shm").exists());

    let rows = Recording::open(&path).unwrap().rows().unwrap();
    let mut expected = session(id.get());
    expected.end = Some(SessionEnd { exit: Exit::Signal(15), stopped: true, ..expected.end.unwrap() });
    assert_eq!(rows.sessions, [expected]);
    assert_eq!(rows.regions.len(), 2);
    assert!(rows.regions.values().any(|region| region.name == HOSTILE && region.file.is_none()));
    assert_eq!(rows.points.len(), 2);
    assert_eq!(rows.windows.len(), 6);
    let first = &rows.windows[0];
    let same = Window {
        visits: first.visits.clone(),
        in_flight: first.in_flight.clone(),
        latencies: first.latencies.clone(),
        flags: WindowFlags::UNBALANCED.with(WindowFlags::CUT),
        ..window(id.get(), 0, 0, first.region.get(), Speedup::ZERO)
    };
    assert_eq!(*first, same);
    assert_eq!((first.visits[0].count, first.visits[0].span), (7, None));
    assert_eq!(rows.windows[1].visits[0].span, Some(SPAN));
    assert_eq!(first.in_flight[0].integral, VisitNanos::new(-3));
    assert_eq!(first.latencies[0].text(), "1200:3 1300:9");
    assert_eq!((rows.samples.len(), rows.samples[0].count), (1, 9));
    assert_eq!(rows.snippets.values().next().unwrap().text, HOSTILE);
    assert_eq!((rows.warnings.len(), rows.warnings[0].0), (1, id));
    assert_eq!(rows.functions.values().cloned().collect::<Vec<_>>(), stacks(7).functions);
    assert_eq!(told(&rows), ["main:3 7", "main:3 9 3", "[truncated] 1"].map(str::to_owned));

    let people = Connection::open(&path).unwrap();
    let period: i64 = people
        .query_row("SELECT period_ns FROM window_points WHERE point = 'requests'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(period, 100_000_000 / 7);
}

/// The stacks of all sessions, without hostile names: lines of frames, and samples.
fn told(rows: &Rows) -> Vec<String> {
    let tree = CallTree::new(rows);
    let sampled = tree.calls.iter().enumerate().filter(|(_, call)| call.own.count > 0);
    let line = |(nth, call): (usize, &profile::stacks::Call)| {
        let mut frames: Vec<String> = tree
            .callers(Some(nth))
            .map(|call| {
                let name = &tree.functions[call.function].function.name;
                let name = if name == HOSTILE { "" } else { name };
                let line = call.line.map_or(String::new(), |line| format!(":{line}"));
                format!("{name}{line}").trim_start_matches(':').to_owned()
            })
            .filter(|frame| !frame.is_empty())
            .collect();
        frames.reverse();
        format!("{} {}", frames.join(" "), call.own.count)
    };
    sampled.map(line).collect()
}

#[test]
fn stacks_of_several_runs_are_one_tree() {
    let (folder, path) = folder();
    let other = folder.path().join("other");
    for path in [&path, &path, &other] {
        let mut to = Recorder::create(path).unwrap();
        let id = write(&mut to, 1);
        to.set_stacks(id, &stacks(4)).unwrap();
        to.close().unwrap();
    }
    let rows = Recording::open(&path).unwrap().rows().unwrap();
    assert_eq!((rows.functions.len(), rows.stacks.len(), rows.stack_samples.len()), (3, 5, 6));
    assert_eq!(told(&rows), ["main:3 8", "main:3 9 6", "[truncated] 2"].map(str::to_owned));
    // The keys of another recording are its own.
    let mut to = Recorder::create(&other).unwrap();
    let more = Stacks { samples: vec![(2, 1, Nanos::ZERO)], ..stacks(0) };
    let id = to.begin_session(&session(0).start).unwrap();
    to.set_stacks(id, &more).unwrap();
    to.add(&rows).unwrap();
    to.close().unwrap();
    let rows = Recording::open(&other).unwrap().rows().unwrap();
    assert_eq!((rows.sessions.len(), rows.stacks.len()), (4, 5));
    assert_eq!(told(&rows), ["main:3 12", "main:3 9 10", "[truncated] 3"].map(str::to_owned));
}

#[test]
fn stacks_that_are_no_tree_are_damage() {
    for (change, said) in [
        ("UPDATE stacks SET parent = 5 WHERE id = 2", "row 5 of `stacks`"),
        ("UPDATE stacks SET parent = 2 WHERE id = 2", "row 2 of `stacks`"),
        ("UPDATE stacks SET parent = 77 WHERE id = 5", "row 77 of `stacks`"),
        ("DELETE FROM functions WHERE id = 1", "row 1 of `functions`"),
        ("UPDATE stack_samples SET stack = 77 WHERE stack = 5", "row 77 of `stacks`"),
        ("UPDATE stack_samples SET session = 77", "row 77 of `sessions`"),
    ] {
        let (_folder, path) = folder();
        let mut to = Recorder::create(&path).unwrap();
        let id = write(&mut to, 1);
        finish(&mut to, id);
        to.close().unwrap();
        let sql = format!("PRAGMA foreign_keys = off; {change};");
        Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
        let error = Recording::open(&path).unwrap().rows().unwrap_err().to_string();
        assert!(error.contains(said), "{change}: {error}");
    }
}

#[test]
fn sessions_are_added_to_a_recording() {
    let (_folder, path) = folder();
    for run in 1..=3 {
        let mut to = Recorder::create(&path).unwrap();
        write(&mut to, 1);
        to.close().unwrap();
        let rows = Recording::open(&path).unwrap().rows().unwrap();
        assert_eq!((rows.sessions.len(), rows.windows.len()), (run, 2 * run));
        assert_eq!((rows.regions.len(), rows.points.len()), (2, 2));
        assert_eq!(rows.sessions[0].end, None);
    }
}

#[test]
fn two_writers_and_a_reader_at_once() {
    let (_folder, path) = folder();
    let mut one = Recorder::create(&path).unwrap();
    let mut two = Recorder::create(&path).unwrap();
    let reader = Recording::open(&path);
    write(&mut one, 2);
    write(&mut two, 2);
    let reader = reader.unwrap();
    assert_eq!(reader.rows().unwrap().windows.len(), 8);
    one.close().unwrap(); // the log stays: others use it
    write(&mut two, 1);
    assert_eq!(reader.rows().unwrap().windows.len(), 10);
    drop(reader);
    two.close().unwrap();
    assert!(!beside(&path, "-wal").exists());
}

/// Not a test by itself: the process that `a_killed_writer_loses_nothing` kills.
#[test]
fn writer_to_be_killed() {
    let Some(path) = env::var_os("WHATIF_TEST_WRITER") else { return };
    let mut to = Recorder::create(Path::new(&path)).unwrap();
    let id = write(&mut to, 0);
    let region = to.intern_region(&line("hash.c:88")).unwrap();
    for block in 0.. {
        to.add_block(&[window(id.get(), block, 0, region.get(), Speedup::ZERO)]).unwrap();
        println!("\nwritten {}", block + 1);
    }
}

#[test]
fn a_killed_writer_loses_nothing() {
    let (folder, path) = folder();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "database::writer_to_be_killed", "--nocapture"])
        .env("WHATIF_TEST_WRITER", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut written = lines.filter_map(|line| line.strip_prefix("written ")?.parse::<usize>().ok());
    written.find(|&n| n >= 20).unwrap();
    let while_writing = Recording::open(&path).unwrap().rows().unwrap().windows.len();
    assert!(while_writing >= 20);
    child.kill().unwrap();
    child.wait().unwrap();
    let acknowledged = written.last().unwrap_or(while_writing).max(while_writing);

    // As it was left, and as a user would copy it: with and without the index of the log.
    assert!(beside(&path, "-wal").exists());
    let copy = folder.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::copy(beside(&path, "-wal"), beside(&copy, "-wal")).unwrap();
    for path in [&copy, &path] {
        let rows = Recording::open(path).unwrap().rows().unwrap();
        assert!(rows.windows.len() >= acknowledged, "{} of {acknowledged}", rows.windows.len());
        assert_eq!(rows.sessions[0].end, None);
    }
    // And the next run goes on from there.
    let mut to = Recorder::create(&path).unwrap();
    write(&mut to, 1);
    to.close().unwrap();
    assert!(!beside(&path, "-wal").exists());
    assert!(Recording::open(&path).unwrap().rows().unwrap().windows.len() >= acknowledged + 2);
}

#[test]
fn other_files_are_left_alone() {
    let (folder, path) = folder();
    for content in [&b"hello"[..], &[b'x'; 5000], &b"SQLite format 3\0 but not really"[..]] {
        fs::write(&path, content).unwrap();
        for error in [Recorder::create(&path).unwrap_err(), Recording::open(&path).unwrap_err()] {
            let said = error.to_string();
            assert!(matches!(error, Error::NotARecording { .. } | Error::Damaged { .. }), "{said}");
            assert!(said.lines().count() >= 2, "no advice: {said}");
        }
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let before = fs::read(&other).unwrap();
    assert!(matches!(Recorder::create(&other), Err(Error::NotARecording { .. })));
    assert!(matches!(Recording::open(&other), Err(Error::NotARecording { .. })));
    assert_eq!(fs::read(&other).unwrap(), before);
    assert!(matches!(Recording::open(folder.path()), Err(Error::NotARecording { .. })));
    assert!(matches!(Recording::open(&folder.path().join("none")), Err(Error::NotFound { .. })));
    assert!(matches!(Recorder::create(&folder.path().join("no/dir")), Err(Error::Io { .. })));
}

#[test]
fn an_older_layout_is_read_and_added_to() {
    let (_folder, path) = folder();
    Recorder::create(&path).unwrap().close().unwrap();
    // What the fourth layout did not have, or not always,
    let fourth = "DROP TABLE arrivals; DROP TABLE latencies; DROP TABLE functions; DROP TABLE stacks; DROP TABLE stack_samples;
         DROP TABLE programs; DROP TABLE threads; DROP TABLE overhead;
         ALTER TABLE audits DROP COLUMN sliced_ns; ALTER TABLE audits DROP COLUMN sliced_virtual_ns;
         ALTER TABLE audits DROP COLUMN sliced_queued_ns; ALTER TABLE audits DROP COLUMN handovers;
         ALTER TABLE audits DROP COLUMN waking_ns; ALTER TABLE audits DROP COLUMN taken_back_ns;
         ALTER TABLE audits DROP COLUMN serving_ns; ALTER TABLE audits DROP COLUMN idle_ns; ALTER TABLE audits DROP COLUMN doubtful_ns;
         ALTER TABLE audits DROP COLUMN crowded; ALTER TABLE audits DROP COLUMN noting_ns;
         ALTER TABLE audits DROP COLUMN answered_ns; ALTER TABLE audits DROP COLUMN executing_ns;
         PRAGMA user_version = 4;";
    Connection::open(&path).unwrap().execute_batch(fourth).unwrap();
    Recording::open(&path).unwrap().rows().unwrap();
    Recorder::create(&path).unwrap().close().unwrap();
    let sliced =
        Connection::open(&path).unwrap().prepare("SELECT sliced_ns, handovers FROM audits").map(drop);
    assert_eq!(sliced, Ok(()));
    // what the third one did not have,
    let third = "DROP TABLE audits; DROP TABLE arrivals; DROP TABLE latencies; PRAGMA user_version = 3;";
    Connection::open(&path).unwrap().execute_batch(third).unwrap();
    Recording::open(&path).unwrap().rows().unwrap();
    Recorder::create(&path).unwrap().close().unwrap();
    // and what the first one did not have either.
    let older =
        "DROP TABLE audits; DROP TABLE symbols; DROP TABLE books; DROP TABLE segments; DROP TABLE names;
         DROP TABLE code_images; DROP TABLE labels; DROP TABLE events; DROP TABLE epoch_events;
         DROP TABLE epochs; DROP TABLE machines; DROP TABLE production; DROP TABLE arrivals;
         ALTER TABLE visits DROP COLUMN span_visits;
         ALTER TABLE visits DROP COLUMN span_elapsed_ns;
         ALTER TABLE visits DROP COLUMN span_required_ns;
         PRAGMA user_version = 1;";
    Connection::open(&path).unwrap().execute_batch(older).unwrap();
    Recording::open(&path).unwrap().rows().unwrap();
    Recorder::create(&path).unwrap().close().unwrap();
    let columns: i64 = Connection::open(&path)
        .unwrap()
        .query_row(
            "SELECT count(span_visits) + count(span_elapsed_ns) + count(span_required_ns) FROM visits",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(columns, 0);
    Recording::open(&path).unwrap().rows().unwrap();
}

#[test]
fn other_versions_are_refused_in_words() {
    let (_folder, path) = folder();
    Recorder::create(&path).unwrap().close().unwrap();
    for (version, newer) in [(storage::schema::VERSION + 1, true), (0, false), (-1, false)] {
        Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
        for error in [Recorder::create(&path).unwrap_err(), Recording::open(&path).unwrap_err()] {
            match error {
                Error::Newer { found, .. } => assert!(newer && found == version),
                Error::Damaged { .. } => assert!(!newer),
                error => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_run_that_was_killed_before_it_began() {
    let (_folder, path) = folder();
    fs::write(&path, b"").unwrap();
    assert!(matches!(Recording::open(&path), Err(Error::Empty { .. })));
    Recorder::create(&path).unwrap().close().unwrap();
    assert!(Recording::open(&path).unwrap().rows().unwrap().sessions.is_empty());
}

#[test]
fn damage_is_reported_as_damage() {
    let (_folder, path) = folder();
    let mut to = Recorder::create(&path).unwrap();
    write(&mut to, 200);
    to.close().unwrap();
    let whole = fs::read(&path).unwrap();

    let mut scrambled = whole.clone();
    scrambled[4096..].iter_mut().for_each(|byte| *byte ^= 0x55);
    for (what, content) in [("cut", &whole[..whole.len() / 2]), ("scrambled", &scrambled)] {
        fs::write(&path, content).unwrap();
        match Recording::open(&path).and_then(|recording| recording.rows()) {
            Err(Error::Damaged { .. }) => {}
            other => panic!("{what}: {:?}", other.map(|rows| rows.windows.len())),
        }
    }
    fs::write(&path, &whole).unwrap();
    Connection::open(&path).unwrap().execute("UPDATE regions SET kind = 'a\nb'", []).unwrap();
    let said = Recording::open(&path).unwrap().rows().unwrap_err().to_string();
    assert!(said.contains(r"kind cannot be `a\nb`") && said.contains(".recover"), "{said}");
}

#[test]
fn many_may_begin_the_same_recording_at_once() {
    for _ in 0..10 {
        let (_folder, path) = folder();
        let together = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    let mut recorder = Recorder::create(&path).unwrap();
                    recorder.begin_session(&SessionStart::default()).unwrap();
                    recorder.close().unwrap();
                });
            }
        });
        assert_eq!(Recording::open(&path).unwrap().rows().unwrap().sessions.len(), 8);
    }
}
