//! A program with more debug information than most: hundreds of megabytes, in thousands of compilation units.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const MINIMUM_BYTES: u64 = 690_000_000;
const UNITS: usize = 3000;
const FUNCTIONS: usize = 270;
/// Stands for the unit in all names of the first one; those of the others are as long, so that a copy of the object file
/// in which only it is replaced is what the compiler would have made.
const MARK: &str = "q0000q";
/// The unit and the function that run, somewhere in the middle.
const RUNS: (usize, usize) = (1234, 99);
/// What a function's source begins with: two types, then its head, a brace, and its first line with code.
const LINES: usize = 12;
const FIRST: usize = 5;

/// The program, built if it is not there yet: thousands of generated units, each with functions, types, variables, blocks
/// and lines of its own. It takes a minute, once.
///
/// Without an argument it returns at once; with one it works for so many seconds, in [`function`].
pub fn program() -> Result<PathBuf> {
    let program = targets::build::folder()?.join("big");
    if fs::metadata(&program).is_ok_and(|metadata| metadata.len() >= MINIMUM_BYTES) {
        return Ok(program);
    }
    eprintln!("building a program with a lot of debug information …");
    let folder = targets::build::folder()?.join("big.d");
    fs::create_dir_all(&folder)?;
    let objects = units(&folder)?;
    fs::write(folder.join("main.c"), main_source())?;
    let unfinished = folder.join("big");
    fs::write(folder.join("objects"), objects.join("\n"))?;
    compile(&folder, &["main.c", "@objects", "-o", "big"])?;
    let built = fs::metadata(&unfinished)?.len();
    ensure!(built >= MINIMUM_BYTES, "big has only {built} bytes; raise UNITS in bench/src/big.rs");
    fs::rename(unfinished, &program)?;
    fs::remove_dir_all(&folder)?;
    Ok(program)
}

/// What runs in the program, as `-p` takes it.
pub fn function() -> String {
    format!("fn:{}", name_of(RUNS))
}

/// Its first line, as `-p` takes it.
pub fn line() -> String {
    format!("unit_{}.c:{}", mark(RUNS.0), RUNS.1 * LINES + FIRST)
}

fn name_of((unit, function): (usize, usize)) -> String {
    format!("f_{}_{function}", mark(unit))
}

fn mark(unit: usize) -> String {
    format!("q{unit:04}q")
}

/// The object files of all units.
fn units(folder: &Path) -> Result<Vec<String>> {
    let source = format!("unit_{MARK}.c");
    fs::write(folder.join(&source), unit_source())?;
    compile(folder, &["-O0", "-c", &source, "-o", "first.o"])?;
    let first = fs::read(folder.join("first.o"))?;
    let marks: Vec<usize> = (0..first.len()).filter(|at| first[*at..].starts_with(MARK.as_bytes())).collect();
    (0..UNITS)
        .map(|unit| {
            let mut object = first.clone();
            for at in &marks {
                object[*at..*at + MARK.len()].copy_from_slice(mark(unit).as_bytes());
            }
            let name = format!("unit{unit}.o");
            fs::write(folder.join(&name), object)?;
            Ok(name)
        })
        .collect()
}

fn compile(folder: &Path, arguments: &[&str]) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(["-g", "-fno-omit-frame-pointer"]).args(arguments);
    let status =
        command.status().with_context(|| format!("{command:?} does not start: install a C compiler"))?;
    ensure!(status.success(), "{command:?} failed ({status}); run it by hand to see why");
    Ok(())
}

fn unit_source() -> String {
    let mut text = String::new();
    for number in 0..FUNCTIONS {
        let own = format!("{MARK}_{number}");
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "struct s_{own} {{ int first_{own}; long second_{own}; struct s_{own} *next_{own}; }};
enum e_{own} {{ one_{own} = {number}, two_{own}, three_{own} }};
long f_{own}(struct s_{own} *list_{own}, enum e_{own} kind_{own})
{{
    long total_{own} = {number};
    for (struct s_{own} *item_{own} = list_{own}; item_{own}; item_{own} = item_{own}->next_{own}) {{
        long product_{own} = item_{own}->first_{own} * item_{own}->second_{own};
        if (kind_{own} == two_{own}) {{ long square_{own} = product_{own} * product_{own}; total_{own} += square_{own}; }}
        else {{ int shift_{own} = kind_{own} == three_{own} ? 3 : 1; total_{own} += product_{own} >> shift_{own}; }}
    }}
    return total_{own};
}}
"
        );
    }
    text
}

/// Gives the function that runs a list to walk: about 2 ms at a time.
fn main_source() -> String {
    let function = name_of(RUNS);
    format!(
        "#include <stdlib.h>
#include <time.h>
struct item {{ int first; long second; struct item *next; }};
long {function}(struct item *list, int kind);
static struct item items[400000];
int main(int argc, char **argv)
{{
    if (argc < 2)
        return 0;
    for (int i = 0; i + 1 < 400000; i++)
        items[i] = (struct item){{ i, i, &items[i + 1] }};
    time_t end = time(NULL) + atoi(argv[1]);
    while (time(NULL) < end)
        {function}(items, 1);
    return 0;
}}
"
    )
}
