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

/// A time bucket with which what is collected for so long has thirty of them or more, as far as seconds allow; they divide a minute.
fn bucket_for(duration: Duration) -> u32 {
    let most = duration.as_secs() / 30;
    [60, 30, 20, 15, 10, 5, 2].into_iter().find(|length| u64::from(*length) <= most).unwrap_or(1)
}

impl Options {
    pub fn of(args: &Collect) -> Result<Self> {
        if !(args.rate >= 0.1 && args.rate <= MOST_HZ) {
            bail!("--rate {} is no rate; give samples per second and CPU, from 0.1 to {MOST_HZ}", args.rate);
        }
        let usual = if args.pc_only { 600 } else { 60 };
        let fine = args.duration.map(|duration| bucket_for(duration).max(args.interval.unwrap_or(0)));
        let resolution = args.resolution.unwrap_or(fine.unwrap_or(usual).min(usual));
        let interval = args.interval.unwrap_or(60.min(resolution));
        ensure!(
            interval <= resolution,
            "--interval {interval} is longer than a time bucket of {resolution} s; give --resolution {interval} as well, or a shorter \
             interval"
        );
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
        // Stacks of threads that wait: at most two a sample, of one to four kilobytes.
        let a_wait = if self.off_cpu { 2.0 * 2400.0 } else { 0.0 };
        let bytes = 2.0 * self.budget.rate_hz * (a_sample * self.events.sources.len() as f64 + a_wait);
        (bytes as usize).next_power_of_two().clamp(1 << 18, 1 << 22)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_trial_has_thirty_time_buckets() {
        for (seconds, expected) in
            [(1, 1), (45, 1), (60, 2), (300, 10), (600, 20), (1799, 30), (1800, 60), (86_400, 60)]
        {
            assert_eq!(bucket_for(Duration::from_secs(seconds)), expected, "{seconds} s");
        }
    }
}
