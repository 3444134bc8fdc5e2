//! Bytes on disk and in memory, and how long a question about a day takes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use archive::{Database, MachineInfo, Selection, Setting, Store, UnixSeconds};
use collect::{Collected, Collector, Writer};

use super::daemon::Daemon;
use super::{Bench, as_number, build_machine};
use crate::interval::{Interval, count};
use crate::program;
use crate::tables::load;

/// Different minutes that are recorded.
const MINUTES: usize = 20;
/// Minutes of the day that is made of them.
const DAY: usize = 1440;
/// A minute at the default rate has as many samples as so many seconds at ten times the rate.
const SECONDS: f64 = 6.0;
const RATE: f64 = 97.0;

impl Bench<'_> {
    pub fn disk(&self) -> Result<()> {
        println!(
            "a day of this machine at 97 Hz, replayed from {MINUTES} different minutes (recorded at 970 Hz in 6 s each): \
             under a C compiler on one CPU and sqlite on the other; then under two shells that run programs of a few milliseconds, \
             which have 50,000 functions"
        );
        let programs = tempfile::tempdir()?;
        let steps = build_machine::build(programs.path())?;
        let compiler = [crate::tables::COMPILE, "while :; do \"$T/sqlite\" >/dev/null; done"];
        let days = [
            ("with callers", compiler, true, "cc1"),
            ("without callers", compiler, false, "cc1"),
            ("build machine", [&*steps, &*steps], true, "bash"),
        ];
        for (name, loads, stacks, process) in days {
            let folder = tempfile::tempdir()?;
            let day = day(folder.path(), loads, stacks)?;
            println!(
                "  {name:<16} {} samples, {:.2} bytes each after a single minute, {:.3} at the end of the day ({:.1} MB, of which the \
                 catalogue {:.1}; {} instructions); write {:.1} ms a minute, compaction {:.1} ms a minute (longest {:.0} ms)",
                day.samples,
                day.first_bytes / day.first_samples,
                as_number(day.bytes) / as_number(day.samples),
                as_number(day.bytes) / 1e6,
                as_number(std::fs::metadata(folder.path().join("catalogue.db"))?.len()) / 1e6,
                day.positions,
                1e3 * day.writing.as_secs_f64() / count(DAY),
                1e3 * day.compacting.as_secs_f64() / count(DAY),
                1e3 * day.longest.as_secs_f64(),
            );
            self.queries(folder.path(), day.begin, process)?;
        }
        let folder = tempfile::tempdir()?;
        let daemon = Daemon::start(
            self.whatif.path(),
            folder.path(),
            &["--rate", "997", "--max-cpu", "100%", "--interval", "10"],
        )?;
        let loads = [load(crate::tables::COMPILE)?, load(crate::tables::FORKS)?];
        std::thread::sleep(Duration::from_secs(u64::from(self.options.accuracy)));
        drop(loads);
        let peak = daemon.peak()?;
        let resident = daemon.state().and_then(|state| state["last"]["resident_bytes"].as_f64());
        daemon.end()?;
        println!(
            "  memory at 997 Hz, a C compiler and short processes: {:.1} MB resident, {:.1} MB at most",
            resident.unwrap_or(f64::NAN) / 1e6,
            as_number(peak) / 1e6
        );
        Ok(())
    }

    /// How long questions take that people ask.
    fn queries(&self, folder: &Path, begin: i64, process: &str) -> Result<()> {
        let at = |minute: i64| utc(begin + 60 * minute);
        let half = |from, to| format!("{}..{}", at(from), at(to));
        let (first, second) = (half(0, 720), half(720, 1440));
        let questions: [(&str, Vec<&str>); 5] = [
            ("top 20", vec!["top"]),
            ("top 20 images", vec!["top", "--by", "image"]),
            ("top 20 of one process", vec!["top", "--process", process]),
            ("top 20 lines", vec!["top", "--by", "line"]),
            ("diff of two halves", vec!["diff", &first, &second]),
        ];
        for (name, words) in questions {
            let mut times = Vec::new();
            for _ in 0..=self.options.rounds {
                let mut command = Command::new(self.whatif.path());
                command.args(&words).arg("--db").arg(folder);
                let begin = Instant::now();
                program::output(&mut command)?;
                times.push(1e3 * begin.elapsed().as_secs_f64());
            }
            let again = Interval::of_median(&times[1..]);
            println!(
                "    {name:<24} {:>6.0} ms the first time, then {:.0} [{:.0}, {:.0}] ms",
                times[0], again.estimate, again.low, again.high
            );
        }
        Ok(())
    }
}

