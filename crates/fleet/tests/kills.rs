//! Whatever is killed, everything is there once.

use crate::answers::{QUESTIONS, init, json, push, typed, with_machines};
use crate::machines;
use crate::nodes::Nodes;
use fleet::arguments::Command;
use fleet::command;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

/// Where the process that is killed learns what to send, and where to.
pub const FOLDER: &str = "FLEET_TEST_FOLDER";
pub const URL: &str = "FLEET_TEST_URL";

fn is_all_there(url: &str, folder: &Path) {
    let Command::Status(args) = typed(&["status", "--url", url]) else { unreachable!() };
    let standing = command::status(&args).unwrap();
    assert!(standing.samples > 0 && standing.samples == standing.in_books, "{standing:?}");
    assert_eq!(standing.doubts, []);
    let local = folder.to_str().unwrap();
    for question in QUESTIONS {
        assert_eq!(json(question, &["--url", url]), json(question, &["--db", local]), "{question:?}");
    }
}

#[test]
#[ignore = "it is what a_sender_that_is_killed starts and kills"]
fn sender() {
    let (folder, url) = (std::env::var(FOLDER).unwrap(), std::env::var(URL).unwrap());
    push(&url, Path::new(&folder)).unwrap();
}

fn sender_process(test: &str, url: &str, folder: &Path) -> std::process::Child {
    Process::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored"])
        .env(FOLDER, folder)
        .env(URL, url)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Starts what sends again and again, and kills it, until it has come to an end. `test` is what sends.
pub fn kill_until_it_ends(test: &str, url: &str, folder: &Path, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut kills, mut longest) = (0, 20);
    loop {
        let mut child = sender_process(test, url, folder);
        // At any moment of its work, and a little later each time, so that it ends.
        std::thread::sleep(Duration::from_millis(random.u64(1..longest)));
        longest += 20;
        match child.try_wait().unwrap() {
            Some(status) if status.success() => return,
            // The server is at work on what another one has asked for.
            Some(_) => {}
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
                if kills % 3 == 0 {
                    // The note is lost, too, if there is one already.
                    let _ = std::fs::remove_file(folder.join("fleet.db"));
                }
            }
        }
    }
}

#[test]
fn a_sender_that_is_killed_sends_again_and_nothing_counts_twice() {
    let Some(nodes) = Nodes::start(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    machines::write(folder.path(), 6, 200);
    init(&nodes);
    let url = &nodes.urls()[0];
    kill_until_it_ends("kills::sender", url, folder.path(), 5);
    is_all_there(url, folder.path());
    // All notes are lost: nothing is sent, for the server has it.
    std::fs::remove_file(folder.path().join("fleet.db")).unwrap();
    let pushed = push(url, folder.path()).unwrap();
    assert!(pushed.hours == 0 && pushed.rows == 0 && pushed.found > 10, "{pushed:?}");
    is_all_there(url, folder.path());
}

#[test]
fn a_node_that_is_killed_is_waited_for_and_nothing_is_lost() {
    // The other one, and the one that is asked: between two hours that it is sent, and while one is under way.
    for (nth, is_between) in [(1, true), (0, true), (0, false)] {
        let Some(mut nodes) = Nodes::start(2) else { return };
        let folder = tempfile::tempdir().unwrap();
        machines::write(folder.path(), 6, 200);
        init(&nodes);
        let url = nodes.urls()[0].clone();
        let local = folder.path().to_str().unwrap();
        let Command::Push(args) = typed(&["push", "--follow", "--db", local, "--url", &url]) else {
            unreachable!()
        };
        let (pid, node) = (nodes.nodes[nth].pid().to_string(), &mut nodes.nodes[nth]);
        let (mut sent, mut killing, mut waits, mut said) = (0, None, 0, Vec::new());
        let all = command::push(
            &args,
            &mut |pushed| {
                sent += pushed.hours;
                if sent >= 3 && killing.is_none() {
                    let pid = pid.clone();
                    let killed = std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(if is_between { 0 } else { 7 }));
                        assert!(Process::new("kill").args(["-KILL", &pid]).status().unwrap().success());
                    });
                    killing = Some(if is_between { killed.join().map(|()| None) } else { Ok(Some(killed)) });
                }
            },
            &mut |text| said.push(text.to_owned()),
            &mut |longest| {
                waits += 1;
                if waits == 3 {
                    node.kill();
                    node.start_again();
                }
                // When all is sent there is nothing to do for a minute.
                longest < Duration::from_secs(60)
            },
        )
        .unwrap();
        if let Some(killed) = killing.unwrap().unwrap() {
            killed.join().unwrap();
        }
        if waits < 3 {
            // All was sent before it was killed.
            node.kill();
            node.start_again();
        }
        assert!(all.hours > 3, "{all:?}");
        let said = said.join("\n");
        assert!(
            !is_between
                || said.contains("nothing is lost") && said.contains("answers again, after 3 attempts"),
            "{said}"
        );
        is_all_there(&url, folder.path());
    }
}

#[test]
fn tables_that_are_made_anew_are_filled_anew() {
    let Some((nodes, folder)) = with_machines(1, 2) else { return };
    let url = nodes.urls()[0].clone();
    let local = folder.path().to_str().unwrap();
    let Command::Push(args) = typed(&["push", "--follow", "--db", local, "--url", &url]) else {
        unreachable!()
    };
    let mut rounds = 0;
    let all = command::push(&args, &mut |_| (), &mut |_| (), &mut |_: Duration| {
        rounds += 1;
        if rounds == 1 {
            nodes.nodes[0].ask("DROP DATABASE whatif");
            init(&nodes);
        }
        rounds < 2
    })
    .unwrap();
    assert_eq!((rounds, all.found), (2, 0));
    is_all_there(&url, folder.path());
}

/// The server takes rows as they come, and those of a request that breaks off for all there are: so they have to be packed.
#[test]
fn half_a_request_is_refused() {
    let Some(nodes) = Nodes::start(1) else { return };
    let node = &nodes.nodes[0];
    let whole: Vec<u8> = (0..50_000_u64).flat_map(u64::to_le_bytes).collect();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&whole).unwrap();
    let packed = packed.finish().unwrap();
    let count = || {
        let answer = node.ask("SELECT concat('n=', toString(count())) FROM t");
        answer.split("n=").nth(1).unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    node.ask("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a");
    let insert = |encoding: &str, body: &[u8], length: usize| {
        let head = format!(
            "POST /?query=INSERT+INTO+t+FORMAT+RowBinary HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{encoding}Content-Length: {length}\r\n\r\n"
        );
        node.request(&head, body).unwrap()
    };
    let gzip = "Content-Encoding: gzip\r\n";
    for cut in [packed.len() / 2, packed.len() - 8, packed.len() - 1] {
        let answer = insert(gzip, &packed[..cut], packed.len());
        assert!(answer.starts_with("HTTP/1.1 500") && count() == 0, "{cut}: {answer}");
    }
    assert!(insert(gzip, &packed, packed.len()).starts_with("HTTP/1.1 200") && count() == 50_000);
    // This is why: if a server has learned to refuse it, the note in row_binary.rs is out of date.
    let answer = insert("", &whole[..200_000], whole.len());
    assert!(answer.starts_with("HTTP/1.1 200") && count() == 75_000, "{answer}");
}
