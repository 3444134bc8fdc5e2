//! Who uses the machine's CPUs: `/proc/stat` and `/proc/PID/stat`, proc_stat(5) and proc_pid_stat(5).
//!
//! Everything here counts in the kernel's ticks (10 ms as a rule), so ask about intervals of half a second
//! and more.

use crate::clock;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use wire::Nanos;

/// A running program's state letter, `/proc/PID/stat` field 3, and the numbers this crate reads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// The letter: `R`, `S`, `D`, `T` (stopped), `Z` (ended, not waited for), …
    pub state: char,
    /// The process that started it, or that it was handed to.
    pub parent: u32,
    /// The process group that it is in: a terminal's signals go to one.
    pub group: u32,
    /// When it was started, since the start of the machine, in ticks of 10 ms: two processes of one number differ in it.
    pub started: Nanos,
    /// User and kernel time of all its threads.
    pub own: Nanos,
    /// User and kernel time of the children that it has waited for, and of theirs.
    pub waited_for: Nanos,
}

impl ProcessStat {
    /// Reads `/proc/PID/stat`.
    ///
    /// # Errors
    /// `NotFound` when the process has gone; `InvalidData` if the kernel writes something new.
    pub fn of(pid: u32) -> io::Result<Self> {
        let text = std::fs::read(format!("/proc/{pid}/stat"))?;
        parse_process(&text, nanos_per_tick()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat is unreadable"))
        })
    }
}

/// What `/proc/PID/status` says behind a word such as `NSpid:`.
pub(crate) fn status_field(pid: u32, word: &str) -> Option<String> {
    field_of(&format!("/proc/{pid}/status"), word)
}

/// The same of such a file, by its path. The name of a thread need not be UTF-8.
pub(crate) fn field_of(path: &str, word: &str) -> Option<String> {
    let status = std::fs::read(path).ok()?;
    String::from_utf8_lossy(&status).lines().find_map(|line| Some(line.strip_prefix(word)?.trim().to_owned()))
}

/// The number of the calling thread.
#[must_use]
pub fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// The user that a process runs as (its real user ID), also where it hides from others of the same user; nothing if it has gone.
#[must_use]
pub fn user(pid: u32) -> Option<u32> {
    status_field(pid, "Uid:")?.split_whitespace().next()?.parse().ok()
}

/// Whether the machine is a virtual one, as far as its processor says.
#[must_use]
pub fn is_virtual() -> Option<bool> {
    has_flag("hypervisor")
}

/// Whether the first processor has a flag, as `/proc/cpuinfo` calls it. Reads no further: the file is long where there are many.
#[must_use]
pub fn has_flag(name: &str) -> Option<bool> {
    let mut lines = BufReader::new(File::open("/proc/cpuinfo").ok()?).lines().map_while(Result::ok);
    let flags = lines.find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == name))
}

/// CPUs that the machine has switched on; at least one.
#[must_use]
pub fn online() -> u32 {
    u32::try_from(numbers().len()).unwrap_or(u32::MAX)
}

/// CPUs that the calling thread may run on; at least one. How much of them a limit allows is another question: [`cpu_limit`](crate::cpu_limit).
#[must_use]
pub fn usable() -> u32 {
    // The set has room for 1024.
    rustix::thread::sched_getaffinity(None).map_or_else(|_| online(), |set| set.count().max(1))
}

/// The numbers of the CPUs that the machine has switched on; at least one.
#[must_use]
pub fn numbers() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let guess = || (0..std::thread::available_parallelism().map_or(1, |n| n.get() as u32)).collect();
    list(text.trim()).filter(|numbers| !numbers.is_empty()).unwrap_or_else(guess)
}

/// The numbers in a list such as `0-3,8`.
fn list(text: &str) -> Option<Vec<u32>> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok().filter(|last| *last < MOST_CPUS)?)
    };
    let parts: Option<Vec<_>> = text.split(',').map(part).collect();
    Some(parts?.into_iter().flatten().collect())
}

/// More than any kernel is built for.
const MOST_CPUS: u32 = 1 << 16;

/// Switches from one thread to another since the start of the machine, on all CPUs.
#[must_use]
pub fn switches() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok()).unwrap_or(0)
}

/// How long each CPU has been idle (or waiting for a device) since the start, by its number; in ticks.
#[must_use]
pub fn idle() -> HashMap<u32, Nanos> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let tick = nanos_per_tick();
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.skip(3).take(2).filter_map(|word| word.parse().ok()).collect();
        Some((number, Nanos(ticks.iter().sum::<u64>() * tick)))
    };
    // The first line is that of all of them.
    text.lines().skip(1).map_while(line).collect()
}

/// CPU time used since the start, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Passed on all CPUs together, idle or not.
    pub passed: Nanos,
    /// Used by anything on this machine; time taken by a hypervisor counts.
    pub busy: Nanos,
    /// Taken by a hypervisor.
    pub taken: Nanos,
    /// Used by the program, its children, and ourselves.
    pub ours: Nanos,
}

