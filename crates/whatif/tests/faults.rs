//! System calls that fail, once each: the program runs to its end and ends as it would have, or is not started; the recording is whole;
//! and a message says what is missing. A small part of what `bench -- faults` does. Calls are chosen by their file and by whether the
//! program has been started, and not by how many another run has made.

use crate::support::{Ended, Sandbox, compiled, program, run, skip, whatif};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `exits.c` does with the argument 42.
const ENDS_WITH: i32 = 42;
const PRINTS: &str = "begin 42\nend\n";

/// The program that stands between another one and the kernel; `None`, said aloud, where that is not allowed.
fn harness(sandbox: &Sandbox) -> Option<PathBuf> {
    let harness = compiled("bench/c/faults.c", "faults")?;
    let mut command = sandbox.command(&harness);
    command.arg("count").arg(sandbox.path("counts")).args(["--", "true"]);
    let ended = run(command);
    if ended.code() != Some(0) {
        skip(&format!("programs cannot be traced here: {}", ended.stderr.trim()));
        return None;
    }
    Some(harness)
}

/// `whatif run` under the harness, which does what `words` say.
fn profiling(sandbox: &Sandbox, harness: &Path, words: &[&str], program: &Path) -> Command {
    let mut command = sandbox.command(harness);
    command.args(words).arg(sandbox.path("done")).arg("--").arg(whatif());
    command.args(["run", "-o"]).arg(sandbox.recording()).arg("--").arg(program).arg(ENDS_WITH.to_string());
    command
}

/// How often `whatif run` makes a system call.
fn count(harness: &Path, program: &Path, call: &str) -> usize {
    let sandbox = Sandbox::new();
    let ended = run(profiling(&sandbox, harness, &["count"], program)).assert_code(ENDS_WITH);
    let counts = std::fs::read_to_string(sandbox.path("done")).unwrap();
    let made = counts.lines().find_map(|line| line.strip_prefix(call)?.strip_prefix(' ')?.parse().ok());
    made.unwrap_or_else(|| panic!("{call} is not in {counts} {ended:#?}"))
}

/// The program has ended as it would have, or was not started; the recording can be read, or there is none yet.
#[track_caller]
fn check(sandbox: &Sandbox, ended: &Ended) {
    assert!(!ended.stderr.contains("panicked") && !ended.stderr.contains("bug"), "{ended:#?}");
    if ended.stdout.is_empty() {
        assert!(matches!(ended.code(), Some(90 | 126)), "{ended:#?}");
        // With advice, on a line of its own or after the reason.
        let advises = ended.stderr.lines().count() > 1 || ended.stderr.contains("; ");
        assert!(ended.stderr.starts_with("whatif: ") && advises, "{ended:#?}");
    } else {
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(ENDS_WITH), PRINTS), "{ended:#?}");
    }
    if !sandbox.recording().exists() {
        return;
    }
    let whole: String = rusqlite::Connection::open(sandbox.recording())
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(whole, "ok", "{ended:#?}");
    let ends = match profile::Recording::open(&sandbox.recording()) {
        Err(profile::Error::Empty { .. }) => 0,
        recording => {
            let rows = recording.and_then(|recording| recording.rows());
            let rows = rows.unwrap_or_else(|error| panic!("{error} {ended:#?}"));
            rows.sessions.iter().filter(|session| session.end.is_some()).count()
        }
    };
    let says_so = ended.stderr.contains("recorded in");
    assert!(ends == 1 || !says_so && ended.stderr.contains("whatif: "), "{ended:#?}");
}

/// Profiles `exits.c`, while something is done to the call that `words` name.
#[track_caller]
fn profiled_with(harness: &Path, words: &[&str], exits: &Path) -> Ended {
    let sandbox = Sandbox::new();
    let ended = run(profiling(&sandbox, harness, words, exits));
    let done = std::fs::read_to_string(sandbox.path("done")).unwrap();
    let part = words[1].split('@').nth(1).unwrap();
    assert!(done.contains(part), "{words:?}: {done} {ended:#?}");
    check(&sandbox, &ended);
    ended
}

#[test]
fn a_disk_that_is_full_once() {
    let Some(exits) = program("exits.c") else { return };
    let Some(harness) = harness(&Sandbox::new()) else { return };
    for (call, nth, is_started) in [
        ("pwrite64@db-journal", "1", false),
        ("pwrite64@db-shm", "1", false),
        ("pwrite64@db-wal", "1", false),
        ("pwrite64@db-wal", "20", false),
        ("pwrite64@db-wal", "+1", true),
        ("pwrite64@db-wal", "+2", true),
        ("pwrite64@db-journal", "+1", true),
    ] {
        let sandbox = Sandbox::new();
        let ended = run(profiling(&sandbox, &harness, &["fail", call, "ENOSPC", nth], &exits));
        check(&sandbox, &ended);
        assert_eq!(!ended.stdout.is_empty(), is_started, "{call} {nth}: {ended:#?}");
        assert_eq!(sandbox.recording().exists(), is_started, "{call} {nth}: {ended:#?}");
    }
}

#[test]
fn writes_that_are_cut() {
    let Some(exits) = program("exits.c") else { return };
    let Some(harness) = harness(&Sandbox::new()) else { return };
    for (call, nth) in [("pwrite64@db-journal", "1"), ("pwrite64@db-wal", "20"), ("pwrite64@db-wal", "+2")] {
        let ended = profiled_with(&harness, &["cut", call, nth], &exits);
        // SQLite writes the rest.
        assert_eq!(ended.code(), Some(ENDS_WITH), "{ended:#?}");
        assert!(ended.stderr.contains("recorded in"), "{ended:#?}");
    }
}

