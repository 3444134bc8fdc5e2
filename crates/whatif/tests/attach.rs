//! Profiling a process that runs already: it is profiled, goes on, and is as it was.
//!
//! The program checks everything that it calls, in threads that wait, compute, come and go, fork and use signals; it says so when it is asked.

use crate::support::{
    Ended, Sandbox, go_program, other_go_programs, program, program_as, run, skip, static_program,
    without_preloading,
};
use kernel::tracee::{Tracee, Trouble};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A program that runs.
pub struct Running {
    pub child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(program: &Path) -> Self {
        let mut running = Self::begin(program);
        assert_eq!(running.line(), "ready\n");
        running
    }

    fn begin(program: &Path) -> Self {
        Self::spawn(&mut Command::new(program)).unwrap()
    }

    fn spawn(command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        Ok(Self { output: BufReader::new(child.stdout.take().unwrap()), child })
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// All its threads go on, and have seen nothing that they should not.
    fn is_fine(&mut self) {
        let asked = self.child.stdin.as_mut().unwrap().write_all(b"?\n");
        assert_eq!((self.line().as_str(), asked.is_ok()), ("fine\n", true));
    }

    /// What it has forked.
    fn children(&self) -> Vec<u32> {
        kernel::cpu::children(self.child.id())
    }

    /// What its descriptors are.
    pub fn descriptors(&self) -> BTreeSet<String> {
        descriptors(self.child.id())
    }

    fn maps(&self) -> String {
        maps(self.child.id())
    }

    /// Ends it, which has seen nothing.
    fn end(mut self) {
        self.is_fine();
        drop(self.child.stdin.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() && self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            println!("the program has ended, and said: {}", self.line());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn descriptors(pid: u32) -> BTreeSet<String> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let shown = |entry: std::fs::DirEntry| {
        let link = std::fs::read_link(entry.path()).unwrap_or_default();
        format!("{:?} {}", entry.file_name(), link.display())
    };
    folder.flatten().map(shown).collect()
}

fn maps(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}

/// Whether processes may be traced here.
pub fn may_trace() -> bool {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let stopped = Tracee::stop(child.id(), Duration::from_secs(10));
    let refused = matches!(&stopped, Err(Trouble::Refused(_)));
    drop(stopped);
    let _ = child.kill();
    child.wait().unwrap();
    if refused {
        skip("processes may not be traced here");
    }
    !refused
}

fn attached() -> Option<Running> {
    may_trace().then(|| program("attached.c")).flatten().map(|program| Running::start(&program))
}

fn attach(sandbox: &Sandbox, options: &[&str], pid: &str) -> Command {
    let mut command = sandbox.whatif();
    command.arg("attach").args(options).arg("-o").arg(sandbox.recording()).arg(pid);
    command
}

/// What looks after a process is gone as well. It has the command's words until it executes the guardian.
pub fn wait_for_guardian(pid: &str) {
    let is_guardian = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let is_ours = words.get(1).is_some_and(|word| word.starts_with(b"attach"));
        is_ours && words.contains(&pid.as_bytes())
    };
    while std::fs::read_dir("/proc").unwrap().flatten().any(is_guardian) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn refused(ended: &Ended, why: &str) {
    assert!(!matches!(ended.code(), Some(0) | None) && ended.stderr.contains(why), "{ended:#?}");
}

#[test]
fn a_process_is_profiled_in_place_and_left_as_it_was() {
    let Some(mut running) = attached() else { return };
    running.is_fine();
    let before = running.descriptors();
    let sandbox = Sandbox::new();
    let ended = run(attach(
        &sandbox,
        &["--duration", "6", "--region", "work", "-p", "fn:short_lived"],
        &running.pid(),
    ));
    assert!(ended.stderr.contains("was let go, and goes on"), "{ended:#?}");
    running.is_fine();
    assert_eq!(running.descriptors(), before);
    let report = sandbox.report();
    assert!(crate::support::point(&report, "short_lived")["visits"].as_u64() > Some(0), "{report:#}");
    assert!(sandbox.samples("work") > 100, "{report:#}");
    running.end();
}

#[test]
fn it_can_be_attached_to_again_and_again() {
    let Some(mut running) = attached() else { return };
    running.is_fine();
    let before = running.descriptors();
    let images = |running: &Running| running.maps().matches("libwhatif_rt").count();
    let mut first = None;
    for _ in 0..4 {
        let sandbox = Sandbox::new();
        let ended = run(attach(&sandbox, &["--duration", "1", "-p", "fn:work"], &running.pid()));
        assert!(ended.stderr.contains("was let go, and goes on"), "{ended:#?}");
        running.is_fine();
        assert_eq!(running.descriptors(), before);
        assert_eq!(running.maps().matches("/memfd:whatif").count(), 1, "{}", running.maps());
        assert_eq!(*first.get_or_insert_with(|| images(&running)), images(&running));
        // It learns anew what there is to sample.
        assert!(sandbox.samples("work") > 0, "{ended:#?}");
    }
    running.end();
}

/// A master and its workers are one session, with a worker that is forked meanwhile, out of a process that is profiled.
#[test]
fn what_a_process_has_started_is_profiled_with_it() {
    let Some(program) = may_trace().then(|| program("prefork.c")).flatten() else { return };
    let mut running = Running::start(&program);
    let before: Vec<BTreeSet<String>> = running.children().into_iter().map(descriptors).collect();
    for round in 0..2 {
        let sandbox = Sandbox::new();
        let mut command = attach(&sandbox, &["--duration", "15", "-p", "fn:handle"], &running.pid());
        let whatif = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let workers = running.children();
        while !workers.iter().all(|pid| maps(*pid).contains("/memfd:whatif")) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Before it is known that all is set up, or later.
        std::thread::sleep(Duration::from_millis(round * 700));
        let pid = rustix::process::Pid::from_raw(workers[1].cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let ended = whatif.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("more; Ctrl-C") && said.contains("all processes were let go"), "{said}");
        assert!(!said.contains("not profiled"), "{said}");
        running.is_fine();
        let report = sandbox.report();
        let programs = report["sessions"][0]["programs"].as_array().unwrap();
        let of_program = programs.iter().find(|one| one["path"].as_str().unwrap().ends_with("/prefork"));
        assert!(of_program.unwrap()["processes"].as_u64() >= Some(3), "{round}: {report:#}");
        assert!(crate::support::point(&report, "handle")["visits"].as_u64() > Some(100), "{report:#}");
        assert!(sandbox.samples("work") > 100, "{report:#}");
        let now = running.children().into_iter().map(descriptors);
        assert_eq!(now.collect::<Vec<_>>(), before, "{round}");
    }
    running.end();
}

/// Services run as users of their own, which may not open what is root's.
#[test]
fn root_profiles_processes_of_other_users() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return skip("only root may attach to processes of other users");
    }
    let Some(program) = may_trace().then(|| program("prefork.c")).flatten() else { return };
    let mut command = Command::new(program);
    let Ok(mut running) = Running::spawn(command.uid(NOBODY).gid(NOBODY)) else {
        return skip("the user `nobody` may not execute programs of this folder");
    };
    assert_eq!(running.line(), "ready\n");
    let workers = running.children();
    let before: Vec<BTreeSet<String>> = workers.iter().copied().map(descriptors).collect();
    for _ in 0..2 {
        let sandbox = Sandbox::new();
        let ended = run(attach(&sandbox, &["--duration", "2", "-p", "fn:handle"], &running.pid()));
        assert!(ended.stderr.contains("and 2 more;") && ended.stderr.contains("were let go"), "{ended:#?}");
        running.is_fine();
        assert!(sandbox.samples("work") > 100, "{ended:#?}");
        assert_eq!(workers.iter().copied().map(descriptors).collect::<Vec<_>>(), before);
    }
    running.end();
}

/// As containers are by default: perf events are refused, everything else that is needed is allowed.
#[test]
fn a_filter_is_looked_at_before_a_process_is_touched() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root may look at filters");
    }
    let Some(program) = may_trace().then(|| program("attached.c")).flatten() else { return };
    let Some(filtered) = crate::support::program("filtered.c") else { return };
    let start = |how: &str| Running::spawn(Command::new(&filtered).arg(how).arg(&program)).unwrap();
    let options = ["--duration", "2", "--region", "work", "-p", "fn:work"];
    let mut running = start("kills");
    if running.line() != "ready\n" {
        return skip("there are no seccomp filters here");
    }
    refused(&run(attach(&Sandbox::new(), &options, &running.pid())), "seccomp filter");
    running.is_fine();
    running.end();
    let mut running = start("fails");
    assert_eq!(running.line(), "ready\n");
    running.is_fine();
    let before = running.descriptors();
    let sandbox = Sandbox::new();
    let ended = run(attach(&sandbox, &options, &running.pid()));
    assert!(ended.stderr.contains("was let go, and goes on"), "{ended:#?}");
    assert!(sandbox.samples("work") > 0, "{ended:#?}");
    running.is_fine();
    assert_eq!(running.descriptors(), before);
    running.end();
}

