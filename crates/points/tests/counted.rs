//! Points of Rust, C and C++ programs reach the counters of a preloaded runtime (`counts.c`).

use std::env;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

const WARNINGS: [&str; 7] =
    ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wconversion", "-Wundef"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// A program or library, which is removed when this is dropped.
struct Compiled(PathBuf);

impl AsRef<Path> for Compiled {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Compiles a source next to this test.
fn compile(compiler: &str, name: &str, output: &str, flags: &[&str]) -> Compiled {
    let output = env::temp_dir().join(format!("whatif-points-{}-{output}", std::process::id()));
    let status = Command::new(compiler)
        .args(flags)
        .arg("-I")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../include"))
        .arg(source(name))
        .arg("-o")
        .arg(&output)
        .status()
        .unwrap();
    assert!(status.success(), "{compiler} {flags:?}");
    Compiled(output)
}

fn runtime(test: &str) -> Compiled {
    compile("cc", "counts.c", &format!("counts_{test}.so"), &["-shared", "-fPIC"])
}

/// What the runtime counted, as sorted lines "kind name visits".
fn counted(program: &mut Command, runtime: &Compiled) -> Vec<String> {
    let output = program.env("LD_PRELOAD", runtime.as_ref()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("counted "));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

fn parse(text: &str) -> Option<u32> {
    whatif::scope!("parse");
    text.strip_prefix('#')?.parse().ok()
}

fn visit_everything() {
    static SHARED: whatif::Point = whatif::Point::new(c"shared");
    for text in ["#1", "2", "#3"] {
        whatif::progress!("round");
        whatif::progress!();
        whatif::begin!("request");
        SHARED.visit();
        let _ = parse(text);
        SHARED.visit();
        whatif::end!("request");
    }
    let unwound = catch_unwind(|| {
        whatif::scope!("unwind");
        panic!("on purpose");
    });
    assert!(unwound.is_err());
}

#[test]
fn rust_points_are_counted() {
    const CHILD: &str = "WHATIF_TEST_CHILD";
    if env::var_os(CHILD).is_some() {
        return visit_everything();
    }
    let mut this_test = Command::new(env::current_exe().unwrap());
    this_test.args(["rust_points_are_counted", "--exact", "--nocapture"]).env(CHILD, "1");
    let mut lines = counted(&mut this_test, &runtime("rust"));
    // The point without a name is called after its place.
    let unnamed = lines.iter().position(|line| line.contains(file!())).unwrap();
    assert!(lines.remove(unnamed).ends_with(" 3"));
    assert_eq!(
        lines,
        [
            "1 round 3",
            "1 shared 6",
            "2 parse 3",
            "2 request 3",
            "2 unwind 1",
            "3 parse 3",
            "3 request 3",
            "3 unwind 1",
        ]
    );
}

#[test]
fn header_points_are_counted_in_every_standard() {
    let runtime = runtime("header");
    let c = ["c99", "c11", "c17"].map(|standard| ("cc", standard));
    let cpp = ["c++11", "c++14", "c++17", "c++20"].map(|standard| ("c++", standard));
    for (compiler, standard) in c.into_iter().chain(cpp) {
        for optimise in ["-O0", "-O2"] {
            let dialect = format!("-std={standard}");
            let language = if compiler == "cc" { "c" } else { "c++" };
            let mut flags = vec![optimise, &dialect, "-x", language];
            flags.extend(WARNINGS);
            if compiler == "c++" {
                flags.extend(["-Wold-style-cast", "-Wzero-as-null-pointer-constant"]);
            }
            let program = compile(compiler, "visits.c", &format!("visits_{standard}"), &flags);
            let mut lines = counted(&mut Command::new(program.as_ref()), &runtime);
            let unnamed = lines.iter().position(|line| line.contains("visits.c:")).unwrap();
            assert!(lines.remove(unnamed).ends_with(" 2"));
            assert_eq!(lines, ["1 round 4", "2 request 3", "3 request 3"], "{standard}");

            let status = Command::new(program.as_ref()).status().unwrap();
            assert!(status.success(), "without a runtime");
        }
    }
}

#[test]
fn disabled_header_leaves_nothing() {
    let mut flags = vec!["-std=c99", "-DWHATIF_DISABLE"];
    flags.extend(WARNINGS);
    let program = compile("cc", "visits.c", "visits_disabled", &flags);
    let lines = counted(&mut Command::new(program.as_ref()), &runtime("disabled"));
    assert!(lines.is_empty(), "{lines:?}");
}
