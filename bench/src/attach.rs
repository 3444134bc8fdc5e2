//! What attaching to a process costs it, how soon it is profiled, and whether it is told the same as when it had been launched.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use targets::Target;

use crate::interval::Interval;
use crate::machine::Machine;
use crate::native::limit;
use crate::profiler::{Mode, Prediction, Whatif};
use crate::{calls, program};

/// Targets that are launched and attached to, if no others are named.
const COMPARED: [&str; 10] = [
    "single",
    "two_threads",
    "mutex",
    "barrier",
    "pipeline",
    "wait_for",
    "pool_4",
    "io_sleep",
    "semaphore",
    "rwlock",
];

#[derive(Debug, Args)]
pub struct Options {
    /// Attach to programs with so many threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1000])]
    threads: Vec<u32>,

    /// How often to each of them
    #[arg(long, default_value_t = 7)]
    rounds: usize,

    /// Compare only these targets [default: ten of different kinds]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// Build these targets in other ways as well, and compare them, launched and attached to, with the usual one
    #[arg(long, value_delimiter = ',')]
    ways: Vec<Way>,

    /// Seconds of each run that is compared; none are at 0
    #[arg(long, default_value_t = 15.0)]
    seconds: f64,
}

/// A way in which nothing can be preloaded into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// glibc, at a fixed address
    Static,
    /// glibc, at any address
    StaticPie,
    /// musl, in the program
    StaticMusl,
    /// musl, as a library
    Musl,
}

impl Way {
    /// The compiler, and what it is told besides.
    fn compiler(self) -> (&'static str, &'static str) {
        match self {
            Self::Static => ("cc", "-static"),
            Self::StaticPie => ("cc", "-static-pie"),
            Self::StaticMusl => ("musl-gcc", "-static"),
            Self::Musl => ("musl-gcc", "-pie"),
        }
    }

    /// Compiles a target, which is written in C, into a folder.
    fn build(self, target: &Target, folder: &Path) -> Result<PathBuf> {
        let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/c");
        let (source, program) = (
            targets.join(format!("{}.c", target.program)),
            folder.join(format!("{}-{self:?}", target.program)),
        );
        let (compiler, flag) = self.compiler();
        let mut command = Command::new(compiler);
        command
            .args(targets::build::FLAGS)
            .args(["-std=gnu99", flag, "-I"])
            .arg(targets.join("../../include"));
        let output = command.arg("-o").arg(&program).arg(&source).output().context("install musl-tools")?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(program)
    }
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds > 0, "there must be a round");
    let program = calls::build("attach")?;
    println!("{:>8}  {:>32}  {:>32}", "threads", "longest stop", "from the command to sampling");
    for threads in &options.threads {
        let (mut stops, mut begins) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            let (stop, begin) = attached(&program, *threads, whatif)?;
            stops.push(stop);
            begins.push(begin);
        }
        println!("{threads:>8}  {:>32}  {:>32}", shown(&stops), shown(&begins));
    }
    match options.ways.is_empty() {
        _ if options.seconds <= 0.0 => {}
        true => compare(options, whatif)?,
        false => compare_ways(options, whatif)?,
    }
    println!("{}", machine.watch().sentence());
    Ok(())
}

fn shown(milliseconds: &[f64]) -> String {
    let Interval { estimate, low, high } = Interval::of_median(milliseconds);
    let most = milliseconds.iter().copied().fold(0.0, f64::max);
    format!("{estimate:.1} ms [{low:.1}, {high:.1}], most {most:.1}")
}

/// A process that is killed in the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Result<Running> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Running).with_context(|| format!("starting {command:?}"))
}

/// The longest time that a thread was stopped, and the time until the first one is sampled, in milliseconds.
fn attached(program: &Path, threads: u32, whatif: &Whatif) -> Result<(f64, f64)> {
    let running = start(Command::new(program).arg(threads.to_string()))?;
    let pid = running.0.id();
    let begin = Instant::now();
    while count(&format!("/proc/{pid}/task"), |_| true) < threads as usize {
        ensure!(begin.elapsed() < Duration::from_secs(60), "{threads} threads cannot be had");
        sleep(Duration::from_millis(1));
    }
    // They have begun to sleep.
    sleep(Duration::from_millis(200));
    whatif.forget()?;
    let mut command = whatif.attach(&["--duration", "2", "-p", "done"], pid);
    let begin = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let is_event = |link: PathBuf| link.as_os_str() == "anon_inode:[perf_event]";
    while count(&format!("/proc/{pid}/fd"), is_event) == 0 {
        ensure!(begin.elapsed() < Duration::from_secs(60), "no thread is sampled (are perf events refused?)");
        sleep(Duration::from_millis(1));
    }
    let begun = begin.elapsed();
    let said = child.wait_with_output()?.stderr;
    let said = String::from_utf8_lossy(&said);
    let stop = said.split_once("stopped for longer than ").and_then(|(_, rest)| rest.split(' ').next());
    let Some(stop) = stop.and_then(|word| word.parse().ok()) else {
        bail!("it did not say how long threads were stopped: {said}")
    };
    Ok((stop, begun.as_secs_f64() * 1e3))
}

/// How many entries of a folder of links lead to what is asked for.
fn count(folder: &str, is_it: impl Fn(PathBuf) -> bool) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| is_it(std::fs::read_link(entry.path()).unwrap_or_default())).count()
}

/// The place in the source of a target where its point is.
fn place(target: &Target) -> Result<String> {
    let file =
        ["c", "cpp"].into_iter().map(|ending| format!("{}.{ending}", target.program)).find_map(|name| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/c").join(&name);
            Some((name, std::fs::read_to_string(path).ok()?))
        });
    let (name, text) = file.with_context(|| format!("{} is not written in C", target.name))?;
    let mark = format!("WHATIF_PROGRESS_NAMED(\"{}\")", target.point);
    let line = text.lines().position(|line| line.contains(&mark));
    let line = line.with_context(|| format!("{name} has its point in another file"))?;
    Ok(format!("{name}:{}", line + 1))
}