/// Its numbers are others in there, and so are its paths.
#[test]
fn a_process_in_a_container_is_profiled_from_inside() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root may enter containers");
    }
    let Some(program) = may_trace().then(|| program("attached.c")).flatten() else { return };
    // In there it has another path.
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(program, folder.path().join("attached")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--fork", "--mount-proc", "sh", "-c"]);
    command.arg(format!("mount --bind {} /media && exec /media/attached", folder.path().display()));
    let Ok(mut running) = Running::spawn(&mut command) else { return skip("there is no unshare") };
    if running.line() != "ready\n" {
        return skip("name spaces may not be unshared here");
    }
    running.is_fine();
    let inside = running.children()[0].to_string();
    let before = descriptors(running.children()[0]);
    let sandbox = Sandbox::new();
    let mut doctor = sandbox.whatif();
    doctor.args(["doctor", &inside]);
    let doctor = run(doctor);
    assert!(doctor.stdout.contains("/media/attached"), "{doctor:#?}");
    for _ in 0..2 {
        let ended = run(attach(&sandbox, &["--duration", "2", "--region", "work", "-p", "fn:work"], &inside));
        assert!(ended.stderr.contains("/media/attached (process 1)"), "{ended:#?}");
        assert!(ended.stderr.contains("process 1 was let go, and goes on"), "{ended:#?}");
        running.is_fine();
        assert_eq!(descriptors(running.children()[0]), before);
    }
    assert!(sandbox.samples("work") > 0);
    running.end();
}

