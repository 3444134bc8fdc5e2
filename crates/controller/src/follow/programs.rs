//! Programs: the first one, and what joined because it, or a wrapper of it, has executed it; and how much CPU time each of them took.

use super::left_alone::LeftAlone;
use profile::{Nanos, Program, printable};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};
use wire::slot::{fingerprint, mark};

/// More are not told apart.
const MOST: usize = 1000;
/// So many are named.
const NAMED: usize = 8;

/// How long a program that has joined may take until it attaches.
const ATTACHING: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug, Default)]
pub struct Programs {
    /// By their files without links.
    all: Mutex<BTreeMap<PathBuf, Known>>,
    /// When one has joined, and the thread that is to know it.
    latest: Mutex<(Option<Instant>, Option<Thread>)>,
    /// What ran since the session began, by the marks that samples have.
    used: Mutex<HashMap<u16, Used>>,
    left_alone: Mutex<LeftAlone>,
}

/// What is known of a program.
#[derive(Debug, Default)]
struct Known {
    /// How often it was executed; never, if it is the first one.
    times: u64,
    /// The names of files that it was executed by, which may be links.
    names: BTreeSet<OsString>,
    /// What samples in its processes have ([`mark`]).
    mark: u16,
}

/// What the processes of a program took.
#[derive(Clone, Debug, Default)]
pub struct Used {
    processes: HashSet<u32>,
    samples: u64,
    weight: Nanos,
}

impl Used {
    /// A process that runs it.
    pub fn has_process(&mut self, pid: u32) {
        self.processes.insert(pid);
    }

