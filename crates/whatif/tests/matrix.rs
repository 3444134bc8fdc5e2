//! Programs of all languages, compilers and kinds of debug information: the line that takes the time is found in each.

use crate::support::{Sandbox, alone, run, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A line that takes nearly all of the time; it is marked.
const C: &str = r#"
#include <time.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void hot(unsigned long n)
{
    unsigned long x = 88172645463325252;
    for (unsigned long i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17, x ^= x << 11, x ^= x >> 5, x ^= x << 19; /* HOT */
    }
    sink = x;
}

int main(void)
{
    for (clock_t end = clock() + CLOCKS_PER_SEC * 35 / 100; clock() < end;)
        hot(100000);
    return 0;
}
"#;

const RUST: &str = r#"
use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(never)]
fn hot(n: u64) -> u64 {
    let mut x = black_box(88172645463325252_u64);
    let mut i = 0;
    while i < n {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17; x ^= x << 11; x ^= x >> 5; x ^= x << 19; // HOT
        i += 1;
    }
    x
}

fn main() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(350) {
        black_box(hot(100_000));
    }
}
"#;

/// What is done with the program after it has been linked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Nothing,
    /// The debug information goes into a file of its own.
    Strip,
}

/// A way to have debug information: flags for C and C++, for Rust, and what follows.
struct Kind {
    name: &'static str,
    c: &'static [&'static str],
    rust: Option<&'static [&'static str]>,
    then: Then,
}

const fn kind(name: &'static str, c: &'static [&'static str], rust: Option<&'static [&'static str]>) -> Kind {
    Kind { name, c, rust, then: Then::Nothing }
}

const KINDS: [Kind; 10] = [
    kind("DWARF 4", &["-gdwarf-4"], Some(&["-Cdwarf-version=4"])),
    kind("DWARF 5", &["-gdwarf-5"], Some(&["-Cdwarf-version=5"])),
    kind("split", &["-gdwarf-5", "-gsplit-dwarf"], Some(&["-Csplit-debuginfo=unpacked"])),
    kind("zlib", &["-g", "-gz=zlib"], Some(&["-Clink-arg=-Wl,--compress-debug-sections=zlib"])),
    kind("zstd", &["-g", "-gz=zstd"], Some(&["-Clink-arg=-Wl,--compress-debug-sections=zstd"])),
    Kind { then: Then::Strip, ..kind("debuglink", &["-g"], Some(&[])) },
    kind("lld", &["-g", "-fuse-ld=lld"], Some(&["-Clink-arg=-fuse-ld=lld"])),
    kind("gold", &["-g", "-fuse-ld=gold"], Some(&["-Clink-arg=-fuse-ld=gold"])),
    kind("mold", &["-g", "-fuse-ld=mold"], Some(&["-Clink-arg=-fuse-ld=mold"])),
    kind("no-pie", &["-g", "-no-pie"], Some(&["-Crelocation-model=static"])),
];

const LEVELS: [(&str, &[&str], &[&str]); 3] = [
    ("O0", &["-O0"], &["-Copt-level=0"]),
    ("O2", &["-O2"], &["-Copt-level=2"]),
    ("O3+LTO", &["-O3", "-flto"], &["-Copt-level=3", "-Clto=fat"]),
];

/// One program of the matrix.
struct Cell {
    name: String,
    compiler: &'static str,
    source: PathBuf,
    flags: Vec<&'static str>,
    then: Then,
}

fn cells(folder: &Path) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (compiler, file, text) in [
        ("gcc", "hot.c", C),
        ("clang", "hot.c", C),
        ("g++", "hot.cpp", C),
        ("clang++", "hot.cpp", C),
        ("rustc", "hot.rs", RUST),
    ] {
        let source = folder.join(file);
        std::fs::write(&source, text).unwrap();
        for (level, for_c, for_rust) in LEVELS {
            for Kind { name, c, rust, then } in &KINDS {
                let flags = match (compiler, rust) {
                    ("rustc", Some(rust)) => [&["--edition=2024", "-Cdebuginfo=2"], for_rust, rust].concat(),
                    ("rustc", None) => continue,
                    _ => [for_c, c].concat(),
                };
                let name = format!("{compiler} {level} {name}");
                cells.push(Cell { name, compiler, source: source.clone(), flags, then: *then });
            }
        }
    }
    cells
}

impl Cell {
    /// Builds the program; why it cannot be built here if it cannot.
    fn build(&self, folder: &Path) -> Result<PathBuf, String> {
        let program = folder.join(self.name.replace(' ', "-"));
        let mut compile = Command::new(self.compiler);
        compile.current_dir(folder).args(&self.flags).arg(&self.source).arg("-o").arg(&program);
        done(&mut compile)?;
        if self.then == Then::Strip {
            let debug = program.with_extension("debug");
            done(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug))?;
            done(Command::new("strip").arg(&program))?;
            let link = format!("--add-gnu-debuglink={}", debug.display());
            done(Command::new("objcopy").arg(link).arg(&program))?;
        }
        Ok(program)
    }
}

fn done(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = || String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("failed").to_owned();
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// What came of a cell.
enum Outcome {
    Right,
    Wrong(String),
    Unbuilt(String),
}

fn outcome(cell: &Cell, sandbox: &Sandbox) -> Outcome {
    let program = match cell.build(sandbox.folder()) {
        Ok(program) => program,
        Err(why) => return Outcome::Unbuilt(format!("{}: {why}", cell.name)),
    };
    let text = std::fs::read_to_string(&cell.source).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("HOT")).unwrap();
    let expected = format!("{}:{line}", cell.source.file_name().unwrap().display());
    let mut command = sandbox.whatif();
    command.args(["run", "--list-regions", "--granularity", "line", "--duration", "5", "--"]).arg(&program);
    let ended = run(command);
    let first = ended.stderr.lines().find(|line| line.contains(" %  ")).unwrap_or_default();
    std::fs::remove_file(program).unwrap();
    if first.ends_with(&expected) {
        Outcome::Right
    } else {
        Outcome::Wrong(format!("{}: {expected} is not first in {ended:#?}", cell.name))
    }
}

#[test]
fn the_hot_line_is_found_however_a_program_was_built() {
    // It uses all CPUs.
    let _alone = alone();
    let sandbox = Sandbox::new();
    let cells = cells(sandbox.folder());
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let sandboxes: Vec<Sandbox> = (0..cpus).map(|_| Sandbox::new()).collect();
    std::thread::scope(|scope| {
        for sandbox in &sandboxes {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Relaxed)) {
                    let outcome = outcome(cell, sandbox);
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    let (mut found, mut wrong, mut unbuilt) = (0, Vec::new(), Vec::new());
    for outcome in outcomes.into_inner().unwrap() {
        match outcome {
            Outcome::Right => found += 1,
            Outcome::Wrong(how) => wrong.push(how),
            Outcome::Unbuilt(why) => unbuilt.push(why),
        }
    }
    println!("{found} cells are right; {} cannot be built here:\n{}", unbuilt.len(), unbuilt.join("\n"));
    if found == 0 && wrong.is_empty() {
        return skip("no compiler here");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
