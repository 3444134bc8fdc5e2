//! Left alone: processes of programs that could not be followed, and the CPU time that they take, as far as the kernel's books show it.
//!
//! Nothing that such a process starts can be followed either, so that its children count with it, those that it has waited for included. What
//! it takes between the last look and its end is not seen, so that a time is the least that it can be.

use kernel::cpu::{ProcessStat, children, tree_cpu_time};
use profile::{Nanos, Program};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two looks, at least.
const LOOK: Duration = Duration::from_millis(10);
/// Looking never takes more than this part of the time, as a divisor.
const MOST_SHARE: u32 = 50;
/// How long a child may take until it runs the program that its parent spawns.
const SPAWNING: Duration = Duration::from_secs(1);
/// How long a program that joins may take until the runtime is in it.
const LOADING: Duration = Duration::from_secs(1);
/// Programs and reasons; more are not told apart.
const MOST: usize = 200;

/// Why a program is left alone that was to join.
pub const NOT_LOADED: &str = "the runtime was not loaded into it";

/// See the module.
#[derive(Debug, Default)]
pub struct LeftAlone {
    /// Without samples.
    programs: Vec<Program>,
    watched: Vec<Watched>,
    expected: Vec<Expected>,
    joining: Vec<Joining>,
    /// When to look next.
    next: Option<Instant>,
}

/// A process that runs one of the programs.
#[derive(Debug)]
struct Watched {
    pid: u32,
    program: usize,
    /// What it had used before.
    before: Nanos,
    /// What it has used since.
    used: Nanos,
}

/// A process that is about to be there.
#[derive(Debug)]
struct Expected {
    parent: u32,
    program: usize,
    since: Instant,
}

/// A process into which the runtime is about to be loaded.
#[derive(Debug)]
struct Joining {
    pid: u32,
    file: PathBuf,
    /// What it had used before.
    before: Nanos,
    since: Instant,
}

fn time_of(pid: u32) -> Nanos {
    Nanos::new(tree_cpu_time(pid).0)
}

impl LeftAlone {
    /// A process, or a child that it `spawns`, is about to run a file without links, which cannot be followed for this reason.
    pub fn add(&mut self, pid: u32, spawns: bool, file: PathBuf, obstacle: &str) {
        let path = file.display().to_string();
        let is_it = |known: &Program| known.path == path && known.obstacle.as_deref() == Some(obstacle);
        let program = match self.programs.iter().position(is_it) {
            Some(known) => known,
            None if self.programs.len() < MOST => {
                let obstacle = Some(obstacle.to_owned());
                self.programs.push(Program { path, obstacle, processes: 0, samples: 0, cpu: Nanos::ZERO });
                self.programs.len() - 1
            }
            None => return,
        };
        self.programs[program].processes += 1;
        match spawns {
            true => self.expected.push(Expected { parent: pid, program, since: Instant::now() }),
            false => self.watch(pid, program, time_of(pid)),
        }
    }

    /// A process is about to run a file without links with the runtime in it, unless that is refused.
    pub fn joins(&mut self, pid: u32, file: PathBuf) {
        self.joining.push(Joining { pid, file, before: time_of(pid), since: Instant::now() });
    }