#[test]
fn processes_are_found_by_their_names_and_groups() {
    let Some(program) = may_trace().then(|| program_as("prefork.c", "prefork_by_name", &[])).flatten() else {
        return;
    };
    let running = Running::start(&program);
    let workers = running.children();
    let sandbox = Sandbox::new();
    let profile = |which: &[&str]| {
        let mut command = sandbox.whatif();
        command.args(["attach", "--duration", "2", "-p", "fn:handle", "-o"]).arg(sandbox.recording());
        command.args(which);
        run(command)
    };
    let ended = profile(&["--name", "prefork_by_*", "--no-follow"]);
    assert!(ended.stderr.contains(&format!("(process {}) and 2 more;", running.pid())), "{ended:#?}");
    let numbers = workers.iter().map(u32::to_string).collect::<Vec<_>>();
    let ended = profile(&[&numbers[1], &numbers[0]]);
    assert!(ended.stderr.contains(&format!("(process {}) and 1 more;", numbers[1])), "{ended:#?}");
    let ended = profile(&["--follow", "nothing", &running.pid()]);
    assert!(ended.stderr.contains(&format!("(process {});", running.pid())), "{ended:#?}");
    refused(&profile(&["--unit", "no-such-unit"]), "no process runs that is meant by --unit no-such-unit");
    refused(&profile(&["--name", "a["]), "not a glob");
    refused(&profile(&[]), "<PID>");
    running.end();
}

