//! Does the audit notice when the engine is broken? The same programs are profiled with a sound engine and with one that was broken on
//! purpose, in each of several ways.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use targets::Target;

use crate::interval::Interval;
use crate::machine::{Machine, Patience};
use crate::native::{self, Effort, Truth};
use crate::profiler::{Question, Whatif};
use crate::program;

#[derive(Debug, Args)]
pub struct Options {
    /// Only these ways of breaking it (may be repeated; `none` is the sound engine) [default: all]
    #[arg(long = "fault", value_name = "NAME")]
    faults: Vec<String>,

    /// Only the targets called this (may be repeated) [default: for each fault those that it concerns, for `none` all]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Native runs of every variant
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// Length of each native run
    #[arg(long, default_value_t = 0.4)]
    seconds: f64,

    /// Length of each profiled run
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0)]
    profile_seconds: f64,

    /// Speedups in per cent
    #[arg(long, value_delimiter = ',', default_values_t = [50, 100])]
    speedups: Vec<u32>,

    /// Only a part of the sound runs: 2/3 is the second of three
    #[arg(long, value_name = "I/N", default_value_t = crate::truth::plan::Shard::ALL)]
    shard: crate::truth::plan::Shard,

    /// Do not measure the truth of programs that the sound engine runs: only count which runs are flagged
    #[arg(long)]
    without_truth: bool,
}

/// A way of breaking the engine.
#[derive(Debug)]
pub struct Fault {
    /// What tables call it.
    pub name: &'static str,
    /// Options of `whatif run`.
    pub options: &'static [&'static str],
    /// The targets that need what is broken.
    pub targets: &'static [&'static str],
}

const fn left_out(
    name: &'static str,
    options: &'static [&'static str],
    targets: &'static [&'static str],
) -> Fault {
    Fault { name, options, targets }
}

/// All ways of breaking it that change an answer, each with targets that it changes. Without effect, so that nothing is left to be found (three runs each: predictions and audit as
/// with the sound engine): `pthread_mutex_unlock` left out on `mutex` and `pipeline`, `pthread_cond_signal` on `pipeline`, `sem_post` on `semaphore`, `pthread_rwlock_wrlock` on
/// `rwlock`, `epoll_wait` on `tokio_rs`; `threads-as-world` on `barrier`; `world-as-threads` on `io_sleep`.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "spins",
        options: &["--fault", "spins"],
        targets: &["single", "two_threads", "mutex", "pipeline", "barrier", "pool_4"],
    },
    Fault {
        name: "credits",
        options: &["--fault", "credits"],
        targets: &["single", "two_threads", "mutex", "pipeline", "barrier", "pool_4", "rayon_rs", "server"],
    },
    Fault {
        name: "threads-as-world",
        options: &["--fault", "threads-as-world"],
        targets: &["mutex", "pipeline", "condition_variable", "mutex_rs", "request_pipe"],
    },
    Fault {
        name: "world-as-threads",
        options: &["--fault", "world-as-threads"],
        targets: &["idle", "latency_open"],
    },
    left_out("without pthread_mutex_lock", &["--leave-out", "pthread_mutex_lock"], &["mutex", "sections"]),
    left_out(
        "without pthread_cond_wait",
        &["--leave-out", "pthread_cond_wait"],
        &["pipeline", "condition_variable", "producer_consumer"],
    ),
    left_out("without pthread_cond_clockwait", &["--leave-out", "pthread_cond_clockwait"], &["wait_for"]),
    left_out("without pthread_barrier_wait", &["--leave-out", "pthread_barrier_wait"], &["barrier"]),
    left_out(
        "without pthread_join",
        &["--leave-out", "pthread_join"],
        &["two_threads", "short_lived", "fork_join"],
    ),
    left_out("without sem_wait", &["--leave-out", "sem_wait"], &["semaphore"]),
    left_out(
        "without syscall",
        &["--leave-out", "syscall"],
        &["mutex_rs", "mpsc_rs", "crossbeam_rs", "barrier_rs", "atomic_wait"],
    ),
    left_out("without read", &["--leave-out", "read"], &["pipe_queue", "request_pipe"]),
    left_out("without epoll_wait", &["--leave-out", "epoll_wait"], &["request_epoll"]),
    left_out(
        "without nanosleep",
        &["--leave-out", "nanosleep,clock_nanosleep,usleep"],
        &["io_sleep", "idle"],
    ),
    left_out("without pthread_rwlock_wrlock", &["--leave-out", "pthread_rwlock_wrlock"], &["readers"]),
    left_out(
        "without pthread_rwlock_rdlock",
        &["--leave-out", "pthread_rwlock_rdlock"],
        &["rwlock", "readers"],
    ),
    left_out("without write", &["--leave-out", "write"], &["pipe_queue", "request_pipe"]),
];

/// The sound engine.
const NONE: &str = "none";

/// A run whose answers are further off, in points, has to be flagged.
const OFF: f64 = 10.0;

/// Runs, counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    runs: usize,
    flagged: usize,
    /// Runs that are more than [`OFF`] points off, beyond what is unsure of the truth.
    off: usize,
    /// Runs that are off and flagged.
    off_flagged: usize,
}

impl Counts {
    fn add(&mut self, off: bool, flagged: bool) {
        self.runs += 1;
        self.flagged += usize::from(flagged);
        self.off += usize::from(off);
        self.off_flagged += usize::from(off && flagged);
    }

