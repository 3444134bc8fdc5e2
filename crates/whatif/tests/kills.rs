//! Whatever is killed, and whenever: the recording can be read, nothing hangs, nothing is left running, and a
//! program that is not killed goes on as if nothing had happened.

use crate::support::{Sandbox, program, run};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Kills of each kind.
const KILLS: u64 = 26;
/// Runs at a time.
const AT_A_TIME: u64 = 2;
/// Whatever takes so long hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// What is killed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    /// `whatif`, by SIGKILL: it can do nothing about it.
    Profiler,
    /// The program, by SIGKILL.
    Program,
    /// `whatif`, by a signal that it passes on.
    PassedOn(Signal),
}

/// Processes whose command line contains `mark`.
fn running(mark: &str) -> Vec<u32> {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = folders.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|argument| argument == mark.as_bytes()))
    })
    .collect()
}

/// The program that `whatif` has started, if it has.
fn started(whatif: u32, program: &Path) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{whatif}/task/{whatif}/children")).ok()?;
    let child = children.split_whitespace().next()?.parse().ok()?;
    // Before `exec` it is a copy of `whatif`.
    (std::fs::read_link(format!("/proc/{child}/exe")).ok()? == program).then_some(child)
}

/// The CPU time of a process's first thread.
fn used(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn kill(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal); // it may have ended
}

/// Waits for the end, and kills what hangs.
fn end(mut child: Child, mark: &str) -> std::process::ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > LIMIT {
            running(mark).into_iter().for_each(|pid| kill(pid, Signal::KILL));
            panic!("{mark}: whatif hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn kill_once(how: Kill, number: u64, victim: &Path, native: &str) {
    // The moments differ from kill to kill and are the same in every run of the test.
    let mut random = fastrand::Rng::with_seed(number);
    let after = Duration::from_micros(random.u64(0..300_000));
    let mark = format!("{how:?}-{number}-{}", std::process::id());
    let sandbox = Sandbox::new();
    // By a random choice of experiments, most of them delay a thread.
    let mut command = sandbox.profiling(&[], victim, &[&mark]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let whatif = child.id();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (sender, output) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });

    let mut killed = whatif;
    if how == Kill::Program {
        // Its life begins later than that of `whatif`.
        let begin = Instant::now();
        killed = loop {
            if let Some(program) = started(whatif, victim) {
                break program;
            }
            assert!(child.try_wait().unwrap().is_none() && begin.elapsed() < LIMIT, "{mark}: never started");
        };
    }
    std::thread::sleep(after);
    let signal = match how {
        Kill::Profiler | Kill::Program => Signal::KILL,
        Kill::PassedOn(signal) => signal,
    };
    kill(killed, signal);
    let status = end(child, &mark);

    // The program's output ends when the last process that could write has ended.
    let Ok(text) = output.recv_timeout(LIMIT) else {
        let left = running(&mark);
        left.iter().for_each(|pid| kill(*pid, Signal::KILL));
        panic!("{mark}: the program hangs: {left:?}");
    };
    let errors = errors.join().unwrap();
    let context = format!("{mark} after {after:?}: {status}\n{text}\n{errors}");
    assert!(!errors.contains("panicked"), "{context}");
    assert!(native.starts_with(&text), "{context}");
    if how == Kill::Profiler {
        // Undisturbed to its end, if it was started.
        assert!(text.is_empty() || text == native, "{context}");
    }
    if how != Kill::Profiler && status.signal() != Some(signal.as_raw()) {
        // It had ended before.
        assert_eq!(text, native, "{context}");
        assert!(status.code().is_some_and(|code| code == 0 || (95..=100).contains(&code)), "{context}");
    }

    // No process is left. (One that has closed its output may need a moment to be gone.)
    let begin = Instant::now();
    while let left @ [_, ..] = &running(&mark)[..] {
        if begin.elapsed() > LIMIT {
            left.iter().for_each(|pid| kill(*pid, Signal::KILL));
            panic!("{context}\nleft running: {left:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }

    if sandbox.recording().exists() {
        let mut report = sandbox.whatif();
        report.arg("report").arg(sandbox.recording()).arg("--json");
        let report = run(report);
        if report.code() == Some(0) {
            serde_json::from_str::<serde_json::Value>(&report.stdout).unwrap();
        } else {
            assert!(how != Kill::Program, "{context}\n{report:#?}");
            assert_eq!(report.code(), Some(90), "{context}\n{report:#?}");
            assert!(report.stderr.contains("killed before it began"), "{context}\n{report:#?}");
        }
        // And another session can be added.
        if number.is_multiple_of(13) {
            sandbox.profile(&[], victim, &[&mark]);
            assert!(sandbox.report()["sessions"].as_array().unwrap().len() <= 2);
        }
    } else {
        // Killed before there was anything to record.
        assert!(how != Kill::Program && text.is_empty(), "{context}");
    }
}

fn kill_often(how: Kill) {
    let Some(victim) = program("victim.c") else { return };
    let victim = victim.canonicalize().unwrap();
    let native = Sandbox::new().native(&victim, &[]).assert_code(0).stdout;
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for first in 0..AT_A_TIME {
            let (victim, native, done) = (&victim, &native, &done);
            scope.spawn(move || {
                for number in (first..KILLS).step_by(AT_A_TIME as usize) {
                    kill_once(how, number, victim, native);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let _ = writeln!(std::io::stderr(), "{how:?}: {} kills", done.load(Ordering::Relaxed));
}

#[test]
fn a_profiler_that_was_stopped_goes_on() {
    let Some(threads) = program("threads.c") else { return };
    let sandbox = Sandbox::new();
    // `other` only runs after that.
    let mut command =
        sandbox.profiling(&["--region", "other", "--speedup", "50"], &threads, &["in_two_parts"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It is stopped in the midst of the first part.
    let threads = threads.canonicalize().unwrap();
    let begin = Instant::now();
    while started(child.id(), &threads).is_none_or(|program| used(program) < Duration::from_millis(300)) {
        assert!(child.try_wait().unwrap().is_none() && begin.elapsed() < LIMIT, "never started");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill(child.id(), Signal::STOP);
    // Longer than the runtime waits before it takes the profiler for dead.
    std::thread::sleep(Duration::from_millis(4500));
    kill(child.id(), Signal::CONT);
    drop(child.stdin.take());
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(end(child, "in_two_parts").code(), Some(0));
    assert_eq!(text, "done\n");
    let samples = sandbox.samples("other");
    assert!(samples > 100, "{samples} samples");
}

#[test]
fn the_profiler_is_killed() {
    kill_often(Kill::Profiler);
}

#[test]
fn the_program_is_killed() {
    kill_often(Kill::Program);
}

#[test]
fn a_termination_is_passed_on() {
    kill_often(Kill::PassedOn(Signal::TERM));
}

#[test]
fn an_interruption_is_passed_on() {
    kill_often(Kill::PassedOn(Signal::INT));
}