    /// Those that run what they were to run, and are not among the profiled processes although they had so much time.
    fn find_refused(&mut self, time: Duration, is_profiled: impl Fn(u32) -> bool) {
        let is_late = |joining: &Joining| joining.since.elapsed() >= time;
        let joining = std::mem::take(&mut self.joining).into_iter();
        let (late, others): (Vec<Joining>, Vec<Joining>) = joining.partition(is_late);
        self.joining = others;
        for Joining { pid, file, before, .. } in late {
            let runs = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|own| own == file);
            if runs && !is_profiled(pid) {
                self.add(pid, false, file, NOT_LOADED);
                self.watched
                    .iter_mut()
                    .filter(|watched| watched.pid == pid)
                    .for_each(|one| one.before = before);
            }
        }
    }

    fn watch(&mut self, pid: u32, program: usize, before: Nanos) {
        self.watched.retain(|watched| watched.pid != pid);
        self.watched.push(Watched { pid, program, before, used: Nanos::ZERO });
    }

    /// What was seen so far was of another session; what still runs goes on.
    pub fn begin(&mut self) {
        self.look();
        for program in &mut self.programs {
            (program.processes, program.cpu) = (0, Nanos::ZERO);
        }
        for watched in &mut self.watched {
            watched.before += std::mem::take(&mut watched.used);
            self.programs[watched.program].processes += 1;
        }
    }

    /// Looks at all of them, unless that was not long ago. `is_profiled`: whether the runtime is in a process.
    pub fn look_now_and_then(&mut self, is_profiled: impl Fn(u32) -> bool) {
        if self.next.is_none_or(|next| Instant::now() >= next) {
            self.find_refused(LOADING, is_profiled);
            self.look();
        }
    }

    /// Looks at all of them.
    pub fn look(&mut self) {
        let begin = Instant::now();
        self.find_spawned();
        let programs = &mut self.programs;
        self.watched.retain_mut(|watched| {
            let is_there = ProcessStat::of(watched.pid).is_ok();
            let used = time_of(watched.pid).saturating_sub(watched.before).max(watched.used);
            programs[watched.program].cpu += used.saturating_sub(watched.used);
            watched.used = used;
            is_there
        });
        self.next = Some(begin + LOOK.max(begin.elapsed() * MOST_SHARE));
    }

    /// Those that have come to run what they were spawned for.
    fn find_spawned(&mut self) {
        for expected in std::mem::take(&mut self.expected) {
            let path = Path::new(&self.programs[expected.program].path);
            // Of another user's process it is not known.
            let runs = |pid: &u32| {
                std::fs::read_link(format!("/proc/{pid}/exe")).map_or_else(
                    |error| error.kind() == std::io::ErrorKind::PermissionDenied,
                    |file| file == path,
                )
            };
            let is_new = |pid: &u32| self.watched.iter().all(|watched| watched.pid != *pid);
            let found = children(expected.parent).into_iter().filter(is_new).find(runs);
            match found {
                Some(pid) => self.watch(pid, expected.program, Nanos::ZERO),
                None if expected.since.elapsed() < SPAWNING => self.expected.push(expected),
                None => {}
            }
        }
    }

    /// Each program with what is known of it.
    pub fn so_far(&self) -> Vec<Program> {
        self.programs.iter().filter(|program| program.processes > 0).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    /// A shell that works until it is killed, with all that it has started.
    struct Working(Child);

    impl Working {
        fn start() -> Self {
            Self::at("while :; do :; done")
        }

        fn at(work: &str) -> Self {
            Self(Command::new("sh").args(["-c", work]).process_group(0).spawn().unwrap())
        }
    }

    impl Drop for Working {
        fn drop(&mut self) {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }

    fn wait_for(left: &mut LeftAlone, what: impl Fn(&[Program]) -> bool) {
        /// No test takes so long, unless what it waits for never comes.
        const HANG: Duration = Duration::from_secs(60);
        let begin = Instant::now();
        while !what(&left.so_far()) {
            assert!(begin.elapsed() < HANG, "{:?}", left.so_far());
            std::thread::sleep(Duration::from_millis(5));
            left.look();
        }
    }

    #[test]
    fn the_time_of_processes_adds_up_and_stays() {
        let mut left = LeftAlone::default();
        let working = [Working::start(), Working::start()];
        working.iter().for_each(|one| left.add(one.0.id(), false, "/bin/x".into(), "it is static"));
        wait_for(&mut left, |programs| programs[0].cpu >= Nanos::from_millis(50));
        drop(working);
        left.look();
        let told = left.so_far();
        assert_eq!((told.len(), told[0].processes, told[0].samples), (1, 2, 0));
        left.look();
        assert!(left.watched.is_empty() && left.so_far() == told);
        left.begin();
        assert_eq!(left.so_far(), []);
    }

    #[test]
    fn what_was_to_join_and_has_not_is_left_alone() {
        let mut left = LeftAlone::default();
        let working = [Working::start(), Working::start()];
        let [alone, profiled] = working.each_ref().map(|one| one.0.id());
        let file = std::fs::read_link(format!("/proc/{alone}/exe")).unwrap();
        [alone, profiled].into_iter().for_each(|pid| left.joins(pid, file.clone()));
        left.joins(alone, "/bin/other".into());
        left.find_refused(Duration::from_secs(3600), |pid| pid == profiled);
        assert_eq!((left.so_far(), left.joining.len()), (vec![], 3));
        left.find_refused(Duration::ZERO, |pid| pid == profiled);
        wait_for(&mut left, |programs| programs[0].cpu >= Nanos::from_millis(20));
        let told = left.so_far();
        assert_eq!((told.len(), told[0].processes, told[0].obstacle.as_deref()), (1, 1, Some(NOT_LOADED)));
        assert!(left.joining.is_empty());
    }

    #[test]
    fn a_child_that_is_spawned_is_found_by_its_file() {
        let mut left = LeftAlone::default();
        // With a parent of its own: other tests have children that run the same file.
        let parent = Working::at("while :; do :; done & wait");
        let file = std::fs::read_link(format!("/proc/{}/exe", parent.0.id())).unwrap();
        left.add(parent.0.id(), true, file, "it is static");
        wait_for(&mut left, |programs| programs[0].cpu >= Nanos::from_millis(20));
        assert_eq!(left.so_far()[0].processes, 1);
    }
}
