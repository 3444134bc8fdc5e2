//! The machine, and whether others are using it.

use std::cell::Cell;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Runs things when the machine is otherwise idle.
#[derive(Debug)]
pub struct Machine {
    busy: f64,
    watch: Cell<Watch>,
}

/// What others did to the measurements so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// CPU time of all CPUs during measurements, busy or not, in clock ticks.
    ticks: u64,
    /// The part of it that others used.
    others: u64,
    /// Measurements that others disturbed, and that were done again.
    pub discarded: u32,
    /// Measurements that others disturbed and that are used all the same.
    pub kept: u32,
}

/// How often what was disturbed may be measured again.
#[derive(Debug)]
pub struct Patience {
    /// How often the same thing.
    repeats: u32,
    /// How much time may still go into repeating anything.
    left: Cell<Duration>,
}

/// A measurement that [`Machine::patiently`] took.
#[derive(Clone, Copy, Debug)]
pub struct Measured<T> {
    pub value: T,
    /// Others used more of the machine than they may.
    pub disturbed: bool,
}

/// How often a run is repeated before giving up, and the pause between: five minutes in all.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_secs(3);

impl Machine {
    /// `busy`: the share of all CPUs that others may use during a measurement.
    pub fn new(busy: f64) -> Self {
        Self { busy, watch: Cell::default() }
    }

    /// What others did so far.
    pub fn watch(&self) -> Watch {
        self.watch.get()
    }

    /// Measures again, as long as `patience` lasts, while others use the machine; then makes do with
    /// the attempt that they disturbed least.
    pub fn patiently<T>(
        &self,
        patience: &Patience,
        mut measure: impl FnMut() -> Result<T>,
    ) -> Result<Measured<T>> {
        let mut best: Option<(f64, T)> = None;
        let mut attempt = 0;
        loop {
            let (before, began) = (Ticks::now()?, Instant::now());
            let value = measure()?;
            let others = self.note(&before, &Ticks::now()?);
            if best.as_ref().is_none_or(|(least, _)| others < *least) {
                best = Some((others, value));
            }
            let mut watch = self.watch.get();
            if others <= self.busy || !patience.allows(attempt, began.elapsed()) {
                // Always there: it was just put there.
                let (others, value) = best.context("nothing was measured")?;
                let disturbed = others > self.busy;
                watch.kept += u32::from(disturbed);
                self.watch.set(watch);
                return Ok(Measured { value, disturbed });
            }
            watch.discarded += 1;
            self.watch.set(watch);
            attempt += 1;
            sleep(Patience::PAUSE);
        }
    }

    /// Adds to what is known of others, and returns their share.
    fn note(&self, before: &Ticks, after: &Ticks) -> f64 {
        let mut watch = self.watch.get();
        watch.ticks += after.all - before.all;
        watch.others += after.ticks_of_others(before);
        self.watch.set(watch);
        after.others_since(before)
    }

    /// The share of all CPUs that others may use during a measurement.
    pub fn busy(&self) -> f64 {
        self.busy
    }

    /// Does something, and returns the share of all CPUs that others used meanwhile.
    pub fn share_of_others(&self, act: impl FnOnce() -> Result<()>) -> Result<f64> {
        let before = Ticks::now()?;
        act()?;
        Ok(self.note(&before, &Ticks::now()?))
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
            others = self.note(&before, &Ticks::now()?);
            if others <= self.busy {
                return Ok(measured);
            }
            let mut watch = self.watch.get();
            watch.discarded += 1;
            self.watch.set(watch);
        }
        bail!(
            "other programs use {:.0} % of this machine; stop them, or allow it with --busy {:.2}",
            others * 100.0,
            others + 0.05
        )
    }
}

impl Watch {
    /// The share of the machine that others used while something was measured.
    #[expect(clippy::cast_precision_loss)]
    pub fn busy(&self) -> f64 {
        self.others as f64 / self.ticks.max(1) as f64
    }

    /// What to think of the measurements, for people.
    pub fn sentence(&self) -> String {
        format!(
            "others used {:.1} % of the machine; measurements discarded for it {}, kept all the same {}",
            self.busy() * 100.0,
            self.discarded,
            self.kept
        )
    }

    /// Together with another run's.
    pub fn and(self, other: Self) -> Self {
        Self {
            ticks: self.ticks + other.ticks,
            others: self.others + other.others,
            discarded: self.discarded + other.discarded,
            kept: self.kept + other.kept,
        }
    }
}

impl Patience {
    /// Between two attempts.
    const PAUSE: Duration = Duration::from_secs(1);

    /// At most `repeats` of the same thing, and `all` the time for everything.
    pub fn new(repeats: u32, all: Duration) -> Self {
        Self { repeats, left: Cell::new(all) }
    }

    /// Whether what took `cost` may be done again after `attempt` repeats; that is then paid for.
    fn allows(&self, attempt: u32, cost: Duration) -> bool {
        let left = self.left.get().checked_sub(cost + Self::PAUSE);
        match left {
            Some(left) if attempt < self.repeats => {
                self.left.set(left);
                true
            }
            _ => false,
        }
    }
}

/// CPU time in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    /// All CPUs, busy or not.
    all: u64,
    /// All CPUs, busy for any user; a hypervisor's other guests count as others.
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

    /// The share of all CPUs that others used since `before`.
    #[expect(clippy::cast_precision_loss)]
    fn others_since(&self, before: &Self) -> f64 {
        self.ticks_of_others(before) as f64 / (self.all - before.all).max(1) as f64
    }

    /// What others used since `before`. The two files count a tick (10 ms) at different moments: the
    /// first few are not held against anyone.
    fn ticks_of_others(&self, before: &Self) -> u64 {
        const SLACK: u64 = 4;
        (self.busy - before.busy).saturating_sub(self.own - before.own + SLACK)
    }
}

/// The most memory that a process has had resident so far, in bytes.
pub fn most_memory(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.with_context(|| format!("process {pid} has ended"))?.trim().trim_end_matches(" kB");
    Ok(1024 * kilobytes.parse::<u64>()?)
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

    #[test]
    fn patience_ends() {
        let patience = Patience::new(2, Duration::from_secs(5));
        let second = Duration::from_secs(1);
        assert!(patience.allows(0, second));
        assert!(!patience.allows(2, second), "too often");
        assert!(patience.allows(1, second));
        assert!(!patience.allows(0, second), "two repeats and their pauses took four of five seconds");
    }

    #[test]
    fn what_was_measured_is_kept_when_patience_ends() {
        // Others cannot use less than nothing.
        let machine = Machine::new(-1.0);
        let mut attempts = 0;
        let measured = machine
            .patiently(&Patience::new(3, Duration::ZERO), || {
                attempts += 1;
                Ok(attempts)
            })
            .unwrap();
        assert!(measured.disturbed);
        assert_eq!(measured.value, 1);
        assert_eq!((machine.watch().discarded, machine.watch().kept), (0, 1));
    }
}
