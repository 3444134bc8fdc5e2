//! Programs: what joined because a program that is profiled, or a wrapper of it, has executed it.

use profile::printable;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// More are not told apart.
const MOST: usize = 1000;
/// So many are named.
const NAMED: usize = 8;

/// How long a program that has joined may take until it attaches.
const ATTACHING: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug, Default)]
pub struct Programs {
    /// Their files without links, and how often each was executed.
    all: Mutex<BTreeMap<PathBuf, u64>>,
    /// When one has joined, and the thread that is to know it.
    latest: Mutex<(Option<Instant>, Option<Thread>)>,
}

impl Programs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<PathBuf, u64>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn latest(&self) -> MutexGuard<'_, (Option<Instant>, Option<Thread>)> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has joined once more.
    pub fn add(&self, program: PathBuf) {
        let mut all = self.all();
        if all.len() < MOST || all.contains_key(&program) {
            *all.entry(program).or_default() += 1;
        }
        drop(all);
        let mut latest = self.latest();
        latest.0 = Some(Instant::now());
        latest.1.iter().for_each(Thread::unpark);
    }

    /// The calling thread is unparked when one joins.
    pub fn wake_me(&self) {
        self.latest().1 = Some(std::thread::current());
    }

    /// Whether one has joined that may be about to attach.
    pub fn are_attaching(&self) -> bool {
        self.latest().0.is_some_and(|latest| latest.elapsed() < ATTACHING)
    }

    /// Whether it has joined.
    pub fn has(&self, program: &Path) -> bool {
        self.all().contains_key(program)
    }

    /// What to say at the end: which they were, those that were executed most first.
    pub fn note(&self) -> Option<String> {
        let all = self.all();
        let mut most: Vec<_> = all.iter().collect();
        most.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let shown = |(program, times): (&PathBuf, &u64)| {
            let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
            let name = printable(&name).into_owned();
            if *times == 1 { name } else { format!("{name} ({times} times)") }
        };
        let names: Vec<String> = most.into_iter().map(shown).collect();
        (!names.is_empty()).then(|| {
            format!("profiled with it, because it was executed: {}", crate::failure::list(&names, NAMED))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_with_how_often_they_were_executed() {
        let programs = Programs::default();
        assert_eq!(programs.note(), None);
        for path in ["/bin/b", "/bin/a", "/usr/bin/b", "/bin/b"] {
            programs.add(path.into());
        }
        assert!(programs.has(Path::new("/bin/a")) && !programs.has(Path::new("/a")));
        let note = programs.note().unwrap();
        assert_eq!(note, "profiled with it, because it was executed: b (2 times), a, b");
    }
}
