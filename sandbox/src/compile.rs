//! Compiling small programs: once for all tests, each under its name.

use crate::place::{programs, scratch, workspace};
use crate::said::skip;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// What C and C++ programs are compiled with.
const FLAGS: &[&str] = &["-O2", "-g", "-fno-omit-frame-pointer", "-pthread"];

/// Whether a program can be found; says so if not.
pub fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        skip(&format!("{tool} is not installed"));
    }
    found.is_ok()
}

/// Compiles a program of `programs/`; `None`, said aloud, when there is no compiler.
pub fn program(source: &str) -> Option<PathBuf> {
    let name = source.split('.').next().unwrap();
    compile("cc", &programs().join(source), name, &[])
}

/// Compiles a program of `programs/` under another name, with further flags.
pub fn program_as(source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    compile("cc", &programs().join(source), name, flags)
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
    let program = scratch().join(name);
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
    compile(compiler, &programs().join(source), name, flags)
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
    let output = scratch().join(name);
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
