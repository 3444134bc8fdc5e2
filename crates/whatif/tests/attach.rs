//! Profiling a process that runs already: it is profiled, goes on, and is as it was.
//!
//! The program checks everything that it calls, in threads that wait, compute, come and go, fork and use signals; it says so when it is asked.

use crate::support::{
    Ended, HANG, Sandbox, go_program, other_go_programs, program, program_as, run, skip, static_program,
    whatif, without_preloading,
};
use kernel::tracee::{Late, Tracee, Trouble, release_if_stopped};
use profile::{Recording, Rows};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A program that runs.
pub struct Running {
    pub child: Child,
    output: Receiver<String>,
}

impl Running {
    pub fn start(program: &Path) -> Self {
        let mut running = Self::begin(program);
        assert_eq!(running.line(), "ready");
        running
    }

    fn begin(program: &Path) -> Self {
        Self::spawn(&mut Command::new(program)).unwrap()
    }

    fn spawn(command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (lines, (says, output)) = (BufReader::new(child.stdout.take().unwrap()).lines(), channel());
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| says.send(line)));
        Ok(Self { output, child })
    }

    /// Its next line; nothing when it has ended. A hang is a failure.
    pub fn line(&mut self) -> String {
        self.output.recv_timeout(HANG).unwrap_or_default()
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// All its threads go on, and have seen nothing that they should not.
    fn is_fine(&mut self) {
        let asked = self.child.stdin.as_mut().unwrap().write_all(b"?\n");
        assert_eq!((self.line().as_str(), asked.is_ok()), ("fine", true));
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
        wait_until("its end", || self.child.try_wait().unwrap().is_some());
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
    // Its children inherit the filter, and what a filter does only root may look up, and only under none.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    if status.contains("Seccomp:\t2") {
        skip("this process is under a seccomp filter, so its children are not attached to from here");
        return false;
    }
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

/// Waits for an event. A hang is a failure.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < HANG, "waited for {HANG:?} for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn attach(sandbox: &Sandbox, options: &[&str], pid: &str) -> Command {
    let mut command = sandbox.whatif();
    command.arg("attach").args(options).arg("-o").arg(sandbox.recording()).arg(pid);
    command
}