/// Of `whatif run`: `std::thread::spawn` panics where there is none, and `whatif` ends with a panic.
#[test]
fn threads_that_cannot_be_had() {
    let Some(exits) = program("exits.c") else { return };
    let Some(harness) = harness(&Sandbox::new()) else { return };
    for nth in 1..=count(&harness, &exits, "clone3") {
        let sandbox = Sandbox::new();
        let nth = nth.to_string();
        let ended = run(profiling(&sandbox, &harness, &["fail", "clone3", "EAGAIN", &nth], &exits));
        check(&sandbox, &ended);
    }
}

/// Threads of `whatif` whose signal stack cannot be had end with a panic of the standard library, which cannot be helped; the program
/// ends as it would have in spite of it.
#[test]
fn memory_that_cannot_be_had() {
    let Some(exits) = program("exits.c") else { return };
    let Some(harness) = harness(&Sandbox::new()) else { return };
    profiled_with(&harness, &["fail", "mmap@db-shm", "ENOMEM", "1"], &exits);
    for nth in 1..=count(&harness, &exits, "mmap") {
        let sandbox = Sandbox::new();
        let words = ["fail", "mmap", "ENOMEM", &nth.to_string()];
        let ended = run(profiling(&sandbox, &harness, &words, &exits));
        if !ended.stderr.contains("alternative stack") {
            check(&sandbox, &ended);
        } else if !ended.stdout.is_empty() {
            assert_eq!((ended.code(), ended.stdout.as_str()), (Some(ENDS_WITH), PRINTS), "{ended:#?}");
        }
    }
}

/// The log of a service is on a disk that is full.
#[test]
fn nothing_can_be_said() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "-o"]).arg(sandbox.recording()).arg("--").arg(&exits).arg(ENDS_WITH.to_string());
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = command.stdin(Stdio::null()).stderr(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(ENDS_WITH), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), PRINTS);
    let rows = profile::Recording::open(&sandbox.recording()).unwrap().rows().unwrap();
    assert!(rows.sessions[0].end.is_some());
}

/// What `command` does to the files of the sandbox, a line each: `KIND NUMBERS PATH`, with paths from the sandbox on.
fn log(sandbox: &Sandbox, harness: &Path, words: &[&str]) -> (Ended, Vec<String>) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = sandbox.command(harness);
    command.arg("log").arg(sandbox.folder()).arg(log.path()).arg("--").arg(whatif()).args(words);
    let ended = run(command);
    let mut left = &std::fs::read(log.path()).unwrap()[..];
    let mut events = Vec::new();
    while !left.is_empty() {
        let mut line = || {
            let end = left.iter().position(|byte| *byte == b'\n').unwrap();
            let line = String::from_utf8_lossy(&left[..end]).into_owned();
            left = &left[end + 1..];
            line
        };
        let (head, path) = (line(), line());
        let length: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
        left = &left[length..];
        let path = path.strip_prefix(sandbox.folder().to_str().unwrap()).unwrap_or(&path).to_owned();
        // A folder that is named by `.` is itself.
        let path = path.replace("/./", "/");
        events.push(format!("{} {path}", head.split(' ').next().unwrap()));
    }
    (ended, events)
}

/// Whether something is done to a folder after something else.
#[track_caller]
fn assert_follows(events: &[String], first: &str, then: &str) {
    let at = events.iter().position(|event| event == first);
    let at = at.unwrap_or_else(|| panic!("no {first:?} in {events:#?}"));
    assert!(events[at..].iter().any(|event| event == then), "no {then:?} after {first:?} in {events:#?}");
}

/// A power failure would take all of it with the name of a folder.
#[test]
fn a_new_database_is_there_after_a_power_failure() {
    let sandbox = Sandbox::new();
    let Some(harness) = harness(&sandbox) else { return };
    let words = ["collect", "--quiet", "--duration", "1", "--interval", "1", "--db", "new/database"];
    let (ended, events) = log(&sandbox, &harness, &words);
    if ended.code() != Some(0) {
        return skip(&format!("there are no samples to collect: {}", ended.stderr.trim()));
    }
    for (first, then) in [
        ("folder /new", "sync "),
        ("folder /new/database", "sync /new"),
        ("create /new/database/catalogue.db", "sync /new/database"),
        ("write /new/database/catalogue.db-wal", "sync /new/database/catalogue.db-wal"),
    ] {
        assert_follows(&events, first, then);
    }
}

#[test]
fn a_merged_recording_is_there_after_a_power_failure() {
    let sandbox = Sandbox::new();
    let (Some(harness), Some(exits)) = (harness(&sandbox), program("exits.c")) else { return };
    for name in ["a.db", "b.db"] {
        let mut command = sandbox.whatif();
        command.args(["run", "-q", "-o", name, "--"]).arg(&exits).arg("42");
        run(command).assert_code(ENDS_WITH);
    }
    let (ended, events) = log(&sandbox, &harness, &["merge", "a.db", "b.db", "-o", "both.db"]);
    assert_eq!(ended.code(), Some(0), "{ended:#?}");
    let renamed =
        events.iter().find(|event| event.starts_with("rename ")).unwrap_or_else(|| panic!("{events:#?}"));
    let written = renamed.replace("rename ", "");
    assert_follows(&events, &format!("write {written}"), &format!("sync {written}"));
    assert_follows(&events, renamed, "sync ");
}
