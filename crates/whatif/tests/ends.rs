//! Which process ends a run, and what becomes of those that go on.

use crate::support::{Ended, HANG, Sandbox, have, perf_events, program, run, samples_of, visits_of};
use kernel::cpu::ProcessStat;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// More jobs than any test waits for, and still not for ever if it forgets to end them.
const MANY: &str = "100000";
const GOES_ON: &str = "the run goes on with leaves (process";
const SURVIVES: &str = "still running, at full speed and no longer profiled: leaves (process";

/// What a process that was left behind says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    pid: u32,
    jobs: u64,
    is_done: bool,
}

struct Run {
    sandbox: Sandbox,
    program: PathBuf,
}

impl Run {
    fn new() -> Option<Self> {
        let program = program("leaves.c")?;
        Some(Self { sandbox: Sandbox::new(), program })
    }

    fn words(&self, what: &str, [first, jobs, status]: [&str; 3]) -> Vec<String> {
        let file = self.sandbox.path("left").display().to_string();
        [what, &file, first, jobs, status].map(str::to_owned).into()
    }

    /// `whatif run` with these options, not quiet.
    fn command(&self, options: &[&str], what: &str, numbers: [&str; 3]) -> std::process::Command {
        let mut command = self.sandbox.whatif();
        command.args(["run", "--speedup", "50", "-o"]).arg(self.sandbox.recording()).args(options);
        command.arg("--").arg(&self.program).args(self.words(what, numbers));
        command
    }

    fn run(&self, options: &[&str], what: &str, numbers: [&str; 3]) -> Ended {
        run(self.command(options, what, numbers))
    }

