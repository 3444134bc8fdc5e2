//! Programs with as much of one thing as there is: whether they do what they do without the profiler, what it costs them, and
//! what the profile says of what it could not see.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::calls;
use crate::machine::Machine;
use crate::profiler::{Mode, Whatif};
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Threads at once
    #[arg(long, default_value_t = 10_000)]
    threads: u32,

    /// Threads one after another
    #[arg(long, default_value_t = 96_000)]
    short: u32,

    /// Frames of a stack
    #[arg(long, default_value_t = 190)]
    frames: u32,

    /// Libraries
    #[arg(long, default_value_t = 2_000)]
    images: u32,
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    let limits = calls::build("limits")?;
    let libraries = libraries(&targets::build::folder()?.join("libraries"), options.images)?;
    println!(
        "{:<28} {:>9} {:>9} {:>9} {:>7} {:>6}  warnings",
        "", "plain s", "with s", "samples", "lost", "open"
    );
    let number = |number: u32| number.to_string();
    let libraries = libraries.to_str().context("the target folder's path is not text")?.to_owned();
    for (name, what, argument, with) in [
        ("threads at once", "threads", number(options.threads), &[][..]),
        ("the same, 1024 descriptors", "threads", number(options.threads), &["1024"]),
        ("short threads", "short", number(options.short), &[]),
        ("frames", "deep", number(options.frames), &["--region", "main"]),
        ("images", "images", libraries, &["--binary", "*limit-library*"]),
    ] {
        let (limit, with) = match with {
            ["1024"] => (Some("ulimit -n 1024; "), &[][..]),
            _ => (None, with),
        };
        let line = [limits.to_str().context("the target folder's path is not text")?, what, &argument];
        let measured = machine.quietly(|| {
            let plain = ended(&mut Command::new(line[0]), &line[1..])?;
            whatif.forget()?;
            let profiled = whatif.run_with(with, Mode::Full, &line);
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{}exec \"$@\"", limit.unwrap_or_default()), "sh"]);
            shell.arg(profiled.get_program());
            let arguments: Vec<_> = profiled.get_args().collect();
            Ok((
                plain,
                ended(&mut shell, &arguments)?,
                whatif.report_as::<serde_json::Value>(&whatif.file())?,
            ))
        })?;
        let (plain, with, report) = measured;
        ensure!(
            plain.sum == with.sum,
            "{name}: the program did something else: {} and {}",
            plain.sum,
            with.sum
        );
        let session = &report["sessions"][0];
        let codes: Vec<&str> = report["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|warning| warning["code"].as_str())
            .collect();
        println!(
            "{name:<28} {:>9.2} {:>9.2} {:>9} {:>7} {:>2} {:>3}  {}",
            plain.seconds,
            with.seconds,
            session["samples"],
            session["lost_samples"],
            plain.open,
            with.open,
            codes.join(", ")
        );
    }
    println!("{}", machine.watch().sentence());
    Ok(())
}

/// What `limits` says at its end.
struct Ended {
    sum: i64,
    seconds: f64,
    open: u32,
}

fn ended<S: AsRef<std::ffi::OsStr>>(command: &mut Command, arguments: &[S]) -> Result<Ended> {
    let output = program::output(command.args(arguments))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().find_map(|line| {
        let mut words = line.strip_prefix("done ")?.split(' ');
        let (sum, seconds) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Ended { sum, seconds, open: words.next()?.parse().ok()? })
    });
    said.with_context(|| format!("{command:?} did not say how it ended, but:\n{text}"))
}

/// So many copies of a library, in a folder.
fn libraries(folder: &Path, count: u32) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let source = folder.with_file_name("limit-library.c");
    fs::write(&source, LIBRARY)?;
    let first = folder.with_file_name("limit-library.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-g", "-O2", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o"]).arg(&first).arg(&source);
    ensure!(command.status()?.success(), "{command:?} failed; run it by hand to see why");
    for number in 0..count {
        fs::copy(&first, folder.join(format!("limit-library-{number}.so")))?;
    }
    Ok(folder.to_owned())
}

const LIBRARY: &str = "static volatile unsigned long sink;
void serve(void)
{
    unsigned long x = 88172645463325252u;
    for (int n = 0; n < 100000; n++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
}
";
