//! What making code faster is worth: the same from one node, two shards and recordings, and right.

use crate::answers::{init, json, push, typed};
use crate::experiments::{self, BLOCKS, DISTRUSTED, FIRST, NOTHING, Of};
use crate::kills::{FOLDER, URL, kill_until_it_ends};
use crate::machines;
use crate::nodes::Nodes;
use fleet::arguments::Command;
use fleet::{CodeRow, Error, Named, Pushed, Worths, command};
use profile::{Mark, Verdict};
use std::path::Path;
use std::time::Duration;

/// Runs of a recording in which two versions of five hosts are.
const HOSTS: u32 = 5;
/// Hosts of whom the mean is known well.
const MANY: u32 = 25;
/// Windows of a run.
const WINDOWS: u64 = 4 * 2 * BLOCKS as u64;

pub fn push_recordings(url: &str, path: &Path, more: &[&str]) -> Result<Pushed, Error> {
    let path = path.to_str().unwrap();
    let words = ["push", "--recordings", path, "--url", url];
    let Command::Push(args) = typed(&words.iter().chain(more).copied().collect::<Vec<_>>()) else {
        unreachable!()
    };
    command::push(&args, &mut |_| (), &mut |text| eprintln!("{text}"), &mut |_: Duration| false)
}

fn worth(words: &[&str]) -> Result<Worths, Error> {
    let Command::Worth(args) = typed(&["worth"].iter().chain(words).copied().collect::<Vec<_>>()) else {
        unreachable!()
    };
    command::worth(&args)
}

fn row<'w>(worths: &'w Worths, name: &str, point: &str) -> &'w CodeRow {
    worths.rows.iter().find(|row| row.code.name == name && row.point == point).unwrap()
}

/// Questions of all kinds.
const QUESTIONS: [&[&str]; 7] = [
    &["worth"],
    &["worth", "--top", "2"],
    &["worth", "--by", "version", "--service", "shop*"],
    &["worth", "--version", "1.1", "--point", "requests"],
    &["worth", "--point", "rep?y"],
    &["worth", "--host", "web-3"],
    &["worth", "--since", "2026-01-01T00:31:00Z", "--until", "2026-01-01T01:10:00Z"],
];

#[test]
fn one_node_two_shards_and_recordings_answer_alike() {
    let (Some(one), Some(two)) = (Nodes::start(1), Nodes::start(2)) else { return };
    let (folder, recordings) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    machines::write(folder.path(), 8, 100);
    experiments::write(recordings.path(), HOSTS);
    let (local, files) = (folder.path().to_str().unwrap(), recordings.path().to_str().unwrap());
    for nodes in [&one, &two] {
        init(nodes);
        push(&nodes.urls()[0], folder.path()).unwrap();
        let pushed = push_recordings(&nodes.urls()[0], recordings.path(), &[]).unwrap();
        let runs = u64::from(2 * HOSTS);
        assert_eq!(pushed, Pushed { runs, windows: runs * WINDOWS, ..Pushed::default() });
        assert_eq!(push_recordings(&nodes.urls()[0], recordings.path(), &[]).unwrap(), Pushed::default());
    }
    for question in QUESTIONS {
        let of_recordings = json(question, &["--recordings", files, "--db", local]);
        assert!(of_recordings.len() > 1000 && of_recordings.contains("\"service_cores\""), "{of_recordings}");
        for url in one.urls().iter().chain(&two.urls()) {
            assert_eq!(json(question, &["--url", url]), of_recordings, "{question:?}");
        }
    }
    // Both shards have some.
    for node in &two.nodes {
        let answer = node.ask("SELECT concat('n=', toString(count())) FROM whatif.windows_shard");
        assert!(!answer.contains("n=0\n"), "{answer}");
    }
    for url in one.urls().iter().chain(&two.urls()) {
        let Command::Status(args) = typed(&["status", "--url", url]) else { unreachable!() };
        let standing = command::status(&args).unwrap();
        assert_eq!((standing.runs, standing.windows), (10, 10 * WINDOWS));
        assert_eq!((standing.in_runs, standing.broken_runs.len()), (10 * WINDOWS, 0));
    }
    // Nothing of what was typed leaves the machine.
    for table in ["runs", "windows", "regions"] {
        let answer = one.nodes[0].ask(&format!("SELECT * FROM whatif.{table} FORMAT TabSeparated"));
        assert!(answer.len() > 300 && !answer.contains("secret"), "{table}");
    }
}

