//! What threads do while no experiment delays them: how long they run, and what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Thread;
use crate::ranking::Profile;
use crate::units::Nanos;

/// Threads of a run that do the same work: they have the same name, apart from the numbers in it, or began with the same function.
/// Shares are of the time in which they were looked at, in windows without a speedup, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadGroup {
    /// Their name, with `N` in place of numbers that differ.
    pub name: String,
    /// How many there are: the most of any run.
    pub count: usize,
    /// The time in which they were looked at, summed over them.
    pub watched: Nanos,
    /// They had a CPU.
    pub running: f64,
    /// They wanted a CPU that others had.
    pub runnable: f64,
    /// They waited for other threads of the program.
    pub for_threads: f64,
    /// They waited for something outside the program, or for a time.
    pub external: f64,
}

impl ThreadGroup {
    /// In words: `worker-N × 4`.
    pub fn title(&self) -> String {
        match self.count {
            0 | 1 => self.name.clone(),
            count => format!("{} × {count}", self.name),
        }
    }

    /// The share of the time of which it is not known what they did.
    pub fn unknown(&self) -> f64 {
        (1.0 - self.running - self.runnable - self.for_threads - self.external).max(0.0)
    }
}

/// What is added up of a group.
#[derive(Default)]
struct Sum<'a> {
    names: BTreeSet<&'a str>,
    /// By session.
    counts: BTreeMap<usize, usize>,
    watched: f64,
    running: f64,
    runnable: f64,
    for_threads: f64,
    external: f64,
}

impl Profile {
    /// The threads of all runs, those that run most of their time first. Empty where there were fewer than two, or nothing is known of them.
    pub fn threads(&self) -> Vec<ThreadGroup> {
        let sessions = &self.rows.sessions;
        if sessions.iter().all(|session| session.threads.len() < 2) {
            return Vec::new();
        }
        let mut sums: BTreeMap<String, Sum<'_>> = BTreeMap::new();
        for (nth, session) in sessions.iter().enumerate() {
            let mains: BTreeMap<u32, &str> = session
                .threads
                .iter()
                .filter(|thread| thread.is_main())
                .map(|thread| (thread.pid, &*thread.name))
                .collect();
            let processes: BTreeSet<u32> = session.threads.iter().map(|thread| thread.pid).collect();
            for thread in session.threads.iter().filter(|thread| thread.watched > Nanos::ZERO) {
                let name = name(thread, mains.get(&thread.pid).copied(), processes.len() > 1);
                let sum = sums.entry(without_numbers(name)).or_default();
                sum.names.insert(name);
                *sum.counts.entry(nth).or_default() += 1;
                sum.watched += thread.watched.get() as f64;
                sum.running += thread.running.get() as f64;
                sum.runnable += thread.runnable.get() as f64;
                sum.for_threads += thread.for_threads.get() as f64;
                sum.external += thread.external.get() as f64;
            }
        }
        let mut groups: Vec<ThreadGroup> =
            sums.into_iter().map(|(pattern, sum)| sum.group(pattern)).collect();
        groups.sort_by(|a, b| b.running.total_cmp(&a.running).then_with(|| a.name.cmp(&b.name)));
        groups
    }
}

impl Sum<'_> {
    fn group(self, pattern: String) -> ThreadGroup {
        let share = |time: f64| (time / self.watched).clamp(0.0, 1.0);
        let mut names = self.names.into_iter();
        let name = match (names.next(), names.next()) {
            (Some(only), None) => only.to_owned(),
            _ => pattern,
        };
        ThreadGroup {
            name,
            count: self.counts.into_values().max().unwrap_or(0),
            watched: Nanos::new(self.watched as u64),
            running: share(self.running),
            runnable: share(self.runnable),
            for_threads: share(self.for_threads),
            external: share(self.external),
        }
    }
}

/// What a thread is called. Unnamed threads have the name of the one that started them, so what they began with says more.
fn name<'a>(thread: &'a Thread, main: Option<&str>, of_several_processes: bool) -> &'a str {
    match thread {
        _ if thread.tid == 0 => "other threads",
        _ if thread.is_main() && !of_several_processes => "main thread",
        _ if thread.is_main() => or_unnamed(&thread.name),
        _ if !thread.function.is_empty() && main.is_none_or(|main| main == thread.name) => &thread.function,
        _ => or_unnamed(&thread.name),
    }
}

fn or_unnamed(name: &str) -> &str {
    if name.is_empty() { "unnamed threads" } else { name }
}

/// A name with `N` in place of every number.
fn without_numbers(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for character in name.chars() {
        match character.is_ascii_digit() {
            true if pattern.ends_with('N') => {}
            true => pattern.push('N'),
            false => pattern.push(character),
        }
    }
    pattern
}