struct Day {
    begin: i64,
    samples: u64,
    bytes: u64,
    /// Different instructions that were sampled.
    positions: usize,
    first_samples: f64,
    first_bytes: f64,
    writing: Duration,
    compacting: Duration,
    longest: Duration,
}

/// Writes a day as the collector does.
fn day(folder: &Path, [first, second]: [&str; 2], stacks: bool) -> Result<Day> {
    let loads = [load(first)?, load(second)?];
    let mut collector = Collector::start(collect::Options {
        stacks,
        unwind: false,
        ..collect::Options::of_clock(true, 10.0 * RATE)
    })?;
    let mut minutes = Vec::new();
    for _ in 0..MINUTES {
        minutes.push(minute(&mut collector));
    }
    drop(loads);
    let mut store = Store::open(folder)?;
    let machine = store.machine(&MachineInfo {
        key: "bench".into(),
        host: "bench".into(),
        ..MachineInfo::default()
    })?;
    let setting = Setting {
        events: vec!["cpu-clock".to_owned()],
        rate_hz: RATE,
        resolution: profile::Nanos::from_millis(if stacks { 60_000 } else { 600_000 }),
        ..Setting::default()
    };
    // Two days ago, at midnight.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let begin = i64::try_from(now - now % 86_400)? - 2 * 86_400;
    let epoch = store.begin_epoch(machine, &setting, None, UnixSeconds(begin))?;
    // As by default.
    let mut writer = Writer::new(if stacks { 60 } else { 600 });
    let mut day = Day {
        begin,
        samples: 0,
        bytes: 0,
        positions: 0,
        first_samples: 1.0,
        first_bytes: 0.0,
        writing: Duration::ZERO,
        compacting: Duration::ZERO,
        longest: Duration::ZERO,
    };
    for number in 0..DAY {
        let mut collected = minutes[fastrand::usize(..MINUTES)].clone();
        collected.start = UnixSeconds(begin + 60 * i64::try_from(number)?);
        collected.length = profile::Nanos::from_millis(60_000);
        day.samples += collected.size().0;
        let before = Instant::now();
        let flushed = writer.write(&collected, &mut store, epoch)?;
        day.writing += before.elapsed();
        if number == 0 {
            (day.first_bytes, day.first_samples) = (as_number(flushed.bytes), as_number(collected.size().0));
        }
        let before = Instant::now();
        store.compact(UnixSeconds(collected.start.0 + 60), &mut || ())?;
        day.compacting += before.elapsed();
        day.longest = day.longest.max(before.elapsed());
    }
    store.end_epoch(epoch, UnixSeconds(begin + 86_400))?;
    // What is over now is merged when the collector has time.
    while store.compact(UnixSeconds(begin + 2 * 86_400), &mut || ())?.read > 0 {}
    day.bytes = store.bytes()?;
    day.positions = Database::open(folder)?.leaves(&Selection::default())?.len();
    Ok(day)
}

fn minute(collector: &mut Collector) -> Collected {
    let end = Instant::now() + Duration::from_secs_f64(SECONDS);
    while Instant::now() < end {
        collector.wait(Duration::from_millis(100));
        collector.tick();
    }
    collector.collect()
}

/// A time as the tools read it.
fn utc(unix: i64) -> String {
    jiff::Timestamp::from_second(unix).map_or_else(|_| unix.to_string(), |time| time.to_string())
}
