//! What threads do while no experiment delays them: how long they run, and what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Thread;
use crate::ranking::Profile;
use crate::units::Nanos;

/// Threads of a run that do the same work: they have the same name, apart from a number at its end, or began with the same function.
/// Shares are of the time in which they were looked at, in windows without a speedup, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadGroup {
    /// Their name, with `N` in place of a number that differs.
    pub name: String,
    /// How many there were at a time, on average: the most of any run.
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

/// What threads of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind<'a> {
    /// The first thread of the only process.
    Main,
    /// The first threads of processes with this name.
    Program(&'a str),
    /// They have no name of their own, and began with this function.
    Function(&'a str),
    /// They have such a name; and began with this function, where those with such a name began with different ones.
    Named(String, Option<&'a str>),
    Unnamed,
    /// All that are not kept one by one.
    Others,
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
    count: usize,
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
        let mut functions: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for thread in sessions.iter().flat_map(|session| &session.threads) {
            let known = Some(&*thread.function).filter(|function| !function.is_empty());
            functions.entry(pattern(&thread.name)).or_default().extend(known);
        }
        let mut sums: BTreeMap<Kind<'_>, Sum<'_>> = BTreeMap::new();
        for session in sessions {
            let kinds = kinds(&session.threads, &functions);
            let mut watched: BTreeMap<&Kind<'_>, u64> = BTreeMap::new();
            for (thread, kind) in session.threads.iter().zip(&kinds) {
                let sum = sums.entry(kind.clone()).or_default();
                sum.names.insert(&thread.name);
                sum.watched += thread.watched.get() as f64;
                sum.running += thread.running.get() as f64;
                sum.runnable += thread.runnable.get() as f64;
                sum.for_threads += thread.for_threads.get() as f64;
                sum.external += thread.external.get() as f64;
                let all = watched.entry(kind).or_default();
                *all = all.saturating_add(thread.watched.get());
            }
            // Some thread was there all the time, as a rule.
            let single = session.threads.iter().filter(|thread| thread.tid != 0);
            let longest = single.map(|thread| thread.watched.get()).max().unwrap_or(0).max(1);
            for (kind, watched) in watched {
                let at_a_time = (watched as f64 / longest as f64).round() as usize;
                let sum = sums.entry(kind.clone()).or_default();
                sum.count = sum.count.max(at_a_time).max(1);
            }
        }
        let known = sums.into_iter().filter(|(_, sum)| sum.watched > 0.0);
        let mut groups: Vec<ThreadGroup> = known.map(|(kind, sum)| sum.group(kind)).collect();
        groups.sort_by(|a, b| b.running.total_cmp(&a.running).then_with(|| a.name.cmp(&b.name)));
        groups
    }
}

impl Sum<'_> {
    fn group(self, kind: Kind<'_>) -> ThreadGroup {
        let share = |time: f64| (time / self.watched).clamp(0.0, 1.0);
        let named = |pattern: String| match self.names.first() {
            Some(only) if self.names.len() == 1 => (*only).to_owned(),
            _ => pattern,
        };
        let name = match kind {
            Kind::Main => "main thread".to_owned(),
            Kind::Program(name) | Kind::Function(name) => name.to_owned(),
            Kind::Named(pattern, None) => named(pattern),
            Kind::Named(pattern, Some(function)) => format!("{} ({function})", named(pattern)),
            Kind::Unnamed => "unnamed threads".to_owned(),
            Kind::Others => "other threads".to_owned(),
        };
        ThreadGroup {
            name,
            count: self.count,
            watched: Nanos::new(self.watched as u64),
            running: share(self.running),
            runnable: share(self.runnable),
            for_threads: share(self.for_threads),
            external: share(self.external),
        }
    }
}

/// What each thread of a run is. Unnamed threads have the name of the one that started them, so what they began with says more. `functions`: those that
/// threads with a name began with, by its [`pattern`].
fn kinds<'a>(threads: &'a [Thread], functions: &BTreeMap<String, BTreeSet<&str>>) -> Vec<Kind<'a>> {
    let mains: BTreeMap<u32, &str> =
        threads.iter().filter(|thread| thread.is_main()).map(|thread| (thread.pid, &*thread.name)).collect();
    let processes: BTreeSet<u32> =
        threads.iter().filter(|thread| thread.tid != 0).map(|thread| thread.pid).collect();
    let kind = |thread: &'a Thread| {
        let function = Some(&*thread.function).filter(|function| !function.is_empty());
        let is_unnamed = mains.get(&thread.pid).is_some_and(|main| *main == thread.name);
        match function {
            _ if thread.tid == 0 => Kind::Others,
            _ if thread.is_main() && processes.len() == 1 => Kind::Main,
            _ if thread.is_main() && !thread.name.is_empty() => Kind::Program(&thread.name),
            Some(function) if is_unnamed || thread.name.is_empty() => Kind::Function(function),
            _ if thread.name.is_empty() => Kind::Unnamed,
            _ => {
                let pattern = pattern(&thread.name);
                let differ = functions.get(&pattern).is_some_and(|functions| functions.len() > 1);
                Kind::Named(pattern, function.filter(|_| differ))
            }
        }
    };
    threads.iter().map(kind).collect()
}

/// A name with `N` in place of a number at its end that stands apart: `worker-3`, `pool#12`. Without anything between it may be part of the name (`stage2`).
fn pattern(name: &str) -> String {
    let word = name.trim_end_matches(|character: char| character.is_ascii_digit());
    match word.len() < name.len() && word.ends_with(['-', '_', '#', ':', '/', ' ']) {
        true => format!("{word}N"),
        false => name.to_owned(),
    }
}
