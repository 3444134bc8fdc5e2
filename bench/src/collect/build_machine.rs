//! A load as varied as a machine that builds all day: programs that live for milliseconds, and tens of thousands of functions.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

/// Programs, each of as many functions.
const PROGRAMS: usize = 10;
const FUNCTIONS: usize = 5000;

/// Compiles the programs in a folder, and returns the command for a shell that runs one after the other, forever.
pub fn build(folder: &Path) -> Result<String> {
    let mut compilers = Vec::new();
    for program in 0..PROGRAMS {
        let source = folder.join(format!("step{program}.c"));
        std::fs::write(&source, self::source(program)?)?;
        let mut command = Command::new("cc");
        command.args(["-O0", "-fno-omit-frame-pointer", "-o"]).arg(folder.join(format!("step{program}")));
        compilers.push(command.arg(&source).spawn()?);
        if compilers.len() == 2 || program + 1 == PROGRAMS {
            for mut compiler in compilers.drain(..) {
                ensure!(compiler.wait()?.success(), "a C compiler is needed");
            }
        }
    }
    let programs: Vec<String> =
        (0..PROGRAMS).map(|program| format!("{}/step{program}", folder.display())).collect();
    Ok(format!("while :; do for p in {}; do $p; done; done", programs.join(" ")))
}

/// A program that calls functions at random, eight deep, for about two milliseconds. Some are called much more often than others.
fn source(program: usize) -> Result<String> {
    let mut source = String::from(
        "#include <time.h>\ntypedef void function(unsigned); extern function *const all[]; static volatile unsigned x; static unsigned long r;\n\
         static unsigned next(void) { r ^= r << 13; r ^= r >> 7; r ^= r << 17; double u = (r >> 11) * 0x1p-53; return u * u * u * ",
    );
    writeln!(source, "{FUNCTIONS}; }}")?;
    for function in 0..FUNCTIONS {
        writeln!(
            source,
            "static void step{program}_{function}(unsigned n) {{ for (int i = 0; i < 300; i++) x += i * {function}; if (n) all[next()](n - 1); }}"
        )?;
    }
    writeln!(source, "function *const all[] = {{")?;
    for function in 0..FUNCTIONS {
        write!(source, "step{program}_{function},")?;
    }
    source.push_str(
        "};\nint main(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); r = t.tv_nsec * 2654435761ul + 1;\n\
         for (int n = 0; n < 400; n++) all[next()](8); }\n",
    );
    Ok(source)
}
