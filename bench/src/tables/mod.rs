//! Hash tables for samples: the one of the paper's driver, its alternatives (section 5.4), and the structure we use, tried
//! on samples of this machine under loads of different kinds.

mod table;
mod trace;

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use collect::stacks::{Frame, Stacks, chain};
use collect::{Collector, LabelIndex};

use crate::interval::{Interval, count};

use self::table::{Design, HashFunction, Key, Outcome, Policy, Table};
use self::trace::{Filling, Trace, Traced};

#[derive(Debug, Args)]
pub struct Options {
    /// How long each load is sampled
    #[arg(long, value_name = "SECONDS", default_value_t = 40.0)]
    seconds: f64,

    /// Samples per second and CPU
    #[arg(long, value_name = "HZ", default_value_t = 3000.0)]
    rate: f64,

    /// How often each table is tried
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.seconds > 0.0, "there must be a round, and time to sample");
    targets::build().context("building the targets")?;
    for (name, what, shell) in [
        ("compile", "a C compiler again and again, as gcc in the paper", COMPILE),
        ("forks", "processes that end at once", FORKS),
        ("steady", "two programs that compute", STEADY),
    ] {
        let trace = record(options, shell)?;
        ensure!(trace.samples.len() > 100, "only {} samples were taken", trace.samples.len());
        println!("\n{name}: {what}; {}", described(&trace));
        tables(&trace, options.rounds);
    }
    println!(
        "\na miss is a sample that began an entry, an eviction one that had to be handed on to make room: what the \
         paper's daemon pays for. ns: time per sample of the table alone, 95 % interval over the rounds."
    );
    Ok(())
}

pub const COMPILE: &str = "while :; do cc -O2 -g -c -o /dev/null \"$C\"; done";
pub const FORKS: &str = "while :; do /bin/true; done";
const STEADY: &str = "\"$T/single\" >/dev/null & \"$T/sqlite\" >/dev/null; wait";

/// Samples of everything that runs, while two shells run `shell`.
fn record(options: &Options, shell: &str) -> Result<Trace> {
    let mut loads = (0..2).map(|_| load(shell)).collect::<Result<Vec<Load>>>()?;
    let mut collector = Collector::start(collect::Options {
        unwind: false,
        ring_bytes: 1 << 21,
        ..collect::Options::of_clock(true, options.rate)
    })?;
    let trace = Filling::default();
    collector.tell(Box::new(trace.clone()));
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    while Instant::now() < end {
        collector.wait(Duration::from_millis(100));
        collector.tick();
    }
    loads.clear();
    Ok(trace.take())
}

/// A shell and all that it has started, until dropped.
pub struct Load(Child);

