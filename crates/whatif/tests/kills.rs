//! Whatever is killed, and at whichever moment: the recording can be read, nothing hangs, nothing is left running, and a
//! program that is not killed goes on as if nothing had happened.

use crate::support::{ENOUGH, HANG, NO_ANSWER, Sandbox, program, run, samples_of};
use profile::Recording;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);

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

/// As soon as this has happened, the signal is sent. The program does not end before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// `whatif` is a process.
    Spawned,
    /// The recording is a file.
    FileIsThere,
    /// The program is a process.
    Executed,
    /// The program has said something.
    Begun,
    /// An experiment was recorded.
    Recorded,
}

const MOMENTS: [Moment; 5] =
    [Moment::Spawned, Moment::FileIsThere, Moment::Executed, Moment::Begun, Moment::Recorded];

/// The signal is sent so much later, to fall into whatever comes next. No verdict depends on what that is.
const LATER: [Duration; 3] = [Duration::ZERO, Duration::from_millis(3), Duration::from_millis(70)];

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
        if begin.elapsed() > HANG {
            running(mark).into_iter().for_each(|pid| kill(pid, Signal::KILL));
            panic!("{mark}: whatif hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until something has happened.
#[track_caller]
fn wait_for<T>(mark: &str, what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = happened() {
            return value;
        }
        if begin.elapsed() > HANG {
            running(mark).into_iter().for_each(|pid| kill(pid, Signal::KILL));
            panic!("{mark}: {what} takes longer than {HANG:?}");
        }
        std::thread::sleep(LOOK);
    }
}

/// Lines that a thread reads, until there are no more.
fn lines_of(output: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = String::new();
            if !output.read_line(&mut line).is_ok_and(|length| length > 0) || sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn kill_once(how: Kill, moment: Moment, later: Duration, victim: &Path, native: &str) {
    let mark = format!("{how:?}-{moment:?}-{later:?}-{}", std::process::id());
    let sandbox = Sandbox::new();
    // By a random choice of experiments, most of them delay a thread.
    let mut command = sandbox.profiling(&[], victim, &[&mark]);
    command.env(ENOUGH, sandbox.enough());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let whatif = child.id();
    let (stdout, errors) = (lines_of(child.stdout.take().unwrap()), lines_of(child.stderr.take().unwrap()));
    let mut text = String::new();
    let windows = || Some(Recording::open(&sandbox.recording()).ok()?.rows().ok()?.windows.len());
    wait_for(&mark, "the moment", || {
        let has_come = match moment {
            Moment::Spawned => true,
            Moment::FileIsThere => sandbox.recording().exists(),
            Moment::Executed => started(whatif, victim).is_some(),
            Moment::Begun => {
                text.extend(stdout.try_recv());
                !text.is_empty()
            }
            Moment::Recorded => windows().is_some_and(|windows| windows > 0),
        };
        assert!(has_come || child.try_wait().unwrap().is_none(), "{mark}: ended by itself");
        has_come.then_some(())
    });
    let killed = match how {
        // Its life begins later than that of `whatif`.
        Kill::Program => wait_for(&mark, "the program's start", || started(whatif, victim)),
        Kill::Profiler | Kill::PassedOn(_) => whatif,
    };
    std::thread::sleep(later);
    let signal = match how {
        Kill::Profiler | Kill::Program => Signal::KILL,
        Kill::PassedOn(signal) => signal,
    };
    kill(killed, signal);
    // What was not killed may end now.
    std::fs::write(sandbox.enough(), "").unwrap();
    let status = end(child, &mark);

    // The program's output ends when the last process that could write has ended.
    let rest_of = |lines: &mpsc::Receiver<String>, text: &mut String| {
        wait_for(&mark, "the output", || match lines.try_recv() {
            Ok(line) => {
                text.push_str(&line);
                None
            }
            Err(mpsc::TryRecvError::Empty) => None,
            Err(mpsc::TryRecvError::Disconnected) => Some(()),
        });
    };
    let mut said = String::new();
    rest_of(&stdout, &mut text);
    rest_of(&errors, &mut said);
    let context = format!("{mark}: {status}\n{text}\n{said}");
    assert!(!said.contains("panicked"), "{context}");
    assert!(native.starts_with(&text), "{context}");
    match how {
        // Undisturbed to its end, if it was started.
        Kill::Profiler => {
            assert!(text == native || text.is_empty() && moment < Moment::Begun, "{context}");
        }
        Kill::Program => assert_eq!(status.signal(), Some(signal.as_raw()), "{context}"),
        Kill::PassedOn(_) => {
            // It was not there yet where a signal came very early.
            let ended_before = moment < Moment::Begun && text == native;
            assert!(status.signal() == Some(signal.as_raw()) || ended_before, "{context}");
        }
    }

    // No process is left. (One that has closed its output may need a moment to be gone.)
    wait_for(&mark, "the end of all processes", || running(&mark).is_empty().then_some(()));

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
        if later.is_zero() {
            sandbox.profile(&[], victim, &[&mark]);
            assert!(sandbox.report()["sessions"].as_array().unwrap().len() <= 2);
        }
    } else {
        // Killed before there was anything to record.
        assert!(how != Kill::Program && text.is_empty(), "{context}");
    }
}

fn kill_at_each_moment(how: Kill) {
    let Some(victim) = program("victim.c") else { return };
    let victim = victim.canonicalize().unwrap();
    let native = Sandbox::new().native(&victim, &[]).assert_code(0).stdout;
    for moment in MOMENTS {
        for later in LATER {
            kill_once(how, moment, later, &victim, &native);
        }
    }
}

#[test]
fn a_profiler_that_was_stopped_goes_on() {
    let Some(two_parts) = program("two_parts.c") else { return };
    let sandbox = Sandbox::new();
    // `other` only runs after that.
    let mut command = sandbox.profiling(&["--region", "other", "--speedup", "50"], &two_parts, &[]);
    command.env(ENOUGH, sandbox.enough());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mark = two_parts.to_str().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    // It is stopped in the midst of the first part.
    output.read_line(&mut text).unwrap();
    kill(child.id(), Signal::STOP);
    // Longer than the runtime waits before it takes the profiler for dead.
    std::thread::sleep(Duration::from_millis(4500));
    kill(child.id(), Signal::CONT);
    drop(child.stdin.take());
    wait_for(mark, "a sample", || {
        let rows = Recording::open(&sandbox.recording()).and_then(|recording| recording.rows()).ok()?;
        (samples_of(&rows, "other") > 0).then_some(())
    });
    std::fs::write(sandbox.enough(), "").unwrap();
    output.read_to_string(&mut text).unwrap();
    let code = end(child, mark).code();
    assert!(code.is_some_and(|code| code == 0 || NO_ANSWER.contains(&code)), "{code:?}");
    assert_eq!(text, "begin\ndone\n");
}

#[test]
fn the_profiler_is_killed() {
    kill_at_each_moment(Kill::Profiler);
}

#[test]
fn the_program_is_killed() {
    kill_at_each_moment(Kill::Program);
}

#[test]
fn a_termination_is_passed_on() {
    kill_at_each_moment(Kill::PassedOn(Signal::TERM));
}

#[test]
fn an_interruption_is_passed_on() {
    kill_at_each_moment(Kill::PassedOn(Signal::INT));
}
