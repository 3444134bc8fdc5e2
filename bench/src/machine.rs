//! The machine, and whether others are using it.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Runs things when nobody else uses the machine.
#[derive(Debug)]
pub struct Machine {
    busy: f64,
}

/// How often a run is repeated before giving up, and the pause between: five minutes in all.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_secs(3);

impl Machine {
    /// `busy`: the share of all CPUs that others may use during a measurement.
    pub fn new(busy: f64) -> Self {
        Self { busy }
    }

    /// Measures until others left the machine alone meanwhile.
    pub fn quietly<T>(&self, mut measure: impl FnMut() -> Result<T>) -> Result<T> {
        let mut others = 0.0;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sleep(PAUSE);
            }
            let before = Ticks::now()?;
            let measured = measure()?;
            others = Ticks::now()?.others_since(&before);
            if others <= self.busy {
                return Ok(measured);
            }
        }
        bail!(
            "other programs use {:.0} % of this machine; stop them, or allow it with --busy {:.2}",
            others * 100.0,
            others + 0.05
        )
    }
}

/// CPU time in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    /// All CPUs, busy or not.
    all: u64,
    /// All CPUs, busy for whomever; a hypervisor's other guests count as others.
    busy: u64,
    /// This process and the children that it has waited for.
    own: u64,
}

impl Ticks {
    fn now() -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        let own = fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
        Self::parse(&stat, &own).context("unexpected contents of /proc/stat or /proc/self/stat")
    }

    /// See proc_stat(5) and proc_pid_stat(5).
    fn parse(stat: &str, own: &str) -> Option<Self> {
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let cpus = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let cpus: Vec<u64> =
            cpus.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let all = cpus.iter().sum();
        let idle = cpus.get(3)? + cpus.get(4)?;
        // The name, in parentheses, may contain anything. utime, stime, cutime and cstime are
        // fields 14 to 17; the first one after the name is 3.
        let (_, fields) = own.rsplit_once(')')?;
        let own =
            fields.split_whitespace().skip(11).take(4).map(str::parse::<u64>).sum::<Result<u64, _>>().ok()?;
        Some(Self { all, busy: all - idle, own })
    }

    /// The share of all CPUs that others used since `before`. The two files count a tick (10 ms) at
    /// different moments: the first few are not held against anyone.
    #[expect(clippy::cast_precision_loss)]
    fn others_since(&self, before: &Self) -> f64 {
        const SLACK: u64 = 4;
        let all = (self.all - before.all).max(1);
        let busy = self.busy - before.busy;
        let own = self.own - before.own;
        busy.saturating_sub(own + SLACK) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_from_proc() {
        let stat = "cpu  10 1 5 100 4 2 3 5 7 0\ncpu0 1 1 1 1\n";
        let own = "7 (a) (b c) S 1 7 7 0 -1 4 100 0 0 0 11 22 33 44 20 0 1 0 5";
        let ticks = Ticks::parse(stat, own).unwrap();
        assert_eq!(ticks, Ticks { all: 130, busy: 26, own: 110 });
        assert_eq!(Ticks::parse("", own), None);
    }

    #[test]
    fn others_are_what_is_busy_and_not_ours() {
        let before = Ticks { all: 1000, busy: 500, own: 100 };
        for (busy, own, others) in [(104, 100, 0.0), (104, 50, 0.25), (50, 60, 0.0)] {
            let after = Ticks { all: 1200, busy: 500 + busy, own: 100 + own };
            assert!((after.others_since(&before) - others).abs() < 1e-12);
        }
    }
}
