//! System calls of the collector that fail: each one once, at some of the times that it is made, with the errors that it can have.
//! `strace` lets them fail. Whatever fails, the collector goes on or ends with a message, the database is whole, and the next collector
//! goes on with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use rusqlite::Connection;

use crate::profiler::Whatif;

#[derive(Debug, Args)]
pub struct Options {
    /// Only these system calls [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// Times that a system call fails, at most, for each error
    #[arg(long, default_value_t = 4)]
    times: usize,
}

/// System calls that a collector makes, and the errors that it is tried with.
const CALLS: [(&str, &[&str]); 24] = [
    ("openat", &["EMFILE", "ENOMEM", "EIO"]),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO", "EINTR"]),
    ("write", &["ENOSPC", "EIO"]),
    ("pwrite64", &["ENOSPC", "EIO"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO"]),
    ("ftruncate", &["EIO", "ENOSPC"]),
    ("rename", &["EIO", "ENOSPC"]),
    ("unlink", &["EIO"]),
    ("mkdir", &["ENOSPC"]),
    ("statx", &["EIO", "ENOMEM"]),
    ("newfstatat", &["EIO"]),
    ("lseek", &["EIO"]),
    ("getdents64", &["EIO", "ENOMEM"]),
    ("readlink", &["EIO"]),
    ("fcntl", &["EAGAIN", "EIO"]),
    ("flock", &["EINTR", "ENOLCK"]),
    ("mmap", &["ENOMEM", "EMFILE"]),
    ("mremap", &["ENOMEM"]),
    ("ioctl", &["ENOMEM", "EINTR"]),
    ("perf_event_open", &["EMFILE", "ENOMEM", "EINTR"]),
    ("clone3", &["EAGAIN"]),
    ("ppoll", &["EINTR", "ENOMEM"]),
];
/// How long it may take to end.
const HANG: Duration = Duration::from_secs(40);

/// What became of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    WentOn,
    /// It ended with a message.
    Said,
    /// The system call is not made so often.
    NotMade,
}

pub fn run(options: &Options, whatif: &Whatif) -> Result<()> {
    let strace = Command::new("strace").arg("-V").output();
    ensure!(
        strace.is_ok_and(|output| output.status.success()),
        "strace is not installed: apt install strace"
    );
    let counts = counts(whatif.path())?;
    println!(
        "{:<18} {:<8} {:>7} {:>8} {:>8} {:>8}  findings",
        "system call", "error", "made", "went on", "ended", "not made"
    );
    let mut findings = 0;
    for (call, errors) in CALLS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == call) {
            continue;
        }
        let made = counts.get(call).copied().unwrap_or(0);
        for error in errors {
            let mut outcomes: BTreeMap<Outcome, usize> = BTreeMap::new();
            let mut found = Vec::new();
            for nth in times(made, options.times) {
                match attempt(whatif.path(), call, error, nth) {
                    Ok(outcome) => *outcomes.entry(outcome).or_default() += 1,
                    Err(problem) => found.push(format!("{nth}: {problem:#}")),
                }
            }
            let of = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
            println!(
                "{call:<18} {error:<8} {made:>7} {:>8} {:>8} {:>8}  {}",
                of(Outcome::WentOn),
                of(Outcome::Said),
                of(Outcome::NotMade),
                found.len()
            );
            found.iter().for_each(|found| println!("    {found}"));
            findings += found.len();
        }
    }
    println!("\n{findings} findings");
    Ok(())
}

/// The first time, the last, and some between.
fn times(made: usize, most: usize) -> Vec<usize> {
    let most = most.min(made);
    let mut times: Vec<usize> = (0..most).map(|nth| 1 + nth * (made - 1) / (most - 1).max(1)).collect();
    times.dedup();
    times
}

fn collect(whatif: &Path, folder: &Path, seconds: &str) -> Vec<String> {
    let folder = folder.to_string_lossy();
    let words =
        ["collect", "--quiet", "--interval", "1", "--rate", "50", "--duration", seconds, "--db", &folder];
    std::iter::once(whatif.to_string_lossy().into_owned()).chain(words.map(str::to_owned)).collect()
}

/// How often a collector makes each system call.
fn counts(whatif: &Path) -> Result<BTreeMap<String, usize>> {
    let folder = tempfile::tempdir()?;
    let table = folder.path().join("table");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-U", "calls,name", "-o"]).arg(&table);
    let output = strace.args(collect(whatif, &folder.path().join("db"), "2")).output()?;
    ensure!(output.status.success(), "a collector under strace: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(table)?;
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    };
    Ok(text.lines().filter_map(row).map(|(count, name)| (name, count)).collect())
}

/// Lets one system call fail. An error is a finding.
fn attempt(whatif: &Path, call: &str, error: &str, nth: usize) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let (database, log) = (folder.path().join("db"), folder.path().join("log"));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o"]).arg(&log).arg("-e").arg(format!("trace={call}"));
    strace.arg("-e").arg(format!("inject={call}:error={error}:when={nth}"));
    strace.args(collect(whatif, &database, "2"));
    let ended = limited(&mut strace)?;
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    let was_made = std::fs::read_to_string(&log)?.contains("(INJECTED)");
    ensure!(!stderr.contains("this is a bug") && !stderr.contains("panicked"), "{}", first_line(&stderr));
    let outcome = match ended.status.code() {
        None => anyhow::bail!("ended by a signal: {} {}", ended.status, first_line(&stderr)),
        _ if !was_made => Outcome::NotMade,
        Some(0) => Outcome::WentOn,
        Some(code) => {
            ensure!(!stderr.trim().is_empty(), "ended with {code} without a word");
            Outcome::Said
        }
    };
    check(whatif, &database)?;
    Ok(outcome)
}

/// The database is whole, and the next collector goes on with it.
fn check(whatif: &Path, database: &Path) -> Result<()> {
    let catalogue = database.join("catalogue.db");
    if catalogue.exists() && catalogue.metadata()?.len() > 0 {
        let catalogue = Connection::open(&catalogue)?;
        let whole: String = catalogue.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        ensure!(whole == "ok", "the catalogue is damaged: {whole}");
    }
    let mut next = collect(whatif, database, "1").into_iter();
    let ended = limited(Command::new(next.next().unwrap_or_default()).args(next))?;
    ensure!(ended.status.success(), "the next collector: {}", String::from_utf8_lossy(&ended.stderr));
    let top =
        limited(Command::new(whatif).args(["top", "--json", "--idle", "--top", "5", "--db"]).arg(database))?;
    ensure!(top.status.success(), "whatif top: {}", String::from_utf8_lossy(&top.stderr));
    let top: serde_json::Value = serde_json::from_slice(&top.stdout)?;
    let books = &top["heading"]["books"];
    let number = |name: &str| books[name].as_u64().with_context(|| format!("no {name}"));
    ensure!(
        number("expected")? == number("stored")? + number("unknown")? + number("lost")?,
        "the books do not balance: {books}"
    );
    Ok(())
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| line.contains("whatif") || line.contains("panicked")).unwrap_or_default()
}

/// Runs a command that has to end in time.
fn limited(command: &mut Command) -> Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let begin = Instant::now();
    // What it prints fits into a pipe, but for `top`, which ends by itself.
    while child.try_wait()?.is_none() {
        if begin.elapsed() > HANG {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(child.wait_with_output()?)
}
