//! What the integration tests share: compiling the small programs in `programs/`, running them with and
//! without the profiler, and reading recordings.
//!
//! Nothing here waits for a time and hopes: what is waited for is an event, and a limit that no healthy
//! run comes near turns a hang into a failure.

mod machine;

pub use machine::alone;
use machine::{Held, beside_others};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// A run that takes so long hangs.
pub const HANG: Duration = Duration::from_secs(100);

/// What the programs are compiled with.
const FLAGS: &[&str] = &["-O2", "-g", "-fno-omit-frame-pointer", "-pthread"];

/// Prints that a test was skipped, and why.
pub fn skip(why: &str) {
    print("skipped", why);
}

/// Prints what a test noticed that is no failure.
pub fn remark(what: &str) {
    print("noticed by", what);
}

fn print(kind: &str, text: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    // Not `eprintln!`, which the harness keeps to itself when a test passes.
    let _ = writeln!(std::io::stderr(), "{kind} {test}: {text}");
}

/// Whether a program can be found; says so if not.
pub fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        skip(&format!("{tool} is not installed"));
    }
    found.is_ok()
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Compiles a program of `programs/`; `None`, said aloud, when there is no compiler.
pub fn program(source: &str) -> Option<PathBuf> {
    let name = source.split('.').next().unwrap();
    compile("cc", &here().join(source), name, &[])
}

/// Compiles a program of `programs/` under another name, with further flags.
pub fn program_as(source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    compile("cc", &here().join(source), name, flags)
}

/// The same without shared libraries; `None`, said aloud, where there is no static C library.
pub fn static_program(source: &str, name: &str) -> Option<PathBuf> {
    if !compiles("cc", "-static") {
        skip("there is no static C library");
        return None;
    }
    program_as(source, name, &["-static"])
}

/// The same in all the ways in which nothing can be preloaded: static ones at fixed addresses and at any, and those with musl; what is missing is said aloud.
pub fn without_preloading(source: &str, name: &str) -> Vec<PathBuf> {
    let ways = [("cc", "-static"), ("cc", "-static-pie"), ("musl-gcc", "-static"), ("musl-gcc", "-pie")];
    let build = |(compiler, flag): (&str, &str)| {
        if !compiles(compiler, flag) {
            skip(&format!("{compiler} {flag} does not work here"));
            return None;
        }
        program_by(compiler, source, &format!("{name}-{compiler}{flag}"), &[flag])
    };
    ways.into_iter().filter_map(build).collect()
}

/// Compiles `targets/go/main.go` without C code; `None`, said aloud, where there is no Go.
pub fn go_program(name: &str) -> Option<PathBuf> {
    go_program_as(name, false, &[])
}

/// The same with or without C code (what the package `net` has of it), and with flags of `go build`.
pub fn go_program_as(name: &str, with_c: bool, flags: &[&str]) -> Option<PathBuf> {
    if !have("go") || with_c && !have("cc") {
        return None;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&program).args(flags).arg(workspace().join("targets/go/main.go"));
    let output = command.env("CGO_ENABLED", if with_c { "1" } else { "0" }).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// The same in other ways in which Go builds programs: with a loader, and stripped.
pub fn other_go_programs(name: &str) -> Vec<PathBuf> {
    let ways: [(&str, bool, &[&str]); 6] = [
        ("stripped", false, &["-ldflags=-s -w"]),
        ("c-stripped", true, &["-ldflags=-s -w"]),
        ("c", true, &[]),
        ("c-linker", true, &["-ldflags=-linkmode=external"]),
        ("c-pie", true, &["-buildmode=pie"]),
        ("pie", false, &["-buildmode=pie"]),
    ];
    let build =
        |(way, with_c, flags): (&str, bool, &[&str])| go_program_as(&format!("{name}-{way}"), with_c, flags);
    ways.into_iter().filter_map(build).collect()
}

/// The same by another compiler of C.
pub fn program_by(compiler: &str, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    compile(compiler, &here().join(source), name, flags)
}

/// Compiles a program that is elsewhere in this workspace.
pub fn compiled(source: &str, name: &str) -> Option<PathBuf> {
    compile("cc", &workspace().join(source), name, &[])
}

/// Compiles a causal target, `targets/c/NAME.c`.
pub fn target(name: &str) -> Option<PathBuf> {
    target_as(name, &format!("target-{name}"), &[])
}

/// The same under another name, with further flags.
pub fn target_as(target: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    target_by("cc", target, name, flags)
}

/// The same by another compiler.
pub fn target_by(compiler: &str, target: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    compile(compiler, &workspace().join("targets/c").join(target).with_extension("c"), name, flags)
}

/// Whether a compiler of C is there, and makes programs that run with a flag.
pub fn compiles(compiler: &str, flag: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("empty.c"), folder.path().join("empty"));
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let compiled = Command::new(compiler).arg(flag).arg(&source).arg("-o").arg(&program).output();
    compiled.is_ok_and(|done| done.status.success())
        && Command::new(&program).output().is_ok_and(|done| done.status.success())
}

