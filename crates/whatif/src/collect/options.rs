//! What was typed, as what it means.

use super::cli::Collect;
use super::events::{Events, events};
use super::exporter::address;
use crate::continuous::bytes as size;
use anyhow::{Context as _, Result, bail, ensure};
use archive::Retention;
use collect::{Budget, Limits};
use cycles::{check_epoch_name, default_folder, time::age};
use profile::Nanos;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What `whatif collect` is to do.
#[derive(Clone, Debug)]
pub struct Options {
    pub folder: PathBuf,
    pub events: Events,
    pub budget: Budget,
    pub stacks: bool,
    pub unwind: bool,
    pub off_cpu: bool,
    pub own: bool,
    pub labels: BTreeMap<String, String>,
    pub commands: bool,
    /// Seconds.
    pub interval: i64,
    /// Seconds.
    pub resolution: i64,
    /// Bytes.
    pub max_memory: u64,
    pub retention: Retention,
    /// Bytes that names of functions may take in the database.
    pub max_symbols: u64,
    pub name: Option<String>,
    pub duration: Option<Duration>,
    pub metrics: Option<SocketAddr>,
    pub seed: u64,
    pub quiet: bool,
}

fn labels(given: &[(String, String)]) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for (name, value) in given {
        ensure!(
            labels.insert(name.clone(), value.clone()).is_none(),
            "--label {name} is given twice; leave one out"
        );
    }
    Ok(labels)
}

/// Time between two writes, and the length of a time bucket, in seconds. Parts of a short trial can be looked at and compared, too.
fn times(args: &Collect) -> (u32, u32) {
    const USUAL: u32 = 60;
    const SHORT_TRIAL: Duration = Duration::from_secs(1800);
    let usual = if args.pc_only { 10 * USUAL } else { USUAL };
    let trial = args.duration.filter(|trial| *trial < SHORT_TRIAL);
    let of_trial = trial.and_then(|trial| bucket_for(trial, args.interval.unwrap_or(1)));
    let resolution = args.resolution.or(of_trial).unwrap_or(usual);
    (args.interval.unwrap_or(resolution.min(USUAL)), resolution)
}

/// The longest time bucket of which a trial has thirty or more, as far as seconds allow: one that divides a minute, and is no shorter than the time
/// between two writes.
fn bucket_for(trial: Duration, interval: u32) -> Option<u32> {
    const BUCKETS: [u32; 8] = [60, 30, 20, 15, 10, 5, 2, 1];
    let most = trial.as_secs() / 30;
    let wanted = BUCKETS.into_iter().find(|length| u64::from(*length) <= most).unwrap_or(1);
    BUCKETS.into_iter().rev().find(|length| *length >= wanted.max(interval))
}

/// More samples than this are never needed, and the collector could not take them.
const MOST_HZ: f64 = 50_000.0;
/// Less memory would be written at every look at it, and less of the disk has no room for what was written last.
const LEAST_BYTES: u64 = 10_000_000;
/// What names may take of a large disk: those of some thousand programs and libraries.
const USUAL_SYMBOLS: u64 = 200_000_000;
/// What is old is looked for that often.
const LEAST_KEPT: Nanos = Nanos::new(3_600_000_000_000);
/// So many segments get longer time buckets in an hour: shortening the time after which they do leaves many to change.
const MOST_COARSENED: usize = 8;

