//! Programs of all languages, compilers and kinds of debug information: the line that all the work is in is found in each.

use crate::support::{Sandbox, run, skip};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use symbols::{Image, Scope, ScopeOptions};

/// A line that has all the work, and so nearly all of the code of its function; it is marked.
const C: &str = r#"
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
    for (int i = 0; i < 2000; i++)
        hot(100000);
    return 0;
}
"#;

const RUST: &str = r#"
use std::hint::black_box;

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
    for _ in 0..2000 {
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
                    // It takes seconds, and a linker has nothing to do with it.
                    ("rustc", _) if level == "O3+LTO" && !name.starts_with("DWARF") => continue,
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
    let lines = lines(&program);
    let most = lines.iter().max_by_key(|(_, bytes)| **bytes).map(|(line, _)| *line as usize);
    if most != Some(line) {
        return Outcome::Wrong(format!(
            "{}: line {line} does not have most of the code: {lines:?}",
            cell.name
        ));
    }
    // One program of each compiler is really profiled.
    if cell.name == format!("{} O2 DWARF 5", cell.compiler) {
        let expected = format!("{}:{line}", cell.source.file_name().unwrap().display());
        let mut command = sandbox.whatif();
        command
            .args(["run", "--list-regions", "--granularity", "line", "--duration", "90", "--"])
            .arg(&program);
        let ended = run(command);
        if !ended.stderr.lines().any(|line| line.contains(" %  ") && line.ends_with(&expected)) {
            return Outcome::Wrong(format!("{}: {expected} is not in {ended:#?}", cell.name));
        }
    }
    std::fs::remove_file(program).unwrap();
    Outcome::Right
}

/// The lines of the program's own source, and how many bytes of code each has.
fn lines(program: &Path) -> BTreeMap<u32, u64> {
    let sources = vec!["hot.c".to_owned(), "hot.cpp".to_owned(), "hot.rs".to_owned()];
    let scope = Scope::new(ScopeOptions { sources, excludes: Vec::new() }).unwrap();
    let image = Image::open(program).unwrap();
    let mut bytes = BTreeMap::new();
    for load in image.loads().iter().filter(|load| load.executable) {
        let all = load.address..symbols::Svma(load.address.0 + load.memory_size);
        for segment in
            image.functions_in(&all).into_iter().flat_map(|function| image.segments(function, &scope))
        {
            if let Some(line) = segment.in_scope().and_then(|frame| frame.line) {
                *bytes.entry(line).or_default() += segment.range.end.0 - segment.range.start.0;
            }
        }
    }
    bytes
}

#[test]
fn the_hot_line_is_found_however_a_program_was_built() {
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
