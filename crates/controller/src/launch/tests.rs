//! Real processes under a real `whatif`: the test program starts itself again as one, see [`as_whatif`].
//! Instead of the runtime the C library is preloaded, which is there anyway.

use super::{With, check, finish, spawn};
use kernel::SharedMapping;
use kernel::clock::monotonic;
use kernel::cpu::ProcessStat;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use wire::Nanos;

const PROGRAM: &str = "WHATIF_TEST_PROGRAM";
const MODE: &str = "WHATIF_TEST_MODE";

fn c_library() -> PathBuf {
    let maps = kernel::maps(std::process::id()).unwrap();
    maps.into_iter().filter_map(|mapping| mapping.path).find(|path| path.ends_with("libc.so.6")).unwrap()
}

/// What `whatif run` does, on request of the other tests.
#[test]
#[ignore = "a helper of the other tests"]
fn as_whatif() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let words: Vec<OsString> = program.split('\x1f').map(OsString::from).collect();
    kernel::clock::sleep_precisely();
    let executable = check(&words[0]).unwrap();
    let shared = SharedMapping::create().unwrap();
    let child = spawn(&executable, &words[1..], &c_library(), With::Memory(&shared, None)).unwrap();
    let exit = match std::env::var(MODE).as_deref() {
        Ok("deadline") => {
            let deadline = monotonic() + Nanos(30_000_000);
            assert_eq!((child.wait_until(deadline), child.try_wait()), (None, None));
            assert!(monotonic() >= deadline);
            // The program reads this, and ends.
            println!("late");
            let exit = child.wait_until(monotonic() + Nanos(60_000_000_000)).unwrap();
            // It has ended, but can still be looked at.
            assert_eq!(ProcessStat::of(child.pid()).unwrap().state, 'Z');
            exit
        }
        Ok("linger") => {
            child.wait();
            eprintln!("ended");
            kernel::clock::sleep_until(monotonic() + Nanos(60_000_000_000));
            panic!("no signal ended us");
        }
        Ok("stops") => {
            let exit = child.wait();
            eprintln!("stops {}", child.stops());
            exit
        }
        _ => child.wait(),
    };
    drop(child);
    finish(exit)
}

/// The command that runs `program` under `whatif`. What the program writes to stderr is all there is.
fn whatif(program: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "launch::tests::as_whatif", "--ignored", "--nocapture"])
        .env(PROGRAM, program.join("\x1f"))
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn output(mut command: Command) -> (ExitStatus, String) {
    let output = command.output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

/// A running `whatif`, whose program has said that it is ready.
struct Running {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        let mut running = Self { child, lines };
        assert_eq!(running.line(), "ready");
        running
    }

    fn script(script: &str) -> Self {
        // A group of its own whose parent is in another one, or it could not be stopped.
        let mut command = whatif(&["sh", "-c", script]);
        command.process_group(0);
        Self::start(command)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().into()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn end(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap(), rest)
    }
}

/// A shell that does nothing until it gets a signal. (It looks at its traps between two commands.)
const IDLE: &str = "echo ready >&2; while :; do sleep 0.01; done";

#[test]
fn ends_with_the_programs_code() {
    for code in [0, 1, 42, 126, 127, 255] {
        let (status, text) = output(whatif(&["sh", "-c", &format!("exit {code}")]));
        assert_eq!((status.code(), text.as_str()), (Some(code), ""));
    }
    assert_eq!(output(whatif(&["true"])).0.code(), Some(0));
}

#[test]
fn dies_by_the_programs_signal_and_leaves_no_core() {
    for signal in [1, 2, 3, 6, 9, 10, 11, 13, 14, 15, 34, 64] {
        let mut command = whatif(&["sh", "-c", &format!("ulimit -c 0; kill -{signal} $$")]);
        command.current_dir("/");
        let (status, _) = output(command);
        assert_eq!((status.signal(), status.core_dumped()), (Some(signal), false));
    }
}