impl Options {
    pub fn of(args: &Collect) -> Result<Self> {
        if !(args.rate >= 0.1 && args.rate <= MOST_HZ) {
            bail!("--rate {} is no rate; give samples per second and CPU, from 0.1 to {MOST_HZ}", args.rate);
        }
        let (interval, resolution) = times(args);
        if interval > resolution {
            bail!(
                "--interval {interval} is longer than a time bucket of {resolution} s; give --resolution {interval} as well, or a \
                 shorter interval"
            );
        }
        let percent = args.max_cpu.trim_end_matches('%').trim().parse::<f64>().ok();
        let Some(percent) = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0) else {
            bail!("--max-cpu {} is no part of the machine; give a percentage, such as 1%", args.max_cpu);
        };
        let bytes = |option: &str, text: &str| -> Result<u64> {
            let bytes = size(text)
                .with_context(|| format!("{option} {text} is no size; give bytes, or such as 40M or 2G"))?;
            ensure!(bytes >= LEAST_BYTES, "{option} {text} leaves no room for a profile; give 10M or more");
            Ok(bytes)
        };
        let old = |option: &str, text: &str| -> Result<Nanos> {
            age(text).with_context(|| format!("{option} {text} is no age; give such as 12h, 30d or 8w"))
        };
        let max_disk = bytes("--max-disk", &args.max_disk)?;
        let max_symbols = match &args.max_symbols {
            None => USUAL_SYMBOLS.min(max_disk / 4),
            Some(text) => size(text).with_context(|| {
                format!("--max-symbols {text} is no size; give bytes, or such as 40M, or 0 for none")
            })?,
        };
        ensure!(
            max_symbols <= max_disk / 2,
            "--max-symbols {} is more than half of --max-disk {}, of which it is a part; give more of the disk, or less for names",
            args.max_symbols.as_deref().unwrap_or_default(),
            args.max_disk
        );
        let keep = old("--keep", &args.keep)?;
        ensure!(keep >= LEAST_KEPT, "--keep {} removes what was just written; give 1h or more", args.keep);
        args.name.as_deref().map_or(Ok(()), check_epoch_name)?;
        Ok(Self {
            folder: default_folder(args.folder.db.as_deref())?,
            events: events(&args.events, kernel::stream::exists)?,
            budget: Budget { rate_hz: args.rate, cpu: percent / 100.0 },
            stacks: !args.pc_only,
            unwind: !args.frame_pointers,
            off_cpu: args.off_cpu,
            own: args.own,
            labels: labels(&args.label)?,
            commands: args.command_lines,
            interval: interval.into(),
            resolution: resolution.into(),
            max_memory: bytes("--max-memory", &args.max_memory)?,
            retention: Retention {
                keep: Some(keep),
                coarse_after: Some(old("--coarse-after", &args.coarse_after)?),
                most_coarsened: Some(MOST_COARSENED),
                most_bytes: Some(max_disk),
            },
            max_symbols,
            name: args.name.clone(),
            duration: args.duration,
            metrics: args.metrics.as_deref().map(address).transpose()?,
            seed: args.seed.unwrap_or_else(|| fastrand::u64(..)),
            quiet: args.quiet,
        })
    }

    /// How much memory lists may take that grow with what programs do.
    pub fn limits(&self) -> Limits {
        let cpus = kernel::cpu::numbers().len() * self.events.sources.len();
        Limits::of(self.max_memory, self.budget.rate_hz * cpus as f64 * self.interval as f64)
    }

    /// Room for the kernel, for each CPU: about two seconds of samples, in bytes.
    pub fn ring_bytes(&self) -> usize {
        let a_sample = match (self.stacks, self.unwind) {
            (true, true) => 2400.0,
            (true, false) => 400.0,
            _ => 40.0,
        };
        // Stacks of threads that wait: at most two a sample, of one to four kilobytes as a rule. Where a program has large stacks, copies of 56 KB fill
        // the ring sooner, and what has no room is counted as lost.
        let a_wait = if self.off_cpu { 2.0 * 2400.0 } else { 0.0 };
        let bytes = 2.0 * self.budget.rate_hz * (a_sample * self.events.sources.len() as f64 + a_wait);
        (bytes as usize).next_power_of_two().clamp(1 << 18, 1 << 22)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        collect: Collect,
    }

    #[test]
    fn a_short_trial_has_short_time_buckets() {
        for (typed, expected) in [
            (&[][..], (60, 60)),
            (&["--pc-only"], (60, 600)),
            (&["--duration", "1s"], (1, 1)),
            (&["--duration", "45s"], (1, 1)),
            (&["--duration", "60s"], (2, 2)),
            (&["--duration", "5m"], (10, 10)),
            (&["--duration", "1799s"], (30, 30)),
            (&["--duration", "30m"], (60, 60)),
            (&["--duration", "12m"], (20, 20)),
            (&["--duration", "3d"], (60, 60)),
            (&["--duration", "12m", "--pc-only"], (20, 20)),
            (&["--duration", "3d", "--pc-only"], (60, 600)),
            (&["--duration", "60s", "--interval", "7s"], (7, 10)),
            (&["--duration", "60s", "--interval", "90s"], (90, 60)),
            (&["--duration", "60s", "--interval", "20s"], (20, 20)),
            (&["--duration", "60s", "--resolution", "30s"], (30, 30)),
            (&["--resolution", "10m"], (60, 600)),
        ] {
            let Typed { collect } = Typed::parse_from([&["collect"], typed].concat());
            assert_eq!(times(&collect), expected, "{typed:?}");
        }
    }
}
