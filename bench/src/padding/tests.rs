//! That a pad changes nothing but the time, on a program with calls of every kind; and what is reported of functions that are not there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::build;
use super::image::{Function, Functions};
use super::shared::Shared;

/// `calling.c` with patchable entries and optimised as `level` says, in a folder of its own; nothing where it cannot be compiled.
fn calling(level: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    if let Err(error) = build::possible() {
        eprintln!("skipped: {error:#}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (pad, program) = (folder.path().join("pad.o"), folder.path().join("calling"));
    build::compile_pad(&pad).unwrap();
    let source = Path::new(build::HERE).join("calling.c");
    let flags: Vec<&str> = build::FLAGS.split(' ').chain([level, "-Wall", "-Wno-psabi"]).collect();
    let mut command = Command::new(build::compiler("CC", "cc"));
    command.args(flags).arg("-o").arg(&program).args([&source, &pad]).arg("-lm");
    assert!(command.status().unwrap().success(), "{command:?}");
    Some((folder, program))
}

fn start(program: &Path, shared: &Shared, point: &Function, function: Option<&str>) -> Output {
    shared.clear().unwrap();
    shared.set_iterations(500).unwrap();
    let mut command = Command::new(program);
    command.env("PADDING_FILE", shared.path()).env("PADDING_POINT", format!("{:x}", point.offset));
    if let Some(function) = function {
        command.env("PADDING_FUNCTION", function);
    }
    command.output().unwrap()
}

#[test]
fn a_pad_changes_no_register_that_matters() {
    for level in ["-O0", "-O2", "-O3"] {
        let Some((_folder, program)) = calling(level) else { return };
        let functions = Functions::of(&program).unwrap();
        let point = functions.called("point").unwrap().clone();
        let plain = Command::new(&program).output().unwrap();
        assert!(plain.status.success() && !plain.stdout.is_empty(), "{level}: {plain:?}");
        let shared = Shared::new(functions.extent()).unwrap();
        let mut padded = 0;
        for function in functions.iter().filter(|function| **function != point) {
            let output = start(&program, &shared, &point, Some(&format!("{:x}", function.offset)));
            assert!(output.status.success(), "{level} {}: {output:?}", function.name);
            assert_eq!(output.stdout, plain.stdout, "{level}: with {} padded", function.name);
            assert_eq!(shared.progress().unwrap().visits, 40, "{level} {}", function.name);
            padded += u32::from(shared.calls().unwrap() > 0);
        }
        assert!(padded >= 16, "{level}: only {padded} functions were called");
        // All of them at once.
        let output = start(&program, &shared, &point, Some("all"));
        assert_eq!(output.stdout, plain.stdout, "{level}: with all calls counted");
        let recursive = functions.iter().find(|function| function.name.starts_with("recursive")).unwrap();
        assert!(shared.calls_at(recursive.offset).unwrap() >= 40, "{level}");
    }
}

#[test]
fn an_iteration_takes_the_time_that_is_said() {
    let Some((_folder, program)) = calling("-O2") else { return };
    let functions = Functions::of(&program).unwrap();
    let shared = Shared::new(functions.extent()).unwrap();
    let output = start(&program, &shared, functions.called("point").unwrap(), None);
    assert!(output.status.success() && shared.is_ready().unwrap(), "{output:?}");
    // A multiplication and an addition: three cycles and one, of any processor, and how busy it is only makes it more.
    let picos = shared.picos().unwrap();
    assert!(picos > 300, "{picos} ps an iteration");
}

#[test]
fn a_function_that_is_not_there_is_named() {
    let Some((_folder, program)) = calling("-O2") else { return };
    let functions = Functions::of(&program).unwrap();
    let error = functions.called("nosuch").unwrap_err().to_string();
    assert!(error.contains("no function 'nosuch'") && error.contains("--list"), "{error}");
    let shared = Shared::new(functions.extent()).unwrap();
    let point = functions.called("point").unwrap();
    for (value, says) in [
        ("1".to_owned(), "PADDING_FUNCTION '1' (is no function"),
        ("point".to_owned(), "PADDING_FUNCTION 'point' (is no function"),
        (format!("{:x}", point.offset), "is named twice"),
    ] {
        let output = start(&program, &shared, point, Some(&value));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(97), "{value}: {output:?}");
        assert!(stderr.contains(says), "{value}: {stderr}");
        assert!(!shared.is_ready().unwrap(), "{value}");
    }
}

#[test]
fn a_program_without_entries_is_refused() {
    let error = Functions::of(&std::env::current_exe().unwrap()).unwrap_err();
    assert!(format!("{error:#}").contains("compiled without -fpatchable-function-entry"), "{error:#}");
}