#[test]
fn the_numbers_are_right() {
    let (folder, recordings) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    machines::write(folder.path(), 8, 100);
    experiments::write(recordings.path(), MANY);
    let (local, files) = (folder.path().to_str().unwrap(), recordings.path().to_str().unwrap());
    let worths = worth(&["--recordings", files, "--db", local]).unwrap();
    assert_eq!((worths.hosts, worths.runs), (25, 50));
    for (name, [old, new]) in experiments::truths(MANY) {
        let row = row(&worths, name, "requests");
        let numbers = row.numbers.as_ref().unwrap();
        assert_eq!((numbers.hosts, numbers.left_out, numbers.blocks as i64), (25, 0, 50 * BLOCKS));
        // Each host has as many experiments with one version as with the other.
        let truth = (old + new) / 2.0;
        assert!((numbers.slope - truth).abs() < 0.012, "{name}: {} for {truth}", numbers.slope);
        assert!(numbers.slope_lo < truth && truth < numbers.slope_hi, "{name}: {numbers:?}");
        assert!((numbers.less_time - 0.2 * numbers.slope).abs() < 1e-12);
        let by_version: Vec<_> = row.versions.iter().map(|of| (&*of.version, of.numbers.slope)).collect();
        let [("1.0", before), ("1.1", after)] = by_version[..] else { panic!("{by_version:?}") };
        assert!((before - old).abs() < 0.02 && (after - new).abs() < 0.02, "{name}: {by_version:?}");
        // Each host ran both.
        let [change] = &row.changes[..] else { panic!("{row:?}") };
        assert_eq!((&*change.before, &*change.after, change.same_hosts), ("1.0", "1.1", Some(25)));
        assert!((change.difference - (new - old)).abs() < 0.02, "{name}: {change:?}");
        assert!(change.difference_lo < change.difference && change.difference < change.difference_hi);
        assert_eq!(
            (row.code.program.as_str(), row.code.builds.as_slice()),
            ("server", &["0a0b0c".to_owned(), "1a1b1c".to_owned()][..])
        );
    }
    let first = row(&worths, FIRST, "requests");
    assert_eq!((worths.rows[0].code.name.as_str(), first.verdict), (FIRST, Verdict::Helps));
    assert!(first.numbers.as_ref().unwrap().tau.unwrap() > 0.01, "{first:?}");
    assert_eq!(row(&worths, NOTHING, "requests").verdict, Verdict::NoEffect);
    let distrusted = row(&worths, DISTRUSTED, "requests");
    assert_eq!(distrusted.verdict, Verdict::NotTrusted);
    assert!(distrusted.advice.as_ref().unwrap().contains("profile longer"), "{distrusted:?}");
    let text = worths.text();
    for said in [
        "20 % less time there → 7",
        "hosts differ by",
        "known to ± 2 points",
        "the code itself takes",
        "not trusted",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(
        !text.contains("1.0 → 1.1")
            && worth(&["--recordings", files, "--by", "version"]).unwrap().text().contains("1.0 → 1.1")
    );
    let one = worth(&["--recordings", files, "--host", "web-3"]).unwrap().text();
    assert!(one.contains("± 2 points take") && one.contains("more of the same"), "{one}");
    costs_are_those_of_top(&worths, local);
}

/// What the fleet spends in code is what `top` says of it.
fn costs_are_those_of_top(worths: &Worths, local: &str) {
    let Command::Top(args) = typed(&["top", "--db", local, "--by", "service,function", "--top", "1000"])
    else {
        unreachable!()
    };
    let top = command::top(&args).unwrap();
    let seconds = (top.heading.until.unwrap() - top.heading.since.unwrap()) as f64;
    let cores = |samples: u64| samples as f64 * top.heading.nanos_per_sample.unwrap() / 1e9 / seconds;
    let of_shop = top.rows.iter().filter(|row| row.groups[0].1 == "shop.service");
    let service: u64 = of_shop.clone().map(|row| row.samples).sum();
    let code: u64 = of_shop.filter(|row| row.name == FIRST).map(|row| row.samples).sum();
    assert!(code > 100, "{code}");
    let row = row(worths, FIRST, "requests");
    let of = row.cores.unwrap();
    assert_eq!(of.samples, Some(code));
    assert!(
        (of.cores.unwrap() - cores(code)).abs() < 1e-9
            && (of.service_cores.unwrap() - cores(service)).abs() < 1e-9
    );
    let won = cores(service) * row.numbers.as_ref().unwrap().less_time;
    assert!((of.won.unwrap() - won).abs() < 1e-9 && of.won_lo.unwrap() < won && won < of.won_hi.unwrap());
    assert_eq!(worths.cost.as_ref().unwrap().samples, top.heading.samples);
    // It is hot, and making it faster changes nothing.
    assert_eq!(self::row(worths, NOTHING, "requests").mark, Some(Mark::HotButDoesNotMatter));
    // A latency is no work that is saved.
    assert_eq!(self::row(worths, FIRST, "reply").cores.unwrap().won, None);
}

#[test]
fn runs_that_go_on_wait_and_are_sent_when_they_are_over() {
    let Some(nodes) = Nodes::start(1) else { return };
    init(&nodes);
    let url = nodes.urls()[0].clone();
    let folder = tempfile::tempdir().unwrap();
    let of = Of { host: 1, version: 0, seed: 0 };
    let path = of.write(folder.path(), false);
    std::fs::write(folder.path().join("notes.txt"), "no recording").unwrap();
    std::fs::write(folder.path().join("damaged.db"), b"SQLite format 3\0 and no more").unwrap();
    let pushed = push_recordings(&url, folder.path(), &[]).unwrap();
    assert_eq!((pushed.runs, pushed.waiting), (0, 1));
    let error = worth(&["--url", &url]).unwrap_err();
    assert!(
        matches!(error, Error::NoRuns { .. }) && error.to_string().contains("whatif fleet push --recordings"),
        "{error}"
    );
    std::fs::remove_file(&path).unwrap();
    of.write(folder.path(), true);
    let named = ["--service", "given", "--version", "9"];
    assert_eq!(push_recordings(&url, folder.path(), &named).unwrap().runs, 1);
    let worths = worth(&["--url", &url]).unwrap();
    assert_eq!(
        (worths.rows[0].service.as_str(), worths.rows[0].versions[0].version.as_str()),
        ("given", "9")
    );
    // The same run in another recording, which has one more.
    let more = tempfile::tempdir().unwrap();
    let other = Of { host: 1, version: 0, seed: 1 }.write(more.path(), true);
    let rows = profile::Recording::open(&path).unwrap().rows().unwrap();
    let mut recorder = profile::Recording::create(&other).unwrap();
    recorder.add(&rows).unwrap();
    recorder.close().unwrap();
    let at = fleet::arguments::At {
        url: Some(url.clone()),
        user: fleet::arguments::User { database: "whatif".into(), ..Default::default() },
    };
    let pushed = command::send_recordings(&at, &[other], &Named::default()).unwrap();
    assert_eq!((pushed.runs, pushed.runs_found, pushed.windows), (1, 1, WINDOWS));
    assert_eq!(worth(&["--url", &url]).unwrap().runs, 2);
}

#[test]
fn bad_input_is_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("text"), "no recording").unwrap();
    experiments::write(folder.path(), 1);
    let files = folder.path().to_str().unwrap();
    for (words, expected) in [
        (&["--recordings", &at("none")][..], "name a recording (whatif run -o FILE)"),
        (&["--recordings", &at("text")], "text"),
        (&["--recordings", files, "--service", "other"], "whatif fleet push --recordings"),
        (&["--recordings", files, "--point", "other"], "leave --point out"),
        (
            &["--recordings", files, "--since", "2026-02-01", "--until", "2026-01-01"],
            "--since is not before --until",
        ),
        (&["--recordings", files, "--db", &at("none")], "none"),
    ] {
        let error = worth(words).unwrap_err().to_string();
        assert!(error.contains(expected), "{words:?}: {error}");
    }
    // Without samples there are no costs, and the text tells.
    let worths = worth(&["--recordings", files]).unwrap();
    assert!(worths.cost.is_none() && worths.text().contains("there are no samples"), "{}", worths.text());
    assert!(worths.text().contains("says nothing of others"), "{}", worths.text());
}

