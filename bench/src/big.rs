//! A program that returns at once but carries a lot of debug information.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

const MINIMUM_BYTES: u64 = 60_000_000;
const FUNCTIONS: usize = 80_000;

/// The program, built if it is not there yet: thousands of generated functions with their own types,
/// variables, blocks and lines. It takes a minute or two, once.
pub fn program() -> Result<PathBuf> {
    let program = targets::build::folder()?.join("big");
    let built = fs::metadata(&program).map_or(0, |metadata| metadata.len());
    if built >= MINIMUM_BYTES {
        return Ok(program);
    }
    let folder = targets::build::folder()?.join("big.d");
    fs::create_dir_all(&folder)?;
    let path = folder.join("big.c");
    fs::write(&path, source()).with_context(|| format!("writing {}", path.display()))?;
    targets::build::compile(&path, &program).context("compiling the big program")?;
    let built = fs::metadata(&program)?.len();
    anyhow::ensure!(
        built >= MINIMUM_BYTES,
        "{} has only {built} bytes; raise FUNCTIONS in bench/src/big.rs",
        program.display()
    );
    Ok(program)
}

fn source() -> String {
    let mut text = String::from("#pragma GCC optimize(\"O0\")\n#include \"whatif.h\"\n");
    for number in 0..FUNCTIONS {
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "struct s{number} {{ int first{number}; long second{number}; struct s{number} *next{number}; }};
enum e{number} {{ one{number} = {number}, two{number}, three{number} }};
long f{number}(struct s{number} *list{number}, enum e{number} kind{number})
{{
    long total{number} = {number};
    for (struct s{number} *item{number} = list{number}; item{number}; item{number} = item{number}->next{number}) {{
        long product{number} = item{number}->first{number} * item{number}->second{number};
        if (kind{number} == two{number}) {{
            long square{number} = product{number} * product{number};
            total{number} += square{number};
        }} else {{
            int shift{number} = kind{number} == three{number} ? 3 : 1;
            total{number} += product{number} >> shift{number};
        }}
    }}
    return total{number};
}}
"
        );
    }
    text.push_str("int main(void)\n{\n    WHATIF_PROGRESS_NAMED(\"started\");\n    return 0;\n}\n");
    text
}
