//! What it costs to ask about the files of others, which are made to be expensive: the collector whose samples fall into them, `top`, and
//! `run`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::files::{self, FILES};
use super::peak::{self, Peak};
use super::{MOST_BYTES, Options, megabytes, open_to_all, start};
use crate::collect::Daemon;

/// How long the code of a file runs, in seconds.
const RUNS: &str = "3";
/// CPU time that a file may cost more than one without harm.
const MOST_TIME: Duration = Duration::from_secs(2);
/// A command that takes longer hangs.
const HANG: Duration = Duration::from_secs(120);
/// A file without harm.
const PLAIN: &str = "plain";

pub fn run(options: &Options, whatif: &Path, program: &Path) -> Result<()> {
    let asked = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let chosen: Vec<_> = FILES.iter().map(|(name, _)| *name).filter(|name| asked(name)).collect();
    if chosen.is_empty() {
        return Ok(());
    }
    println!("\n{:<16} {:>25} {:>25} {:>25}", "", "collect", "top", "run");
    println!(
        "{:<16} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "file", "more MB", "CPU s", "more MB", "CPU s", "more MB", "CPU s"
    );
    let plain = readers(whatif, program, &files::program(&[]))?;
    let (mut most, mut longest) = (0, Duration::ZERO);
    for name in [PLAIN].into_iter().chain(chosen) {
        let bytes =
            if name == PLAIN { files::program(&[]) } else { files::file(name).context("no such file")? };
        print!("{name:<16}");
        for (cost, plain) in readers(whatif, program, &bytes)?.iter().zip(&plain) {
            let (more, longer) =
                (cost.memory.saturating_sub(plain.memory), cost.cpu.saturating_sub(plain.cpu));
            (most, longest) = (most.max(more), longest.max(longer));
            print!(" {:>12.1} {:>12.2}", megabytes(more), longer.as_secs_f64());
        }
        println!();
    }
    println!(
        "\nmore than with a file without harm: at most {:.1} MB and {:.2} s of CPU time; the targets are {} MB and {} s",
        megabytes(most),
        longest.as_secs_f64(),
        MOST_BYTES >> 20,
        MOST_TIME.as_secs()
    );
    Ok(())
}

/// What the collector, `top` and `run` take.
fn readers(whatif: &Path, program: &Path, bytes: &[u8]) -> Result<[Peak; 3]> {
    let folder = tempfile::tempdir()?;
    open_to_all(folder.path())?;
    let (file, database) = (folder.path().join("file"), folder.path().join("db"));
    let copy = folder.path().join("hostile");
    std::fs::copy(program, &copy)?;
    std::fs::write(&file, bytes)?;
    let path = file.to_str().context("the folder's path is not text")?;
    let daemon =
        Daemon::start(whatif, &database, &["--rate", "997", "--interval", "2", "--max-cpu", "100%"])?;
    let begin = Instant::now();
    start(&copy, &["file", RUNS, path])?.wait()?;
    // A last interval is written.
    while begin.elapsed() < Duration::from_secs(6) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let memory = daemon.peak()?;
    let cpu = Duration::from_nanos(daemon.all_cpu()? as u64);
    daemon.end()?;
    let mut top = Command::new(whatif);
    top.args(["top", "--db"]).arg(&database).args(["--by", "line"]).current_dir(folder.path());
    let mut run = Command::new(whatif);
    run.args(["run", "-q", "-o"])
        .arg(folder.path().join("run.db"))
        .arg("--")
        .arg(&copy)
        .args(["file", RUNS, path]);
    // Names are not taken from the cache of another run.
    run.env("XDG_CACHE_HOME", folder.path()).current_dir(folder.path());
    top.env("XDG_CACHE_HOME", folder.path());
    Ok([Peak { memory, cpu }, peak::of(&mut top, HANG)?, peak::of(&mut run, HANG)?])
}