impl CpuUse {
    /// Reads it for the program `pid`. Once the program has gone only ourselves count as ours.
    ///
    /// # Errors
    /// When `/proc/stat` cannot be read.
    pub fn now(pid: u32) -> io::Result<Self> {
        Self::with(tree_cpu_time(pid))
    }

    /// Reads it for the machine alone.
    ///
    /// # Errors
    /// As for [`now`](Self::now).
    pub fn of_machine() -> io::Result<Self> {
        Self::with(Nanos::ZERO)
    }

    /// With the CPU time that the program has used.
    fn with(used: Nanos) -> io::Result<Self> {
        let machine = parse_machine(&std::fs::read_to_string("/proc/stat")?, nanos_per_tick())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/stat is unreadable"))?;
        Ok(Self { ours: used + clock::process_cpu_time(), ..machine })
    }

    /// The share of the machine that other processes used between two moments, from 0 to 1. Nothing when no
    /// time has passed.
    #[must_use]
    pub fn others_since(self, before: Self) -> f64 {
        let passed = self.passed.saturating_sub(before.passed);
        let busy = self.busy.saturating_sub(before.busy);
        let ours = self.ours.saturating_sub(before.ours);
        if passed == Nanos::ZERO {
            return 0.0;
        }
        // Ticks are charged to what runs when they fall, so the difference can come out negative.
        (busy.saturating_sub(ours).0 as f64 / passed.0 as f64).min(1.0)
    }
}

/// The CPU time of a program that is several trees of processes, which come and go: what one had used before it was seen first is not counted, nor what it has
/// used since it was seen last.
#[derive(Clone, Debug, Default)]
pub struct ProgramUse {
    trees: HashMap<u32, Nanos>,
    used: Nanos,
}

impl ProgramUse {
    /// Reads it for the trees with these roots, none of which is in the tree of another one. Living processes that are not profiled are left out: they want CPUs as those
    /// of other programs do. Only differences between what this returns mean something.
    ///
    /// # Errors
    /// As for [`CpuUse::now`].
    pub fn now(&mut self, roots: &[u32], is_profiled: &dyn Fn(u32) -> bool) -> io::Result<CpuUse> {
        let used = |root: &u32| (*root, cpu_time_of(*root, is_profiled));
        let trees: HashMap<u32, Nanos> = roots.iter().map(used).collect();
        CpuUse::with(self.add(trees))
    }

    fn add(&mut self, trees: HashMap<u32, Nanos>) -> Nanos {
        let used = |(root, now): (&u32, &Nanos)| {
            self.trees.get(root).map_or(Nanos::ZERO, |before| now.saturating_sub(*before))
        };
        let more = trees.iter().map(used).fold(Nanos::ZERO, |sum, used| sum + used);
        self.used += more;
        self.trees = trees;
        self.used
    }
}

/// CPU time of a process and of its descendants, as far as it is cheap to find them: the living children
/// of its first threads, and theirs. Zero for a process that has gone.
#[must_use]
pub fn tree_cpu_time(pid: u32) -> Nanos {
    cpu_time_of(pid, &|_| true)
}

/// The same, of those of them that `counts` knows, and of children that they have waited for.
fn cpu_time_of(pid: u32, counts: &dyn Fn(u32) -> bool) -> Nanos {
    let Ok(stat) = ProcessStat::of(pid) else { return Nanos::ZERO };
    let own = if counts(pid) { stat.own } else { Nanos::ZERO };
    let children = children(pid).into_iter().map(|child| cpu_time_of(child, counts));
    children.fold(own + stat.waited_for, |sum, time| sum + time)
}

/// The threads of a process, the main thread first.
#[must_use]
pub fn threads(pid: u32) -> Vec<u32> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut threads: Vec<u32> = folder.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable_by_key(|thread| (*thread != pid, *thread));
    threads
}

/// What a thread does, as proc_pid_stat(5) says it.
#[must_use]
pub fn thread_state(pid: u32, thread: u32) -> Option<char> {
    let stat = std::fs::read(format!("/proc/{pid}/task/{thread}/stat")).unwrap_or_default();
    // The name need not be UTF-8.
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next())
}

/// The threads of a process that have not ended, and what each does.
#[must_use]
pub fn threads_alive(pid: u32) -> Vec<(u32, char)> {
    let states = threads(pid).into_iter().filter_map(|thread| Some((thread, thread_state(pid, thread)?)));
    states.filter(|(_, state)| !matches!(state, 'Z' | 'X')).collect()
}