/// The targets that are compared.
fn compared(options: &Options) -> Result<Vec<&'static Target>> {
    targets::build().context("building the targets")?;
    match options.only.is_empty() {
        true => Ok(program::existing(&COMPARED)),
        false => program::with_regions(program::chosen(&options.only)?),
    }
}

/// Launches targets, and attaches to them, by turns.
fn compare(options: &Options, whatif: &Whatif) -> Result<()> {
    let targets = compared(options)?;
    println!(
        "\ngain if a region were faster, in per cent of the time per visit: launched, attached to, and the difference"
    );
    let (mut all, mut equal) = (0, 0);
    for target in targets {
        let place = place(target)?;
        for region in target.regions {
            let line = line(target, options)?;
            let launched = predict(&line, region, &place, options, whatif, false)?;
            let attached = predict(&line, region, &place, options, whatif, true)?;
            for speedup in SPEEDUPS {
                let (Some(launched), Some(attached)) = (find(&launched, speedup), find(&attached, speedup))
                else {
                    println!("  {:<14} {region} {speedup:>3} %  no answer", target.name);
                    all += 1;
                    continue;
                };
                let (difference, half) = difference(attached, launched);
                all += 1;
                equal += u32::from(difference.abs() <= half);
                println!(
                    "  {:<14} {region} {speedup:>3} %  {:>6.1}  {:>6.1}  {:>+6.1} ± {:.1}",
                    target.name,
                    launched.estimate * 100.0,
                    attached.estimate * 100.0,
                    difference * 100.0,
                    half * 100.0
                );
            }
        }
    }
    println!("equal within their intervals: {equal} of {all}");
    Ok(())
}

/// Launches targets as they usually are, and launches and attaches to those that were built in other ways.
fn compare_ways(options: &Options, whatif: &Whatif) -> Result<()> {
    let targets = compared(options)?;
    let folder = tempfile::tempdir()?;
    println!(
        "\ngain if a region were faster, in per cent of the time per visit: as usual; built in another way and launched, and attached to"
    );
    let (mut all, mut equal) = (0, 0);
    for target in targets {
        let place = place(target)?;
        for region in target.regions {
            let usual = line(target, options)?;
            let launched = predict(&usual, region, &place, options, whatif, false)?;
            for way in &options.ways {
                let mut line = usual.clone();
                line[0] = way.build(target, folder.path())?.into_os_string();
                let others = [false, true]
                    .map(|is_attached| predict(&line, region, &place, options, whatif, is_attached));
                for speedup in SPEEDUPS {
                    print!("  {:<14} {region} {speedup:>3} %  {:<12}", target.name, format!("{way:?}"));
                    let usual = find(&launched, speedup);
                    print!(
                        "  {}",
                        usual.map_or("none".to_owned(), |one| format!("{:>6.1}", one.estimate * 100.0))
                    );
                    for other in &others {
                        all += 1;
                        let other = other.as_ref().ok().and_then(|other| find(other, speedup));
                        let (Some(usual), Some(other)) = (usual, other) else {
                            print!("    no answer     ");
                            continue;
                        };
                        let (difference, half) = difference(other, usual);
                        equal += u32::from(difference.abs() <= half);
                        print!(
                            "  {:>6.1} ({:>+5.1} ± {:.1})",
                            other.estimate * 100.0,
                            difference * 100.0,
                            half * 100.0
                        );
                    }
                    println!();
                }
                for other in others {
                    if let Err(error) = other {
                        println!("  {:<14} {region}  {way:?}: {error:#}", target.name);
                    }
                }
            }
        }
    }
    println!("equal within their intervals: {equal} of {all}");
    Ok(())
}

const SPEEDUPS: [u32; 2] = [50, 100];

fn find(all: &[Prediction], speedup: u32) -> Option<Interval> {
    all.iter().find(|one| one.speedup == speedup).and_then(interval)
}

/// How much more the one is, and half of the interval of that.
fn difference(one: Interval, other: Interval) -> (f64, f64) {
    let half = |one: Interval| (one.high - one.low) / 2.0;
    (one.estimate - other.estimate, half(one).hypot(half(other)))
}

/// The command line of a target that runs for long enough.
fn line(target: &Target, options: &Options) -> Result<Vec<OsString>> {
    program::command_line(target, &[format!("seconds={}", options.seconds + 20.0)])
}

fn interval(prediction: &Prediction) -> Option<Interval> {
    Some(Interval { estimate: prediction.gain, low: prediction.low?, high: prediction.high? })
}

fn predict(
    line: &[OsString],
    region: &str,
    place: &str,
    options: &Options,
    whatif: &Whatif,
    is_attached: bool,
) -> Result<Vec<Prediction>> {
    let seconds = options.seconds;
    let speedups = SPEEDUPS.map(|speedup| speedup.to_string()).join(",");
    let duration = seconds.to_string();
    let asked = ["--quiet", "--region", region, "--speedup", &speedups, "-p", place, "--duration", &duration];
    whatif.forget()?;
    let limit = limit(seconds + 20.0);
    if is_attached {
        let running = start(Command::new(&line[0]).args(&line[1..]))?;
        sleep(Duration::from_millis(300));
        program::output_within(&mut whatif.attach(&asked, running.0.id()), limit)?;
    } else {
        program::output_within(&mut whatif.run_with(&asked, Mode::Full, line), limit)?;
    }
    Ok(whatif.report(&whatif.file())?.answers_about(region, place, &SPEEDUPS))
}