    fn with(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            flagged: self.flagged + other.flagged,
            off: self.off + other.off,
            off_flagged: self.off_flagged + other.off_flagged,
        }
    }
}

pub fn run(options: &Options, machine: &Machine, whatif: &Whatif) -> Result<()> {
    ensure!(options.rounds >= 2, "--rounds must be at least 2, to see the noise");
    program::check_speedups(&options.speedups)?;
    for name in &options.faults {
        ensure!(
            name == NONE || FAULTS.iter().any(|fault| fault.name == name),
            "there is no fault '{name}'; choose from: {NONE}, {}",
            FAULTS.iter().map(|fault| fault.name).collect::<Vec<_>>().join(", ")
        );
    }
    targets::build().context("building the targets")?;
    let wanted = |name: &str| options.faults.is_empty() || options.faults.iter().any(|fault| fault == name);
    let mut audit = Audit { options, machine, whatif, truths: HashMap::new() };
    println!("{:<32} {:<22} {:<10} {:>7} {:>9}", "fault", "target", "region", "off by", "audit");
    let mut broken = Counts::default();
    for fault in FAULTS.iter().filter(|fault| wanted(fault.name)) {
        let targets = match options.only.is_empty() {
            true => program::with_regions(program::existing(fault.targets))?,
            false => program::chosen(&options.only)?,
        };
        let counts = audit.try_out(fault.name, fault.options, &targets, true)?;
        println!("{:<32} {}", fault.name, sentence(&counts));
        broken = broken.with(counts);
    }
    let mut sound = Counts::default();
    if wanted(NONE) {
        let targets = options.shard.part(program::with_regions(program::chosen(&options.only)?)?);
        sound = audit.try_out(NONE, &[], &targets, !options.without_truth)?;
    }
    println!();
    if broken.runs > 0 {
        println!("broken on purpose: {}", sentence(&broken));
    }
    if sound.runs > 0 {
        println!("sound: {}", sentence(&sound));
    }
    println!("{}", machine.watch().sentence());
    Ok(())
}

fn sentence(counts: &Counts) -> String {
    let Counts { runs, flagged, off, off_flagged } = *counts;
    let share = |some: usize, all: usize| {
        if all == 0 {
            String::new()
        } else {
            let share = crate::interval::count(some) / crate::interval::count(all);
            format!(" ({:.0} %)", share * 100.0)
        }
    };
    format!(
        "{flagged} of {runs} runs flagged{}; {off} more than {OFF} points off, {off_flagged} of them flagged{}",
        share(flagged, runs),
        share(off_flagged, off)
    )
}

struct Audit<'a> {
    options: &'a Options,
    machine: &'a Machine,
    whatif: &'a Whatif,
    truths: HashMap<&'static str, Vec<Truth>>,
}

impl Audit<'_> {
    fn try_out(
        &mut self,
        name: &str,
        broken: &[&str],
        targets: &[&'static Target],
        with_truth: bool,
    ) -> Result<Counts> {
        let mut counts = Counts::default();
        let of_run: Vec<String> = broken.iter().map(|&option| option.to_owned()).collect();
        let patience = Patience::new(1, Duration::from_mins(2));
        for target in targets {
            if with_truth && !self.truths.contains_key(target.name) {
                let effort = Effort { rounds: self.options.rounds, seconds: self.options.seconds };
                let truths =
                    native::truths(*target, &self.options.speedups, effort, self.machine, &patience)?.value;
                self.truths.insert(target.name, truths);
            }
            for region in target.regions {
                let (speedups, seconds) = (&self.options.speedups, self.options.profile_seconds);
                let question = Question { target: *target, region, speedups, seconds };
                let asked =
                    self.machine.patiently(&patience, || self.whatif.predict_with(&of_run, &question));
                let answers = match asked {
                    Ok(measured) => measured.value,
                    // No answer is no wrong answer.
                    Err(error) => {
                        eprintln!("{} {region}: {error:#}", target.name);
                        continue;
                    }
                };
                let flagged = answers.first().and_then(|answer| answer.trusted) == Some(false);
                let worst = self.truths.get(target.name).map(|truths| {
                    let of_region = truths.iter().filter(|truth| truth.region == *region);
                    let beyond = of_region.filter_map(|truth| {
                        let answer = answers.iter().find(|answer| answer.speedup == truth.speedup)?;
                        Some(beyond(answer.gain, truth.gain) * 100.0)
                    });
                    beyond.fold(0.0, f64::max)
                });
                counts.add(worst.is_some_and(|worst| worst > OFF), flagged);
                println!(
                    "{name:<32} {:<22} {region:<10} {:>7} {:>9}",
                    target.name,
                    worst.map_or_else(|| "?".to_owned(), |worst| format!("{worst:.1}")),
                    if flagged { "flagged" } else { "balances" }
                );
            }
        }
        Ok(counts)
    }
}

/// How far a prediction is from the truth, beyond what is unsure of the truth.
fn beyond(gain: f64, truth: Interval) -> f64 {
    (gain - truth.estimate).abs() - truth.half_width().min(0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_targets_that_exist() {
        for fault in FAULTS {
            for target in fault.targets {
                assert!(targets::TARGETS.iter().any(|known| known.name == *target), "{target}");
            }
        }
    }

    #[test]
    fn what_is_unsure_of_the_truth_is_no_error() {
        let truth = Interval { estimate: 0.5, low: 0.47, high: 0.53 };
        assert!((beyond(0.65, truth) - 0.12).abs() < 1e-9);
        assert!(beyond(0.52, truth) < 0.0);
    }
}
