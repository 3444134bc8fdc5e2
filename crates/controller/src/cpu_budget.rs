//! The CPU time that a limit of the program's control group allows, and whether it is used up.
//!
//! **Does:** read the limit and what the kernel counts of it. **Does not:** say what that means for a gain (`profile/src/estimate/throttling.rs`). **Constraints:** the limit is that of the program's first process; others of
//! its tree may be in other groups, whose limits are not looked at.

use kernel::cpu_limit::{CpuLimit, Throttled};
use profile::Nanos;
use std::time::{Duration, Instant};

/// Time between two looks: a script may put itself into a group, and limits change.
const INTERVAL: Duration = Duration::from_secs(1);

/// The limit of the program, as far as it is known.
#[derive(Debug, Default)]
pub struct CpuBudget {
    /// A process of the program.
    pid: Option<u32>,
    limit: Option<CpuLimit>,
    /// Whether whatif itself has the same limit.
    is_shared: bool,
    /// CPUs that it is about.
    cpus: u64,
    /// How often another limit was found.
    changes: u32,
    looked: Option<Instant>,
}

/// What a limit allowed in some time, as far as it was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// CPU time, without what whatif itself used of it; nothing where there is no limit.
    pub allowed: Nanos,
    /// The length of the periods in which it was used up.
    pub throttled: Nanos,
    /// For how long that held all CPUs up.
    pub held_up: Nanos,
    last: Option<Reading>,
}

/// One moment: what may have been used since the start of the machine, and what the kernel has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    allowed: u64,
    throttled: Throttled,
    changes: u32,
}

impl CpuBudget {
    /// Looks whether the program has a limit, unless that was not long ago. `root`: a process of it.
    pub fn look(&mut self, root: impl FnOnce() -> Option<u32>) {
        if self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return;
        }
        self.looked = Some(Instant::now());
        self.pid = root().or(self.pid);
        self.set(self.pid.and_then(CpuLimit::of));
    }

    /// The same, of the process that was looked at last.
    pub fn look_again(&mut self) {
        self.look(|| None);
    }

    fn set(&mut self, limit: Option<CpuLimit>) {
        if limit != self.limit {
            self.changes += 1;
            self.is_shared = limit.is_some() && CpuLimit::of(std::process::id()) == limit;
            self.cpus = kernel::cpu::online().max(1).into();
            self.limit = limit;
        }
    }

    /// Begins to add up.
    pub fn begin(&self) -> Budget {
        Budget { last: self.read(), ..Budget::default() }
    }

    /// Adds what was since the last time, where both are known.
    pub fn add(&self, to: &mut Budget) {
        let Some(now) = self.read() else { return };
        if let Some(before) = to.last.filter(|before| before.changes == now.changes) {
            let more = |now: u64, before: u64| Nanos::new(now.saturating_sub(before));
            to.allowed += more(now.allowed, before.allowed);
            to.throttled += more(now.throttled.periods.0, before.throttled.periods.0);
            to.held_up += more(now.throttled.cpus.0 / self.cpus, before.throttled.cpus.0 / self.cpus);
        }
        to.last = Some(now);
    }

    fn read(&self) -> Option<Reading> {
        let limit = self.limit.as_ref()?;
        let own = if self.is_shared { kernel::clock::process_cpu_time().0 } else { 0 };
        let allowed = (limit.cpus() * kernel::clock::monotonic().0 as f64) as u64;
        let throttled = limit.throttled()?;
        Some(Reading { allowed: allowed.saturating_sub(own), throttled, changes: self.changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_a_limit_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let stat = |periods: u64| {
            let text = format!("nr_throttled {periods}\nthrottled_time {}\n", periods * 1_000_000);
            write("cpu.stat", &text);
        };
        let mut budget = CpuBudget::default();
        let (none, mut sum) = (budget.begin(), budget.begin());
        budget.add(&mut sum);
        assert_eq!(sum, none, "there is no limit");
        // It is found in the midst of a window: what was before is not known.
        write("cpu.max", "50000 10000\n");
        stat(7);
        budget.set(CpuLimit::read(folder.path()));
        budget.add(&mut sum);
        assert_eq!((sum.allowed, sum.throttled), (Nanos::ZERO, Nanos::ZERO));
        stat(9);
        budget.add(&mut sum);
        let millis = |count| Nanos::from_millis(count);
        let cpus = u64::from(kernel::cpu::online());
        assert_eq!((sum.throttled, sum.held_up.get() / 1000), (millis(20), (9000 / cpus) - 7000 / cpus));
        assert!(sum.allowed > Nanos::ZERO);
        // The group goes, as it does at a program's end: what was known is kept.
        let known = sum;
        std::fs::remove_file(folder.path().join("cpu.stat")).unwrap();
        budget.add(&mut sum);
        assert_eq!(sum, known);
        // Another limit counts anew.
        stat(100);
        write("cpu.max", "20000 10000\n");
        budget.set(CpuLimit::read(folder.path()));
        budget.add(&mut sum);
        assert_eq!(sum.throttled, known.throttled);
    }
}