/// A thread that is stopped in a restartable sequence, and called away, begins it again.
#[test]
fn restartable_sequences_begin_again() {
    let Some(program) = may_trace().then(|| program("sections.c")).flatten() else { return };
    let mut running = Running::begin(&program);
    if running.line() == "none\n" {
        return skip("the C library registers no thread for restartable sequences");
    }
    for _ in 0..5 {
        let sandbox = Sandbox::new();
        let ended =
            run(attach(&sandbox, &["--duration", "1", "--no-delays", "-p", "fn:add"], &running.pid()));
        assert!(ended.stderr.contains("was let go, and goes on"), "{ended:#?}");
        // Threads are new each time.
        running.is_fine();
    }
    running.end();
}

#[test]
fn what_is_not_bound_yet_is_redirected_and_bound_later() {
    let lazy = ["-Wl,-z,lazy", "-no-pie"];
    let Some(program) = may_trace().then(|| program_as("attached.c", "attached_lazy", &lazy)).flatten()
    else {
        return;
    };
    let running = Running::start(&program);
    let sandbox = Sandbox::new();
    let ended = run(attach(&sandbox, &["--duration", "2", "-p", "fn:work"], &running.pid()));
    assert!(ended.stderr.contains("was let go, and goes on"), "{ended:#?}");
    running.end();
}

#[test]
fn an_interrupt_lets_it_go() {
    let Some(mut running) = attached() else { return };
    let sandbox = Sandbox::new();
    let mut command = attach(&sandbox, &["-p", "fn:work"], &running.pid());
    let mut whatif = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(whatif.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Ctrl-C lets it go") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it has not begun");
    }
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_child(&whatif);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    assert!(whatif.wait().unwrap().code().is_some() && rest.contains("was let go, and goes on"), "{rest}");
    running.is_fine();
    running.end();
}

#[test]
fn the_command_may_be_killed_at_any_moment() {
    let Some(mut running) = attached() else { return };
    running.is_fine();
    let before = running.descriptors();
    for round in 0..16_u64 {
        let sandbox = Sandbox::new();
        let mut command = attach(&sandbox, &["-q", "-p", "fn:work"], &running.pid());
        let mut whatif = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        // From before anything is touched to the midst of an experiment.
        std::thread::sleep(Duration::from_millis(round * round * 8));
        whatif.kill().unwrap();
        whatif.wait().unwrap();
        wait_for_guardian(&running.pid());
        running.is_fine();
        assert_eq!(running.descriptors(), before, "round {round}");
    }
    running.end();
}

#[test]
fn what_cannot_be_attached_to_is_refused_and_goes_on() {
    let Some(running) = attached() else { return };
    let sandbox = Sandbox::new();
    let attach_to = |pid: &str| run(attach(&sandbox, &["--duration", "1"], pid));
    refused(&attach_to("2147483646"), "there is no process 2147483646");
    refused(&attach_to("server"), "pgrep -a server");
    let thread = std::fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap().flatten();
    let thread =
        thread.filter_map(|entry| entry.file_name().into_string().ok()).find(|one| *one != running.pid());
    refused(&attach_to(&thread.unwrap()), &format!("whatif attach {}", running.pid()));
    let mut stopped = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&stopped);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    while !std::fs::read_to_string(format!("/proc/{}/stat", stopped.id())).unwrap().contains(") T ") {
        std::thread::yield_now();
    }
    refused(&attach_to(&stopped.id().to_string()), "kill -CONT");
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    assert!(!running.maps().contains("whatif"), "nothing was touched");
    let mut profiled = sandbox.whatif();
    profiled.args(["attach", "--repeat", "2", &running.pid()]);
    refused(&run(profiled), "--repeat is about programs that whatif starts");
    running.end();
}