pub fn load(shell: &str) -> Result<Load> {
    let folder = targets::build::folder()?;
    // It ends with the benchmark, however that ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "setsid", "sh", "-c", shell]).env("T", &folder);
    command.env("C", concat!(env!("CARGO_MANIFEST_DIR"), "/c/calls.c"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Load(
        command
            .spawn()
            .with_context(|| format!("starting {command:?} (util-linux has setpriv and setsid)"))?,
    ))
}

impl Drop for Load {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

fn described(trace: &Trace) -> String {
    let different =
        |key: fn(&Traced) -> (u64, u64)| trace.samples.iter().map(key).collect::<HashSet<_>>().len();
    format!(
        "{} samples, {} processes, {} addresses in processes, {} positions in images, {} stacks",
        trace.samples.len(),
        different(|sample| (sample.pid.into(), 0)),
        different(of_process),
        different(of_image),
        different(|sample| (sample.node.into(), 0)),
    )
}

fn of_process(sample: &Traced) -> (u64, u64) {
    (sample.pid.into(), sample.address)
}

fn of_image(sample: &Traced) -> (u64, u64) {
    (sample.image.0.into(), sample.offset)
}

/// The paper's: 16 K entries.
const PAPER: Design =
    Design { ways: 4, lines: 1 << 12, policy: Policy::RoundRobin, hash: HashFunction::Fold };

fn designs() -> Vec<(&'static str, Key, Design)> {
    use HashFunction::Multiply;
    use Policy::SwapToFront;
    let of = |ways, lines, policy, hash| Design { ways, lines, policy, hash };
    vec![
        ("the paper's", Key::Process, PAPER),
        ("its key by image", Key::Image, PAPER),
        ("multiplying hash", Key::Image, Design { hash: Multiply, ..PAPER }),
        ("swap to front", Key::Image, Design { hash: Multiply, policy: SwapToFront, ..PAPER }),
        ("6-way, same lines, by process", Key::Process, of(6, 1 << 12, SwapToFront, Multiply)),
        ("6-way, same lines", Key::Image, of(6, 1 << 12, SwapToFront, Multiply)),
        ("6-way, round robin", Key::Image, of(6, 1 << 12, Policy::RoundRobin, Multiply)),
        ("8-way, same size", Key::Image, of(8, 1 << 11, SwapToFront, Multiply)),
        ("4-way, a quarter", Key::Image, of(4, 1 << 10, SwapToFront, Multiply)),
        ("4-way, four times", Key::Image, of(4, 1 << 14, SwapToFront, Multiply)),
    ]
}

fn tables(trace: &Trace, rounds: usize) {
    println!(
        "  {:<32} {:>7} {:>8} {:>8} {:>9} {:>18} {:>8}",
        "table", "key", "entries", "misses", "evicted", "ns", "KB"
    );
    for (name, key, design) in designs() {
        let tried = repeat(rounds, || in_table(trace, key, design));
        let key = match key {
            Key::Process => "process",
            Key::Image => "image",
        };
        line(name, key, &(design.ways * design.lines).to_string(), &tried);
    }
    line("ours, instructions", "image", "any", &repeat(rounds, || in_stacks(trace, false)));
    line("ours, whole stacks", "image", "any", &repeat(rounds, || in_stacks(trace, true)));
}

/// What one try came to.
struct Tried {
    outcome: Outcome,
    bytes: usize,
    nanos: f64,
}

fn repeat(rounds: usize, mut once: impl FnMut() -> Tried) -> Vec<Tried> {
    (0..rounds).map(|_| once()).collect()
}

fn line(name: &str, key: &str, entries: &str, tried: &[Tried]) {
    let nanos = Interval::of_median(&tried.iter().map(|tried| tried.nanos).collect::<Vec<_>>());
    let Some(Tried { outcome, bytes, .. }) = tried.first() else { return };
    let per_cent = |part: u64| 100.0 * as_number(part) / as_number(outcome.samples);
    println!(
        "  {name:<32} {key:>7} {entries:>8} {:>6.2} % {:>7.2} % {:>18} {:>8}",
        per_cent(outcome.misses),
        per_cent(outcome.evictions),
        format!("{:.0} [{:.0}, {:.0}]", nanos.estimate, nanos.low, nanos.high),
        bytes / 1024,
    );
}

#[expect(clippy::cast_precision_loss)]
fn as_number(samples: u64) -> f64 {
    samples as f64
}

fn in_table(trace: &Trace, key: Key, design: Design) -> Tried {
    let mut table = Table::new(design);
    let begin = Instant::now();
    match key {
        Key::Process => {
            for sample in &trace.samples {
                table.count(of_process(sample));
            }
        }
        Key::Image => {
            for sample in &trace.samples {
                table.count(of_image(sample));
            }
        }
    }
    let nanos = each(begin, trace);
    Tried { outcome: table.outcome, bytes: table.bytes(), nanos }
}

/// The structure that the collector uses: all samples of the trace as those of one interval.
fn in_stacks(trace: &Trace, whole: bool) -> Tried {
    let mut stacks = Stacks::default();
    let mut misses = 0;
    let begin = Instant::now();
    for sample in &trace.samples {
        let frame = Frame {
            parent: if whole { sample.node } else { Stacks::ROOT },
            image: sample.image,
            offset: sample.offset,
        };
        // As the collector does: the callchain of every sample is hashed, and without callers its address.
        let hashed = if whole { chain(sample.seed, trace.callchain(sample)) } else { of_address(sample) };
        if stacks.again(hashed).is_none() {
            misses += 1;
            let node = stacks.node(frame);
            stacks.first(hashed, node, LabelIndex(0), 0);
        }
    }
    let nanos = each(begin, trace);
    let outcome = Outcome { samples: trace.samples.len() as u64, misses, evictions: 0 };
    Tried { outcome, bytes: stacks.bytes(), nanos }
}

fn of_address(sample: &Traced) -> u64 {
    chain(sample.seed, &[sample.address])
}

fn each(begin: Instant, trace: &Trace) -> f64 {
    begin.elapsed().as_secs_f64() * 1e9 / count(trace.samples.len())
}