/// The living children of a process. Each thread has a list of those that *it* started. Nearly always the main thread did; a program
/// with thousands of threads is not worth thousands of files per question.
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    const THREADS: usize = 32;
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut found = Vec::new();
    for task in tasks.flatten().take(THREADS) {
        if let Ok(list) = std::fs::read_to_string(task.path().join("children")) {
            found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

fn nanos_per_tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// The name, in parentheses, may itself contain spaces and parentheses.
fn parse_process(text: &[u8], per_tick: u64) -> Option<ProcessStat> {
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
    let fields: Vec<&str> = std::str::from_utf8(&text[after_name..]).ok()?.split_ascii_whitespace().collect();
    // `fields[0]` is the third in the manual's count.
    let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessStat {
        state: fields.first()?.chars().next()?,
        parent: ticks(4)? as u32,
        group: ticks(5)? as u32,
        started: Nanos(ticks(22)?.saturating_mul(per_tick)),
        own: Nanos((ticks(14)? + ticks(15)?) * per_tick),
        waited_for: Nanos((ticks(16)? + ticks(17)?) * per_tick),
    })
}

/// The first line: user nice system idle iowait irq softirq steal guest guest_nice. Guests are part of user.
/// Nothing is ours yet.
fn parse_machine(text: &str, per_tick: u64) -> Option<CpuUse> {
    let numbers = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> =
        numbers.split_ascii_whitespace().take(8).map_while(|number| number.parse().ok()).collect();
    if ticks.len() < 4 {
        return None;
    }
    let passed: u64 = ticks.iter().sum();
    let idle = ticks[3] + ticks.get(4).unwrap_or(&0);
    let nanos = |ticks: u64| Nanos(ticks * per_tick);
    let taken = ticks.get(7).copied().unwrap_or(0);
    Some(CpuUse { passed: nanos(passed), busy: nanos(passed - idle), taken: nanos(taken), ours: Nanos::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(list("0"), Some(vec![0]));
        assert_eq!(list("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(list(""), None);
        assert_eq!(list("3-1"), Some(vec![]));
    }

    #[test]
    fn a_process_whose_name_looks_like_fields() {
        let text = b"7 (a) R (b) T 3 7 7 0 -1 4194304 100 0 0 0 12 5 30 4 20 0 1 0 100 0 0";
        let stat = parse_process(text, 10).unwrap();
        let (own, waited_for) = (Nanos(170), Nanos(340));
        let expected = ProcessStat { state: 'T', parent: 3, group: 7, started: Nanos(1000), own, waited_for };
        assert_eq!(stat, expected);
    }

    #[test]
    fn the_machine_is_busy_when_not_idle() {
        let text = "cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 1 1 1 1\n";
        let used = CpuUse { passed: Nanos(531), busy: Nanos(81), taken: Nanos(8), ours: Nanos::ZERO };
        assert_eq!(parse_machine(text, 1), Some(used));
        assert_eq!(parse_machine("intr 1\n", 1), None);
    }

    #[test]
    fn the_share_of_others() {
        let at = |passed, busy, ours| CpuUse {
            passed: Nanos(passed),
            busy: Nanos(busy),
            ours: Nanos(ours),
            taken: Nanos::ZERO,
        };
        for (before, after, share) in [
            (at(0, 0, 0), at(100, 75, 25), 0.5),
            (at(100, 75, 25), at(200, 75, 30), 0.0),
            (at(5, 5, 5), at(5, 5, 5), 0.0),
            (at(0, 0, 50), at(100, 100, 0), 1.0),
        ] {
            assert_eq!(after.others_since(before), share, "{before:?} {after:?}");
        }
    }

    #[test]
    fn only_what_trees_use_while_they_are_seen_counts() {
        let mut program = ProgramUse::default();
        let mut add = |trees: &[(u32, u64)]| {
            program.add(trees.iter().map(|(root, used)| (*root, Nanos(*used))).collect()).0
        };
        assert_eq!(add(&[(1, 1000)]), 0);
        assert_eq!(add(&[(1, 1010)]), 10);
        // One joins that has used much.
        assert_eq!(add(&[(1, 1020), (2, 5000)]), 20);
        assert_eq!(add(&[(1, 1030), (2, 5007)]), 37);
        // And one ends.
        assert_eq!(add(&[(2, 5008)]), 38);
        assert_eq!(add(&[(1, 3), (2, 5008)]), 38);
    }

    #[test]
    fn a_child_counts_with_its_parent() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 5000000 ]; do i=$((i+1)); done"])
            .spawn()
            .unwrap();
        let me = std::process::id();
        assert!(children(me).contains(&child.id()));
        crate::until::until(|| ProcessStat::of(child.id()).unwrap().own >= Nanos(20_000_000));
        assert!(tree_cpu_time(me) >= Nanos(20_000_000));
        assert!(cpu_time_of(child.id(), &|pid| pid == child.id()) >= Nanos(20_000_000));
        assert_eq!(cpu_time_of(child.id(), &|pid| pid == me), Nanos::ZERO, "it has no children");
        assert_eq!(ProcessStat::of(child.id()).unwrap().parent, me);
        child.kill().unwrap();
        child.wait().unwrap();
        let now = CpuUse::now(me).unwrap();
        assert!(now.busy <= now.passed && now.ours > Nanos::ZERO);
    }
}
