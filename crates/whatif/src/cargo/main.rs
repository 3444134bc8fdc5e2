//! `cargo whatif`: builds a program of the package in this folder as it is to be profiled, and hands it to `whatif`.
//!
//! **Does:** `run` and `points` build the program optimised and with debug information; `ab` builds it as it is and as it was in another revision; every other
//! command goes to `whatif` as it is. **Does not:** change a file of the package, or build into the folder of another profile than the one that was asked for.

#![forbid(unsafe_code)]

mod build;
mod words;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Error, Result, bail, ensure};

use self::words::Words;

const HELP: &str = "\
Build a program of this package with debug information, and profile it

  cargo whatif run [OPTIONS] [-- ARGUMENTS]
      find out which of its code is worth making faster
  cargo whatif points [OPTIONS] [-- ARGUMENTS]
      suggest progress points for it
  cargo whatif ab [--was REVISION] [OPTIONS] [-- ARGUMENTS]
      run it as it is and as it was in that revision [HEAD] by turns: how much
      less time does it need?
  cargo whatif report|open|compare|…
      as whatif itself does it

OPTIONS are those of `cargo build` that say what is built (--bin, --example,
--package, --features, --profile, --manifest-path, …; the profile is `release`
if none is named) and those of `whatif run`, `points` and `ab`. -p is a point.

Example: cargo whatif run --bin server --duration 60 -p server.rs:42 -- --port 8080
";

/// The status of what is typed wrongly, as cargo has it.
const USAGE: i32 = 101;

fn main() {
    // Cargo calls this as `cargo-whatif whatif …`.
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == "whatif") {
        words.remove(0);
    }
    let error = match words.first().and_then(|word| word.to_str()) {
        None | Some("--help" | "-h" | "help") => {
            print!("{HELP}");
            return;
        }
        Some("run" | "points") => run(&words),
        Some("ab") => ab(&words),
        Some(_) => hand_over(words),
    };
    if let Err(error) = error {
        eprintln!("cargo whatif: {error:#}");
        std::process::exit(USAGE);
    }
}

/// Builds the program, and hands it to the command.
fn run(words: &[OsString]) -> Result<()> {
    let Some(asked) = asked(words)? else { return hand_over(words.iter().cloned()) };
    let program = build::program(&asked)?;
    let command = words[..1].iter().chain(&asked.of_whatif).cloned();
    hand_over(command.chain(["--".into(), program.into()]).chain(asked.of_program.iter().cloned()))
}

/// Builds the program twice, and hands both to `whatif ab`, the older one first.
fn ab(words: &[OsString]) -> Result<()> {
    let Some(asked) = asked(words)? else { return hand_over(words.iter().cloned()) };
    // It stands between the two programs.
    ensure!(
        !asked.of_program.iter().any(|word| word == "--"),
        "`whatif ab` cannot give a program the argument --"
    );
    // Cargo and git get ^C as well; what they leave is then cleaned up.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default())?;
    let old = build::program_as_it_was(&asked, asked.was.as_deref().unwrap_or("HEAD".as_ref()))?;
    let new = build::program(&asked)?;
    ensure!(old != new, "both were built as {}", new.display());
    let with_arguments = |program: PathBuf| {
        ["--".into(), OsString::from(program)].into_iter().chain(asked.of_program.iter().cloned())
    };
    let command = words[..1].iter().chain(&asked.of_whatif).cloned();
    hand_over(command.chain(with_arguments(old)).chain(with_arguments(new)))
}

/// What was typed behind the command, unless that asks for help.
fn asked(words: &[OsString]) -> Result<Option<Words>> {
    let asked = Words::of(&words[1..]);
    if asked.asks("--help") || asked.asks("-h") {
        return Ok(None);
    }
    if let Some(first) = asked.of_whatif.first().filter(|first| !first.as_encoded_bytes().starts_with(b"-")) {
        bail!("{} is no option; arguments of the program stand behind --", first.display());
    }
    Ok(Some(asked))
}

/// Goes on as `whatif`: the one beside this program, else the one in `PATH`.
fn hand_over(words: impl IntoIterator<Item = OsString>) -> Result<()> {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("whatif"));
    let whatif = beside.filter(|path| path.is_file()).unwrap_or_else(|| "whatif".into());
    let error = Command::new(&whatif).args(words).exec();
    Err(Error::from(error))
        .with_context(|| format!("{} cannot be started (cargo install whatif)", whatif.display()))
}