#[test]
fn rows_that_come_twice_count_once_and_those_that_are_lost_are_named() {
    let Some(nodes) = Nodes::start(1) else { return };
    init(&nodes);
    let url = nodes.urls()[0].clone();
    let folder = tempfile::tempdir().unwrap();
    experiments::write(folder.path(), 3);
    push_recordings(&url, folder.path(), &[]).unwrap();
    let files = folder.path().to_str().unwrap();
    let of_recordings = json(&["worth"], &["--recordings", files]);
    for table in ["windows", "runs", "regions"] {
        nodes.nodes[0].ask(&format!("INSERT INTO whatif.{table} SELECT * FROM whatif.{table}"));
    }
    assert_eq!(json(&["worth"], &["--url", &url]), of_recordings);
    let Command::Status(args) = typed(&["status", "--url", &url]) else { unreachable!() };
    assert_eq!(command::status(&args).unwrap().broken_runs, []);
    // A run of which windows are lost counts for nothing rather than for something else.
    let there = "SELECT concat('run=', run) FROM whatif.runs ORDER BY run LIMIT 1";
    let answer = nodes.nodes[0].ask(there);
    let run = answer.split("run=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    nodes.nodes[0].ask(&format!("ALTER TABLE whatif.windows DELETE WHERE run = '{run}' AND block < 3"));
    let done = || {
        nodes.nodes[0].ask("SELECT concat('n=', toString(count())) FROM system.mutations WHERE is_done = 0")
    };
    for _ in 0..3000 {
        if done().contains("n=0") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let worths = worth(&["--url", &url]).unwrap();
    assert_eq!((worths.runs, worths.broken), (5, 1));
    let standing = command::status(&args).unwrap();
    let [broken] = &standing.broken_runs[..] else { panic!("{standing:?}") };
    assert_eq!((&broken.run, broken.windows, broken.in_run), (&run, WINDOWS - 6, WINDOWS));
    assert!(standing.text().contains(&run) && worths.text().contains("whatif fleet status"));
}

#[test]
#[ignore = "it is what a_sender_of_recordings_that_is_killed starts and kills"]
fn sender() {
    let (folder, url) = (std::env::var(FOLDER).unwrap(), std::env::var(URL).unwrap());
    push_recordings(&url, Path::new(&folder), &[]).unwrap();
}

#[test]
fn a_sender_of_recordings_that_is_killed_sends_again_and_nothing_counts_twice() {
    let Some(nodes) = Nodes::start(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    experiments::write(folder.path(), 12);
    init(&nodes);
    let url = &nodes.urls()[0];
    kill_until_it_ends("worth::sender", url, folder.path(), 6);
    let is_all_there = || {
        let Command::Status(args) = typed(&["status", "--url", url]) else { unreachable!() };
        let standing = command::status(&args).unwrap();
        assert_eq!((standing.runs, standing.windows, standing.in_runs), (24, 24 * WINDOWS, 24 * WINDOWS));
        // Not only each once: no row came twice.
        let rows = |table: &str| standing.tables.iter().find(|of| of.name == table).unwrap().rows;
        assert_eq!(rows("windows"), 24 * WINDOWS);
        let files = folder.path().to_str().unwrap();
        assert_eq!(json(&["worth"], &["--url", url]), json(&["worth"], &["--recordings", files]));
    };
    is_all_there();
    // All notes are lost: nothing is sent, for the server has it.
    std::fs::remove_file(folder.path().join("fleet.db")).unwrap();
    let pushed = push_recordings(url, folder.path(), &[]).unwrap();
    assert_eq!((pushed.runs, pushed.runs_found), (0, 24));
    is_all_there();
}

#[test]
fn recordings_and_samples_are_sent_side_by_side() {
    let Some(nodes) = Nodes::start(1) else { return };
    init(&nodes);
    let (url, folder) = (nodes.urls()[0].clone(), tempfile::tempdir().unwrap());
    machines::write(folder.path(), 2, 100);
    // In the very folder of the database: one note, and one lock.
    Of { host: 0, version: 0, seed: 0 }.write(folder.path(), true);
    let local = folder.path().to_str().unwrap();
    let Command::Push(args) =
        typed(&["push", "--follow", "--db", local, "--recordings", local, "--url", &url])
    else {
        unreachable!()
    };
    let (mut rounds, mut said) = (0, Vec::new());
    let all =
        command::push(&args, &mut |_| (), &mut |text| said.push(text.to_owned()), &mut |_: Duration| {
            rounds += 1;
            if rounds == 1 {
                // Another one is looked for.
                Of { host: 0, version: 1, seed: 0 }.write(folder.path(), true);
            }
            rounds < 2
        })
        .unwrap();
    assert_eq!((rounds, all.runs, all.windows, all.runs_found), (2, 2, 2 * WINDOWS, 0), "{said:?}");
    assert!(
        all.hours > 0 && said.iter().filter(|said| said.contains("sent 1 run, ")).count() == 2,
        "{said:?}"
    );
}
