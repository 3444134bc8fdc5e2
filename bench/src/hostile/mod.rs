//! What programs of an ordinary user can make the collector remember, and how long they can keep it busy; and what it costs to ask
//! about their files, which are made to be expensive.

#[path = "../../../crates/symbols/tests/hostile/files.rs"]
pub(crate) mod files;
mod peak;
mod readers;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::calls;
use crate::collect::{Daemon, books};
use crate::machine::Machine;
use crate::profiler::Whatif;

#[derive(Debug, Args)]
pub struct Options {
    /// Only these kinds of programs, and of files [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// How long each program runs
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    seconds: u32,

    /// Samples per second and CPU
    #[arg(long, default_value_t = 997)]
    rate: u32,
}

/// The kinds of `bench/c/hostile.c`, that of a program without harm first.
const KINDS: [&str; 13] = [
    "nothing",
    "list-same",
    "list-nested",
    "list-functions",
    "list-names",
    "list-pieces",
    "list-sparse",
    "lists",
    "mappings",
    "images",
    "processes",
    "storm",
    "stacks",
];
/// Memory that a hostile program may cost more than one without harm, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// The user that hostile programs run as: nobody.
const USER: u32 = 65534;

/// What the collector took while a program ran.
struct Row {
    /// The most memory it had resident, in bytes.
    peak: u64,
    /// CPU time, in nanoseconds.
    cpu: f64,
    /// The longest that it did not write its books, in seconds.
    stored: u64,
    lost: u64,
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    let program = calls::build("hostile")?;
    let asked = |kind: &str| options.only.is_empty() || options.only.iter().any(|only| only == kind);
    let harmless = measure(options, whatif.path(), &program, KINDS[0])?;
    println!(
        "{:<16} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "program", "peak MB", "more MB", "CPU s", "samples", "lost"
    );
    let mut worst = 0;
    for kind in KINDS {
        if !asked(kind) {
            continue;
        }
        let Row { peak, cpu, stored, lost } = measure(options, whatif.path(), &program, kind)?;
        let more = peak.saturating_sub(harmless.peak);
        worst = worst.max(more);
        println!(
            "{kind:<16} {:>9.1} {:>9.1} {:>9.2} {stored:>9} {lost:>7}",
            megabytes(peak),
            megabytes(more),
            cpu / 1e9
        );
    }
    println!(
        "\nat most {:.1} MB more than with a program without harm; the target is {} MB",
        megabytes(worst),
        MOST_BYTES >> 20
    );
    readers::run(options, whatif.path(), &program)?;
    println!("{}", machine.watch().sentence());
    Ok(())
}

#[expect(clippy::cast_precision_loss)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn measure(options: &Options, whatif: &Path, program: &Path, kind: &str) -> Result<Row> {
    let folder = tempfile::tempdir()?;
    let database: PathBuf = folder.path().join("db");
    let rate = options.rate.to_string();
    // It may run anywhere: the folder of the build may be of a user alone.
    let copy = folder.path().join("hostile");
    std::fs::copy(program, &copy)?;
    open_to_all(folder.path())?;
    let daemon =
        Daemon::start(whatif, &database, &["--rate", &rate, "--interval", "5", "--max-cpu", "100%"])?;
    let mut hostile = start(&copy, &[kind, &options.seconds.to_string()])?;
    let begin = Instant::now();
    let (mut peak, mut cpu) = (0, 0.0);
    while begin.elapsed() < Duration::from_secs(u64::from(options.seconds) + 30) {
        (peak, cpu) = (daemon.peak().context("the collector has ended")?, daemon.all_cpu()?);
        if hostile.try_wait()?.is_some() {
            break;
        }
        sleep(Duration::from_millis(50));
    }
    let _ = hostile.kill();
    let _ = hostile.wait();
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", hostile.id()));
    daemon.end()?;
    let books = books(&database)?;
    Ok(Row { peak, cpu, stored: books.stored + books.unknown, lost: books.lost })
}

fn open_to_all(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?)
}

/// Starts a program as an ordinary user.
fn start(program: &Path, arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/tmp");
    // All that it starts is one group.
    command.uid(USER).gid(USER).process_group(0);
    command.spawn().with_context(|| format!("starting {command:?} as user {USER} (run this as root)"))
}
