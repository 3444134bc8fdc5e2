//! A soak: the collector, and a run with its page and `watch`, beside each other for an hour, while pages are asked for, strangers
//! connect and profiles are queried. Memory, descriptors and threads of each process must not grow once it has warmed up; the memory of
//! `run` and `watch`, which estimate from all windows, no faster than the recording.
//!
//! **Does:** start them, read `/proc` once a second, and judge by slopes with intervals ([`slope`]). **Does not:** judge how large
//! recordings and databases become; that is only shown.

mod page;
mod process;
mod slope;

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::calls;
use crate::collect::Daemon;
use crate::profiler::Whatif;
use page::Page;
use process::{Process, Reading};
use slope::{Flatness, Slope};

#[derive(Debug, Args)]
pub struct Options {
    /// How long to run
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,

    /// How much of that is warming up, in which growth does not count [default: a quarter]
    #[arg(long, value_name = "MINUTES")]
    warm_up: Option<f64>,

    /// Samples per second and CPU that the collector takes
    #[arg(long, default_value_t = 97)]
    rate: u32,

    /// Print every reading, too
    #[arg(long)]
    readings: bool,
}

/// Time between two readings.
const TICK: Duration = Duration::from_secs(1);
/// Readings between two queries of the collector's database.
const QUERY: u64 = 15;
/// Growth that is none: in megabytes of memory, descriptors, and threads, an hour.
const FLAT: [f64; 3] = [1.0, 1.0, 1.0];
const QUANTITIES: [&str; 3] = ["MB", "files", "threads"];
const MEMORY: usize = 0;

pub fn run(options: &Options, whatif: &Whatif) -> Result<()> {
    let warm_up = options.warm_up.unwrap_or(options.minutes / 4.0) * 60.0;
    let length = options.minutes * 60.0;
    ensure!(warm_up < length, "--warm-up must be less than --minutes");
    let folder = tempfile::tempdir()?;
    let (database, recording) = (folder.path().join("db"), folder.path().join("soak.db"));
    let program = calls::build("contended")?;

    let rate = options.rate.to_string();
    let daemon = Daemon::start(whatif.path(), &database, &["--rate", &rate, "--interval", "10"])?;
    let mut command = Command::new(whatif.path());
    command.args(["run", "--live", "--no-browser", "--duration", &format!("{}", length + 3600.0), "-o"]);
    command.arg(&recording).arg("--").arg(&program).arg(format!("seconds={}", length + 3600.0));
    let mut run = Process::start(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
    let page = Page::of(run.stderr().context("no standard error")?)?;
    let mut command = Command::new(whatif.path());
    let watch = Process::on_terminal(command.arg("watch").arg(&recording))?;

    let mut subjects = vec![
        Subject::new("collect", daemon.pid(), false),
        Subject::new("run", run.pid(), true),
        Subject::new("watch", watch.pid(), true),
        Subject::new("the program", run.child(&program)?, false),
    ];
    let (mut sizes, mut asked) = (Vec::new(), Asked::default());
    let begin = Instant::now();
    let events = page.events()?;
    for tick in 0.. {
        let at = begin.elapsed().as_secs_f64();
        if at >= length {
            break;
        }
        for subject in &mut subjects {
            let reading = Reading::of(subject.pid).with_context(|| format!("{} has ended", subject.name))?;
            subject.readings.push((at, reading));
        }
        sizes.push((at, [size(&database), size(&recording) + size(&folder.path().join("soak.db-wal"))]));
        page.data().map(|()| asked.pages += 1)?;
        page.refused().map(|()| asked.refused += 1)?;
        if tick % QUERY == QUERY - 1 {
            query(whatif.path(), &database)?;
            asked.queries += 1;
        }
        sleep(TICK.saturating_sub(begin.elapsed().saturating_sub(TICK * u32::try_from(tick).unwrap_or(0))));
    }
    let events = events.so_far();
    drop((watch, run));
    daemon.end()?;
    if options.readings {
        subjects.iter().for_each(Subject::print);
    }

    let Asked { pages, refused, queries } = asked;
    println!(
        "{:.0} minutes, the first {:.0} to warm up; {pages} pages, {refused} strangers, {events} events of one page, {queries} queries\n",
        length / 60.0,
        warm_up / 60.0
    );
    println!("{:<13} {:<8} {:>9} {:>9} {:>30}", "", "", "then", "at last", "an hour, with 95 % interval");
    let [database, recording] = [0, 1].map(|nth| {
        let values = sizes.iter().filter(|(at, _)| *at >= warm_up).map(|(at, sizes)| (*at, sizes[nth]));
        Slope::of(&values.collect::<Vec<_>>())
    });
    let (database, recording) = database.zip(recording).context("too few readings; take more --minutes")?;
    let mut grown = Vec::new();
    for subject in &subjects {
        for (quantity, name) in QUANTITIES.iter().enumerate() {
            let slope = Slope::of(&subject.values(quantity, warm_up)).context("too few readings")?;
            let rows = if subject.rows && quantity == MEMORY { recording.high.max(0.0) } else { 0.0 };
            let flatness = slope.flatness(FLAT[quantity] + rows);
            print_row(subject.name, name, &slope, flatness.word());
            if flatness == Flatness::Grows {
                grown.push(format!("{} ({name})", subject.name));
            }
        }
    }
    print_row("database", QUANTITIES[MEMORY], &database, "");
    print_row("recording", QUANTITIES[MEMORY], &recording, "");
    println!(
        "\nflat: no more than {} MB, {} file, {} thread an hour; of run and watch, no more than the recording besides",
        FLAT[0], FLAT[1], FLAT[2]
    );
    if !grown.is_empty() {
        bail!("this grows: {}", grown.join(", "));
    }
    Ok(())
}

/// What was asked meanwhile.
#[derive(Default)]
struct Asked {
    pages: u64,
    refused: u64,
    queries: u64,
}

fn print_row(name: &str, quantity: &str, slope: &Slope, word: &str) {
    let Slope { first, last, each, low, high } = slope;
    let interval = format!("{each:+.2} [{low:+.2}, {high:+.2}]");
    println!("{name:<13} {quantity:<8} {first:>9.2} {last:>9.2} {interval:>30} {word}");
}

/// A process that is watched.
struct Subject {
    name: &'static str,
    pid: u32,
    /// Whether it has the recording's rows in memory.
    rows: bool,
    /// When, in seconds since the beginning, and what.
    readings: Vec<(f64, Reading)>,
}

impl Subject {
    fn new(name: &'static str, pid: u32, rows: bool) -> Self {
        Self { name, pid, rows, readings: Vec::new() }
    }

    /// One quantity, once it has warmed up.
    fn values(&self, quantity: usize, warm_up: f64) -> Vec<(f64, f64)> {
        let warm = self.readings.iter().filter(|(at, _)| *at >= warm_up);
        warm.map(|(at, reading)| (*at, reading.all()[quantity])).collect()
    }

    fn print(&self) {
        for (at, reading) in &self.readings {
            let [memory, files, threads] = reading.all();
            println!("{:<13} {at:>8.1} {memory:>9.2} {files:>5} {threads:>5}", self.name);
        }
    }
}

/// What files take, in megabytes.
fn size(path: &Path) -> f64 {
    let Ok(metadata) = path.metadata() else { return 0.0 };
    if !metadata.is_dir() {
        return process::megabytes(metadata.len());
    }
    let entries = path.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}

fn query(whatif: &Path, database: &Path) -> Result<()> {
    let mut command = Command::new(whatif);
    command.args(["top", "--db"]).arg(database).stdin(Stdio::null());
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