#[test]
fn the_program_gets_its_arguments_and_both_preloads() {
    let mut command = whatif(&["sh", "-c", "echo \"$0|$1|$2|$LD_PRELOAD\" >&2", "zero", "a  b", ""]);
    let libc = c_library();
    command.env("LD_PRELOAD", format!("/x/libwhatif_rt-0.so {}", libc.display()));
    let (status, text) = output(command);
    let (_, own) = text.lines().partition::<Vec<_>, _>(|line| line.starts_with("ERROR: ld.so"));
    assert_eq!(own, [format!("zero|a  b||{0}:{0}", libc.display())]);
    assert!(status.success());
}

#[test]
fn the_program_inherits_the_shared_memory() {
    let (_, text) = output(whatif(&["sh", "-c", "readlink /proc/self/fd/$WHATIF_REGION >&2"]));
    assert_eq!(text, "/memfd:whatif (deleted)\n");
}

/// Signal dispositions and masks as the kernel sees them, with and without us, however we were started.
#[test]
fn the_program_has_the_signal_state_that_we_were_started_with() {
    let program = ["sh", "-c", "exec grep -E 'Sig(Ign|Blk|Cgt)' /proc/self/status >&2"];
    for setup in [
        "exec \"$@\"",
        "trap '' INT QUIT HUP; exec \"$@\"",
        "trap '' PIPE CHLD USR1 64; exec \"$@\"",
        "exec env --block-signal=USR2,TERM,INT --ignore-signal=PIPE \"$@\"",
        "exec env --block-signal=CHLD,STOP,WINCH,CONT,TSTP \"$@\"",
    ] {
        let under = |command: &Command| {
            let mut shell = Command::new("sh");
            shell.args(["-c", setup, "sh"]).arg(command.get_program()).args(command.get_args());
            shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            shell.stdout(Stdio::null()).env_remove("LD_PRELOAD");
            output_of(shell)
        };
        let mut plain = Command::new(program[0]);
        plain.args(&program[1..]);
        let (expected, got) = (under(&plain), under(&whatif(&program)));
        assert!(expected.contains("SigIgn"), "{setup}: {expected}");
        assert_eq!(got, expected, "{setup}");
    }
}

fn output_of(mut command: Command) -> String {
    String::from_utf8(command.stderr(Stdio::piped()).output().unwrap().stderr).unwrap()
}

#[test]
fn the_program_keeps_the_default_timer_slack() {
    let (_, text) = output(whatif(&["sh", "-c", "cat /proc/$$/timerslack_ns >&2"]));
    let own = std::fs::read_to_string("/proc/self/timerslack_ns").unwrap();
    assert_eq!(text, own);
}

#[test]
fn signals_from_processes_reach_the_program() {
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::WINCH, "WINCH"),
    ] {
        let running = Running::script(&format!("trap 'echo got {name} >&2; exit 7' {name}; {IDLE}"));
        running.send(signal);
        let (status, text) = running.end();
        assert_eq!((status.code(), text.as_str()), (Some(7), format!("got {name}\n").as_str()));
    }
}

#[test]
fn a_program_without_a_handler_dies_of_it() {
    for signal in [Signal::TERM, Signal::INT] {
        let running = Running::script(IDLE);
        running.send(signal);
        assert_eq!(running.end().0.signal(), Some(signal.as_raw()));
    }
}

#[test]
fn a_signal_to_the_whole_group_by_the_program_reaches_it_once() {
    let script = "n=0; trap 'n=$((n+1)); echo $n >&2' USR1; echo ready >&2; kill -USR1 0; \
                  i=0; while [ $i -lt 20 ]; do sleep 0.01; i=$((i+1)); done";
    let (status, text) = Running::script(script).end();
    assert_eq!((status.code(), text.as_str()), (Some(0), "1\n"));
}

#[test]
fn what_the_program_sends_to_its_group_at_its_end_does_not_end_us() {
    // It is over when we look at the signal, or about to be.
    for _ in 0..5 {
        let (status, text) =
            Running::script("trap '' TERM; echo ready >&2; kill -TERM 0; echo sent >&2; exit 7").end();
        assert_eq!((status.code(), text.as_str()), (Some(7), "sent\n"));
    }
}