fn compile(c: &str, source: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    // Tests compile one after another, and each program once: another test may be running it.
    static COMPILED: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let how = format!("{c} {} {flags:?}", source.display());
    if let Some(before) = compiled.get(&output) {
        assert_eq!(*before, how, "two programs need two names");
        return Some(output);
    }
    let unfinished = output.with_extension(std::process::id().to_string());
    let mut command = match source.extension().and_then(OsStr::to_str) {
        Some("c") => {
            let mut command = Command::new(c);
            command.args(["-std=gnu11", "-Wall"]).args(FLAGS);
            command
        }
        Some("cpp") => {
            let mut command = Command::new("c++");
            command.args(["-std=c++11", "-Wall"]).args(FLAGS);
            command
        }
        _ => {
            let mut command = Command::new("rustc");
            command.args(["--edition=2024", "-Copt-level=2", "-Cdebuginfo=2", "-Cforce-frame-pointers=yes"]);
            command
        }
    };
    if command.get_program() != "rustc" {
        command.arg("-I").arg(workspace().join("include"));
    }
    command.arg(source).arg("-o").arg(&unfinished).args(flags);
    match command.output() {
        Err(error) => {
            skip(&format!("{:?} cannot be started: {error}", command.get_program()));
            return None;
        }
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{command:?}\n{said}");
        }
    }
    std::fs::rename(unfinished, &output).unwrap();
    compiled.insert(output.clone(), how);
    Some(output)
}

/// How a process ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// What was run: to do the same by hand.
    #[expect(dead_code, reason = "shown when a test fails")]
    pub command: String,
}

impl Ended {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Whether the program succeeded, though it may not have run for long enough for an answer, which a status of our own reports.
    pub fn is_success(&self) -> bool {
        self.code().is_some_and(|code| code == 0 || (95..=101).contains(&code))
    }

    /// See [`is_success`](Self::is_success).
    #[track_caller]
    pub fn assert_success(self) -> Self {
        assert!(self.is_success(), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{self:#?}");
        self
    }
}

/// Runs a command to its end. A hang is a failure.
#[track_caller]
pub fn run(command: Command) -> Ended {
    run_with(command, b"")
}

/// The same, with something on standard input.
#[track_caller]
pub fn run_with(mut command: Command, input: &[u8]) -> Ended {
    let text = format!("{command:?}");
    // A group of its own, so that whatever hangs can be ended as a whole.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{text}: {error}"));
    let group = rustix::process::Pid::from_child(&child);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input); // a program need not read it
    });
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(HANG) {
        Ok(output) => {
            let output = output.unwrap();
            writer.join().unwrap();
            Ended {
                status: output.status,
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
                command: text,
            }
        }
        Err(_) => {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            panic!("{text} hangs (longer than {HANG:?})");
        }
    }
}

/// How many descriptors of perf events a process has.
pub fn perf_events(pid: u32) -> usize {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let files = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    files.filter(|file| file.to_string_lossy().contains("perf_event")).count()
}

/// A working folder, gone with the test, and the right to run something in it: beside others, unless the test is [`alone`].
pub struct Sandbox {
    folder: tempfile::TempDir,
    _machine: Arc<Held>,
}

