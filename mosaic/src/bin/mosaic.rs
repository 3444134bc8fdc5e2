//! Runs a random concurrent program. What a seed means and how a program is written: `docs/mosaic.md`.
//!
//!   mosaic seed=17                  the program that seed 17 is, for ten seconds; then "rate round <visits per second>"
//!   mosaic program=FILE             a program as text; or program='{"seed": ...}'
//!
//! Further arguments:
//!
//!   R0=0.5        region R0 (to R7) does half of its work
//!   seconds=S     run that long
//!   plan          print what the program does, and run nothing
//!   text          print the program as program= reads it, and run nothing

#![forbid(unsafe_code)]

use std::fs;
use std::process::exit;

use mosaic::Program;
use mosaic::program::POINT;
use targets::run::Arguments;

fn main() {
    let arguments = Arguments::of_process();
    let program = match program(&arguments) {
        Ok(program) => program,
        Err(message) => fail(&message),
    };
    if arguments.word("plan") {
        let kinds: Vec<&str> = program.kinds().into_iter().collect();
        print!("{program}");
        println!("kinds: {}", kinds.join(" "));
    } else if arguments.word("text") {
        println!("{}", program.text());
    } else if let Err(error) = mosaic::steps::run(&program, arguments) {
        fail(&format!("the program cannot run to '{POINT}': {error} (see `ulimit -a`)"));
    }
}

/// The program that the arguments name.
fn program(arguments: &Arguments) -> Result<Program, String> {
    let seed = arguments.text("seed");
    match (seed, arguments.text("program")) {
        (Some(seed), None) => {
            let seed = seed.parse().map_err(|_| format!("seed={seed} is not a whole number"))?;
            Ok(mosaic::draw(seed))
        }
        (None, Some(given)) => {
            let text = if given.trim_start().starts_with('{') {
                given.to_owned()
            } else {
                fs::read_to_string(given).map_err(|error| format!("reading {given}: {error}"))?
            };
            let program = Program::parse(&text)
                .map_err(|error| format!("this is no program: {error} (`mosaic seed=1 text` prints one)"))?;
            program.check().map_err(|fault| format!("this program cannot be run: {fault}"))?;
            Ok(program)
        }
        _ => Err("name a program: seed=17, or program=FILE".to_owned()),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("mosaic: {message}");
    exit(2)
}