#[test]
fn both_stop_and_both_continue() {
    let mut command = whatif(&["sh", "-c", &format!("trap 'exit 7' USR1; {IDLE}")]);
    command.process_group(0).env(MODE, "stops");
    let running = Running::start(command);
    for _ in 0..2 {
        running.send(Signal::TSTP);
        // As the shell would: until we are stopped.
        let status = waitid(WaitId::Pid(running.pid()), WaitIdOptions::STOPPED).unwrap().unwrap();
        assert!(status.stopped());
        let program = only_child(running.child.id());
        assert_eq!(ProcessStat::of(program).unwrap().state, 'T');
        running.send(Signal::CONT);
        while ProcessStat::of(program).unwrap().state == 'T' {
            std::thread::yield_now();
        }
    }
    running.send(Signal::USR1);
    let (status, text) = running.end();
    assert_eq!((status.code(), text.as_str()), (Some(7), "stops 2\n"));
}

#[test]
fn a_program_that_is_stopped_alone_does_not_stop_us() {
    let mut command = whatif(&["sh", "-c", IDLE]);
    command.env(MODE, "stops");
    let running = Running::start(command);
    let program = Pid::from_raw(only_child(running.child.id()).cast_signed()).unwrap();
    kill_process(program, Signal::STOP).unwrap();
    while ProcessStat::of(program.as_raw_nonzero().get().cast_unsigned()).unwrap().state != 'T' {
        std::thread::yield_now();
    }
    kill_process(program, Signal::KILL).unwrap();
    assert_eq!(running.end().0.signal(), Some(9));
}

fn only_child(of: u32) -> u32 {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).unwrap();
    let children: String =
        tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap()).collect();
    children.trim().parse().unwrap()
}

#[test]
fn afterwards_signals_do_what_they_do() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut command = whatif(&["sh", "-c", "echo ready >&2"]);
        command.env(MODE, "linger");
        let mut running = Running::start(command);
        assert_eq!(running.line(), "ended");
        running.send(signal);
        assert_eq!(running.end().0.signal(), Some(signal.as_raw()));
    }
}

#[test]
fn waits_until_a_deadline() {
    let mut command = whatif(&["sh", "-c", "read line; exit 5"]);
    command.env(MODE, "deadline").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program ends after the first deadline has passed.
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.ends_with("late")));
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn control_c_reaches_the_program_once() {
    let mut terminal = Terminal::open();
    let script = "n=0; trap 'n=$((n+1)); echo int $n >&2' INT; trap 'exit $n' USR1; ";
    let inner = whatif(&["sh", "-c", &format!("{script}{IDLE}")]);
    // A session of its own with the pseudo-terminal as its own.
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(terminal.user_side()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running::start(command);
    // `setsid` forks only if it leads a group.
    let leader = running.child.id();
    for n in 1..=3 {
        terminal.type_(b"\x03");
        assert_eq!(running.line(), format!("int {n}"));
    }
    // Later than any second copy would have been: signals are passed on in order.
    kill_process(Pid::from_raw(leader.cast_signed()).unwrap(), Signal::USR1).unwrap();
    assert_eq!(running.end().0.code(), Some(3));
}

#[test]
fn control_c_ends_a_program_and_us_with_it() {
    for (key, signal) in [(b"\x03", 2), (b"\x1c", 3)] {
        let mut terminal = Terminal::open();
        let inner = whatif(&["sh", "-c", &format!("ulimit -c 0; {IDLE}")]);
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(terminal.user_side()).stdout(Stdio::null()).stderr(Stdio::piped());
        let running = Running::start(command);
        terminal.type_(key);
        assert_eq!(running.end().0.signal(), Some(signal));
    }
}

/// Our side of a pseudo-terminal.
struct Terminal(std::fs::File);

impl Terminal {
    fn open() -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        Self(ours.into())
    }

    fn user_side(&self) -> std::fs::File {
        use rustix::fs::{Mode, OFlags, open};
        let name = rustix::pty::ptsname(&self.0, Vec::new()).unwrap();
        open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap().into()
    }

    fn type_(&mut self, keys: &[u8]) {
        self.0.write_all(keys).unwrap();
    }
}