impl Sandbox {
    pub fn new() -> Self {
        let machine = beside_others();
        Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), _machine: machine }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// A command that runs in the folder, in the environment that all of them share.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder())
            .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .env_remove("COLUMNS")
            .env_remove("LD_PRELOAD")
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("WHATIF_REGION");
        command
    }

    pub fn whatif(&self) -> Command {
        self.command(env!("CARGO_BIN_EXE_whatif"))
    }

    /// The recording of [`profiling`](Self::profiling).
    pub fn recording(&self) -> PathBuf {
        self.path("recording.db")
    }

    /// `whatif run`, quiet, into [`recording`](Self::recording).
    pub fn profiling(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.whatif();
        command.args(["run", "-q", "-o"]).arg(self.recording()).args(options);
        command.arg("--").arg(program).args(arguments);
        command
    }

    #[track_caller]
    pub fn profile(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Ended {
        run(self.profiling(options, program, arguments))
    }

    #[track_caller]
    pub fn native(&self, program: &Path, arguments: &[&str]) -> Ended {
        let mut command = self.command(program);
        command.args(arguments);
        run(command)
    }

    /// The report on the recording.
    #[track_caller]
    pub fn report(&self) -> serde_json::Value {
        let mut command = self.whatif();
        command.arg("report").arg(self.recording()).arg("--json");
        let ended = run(command).assert_code(0);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout))
    }

    /// What `report --explain` says of a region.
    #[track_caller]
    pub fn explained(&self, region: &str) -> serde_json::Value {
        let mut command = self.whatif();
        command.args(["report", "--explain", region, "--json"]).arg(self.recording());
        serde_json::from_str(&run(command).assert_code(0).stdout).unwrap()
    }

    /// The windows of the recording, one per line, to be shown when a test fails.
    #[track_caller]
    pub fn windows(&self) -> String {
        let rows = profile::Recording::open(&self.recording()).unwrap().rows().unwrap();
        rows.windows.iter().map(|window| format!("{window:?}\n")).collect()
    }

    /// Samples of a region in all sessions of the recording, whether experiments were about it or not.
    #[track_caller]
    pub fn samples(&self, region: &str) -> u64 {
        let rows = profile::Recording::open(&self.recording()).unwrap().rows().unwrap();
        let samples = rows.samples.iter().filter(|samples| rows.regions[&samples.region].name == region);
        samples.map(|samples| samples.count).sum()
    }

    /// Runs the program without the profiler and with it: the same end, the same output.
    #[track_caller]
    pub fn compare(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Ended {
        let native = self.native(program, arguments);
        let profiled = self.profile(options, program, arguments);
        same(&native, &profiled);
        profiled
    }

    /// [`compare`](Self::compare) for a program that must succeed, under constant delays.
    #[track_caller]
    pub fn unharmed(&self, program: &Path, arguments: &[&str]) -> Ended {
        let profiled = self.compare(DELAYS, program, arguments);
        assert!(profiled.stdout.ends_with("done\n"), "{profiled:#?}");
        profiled
    }
}

/// A thread that does not run `hot` is paused most of the time. (Programs with `common.h` have that function, and
/// a thread that runs it.)
pub const DELAYS: &[&str] = &["--region", "hot", "--speedup", "50,100"];

/// The same end and the same output. A program that succeeds may not have run for long enough for an
/// answer, which a status of our own reports.
#[track_caller]
pub fn same(native: &Ended, profiled: &Ended) {
    assert_eq!(native.stdout, profiled.stdout, "{native:#?}\n{profiled:#?}");
    assert_eq!(native.signal(), profiled.signal(), "{native:#?}\n{profiled:#?}");
    if native.code() == Some(0) {
        assert!(profiled.is_success(), "{profiled:#?}");
    } else {
        assert_eq!(native.code(), profiled.code(), "{native:#?}\n{profiled:#?}");
    }
}

/// A region of a report.
#[track_caller]
pub fn region<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let regions = report["regions"].as_array().unwrap();
    regions.iter().find(|region| region["name"] == name).unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

/// A progress point of a report.
#[track_caller]
pub fn point<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let points = report["points"].as_array().unwrap();
    points.iter().find(|point| point["name"] == name).unwrap_or_else(|| panic!("no {name} in {report:#}"))
}