/// Nothing of these is redirected by words: their functions lead elsewhere where they begin, and then no longer.
#[test]
fn static_programs_and_those_with_musl_are_profiled_in_place() {
    if !may_trace() {
        return;
    }
    for program in without_preloading("attached.c", "attached") {
        let mut running = Running::start(&program);
        running.is_fine();
        let before = running.descriptors();
        let code = code_of(running.child.id(), &program);
        for round in 0..2 {
            let sandbox = Sandbox::new();
            let options = ["--duration", "3", "--region", "work", "-p", "fn:short_lived"];
            let ended = run(attach(&sandbox, &options, &running.pid()));
            assert!(ended.stderr.contains("was let go, and goes on"), "{program:?}: {ended:#?}");
            running.is_fine();
            assert_eq!(running.descriptors(), before, "{program:?}");
            assert!(sandbox.samples("work") > 50, "{program:?}: {ended:#?}");
            let report = sandbox.report();
            let visits = crate::support::point(&report, "short_lived")["visits"].as_u64();
            assert!(visits > Some(0), "{program:?} {round}: {report:#}");
        }
        assert!(code_of(running.child.id(), &program) == code, "{program:?} is as it was");
        running.end();
    }
}

/// Its system calls lead elsewhere, on whatever stack they are made.
#[test]
fn a_go_program_is_profiled_in_place() {
    let Some(program) = may_trace().then(|| go_program("go-attached")).flatten() else { return };
    for mode in ["mutex", "select", "http"] {
        assert_profiled_in_place(&program, mode);
    }
}

/// Some have a C library besides, whose functions lead elsewhere as well, and some have no symbols.
#[test]
fn other_go_programs_are_profiled_in_place() {
    if !may_trace() {
        return;
    }
    for program in other_go_programs("go-attached") {
        assert_profiled_in_place(&program, "http");
    }
}

/// It goes on when it was let go, twice, and its code is what it was.
fn assert_profiled_in_place(program: &Path, mode: &str) {
    let mut command = Command::new(program);
    command.args([mode, "100", "100", "1000000", "500"]);
    let mut running = Running::spawn(&mut command).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let code = code_of(running.child.id(), program);
    // On a busy machine there may be no sample in one of them.
    let (mut rounds, mut is_seen) = (0, false);
    while rounds < 2 || !is_seen && rounds < 20 {
        let sandbox = Sandbox::new();
        let options = ["--duration", "2", "--region", "main.regionA", "-p", "fn:main.done"];
        let ended = run(attach(&sandbox, &options, &running.pid()));
        assert!(ended.stderr.contains("was let go, and goes on"), "{program:?} {mode} {rounds}: {ended:#?}");
        is_seen |= sandbox.samples("main.regionA") > 0;
        assert!(code_of(running.child.id(), program) == code, "{program:?} {mode} is as it was");
        rounds += 1;
    }
    assert!(is_seen, "{program:?} {mode}");
    assert!(running.child.try_wait().unwrap().is_none(), "{program:?} {mode} goes on");
}

/// The code that a process has of its program.
fn code_of(pid: u32, program: &Path) -> Vec<u8> {
    use std::os::unix::fs::FileExt as _;
    let maps = kernel::maps(pid).unwrap().into_iter();
    let own =
        maps.filter(|it| it.executable && it.path.as_deref().is_some_and(|path| path.ends_with(program)));
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let read = |it: kernel::Mapping| {
        let mut bytes = vec![0; (it.end.0 - it.start.0) as usize];
        memory.read_exact_at(&mut bytes, it.start.0).unwrap();
        bytes
    };
    own.flat_map(read).collect()
}

#[test]
fn a_static_program_without_symbols_is_refused() {
    if !may_trace() {
        return;
    }
    let Some(program) = static_program("attached.c", "attached_stripped") else { return };
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let running = Running::start(&program);
    let sandbox = Sandbox::new();
    let ended = run(attach(&sandbox, &["--duration", "1", "-p", "fn:work"], &running.pid()));
    refused(&ended, "without a symbol table");
    assert!(!running.maps().contains("whatif"), "nothing was touched");
    running.end();
}