    fn left(&self, what: char) -> Option<Left> {
        let text = std::fs::read_to_string(self.sandbox.path(&format!("left.{what}"))).ok()?;
        let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap());
        let (pid, jobs, done): (u64, u64, u64) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some(Left { pid: pid as u32, jobs, is_done: done == 1 })
    }

    /// Waits until it has done so many jobs.
    fn wait_for(&self, what: char, jobs: u64) -> Left {
        let begin = Instant::now();
        loop {
            match self.left(what) {
                Some(left) if left.jobs >= jobs => return left,
                left => assert!(begin.elapsed() < HANG, "{left:?}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until it has no descriptor of a perf event any more.
    fn closes_events(&self, what: char) {
        let pid = self.left(what).unwrap().pid;
        let begin = Instant::now();
        while perf_events(pid) > 0 {
            assert!(begin.elapsed() < HANG, "{pid} keeps {} perf events", perf_events(pid));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// It is the process that the sentence names, it works on, and is ended.
    fn survives(&self, what: char, sentence: &str, stderr: &str) {
        let left = self.left(what).unwrap();
        assert!(stderr.contains(&format!("{sentence} {})", left.pid)), "{left:?} {stderr}");
        let on = self.wait_for(what, left.jobs + 200);
        assert!(on.pid == left.pid && !on.is_done, "{on:?}");
        self.closes_events(what);
        kill(left.pid, Signal::KILL);
    }
}

fn kill(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal); // it may have ended
}

/// Whether it has not ended; its new parent may never ask how it did.
fn is_running(pid: u32) -> bool {
    ProcessStat::of(pid).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Waits for the end; a hang is a failure.
fn end(child: &mut Child) -> std::process::ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > HANG {
            let _ = child.kill();
            panic!("whatif hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_daemon_is_held_and_its_end_ends_the_run() {
    // One that was forked, and one that executes a program.
    for what in ["d", "e"] {
        let Some(run) = Run::new() else { return };
        let command = run.command(&[], what, ["0", MANY, "0"]);
        let is_profiled = |rows: &profile::Rows| samples_of(rows, "job") > 0 && visits_of(rows, "done") > 0;
        let ended = run.sandbox.run_until(command, is_profiled).assert_success();
        assert!(run.left(what.chars().next().unwrap()).unwrap().is_done, "{ended:#?}");
        assert!(ended.stderr.contains(GOES_ON) && !ended.stderr.contains(SURVIVES), "{ended:#?}");
    }
}

#[test]
fn a_daemon_is_not_held_where_the_user_says_so_or_the_first_process_was_the_program() {
    for (options, first, status) in [
        (&["--until-exit", "first"][..], "0", "0"),
        (&[], "0", "3"),
        (&["--until-exit", "first"], "1500", "0"),
    ] {
        let Some(run) = Run::new() else { return };
        let ended = run.run(options, "d", [first, MANY, status]);
        assert!(!ended.stderr.contains(GOES_ON), "{ended:#?}");
        assert!(status == "0" || ended.code() == Some(3), "{ended:#?}");
        run.wait_for('d', 1);
        run.survives('d', SURVIVES, &ended.stderr);
    }
}

#[test]
fn with_all_the_last_process_ends_the_run() {
    for (what, status) in [("c", "3"), ("dc", "0"), ("ed", "4")] {
        let Some(run) = Run::new() else { return };
        let command = run.command(&["--until-exit", "all"], what, ["20", MANY, status]);
        // Something was recorded, and all of them work.
        let ended = run.sandbox.run_until(command, |rows| {
            visits_of(rows, "done") > 0 && what.chars().all(|what| run.left(what).is_some())
        });
        let is_passed_on =
            if status == "0" { ended.is_success() } else { ended.code() == Some(status.parse().unwrap()) };
        assert!(is_passed_on, "{ended:#?}");
        assert!(what.chars().all(|what| run.left(what).unwrap().is_done), "{ended:#?}");
        assert!(!ended.stderr.contains("whatif: the first process"), "{ended:#?}");
    }
}

#[test]
fn the_time_ends_a_run_with_all_and_asks_what_has_been_left() {
    let Some(run) = Run::new() else { return };
    let ended = run.run(&["--until-exit", "all", "--duration", "2"], "d", ["0", MANY, "0"]);
    assert!(ended.stderr.contains("the time is up; asking the program to end"), "{ended:#?}");
    assert!(!ended.stderr.contains(SURVIVES), "{ended:#?}");
    // On a very busy machine the time may have been up before the daemon had begun.
    if let Some(left) = run.left('d') {
        assert!(!left.is_done && !is_running(left.pid), "{left:?} {ended:#?}");
    }
}

#[test]
fn a_termination_goes_to_what_has_been_left() {
    let Some(run) = Run::new() else { return };
    let mut command = run.command(&["--until-exit", "all"], "d", ["0", MANY, "0"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let left = run.wait_for('d', 200);
    kill(child.id(), Signal::TERM);
    end(&mut child);
    assert!(!run.left('d').unwrap().is_done, "{left:?}");
    assert!(!is_running(left.pid), "the run ends with the last process: {left:?}");
}

#[test]
fn an_interrupt_from_the_terminal_ends_what_it_reaches_and_the_run() {
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let Some(run) = Run::new().filter(|_| have("setsid")) else { return };
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let whatif = run.command(&["--until-exit", "all"], "cd", ["0", MANY, "0"]);
    let mut command = run.sandbox.command("setsid");
    command.args(["--ctty", "--wait"]).arg(whatif.get_program()).args(whatif.get_args());
    command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (reached, daemon) = (run.wait_for('c', 200), run.wait_for('d', 200));
    std::fs::File::from(ours.try_clone().unwrap()).write_all(b"\x03").unwrap();
    end(&mut child);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(!run.left('c').unwrap().is_done && !stderr.contains(&format!("{})", reached.pid)), "{stderr}");
    assert_eq!(run.left('d').unwrap().pid, daemon.pid, "{stderr}");
    run.survives('d', SURVIVES, &stderr);
}

#[test]
fn what_goes_on_without_its_controller_closes_its_perf_events() {
    let Some(leaves) = Run::new() else { return };
    let mut command = leaves.command(&["--until-exit", "all"], "c", ["10", MANY, "0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut whatif = command.spawn().unwrap();
    let left = leaves.wait_for('c', 20);
    whatif.kill().unwrap();
    whatif.wait().unwrap();
    leaves.closes_events('c');
    let on = leaves.wait_for('c', leaves.left('c').unwrap().jobs + 200);
    assert!(on.pid == left.pid && !on.is_done, "{on:?}");
    kill(left.pid, Signal::KILL);
}
