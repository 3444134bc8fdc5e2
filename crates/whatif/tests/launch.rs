//! Programs that cannot be started or profiled: the shell's exit codes, one line, and advice.

use crate::attach::may_trace;
use crate::points::whole_runs;
use crate::support::{
    Ended, Sandbox, go_program, other_go_programs, program, program_as, run, skip, static_program, whatif,
    without_preloading,
};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn launch(sandbox: &Sandbox, program: impl AsRef<Path>) -> Ended {
    let ended = sandbox.profile(&[], program.as_ref(), &[]);
    assert_eq!(ended.stdout, "", "{ended:#?}");
    ended
}

/// One line that says what is wrong, and then what to do.
#[track_caller]
fn assert_refused(ended: Ended, code: i32, reason: &str, advice: &str) {
    let ended = ended.assert_code(code);
    let (first, rest) = ended.stderr.split_once('\n').unwrap();
    assert!(first.starts_with("whatif: `") && first.contains(reason), "{ended:#?}");
    assert!(rest.contains(advice), "{ended:#?}");
}

fn file(sandbox: &Sandbox, name: &str, content: &[u8], mode: u32) -> PathBuf {
    let path = sandbox.path(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn what_is_not_there_or_cannot_be_executed() {
    let sandbox = Sandbox::new();
    assert_refused(launch(&sandbox, "no-such-program"), 127, "not found in PATH", "./no-such-program");
    assert_refused(launch(&sandbox, "./no-such-program"), 127, "not found", "spelling");
    file(&sandbox, "here", b"#!/bin/sh\n", 0o755);
    assert_refused(launch(&sandbox, "here"), 127, "not found in PATH", "type ./here instead");
    let plain = file(&sandbox, "plain", b"text", 0o644);
    assert_refused(launch(&sandbox, plain), 126, "plain", "chmod +x");
    assert_refused(launch(&sandbox, sandbox.folder()), 126, "is a folder", "Name the program");
    let text = file(&sandbox, "text", b"echo hello\n", 0o755);
    assert_refused(launch(&sandbox, text), 126, "neither an ELF program nor a script", "whatif run -- sh");
    let empty = file(&sandbox, "empty", b"", 0o755);
    assert_refused(launch(&sandbox, empty), 126, "neither", "sh");
    assert!(!sandbox.recording().exists(), "no recording of nothing");
}

#[test]
fn what_the_runtime_cannot_be_loaded_into() {
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let good = std::fs::read(&exits).unwrap();

    let mut narrow = good.clone();
    narrow[4] = 1; // ELFCLASS32
    let narrow = file(&sandbox, "narrow", &narrow, 0o755);
    assert_refused(launch(&sandbox, narrow), 126, "32-bit", "64 bits");

    let mut foreign = good.clone();
    foreign[18..20].copy_from_slice(&183_u16.to_le_bytes()); // EM_AARCH64
    let foreign = file(&sandbox, "foreign", &foreign, 0o755);
    assert_refused(launch(&sandbox, foreign), 126, "is built for", "x86-64");

    let cut = file(&sandbox, "cut", &good[..40], 0o755);
    assert_refused(launch(&sandbox, cut), 126, "neither", "sh");

    if rustix::process::geteuid().is_root() && !rustix::thread::no_new_privs().unwrap() {
        let privileged = file(&sandbox, "privileged", &good, 0o755);
        std::os::unix::fs::chown(&privileged, Some(12_345), None).unwrap();
        std::fs::set_permissions(&privileged, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_refused(launch(&sandbox, privileged), 126, "another user's", "cp '");
    } else {
        skip("the part about setuid needs root, which may gain privileges");
    }
    assert!(!sandbox.recording().exists(), "no recording of nothing");
}

/// Nothing can be preloaded: they are held at their beginning, and end as they would.
#[test]
fn static_programs_and_those_with_musl() {
    if !may_trace() {
        return;
    }
    for program in without_preloading("worker.c", "worker") {
        let options = ["--region", "job", "-p", "fn:job"];
        let sandbox = Sandbox::new();
        let mut command = sandbox.whatif();
        command.args(["run", "-o"]).arg(sandbox.recording()).args(options).arg("--").arg(&program);
        let ended = run({
            command.args(["10", "7"]);
            command
        });
        assert_eq!((ended.code(), &ended.stdout[..]), (Some(7), ""), "{program:?}: {ended:#?}");
        assert!(!ended.stderr.contains("unprofiled"), "{program:?}: {ended:#?}");
        let Some(counted) = whole_runs(&options, &program, &["300", "0", "prints"]) else { return };
        assert_eq!(counted.visits("job"), counted.made, "{program:?}");
    }
}

#[test]
fn go_programs() {
    if !may_trace() {
        return;
    }
    let alone = go_program("go-launched").into_iter();
    for program in alone.chain(other_go_programs("go-launched")) {
        let options = ["--region", "main.regionA", "-p", "fn:main.done"];
        let arguments = ["http", "100", "100", "0.5", "500"];
        let Some(counted) = whole_runs(&options, &program, &arguments) else { return };
        // A goroutine that is called away at a breakpoint comes to it again.
        assert!(counted.visits("main.done") >= counted.made, "{program:?}");
    }
}

#[test]
fn a_static_program_without_symbols() {
    let Some(fixed) = static_program("exits.c", "exits-stripped") else { return };
    assert!(std::process::Command::new("strip").arg(&fixed).status().unwrap().success());
    assert_refused(launch(&Sandbox::new(), fixed), 126, "no symbol table", "stripping");
}

/// Go without C code, even if a linker of C made the program: its runtime uses threads and signals without the C library.
#[test]
fn a_go_program_without_c() {
    let sandbox = Sandbox::new();
    let info = "__attribute__((section(\".go.buildinfo\"), used)) const char info[16] = {1};\n";
    let without = format!("{info}int main(void) {{ return 7; }}\n");
    let with =
        format!("#include <signal.h>\n{info}int main(void) {{ return sigaction(SIGUSR1, 0, 0) ? 1 : 7; }}\n");
    for (name, source) in [("without", without), ("with", with)] {
        std::fs::write(sandbox.path(&format!("{name}.c")), source).unwrap();
        let mut compiler = sandbox.command("cc");
        compiler.args(["-g", "-o", name]).arg(format!("{name}.c"));
        if !compiler.status().is_ok_and(|status| status.success()) {
            return skip("cc is not installed");
        }
    }
    assert_refused(launch(&sandbox, "./without"), 126, "Go program without C code", "import \"C\"");
    launch(&sandbox, "./with").assert_code(7);
}

/// Prints how long its input is, three times; what `before` and `after` the command in a shell make of it.
fn input_of_three_runs(before: &str, after: &str) -> Ended {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("input"), "four").unwrap();
    let whatif = whatif().display();
    let mut shell = sandbox.command("sh");
    let line = format!("{before} {whatif} run -q --repeat 3 --start-only -o recording.db -- wc -c {after}");
    run({
        shell.arg("-c").arg(line);
        shell
    })
}

#[test]
fn every_run_reads_the_same_input() {
    let file = input_of_three_runs("", "< input").assert_code(0);
    assert_eq!(file.stdout.split_whitespace().collect::<Vec<_>>(), ["4"; 3], "{file:#?}");
    let rest = input_of_three_runs("{ head -c 1 > /dev/null;", "; } < input").assert_code(0);
    assert_eq!(rest.stdout.split_whitespace().collect::<Vec<_>>().len(), 3, "{rest:#?}");
    // What comes through a pipe is gone, as far as it is known that there was something.
    let after = "{ while [ ! -e written ]; do sleep 0.01; done;";
    let pipe =
        input_of_three_runs(&format!("{{ printf four; : > written; }} | {after}"), "; }").assert_code(0);
    assert_eq!(pipe.stdout.trim(), "4", "{pipe:#?}");
    assert!(pipe.stderr.contains("comes through a pipe") && pipe.stderr.contains("< FILE"), "{pipe:#?}");
    // One through which nothing has come tells nothing.
    let empty = input_of_three_runs("true |", "").assert_code(0);
    assert_eq!(empty.stdout.split_whitespace().collect::<Vec<_>>(), ["0"; 3], "{empty:#?}");
    let closed = input_of_three_runs("sleep 0.3 |", "").assert_code(0);
    assert_eq!(closed.stdout.split_whitespace().collect::<Vec<_>>(), ["0"; 3], "{closed:#?}");
}

#[test]
fn a_script_is_profiled_by_its_interpreter() {
    let sandbox = Sandbox::new();
    let script = file(&sandbox, "script", b"#!/bin/sh\necho \"$1\" from a script\nexit 7\n", 0o755);
    let mut command = sandbox.whatif();
    command.args(["run", "--no-follow", "--binary", "*", "-o"]).arg(sandbox.recording());
    command.arg("--").arg(&script).arg("hello");
    let ended = run(command).assert_code(7);
    assert_eq!(ended.stdout, "hello from a script\n");
    assert!(ended.stderr.contains("is a script: its interpreter"), "{ended:#?}");

    let lost = file(&sandbox, "lost", b"#!/no/such/interpreter\n", 0o755);
    assert_refused(launch(&sandbox, lost), 127, "/no/such/interpreter", "first line");
}

#[test]
fn the_path_is_searched() {
    let sandbox = Sandbox::new();
    let Some(exits) = program("exits.c") else { return };
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    std::fs::copy(exits, sandbox.path("bin/found-by-name")).unwrap();
    let mut command = sandbox.profiling(&[], Path::new("found-by-name"), &["4"]);
    command.env("PATH", format!("/nowhere:{}", sandbox.path("bin").display()));
    let ended = run(command).assert_code(4);
    assert_eq!(ended.stdout, "begin 4\nend\n");
}

/// `whatif run` of a program that prints its limits for files, under these limits; `before`: what runs the shell.
fn with_largest_file(sandbox: &Sandbox, limit: &str, before: &[&str]) -> Ended {
    let inner = sandbox.profiling(&["--no-follow"], Path::new("/bin/sh"), &["-c", "ulimit -Sf; ulimit -Hf"]);
    let script = format!("{limit}; exec \"$@\"");
    let shell = ["sh", "-c", &script, "sh"];
    let all: Vec<&str> = before.iter().copied().chain(shell).collect();
    let mut command = sandbox.command(all[0]);
    command.args(&all[1..]).arg(inner.get_program()).args(inner.get_args());
    run(command)
}

#[test]
fn the_largest_file_may_be_smaller_than_the_shared_memory() {
    let sandbox = Sandbox::new();
    // In blocks of 512 bytes: 100 MB.
    let ended = with_largest_file(&sandbox, "ulimit -Sf 204800", &[]);
    let hard = ended.stdout.lines().nth(1).unwrap_or_default();
    assert_eq!(ended.stdout, format!("204800\n{hard}\n"), "the program keeps its limit: {ended:#?}");
    assert!(sandbox.recording().exists(), "{ended:#?}");
    // Where not even the recording has room, the message says so.
    std::fs::remove_file(sandbox.recording()).unwrap();
    let ended = with_largest_file(&sandbox, "ulimit -Sf 8", &[]);
    assert!(ended.code().is_some_and(|code| code != 0), "{ended:#?}");
    assert!(ended.stderr.contains("recording.db") && ended.stderr.contains("free space"), "{ended:#?}");
    let mut raising = sandbox.command("sh");
    raising.args(["-c", "ulimit -f 8; ulimit -f 16"]);
    let may_raise = run(raising).code() == Some(0);
    if may_raise {
        let ended = with_largest_file(&sandbox, "ulimit -f 204800", &[]);
        assert_eq!(ended.stdout, "204800\n204800\n", "{ended:#?}");
    }
    // Who may not raise it gets no signal, but is told what to do.
    let before: &[&str] = if may_raise { &["setpriv", "--bounding-set=-sys_resource"] } else { &[] };
    let ended = with_largest_file(&sandbox, "ulimit -f 204800", before);
    assert_eq!((ended.signal(), ended.stdout.as_str()), (None, ""), "{ended:#?}");
    assert!(ended.stderr.contains("ulimit -f unlimited"), "{ended:#?}");
    assert_ne!(ended.code(), Some(0), "{ended:#?}");
}

/// Another user owns `XDG_CACHE_HOME`, as under `sudo -E`, and exchanges our folder there for theirs, again and again.
#[test]
fn a_library_that_another_user_has_planted_is_not_loaded() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::sync::atomic::{AtomicBool, Ordering};

    if !rustix::process::geteuid().is_root() {
        return skip("only root can give a folder to another user");
    }
    let Some(planted) = program_as("planted.c", "planted.so", &["-shared", "-fPIC"]) else { return };
    let Some(exits) = program("exits.c") else { return };
    let sandbox = Sandbox::new();
    let into = |cache: &Path| {
        let mut command = sandbox.profiling(&[], &exits, &["code", "0"]);
        command.env("XDG_CACHE_HOME", cache).env("HOME", sandbox.path("home"));
        run(command)
    };
    // What it is called.
    std::fs::create_dir(sandbox.path("home")).unwrap();
    let native = sandbox.native(&exits, &["code", "0"]);
    assert_eq!(into(&sandbox.path("own")).stdout, native.stdout);
    let own = sandbox.path("own/whatif");
    let name = std::fs::read_dir(&own).unwrap().next().unwrap().unwrap().file_name();
    let theirs = sandbox.path("theirs");
    for folder in ["whatif", "other"] {
        std::fs::create_dir_all(theirs.join(folder)).unwrap();
    }
    std::fs::copy(own.join(&name), theirs.join("whatif").join(&name)).unwrap();
    std::fs::copy(&planted, theirs.join("other").join(&name)).unwrap();
    std::os::unix::fs::chown(&theirs, Some(12_345), Some(12_345)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let [ours, bad] = ["whatif", "other"].map(|folder| theirs.join(folder));
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &ours, CWD, &bad, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let all: Vec<Ended> = (0..20).map(|_| into(&theirs)).collect();
        done.store(true, Ordering::Relaxed);
        for ended in all {
            assert_eq!(ended.stdout, native.stdout, "{ended:#?}");
        }
    });
    assert!(sandbox.path("home/.cache/whatif").join(&name).exists(), "another folder is used");
}