/// Begins a session, which says to a file what it has to say.
pub fn begin(sandbox: &Sandbox, mut command: Command) -> Child {
    let said = File::create(sandbox.path("said")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().unwrap()
}

/// Waits until what a session is to see is in its recording. A hang is a failure.
#[track_caller]
pub fn wait_until_recorded(sandbox: &Sandbox, session: &mut Child, is_seen: impl Fn(&Rows) -> bool) {
    let said = || std::fs::read_to_string(sandbox.path("said")).unwrap();
    let begin = Instant::now();
    while !rows(&sandbox.recording()).is_some_and(|rows| is_seen(&rows)) {
        if let Some(status) = session.try_wait().unwrap() {
            panic!("the session has ended ({status}): {}", said());
        }
        if begin.elapsed() > HANG {
            let _ = session.kill();
            panic!("what is to be seen is not seen: {}\n{:#?}", said(), rows(&sandbox.recording()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Interrupts a session when what it is to see is in its recording; what it has said.
#[track_caller]
fn interrupt_when(sandbox: &Sandbox, mut session: Child, is_seen: impl Fn(&Rows) -> bool) -> String {
    wait_until_recorded(sandbox, &mut session, is_seen);
    kill_process(Pid::from_child(&session), Signal::INT).unwrap();
    wait_until("the end of the session", || session.try_wait().unwrap().is_some());
    let said = std::fs::read_to_string(sandbox.path("said")).unwrap();
    assert!(session.wait().unwrap().code().is_some(), "{said}");
    said
}

/// Profiles a process until what is to be seen is in the recording, and has it let go.
#[track_caller]
fn profile_until(sandbox: &Sandbox, options: &[&str], pid: &str, is_seen: impl Fn(&Rows) -> bool) -> String {
    let said = interrupt_when(sandbox, begin(sandbox, attach(sandbox, options, pid)), is_seen);
    assert!(said.contains("let go"), "{said}");
    said
}

/// What a recording holds so far.
pub fn rows(recording: &Path) -> Option<Rows> {
    Recording::open(recording).and_then(|recording| recording.rows()).ok()
}

/// An experiment has been made.
pub fn has_windows(rows: &Rows) -> bool {
    rows.windows.len() >= 2
}

/// A region has samples.
pub fn is_sampled(rows: &Rows, region: &str) -> bool {
    rows.samples.iter().any(|of| of.count > 0 && rows.regions[&of.region].name == region)
}

/// A progress point was visited.
pub fn is_visited(rows: &Rows, point: &str) -> bool {
    let mut visits = rows.windows.iter().flat_map(|window| &window.visits);
    visits.any(|of| of.count > 0 && rows.points[&of.point].name == point)
}

/// Whether a process of ours runs whose words are meant; there are none for a moment in which it executes something.
pub fn has_process(is_meant: impl Fn(&[&[u8]]) -> bool) -> bool {
    let program = std::fs::canonicalize(whatif()).unwrap();
    let is_one = |entry: std::fs::DirEntry| {
        let is_ours = std::fs::read_link(entry.path().join("exe")).is_ok_and(|link| link == program);
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        is_ours && is_meant(&line.split(|byte| *byte == 0).collect::<Vec<_>>())
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(is_one)
}

/// Whether a guardian looks after a process, of which it has a descriptor then.
fn is_looked_after(pid: u32) -> bool {
    let (program, line) = (std::fs::canonicalize(whatif()).unwrap(), format!("Pid:\t{pid}\n"));
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours =
        processes.filter(|path| std::fs::read_link(path.join("exe")).is_ok_and(|link| link == program));
    let infos = ours.flat_map(|path| std::fs::read_dir(path.join("fdinfo")).into_iter().flatten().flatten());
    infos.filter_map(|info| std::fs::read_to_string(info.path()).ok()).any(|info| info.contains(&line))
}

/// Waits until what looks after a process is gone as well. It has the command's words until it executes the guardian.
#[track_caller]
pub fn wait_for_guardian(pid: &str) {
    wait_until("the end of the guardian", || {
        !has_process(|words| {
            words.get(1).is_none_or(|word| word.starts_with(b"attach") && words.contains(&pid.as_bytes()))
        })
    });
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
    let options = ["--region", "work", "-p", "fn:short_lived"];
    let said = profile_until(&sandbox, &options, &running.pid(), |rows| {
        is_visited(rows, "short_lived") && is_sampled(rows, "work")
    });
    assert!(said.contains("was let go, and goes on"), "{said}");
    running.is_fine();
    assert_eq!(running.descriptors(), before);
    crate::support::point(&sandbox.report(), "short_lived");
    running.end();
}

#[test]
fn it_can_be_attached_to_again_and_again() {
    let Some(mut running) = attached() else { return };
    running.is_fine();
    let before = running.descriptors();
    let images = |running: &Running| running.maps().matches("libwhatif_rt").count();
    let mut first = None;
    for _ in 0..3 {
        let sandbox = Sandbox::new();
        // It learns anew what there is to sample.
        let options = ["-p", "fn:work"];
        let said = profile_until(&sandbox, &options, &running.pid(), |rows| is_sampled(rows, "work"));
        assert!(said.contains("was let go, and goes on"), "{said}");
        running.is_fine();
        assert_eq!(running.descriptors(), before);
        assert_eq!(running.maps().matches("/memfd:whatif").count(), 1, "{}", running.maps());
        assert_eq!(*first.get_or_insert_with(|| images(&running)), images(&running));
    }
    running.end();
}

/// A master and its workers are one session, with a worker that is forked meanwhile, out of a process that is profiled.
#[test]
fn what_a_process_has_started_is_profiled_with_it() {
    let Some(program) = may_trace().then(|| program("prefork.c")).flatten() else { return };
    let mut running = Running::start(&program);
    let before: Vec<BTreeSet<String>> = running.children().into_iter().map(descriptors).collect();
    for is_under_way in [false, true] {
        let sandbox = Sandbox::new();
        let session = begin(&sandbox, attach(&sandbox, &["-p", "fn:handle"], &running.pid()));
        let workers = running.children();
        wait_until("the workers to be attached to", || {
            workers.iter().all(|pid| maps(*pid).contains("/memfd:whatif"))
        });
        // Before it is known that all is set up, or later.
        if is_under_way {
            wait_until("an experiment", || rows(&sandbox.recording()).is_some_and(|rows| has_windows(&rows)));
        }
        let pid = Pid::from_raw(workers[1].cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let said = interrupt_when(&sandbox, session, |rows| {
            let now = running.children();
            let is_replaced = now.len() == workers.len() && !now.contains(&workers[1]);
            let mut programs = rows.sessions.iter().flat_map(|session| &session.programs);
            // The master, a worker, and the one that was forked meanwhile.
            programs.any(|one| one.path.ends_with("/prefork") && one.processes >= 3)
                && is_visited(rows, "handle")
                && is_sampled(rows, "work")
                && is_replaced
                && now.iter().all(|pid| is_looked_after(*pid))
        });
        assert!(said.contains("more; Ctrl-C") && said.contains("all processes were let go"), "{said}");
        assert!(!said.contains("not profiled"), "{said}");
        running.is_fine();
        let now = running.children().into_iter().map(descriptors);
        assert_eq!(now.collect::<Vec<_>>(), before, "{is_under_way}");
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
    assert_eq!(running.line(), "ready");
    let workers = running.children();
    let before: Vec<BTreeSet<String>> = workers.iter().copied().map(descriptors).collect();
    for _ in 0..2 {
        let sandbox = Sandbox::new();
        let options = ["-p", "fn:handle"];
        let said = profile_until(&sandbox, &options, &running.pid(), |rows| is_sampled(rows, "work"));
        assert!(said.contains("and 2 more;") && said.contains("were let go"), "{said}");
        running.is_fine();
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
    let options = ["--region", "work", "-p", "fn:work"];
    let mut running = start("kills");
    if running.line() != "ready" {
        return skip("there are no seccomp filters here");
    }
    refused(&run(attach(&Sandbox::new(), &options, &running.pid())), "seccomp filter");
    running.is_fine();
    running.end();
    let mut running = start("fails");
    assert_eq!(running.line(), "ready");
    running.is_fine();
    let before = running.descriptors();
    let sandbox = Sandbox::new();
    let said = profile_until(&sandbox, &options, &running.pid(), |rows| is_sampled(rows, "work"));
    assert!(said.contains("was let go, and goes on"), "{said}");
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
    if running.line() != "ready" {
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
        let sandbox = Sandbox::new();
        let options = ["--region", "work", "-p", "fn:work"];
        let said = profile_until(&sandbox, &options, &inside, |rows| is_sampled(rows, "work"));
        assert!(said.contains("/media/attached (process 1)"), "{said}");
        assert!(said.contains("process 1 was let go, and goes on"), "{said}");
        running.is_fine();
        assert_eq!(descriptors(running.children()[0]), before);
    }
    running.end();
}

#[test]
fn processes_are_found_by_their_names_and_groups() {
    let Some(program) = may_trace().then(|| program_as("prefork.c", "prefork_by_name", &[])).flatten() else {
        return;
    };
    let running = Running::start(&program);
    let workers = running.children();
    let of = |sandbox: &Sandbox, which: &[&str]| {
        let mut command = sandbox.whatif();
        command.args(["attach", "-p", "fn:handle", "-o"]).arg(sandbox.recording()).args(which);
        command
    };
    let profile = |which: &[&str]| {
        let sandbox = Sandbox::new();
        interrupt_when(&sandbox, begin(&sandbox, of(&sandbox, which)), has_windows)
    };
    let said = profile(&["--name", "prefork_by_*", "--no-follow"]);
    assert!(said.contains(&format!("(process {}) and 2 more;", running.pid())), "{said}");
    let numbers = workers.iter().map(u32::to_string).collect::<Vec<_>>();
    let said = profile(&[&numbers[1], &numbers[0]]);
    assert!(said.contains(&format!("(process {}) and 1 more;", numbers[1])), "{said}");
    let said = profile(&["--follow", "nothing", &running.pid()]);
    assert!(said.contains(&format!("(process {});", running.pid())), "{said}");
    let sandbox = Sandbox::new();
    let not = |which: &[&str], why: &str| refused(&run(of(&sandbox, which)), why);
    not(&["--unit", "no-such-unit"], "no process runs that is meant by --unit no-such-unit");
    not(&["--name", "a["], "not a glob");
    not(&[], "<PID>");
    running.end();
}

/// A thread that is stopped in a restartable sequence, and called away, begins it again.
#[test]
fn restartable_sequences_begin_again() {
    let Some(program) = may_trace().then(|| program("sections.c")).flatten() else { return };
    let mut running = Running::begin(&program);
    if running.line() == "none" {
        return skip("the C library registers no thread for restartable sequences");
    }
    for _ in 0..3 {
        let sandbox = Sandbox::new();
        let said = profile_until(&sandbox, &["--no-delays", "-p", "fn:add"], &running.pid(), |rows| {
            !rows.windows.is_empty()
        });
        assert!(said.contains("was let go, and goes on"), "{said}");
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
    let said = profile_until(&sandbox, &["-p", "fn:work"], &running.pid(), has_windows);
    assert!(said.contains("was let go, and goes on"), "{said}");
    running.end();
}

#[test]
fn it_is_let_go_when_the_time_is_over() {
    let Some(running) = attached() else { return };
    let ended = run(attach(&Sandbox::new(), &["--duration", "0.3", "-p", "fn:work"], &running.pid()));
    assert!(ended.stderr.contains("was let go, and goes on"), "{ended:#?}");
    running.end();
}

#[test]
fn the_command_may_be_killed_at_any_moment() {
    let Some(mut running) = attached() else { return };
    running.is_fine();
    let before = running.descriptors();
    // From before anything is touched to the midst of an experiment.
    /// Whether a moment has come, of a process and a recording.
    type HasCome = fn(u32, &Path) -> bool;
    let moments: [(&str, HasCome); 5] = [
        ("its begin", |_, _| true),
        ("its recording", |_, recording| recording.exists()),
        ("the guardian", |pid, _| {
            let pid = pid.to_string();
            has_process(|words| words.contains(&&b"attach-guardian"[..]) && words.contains(&pid.as_bytes()))
        }),
        ("samples", |_, recording| rows(recording).is_some_and(|rows| !rows.samples.is_empty())),
        ("an experiment", |_, recording| rows(recording).is_some_and(|rows| has_windows(&rows))),
    ];
    for (moment, has_come) in moments {
        // And a little later.
        for later in [0, 3, 20] {
            let sandbox = Sandbox::new();
            let mut whatif = begin(&sandbox, attach(&sandbox, &["-q", "-p", "fn:work"], &running.pid()));
            wait_until(moment, || has_come(running.child.id(), &sandbox.recording()));
            std::thread::sleep(Duration::from_millis(later));
            whatif.kill().unwrap();
            whatif.wait().unwrap();
            wait_for_guardian(&running.pid());
            running.is_fine();
            assert_eq!(running.descriptors(), before, "{later} ms after {moment}");
        }
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
    kill_process(Pid::from_child(&stopped), Signal::STOP).unwrap();
    wait_until("a stop", || {
        std::fs::read_to_string(format!("/proc/{}/stat", stopped.id())).unwrap().contains(") T ")
    });
    refused(&attach_to(&stopped.id().to_string()), "kill -CONT");
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    assert!(!running.maps().contains("whatif"), "nothing was touched");
    let mut profiled = sandbox.whatif();
    profiled.args(["attach", "--repeat", "2", &running.pid()]);
    refused(&run(profiled), "--repeat is about programs that whatif starts");
    running.end();
}

/// A program that waits in a thread, whose number it says.
fn waiting(mode: &str) -> Option<(Running, u32)> {
    let program = may_trace().then(|| program("waiting.c")).flatten()?;
    let mut running = Running::spawn(Command::new(program).arg(mode)).unwrap();
    let said = running.line();
    let thread = said.parse();
    if thread.is_err() {
        skip(&said);
    }
    Some((running, thread.ok()?))
}

impl Running {
    /// Its wait has ended by what it waits for.
    fn has_waited(&mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.line(), "waited: 1");
    }
}

/// A thread that is sampled waits in a call that a signal would end: neither stops nor the samples that these bring along end it, on a busy machine either, where a
/// thread stops too late and is let go then.
#[test]
fn no_stop_ends_a_wait() {
    const STOPS: u32 = 200;
    const EPOLL_WAIT: &str = "232 ";
    let Some((mut running, thread)) = waiting("samples") else { return };
    let call = format!("/proc/{}/task/{thread}/syscall", running.pid());
    for stop in 0..STOPS {
        wait_until("its wait", || std::fs::read_to_string(&call).unwrap().starts_with(EPOLL_WAIT));
        let (is_late, patience) = (stop % 2 == 1, HANG * (1 - stop % 2));
        match Tracee::stop(thread, patience) {
            Ok(tracee) => drop(tracee),
            Err(Trouble::Stuck) if is_late => {
                wait_until("a stop", || release_if_stopped(thread) == Late::LetGo);
            }
            Err(trouble) => panic!("{trouble}"),
        }
    }
    running.has_waited();
}

/// The program ignores `SIGCHLD`, but the kernel queues it for a thread that is stopped, and wakes another one for it.
#[test]
fn no_child_that_ends_beside_a_stop_ends_a_wait() {
    const STOPS: u32 = 500;
    let Some((mut running, _)) = waiting("children") else { return };
    for _ in 0..STOPS {
        let pid = running.child.id();
        drop(Tracee::stop_all(pid, &kernel::cpu::threads(pid), HANG).unwrap());
    }
    running.has_waited();
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
        for _ in 0..2 {
            let options = ["--region", "work", "-p", "fn:short_lived"];
            let said = profile_until(&Sandbox::new(), &options, &running.pid(), |rows| {
                is_visited(rows, "short_lived") && is_sampled(rows, "work")
            });
            assert!(said.contains("was let go, and goes on"), "{program:?}: {said}");
            running.is_fine();
            assert_eq!(running.descriptors(), before, "{program:?}");
        }
        assert!(code_of(running.child.id(), &program) == code, "{program:?} is as it was");
        running.end();
    }
}

/// Its system calls lead elsewhere, on whatever stack they are made.
#[test]
fn a_go_program_is_profiled_in_place() {
    let Some(program) = may_trace().then(|| go_program("go-attached")).flatten() else { return };
    for mode in ["mutex", "select", "paced-http"] {
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
        assert_profiled_in_place(&program, "paced-http");
    }
}

/// It goes on when it was let go, twice, and its code is what it was.
fn assert_profiled_in_place(program: &Path, mode: &str) {
    let mut command = Command::new(program);
    command.args([mode, "100", "100", "1000000", "500"]);
    let mut running = Running::spawn(&mut command).unwrap();
    wait_until("the program to work", || has_worked(running.child.id()));
    let code = code_of(running.child.id(), program);
    for round in 0..2 {
        let options = ["--region", "main.regionA", "-p", "fn:main.done"];
        let said = profile_until(&Sandbox::new(), &options, &running.pid(), |rows| {
            is_visited(rows, "main.done") && (round > 0 || is_sampled(rows, "main.regionA"))
        });
        assert!(said.contains("was let go, and goes on"), "{program:?} {mode} {round}: {said}");
        assert!(code_of(running.child.id(), program) == code, "{program:?} {mode} is as it was");
    }
    assert!(running.child.try_wait().unwrap().is_none(), "{program:?} {mode} goes on");
}

/// A process has taken some CPU time: more than it takes to begin.
fn has_worked(pid: u32) -> bool {
    const TICKS_OF_BEGUN_PROGRAM: u64 = 5;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let user_time = stat.rsplit(") ").next().unwrap().split(' ').nth(11).unwrap();
    user_time.parse::<u64>().unwrap() >= TICKS_OF_BEGUN_PROGRAM
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
