//! Programs that cannot be started or profiled: the shell's exit codes, one line, and advice.

use crate::support::{Ended, Sandbox, program, program_as, run, skip};
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

    if rustix::process::geteuid().is_root() {
        let privileged = file(&sandbox, "privileged", &good, 0o755);
        std::os::unix::fs::chown(&privileged, Some(12_345), None).unwrap();
        std::fs::set_permissions(&privileged, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_refused(launch(&sandbox, privileged), 126, "another user's", "cp '");
    } else {
        skip("the part about setuid needs root");
    }
    assert!(!sandbox.recording().exists(), "no recording of nothing");
}

#[test]
fn a_static_program() {
    if std::process::Command::new("cc").arg("-print-file-name=libc.a").output().map_or(true, |found| {
        // Without the file the compiler repeats the name.
        found.stdout.trim_ascii() == b"libc.a"
    }) {
        return skip("there is no libc.a");
    }
    let Some(fixed) = program_as("exits.c", "exits-static", &["-static"]) else { return };
    assert_refused(launch(&Sandbox::new(), fixed), 126, "statically linked", "without -static");
}

#[test]
fn a_script_is_profiled_by_its_interpreter() {
    let sandbox = Sandbox::new();
    let script = file(&sandbox, "script", b"#!/bin/sh\necho \"$1\" from a script\nexit 7\n", 0o755);
    let mut command = sandbox.whatif();
    command.args(["run", "--binary", "*", "-o"]).arg(sandbox.recording()).arg("--").arg(&script).arg("hello");
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