    /// A sample in one of them.
    pub fn has_sample(&mut self, weight: Nanos) {
        self.samples += 1;
        self.weight += weight;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Programs {
    /// A session begins: `program`, a file without links that was executed as `named`, is its first one.
    pub fn begin(&self, program: &Path, named: &Path) {
        self.know(program, named, 0);
        lock(&self.used).clear();
        self.left_alone().begin();
    }

    /// A file without links, which is executed as `named`, has joined once more.
    pub fn add(&self, program: PathBuf, named: &Path) {
        self.know(&program, named, 1);
        let mut latest = lock(&self.latest);
        latest.0 = Some(Instant::now());
        latest.1.iter().for_each(Thread::unpark);
    }

    /// A process that runs `program`, a file without links, has been attached to besides the first one.
    pub fn joins(&self, program: &Path) {
        self.know(program, program, 0);
    }

    fn know(&self, program: &Path, named: &Path, times: u64) {
        let mut all = lock(&self.all);
        if all.len() >= MOST && !all.contains_key(program) {
            return;
        }
        let known = all.entry(program.to_owned()).or_default();
        known.times += times;
        known.names.extend(named.file_name().map(OsStr::to_owned));
        // It may have been written anew.
        known.mark = std::fs::metadata(program).map_or(0, |file| mark(fingerprint(file.ino(), file.size())));
    }

    /// The calling thread is unparked when one joins.
    pub fn wake_me(&self) {
        lock(&self.latest).1 = Some(std::thread::current());
    }

    /// Whether one has joined that may be about to attach.
    pub fn are_attaching(&self) -> bool {
        lock(&self.latest).0.is_some_and(|latest| latest.elapsed() < ATTACHING)
    }

    /// Whether it is one of them.
    pub fn has(&self, program: &Path) -> bool {
        lock(&self.all).contains_key(program)
    }

    /// Whether it was executed by a name that is meant.
    pub fn is_named(&self, program: &Path, is_meant: impl Fn(&OsStr) -> bool) -> bool {
        lock(&self.all).get(program).is_some_and(|known| known.names.iter().any(|name| is_meant(name)))
    }

    /// Counts what was seen of processes, by the marks of their programs.
    pub fn count(&self, seen: HashMap<u16, Used>) {
        let mut used = lock(&self.used);
        for (mark, Used { processes, samples, weight }) in seen {
            let of_program = used.entry(mark).or_default();
            of_program.processes.extend(processes);
            of_program.samples += samples;
            of_program.weight += weight;
        }
    }

    /// The file of the program with a mark; none if it is not known.
    pub fn with_mark(&self, mark: u16) -> Option<PathBuf> {
        let all = lock(&self.all);
        let is_it = |(_, known): &(&PathBuf, &Known)| known.mark == mark;
        all.iter().find(is_it).filter(|_| mark != 0).map(|(path, _)| path.clone())
    }

    /// What could not be followed.
    pub fn left_alone(&self) -> MutexGuard<'_, LeftAlone> {
        lock(&self.left_alone)
    }

    /// What ran in the session so far, and took how much.
    pub fn so_far(&self) -> Vec<Program> {
        let mut found: BTreeMap<PathBuf, Program> = BTreeMap::new();
        for (mark, used) in &*lock(&self.used) {
            let path = self.with_mark(*mark).unwrap_or_default();
            let nothing = || Program {
                path: path.display().to_string(),
                obstacle: None,
                processes: 0,
                samples: 0,
                cpu: Nanos::ZERO,
            };
            let program = found.entry(path.clone()).or_insert_with(nothing);
            program.processes += used.processes.len() as u64;
            program.samples += used.samples;
            program.cpu += used.weight;
        }
        let all = lock(&self.all);
        for (path, program) in &mut found {
            // Those that ended soon were not seen by their numbers.
            program.processes = program.processes.max(all.get(path).map_or(0, |known| known.times));
        }
        found.into_values().chain(self.left_alone().so_far()).collect()
    }

    /// What to say at the end: which were executed, those that were executed most first.
    pub fn note(&self) -> Option<String> {
        let all = lock(&self.all);
        let mut most: Vec<_> = all.iter().filter(|(_, known)| known.times > 0).collect();
        most.sort_by_key(|(_, known)| std::cmp::Reverse(known.times));
        let shown = |(program, Known { times, .. }): (&PathBuf, &Known)| {
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
        programs.begin(Path::new("/bin/first"), Path::new("first"));
        assert_eq!(programs.note(), None);
        for path in ["/bin/b", "/bin/a", "/usr/bin/b", "/bin/b"] {
            programs.add(path.into(), Path::new("/x/link"));
        }
        assert!(programs.has(Path::new("/bin/a")) && !programs.has(Path::new("/a")));
        let is_link = |name: &OsStr| name == "link";
        assert!(programs.is_named(Path::new("/bin/a"), is_link));
        assert!(!programs.is_named(Path::new("/bin/first"), is_link));
        let note = programs.note().unwrap();
        assert_eq!(note, "profiled with it, because it was executed: b (2 times), a, b");
    }

    #[test]
    fn time_belongs_to_the_program_with_the_mark() {
        let programs = Programs::default();
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let file = std::fs::metadata(&own).unwrap();
        let mark = mark(fingerprint(file.ino(), file.size()));
        programs.begin(&own, &own);
        let mut used = Used::default();
        [7, 8, 7].into_iter().for_each(|pid| used.has_process(pid));
        (0..3).for_each(|_| used.has_sample(Nanos::from_millis(2)));
        let seen = HashMap::from([(mark, used.clone()), (mark.wrapping_add(1), used.clone())]);
        programs.count(seen.clone());
        programs.count(seen);
        let told: Vec<_> = programs
            .so_far()
            .into_iter()
            .map(|one| (one.path, one.processes, one.samples, one.cpu))
            .collect();
        let (own, time) = (own.display().to_string(), Nanos::from_millis(12));
        assert_eq!(told, [(String::new(), 2, 6, time), (own, 2, 6, time)]);
        programs.begin(Path::new("/bin/next"), Path::new("next"));
        assert_eq!(programs.so_far(), []);
    }
}
