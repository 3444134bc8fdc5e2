//! Work on files of others, with a time limit: a file system that never answers holds up a thread of its own, and nothing else.

use kernel::clock::thread_cpu_time;
use kernel::signals::AllBlocked;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use wire::Nanos;

/// The longest that is waited for an answer, if the thread does not wait for a CPU. A disk that has to start turning takes longer; it is
/// asked again later.
/// Tests have more: other programs may keep a thread waiting for so long.
const LIMIT: Duration = if cfg!(test) { Duration::from_secs(2) } else { Duration::from_millis(300) };
/// Answers for which the thread has waited less are at no user's expense.
const USUAL: Duration = Duration::from_millis(20);
/// Files of a user that were waited for are not looked at again for this many times as long.
const REST: u32 = 20;
/// Part of one CPU that may go into the files of one user: one part in so many.
const SHARE: u32 = 100;
/// The same for the files of all users together, whose numbers are cheap.
const SHARE_OF_ALL: u32 = 25;
const ALL: u32 = u32::MAX;
/// How long that is added up: 200 ms at once, after a while in which nothing was needed.
const AT_ONCE: Duration = Duration::from_secs(20);
/// Threads that wait for files of one user. Each takes its stack and a descriptor, and none of them can be ended.
const MOST: usize = 2;
/// Threads that wait for files of all users.
const MOST_OF_ALL: usize = 16;

type Work = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Debug, Default)]
pub struct Errands {
    /// The thread that is free.
    thread: Option<Worker>,
    /// Threads that have not come back, with the user of the files.
    away: Vec<(u32, Receiver<()>)>,
    /// Users whose files are not looked at before this.
    rests: HashMap<u32, Instant>,
    /// Whether the CPU time that files take is limited, and until when each user's is used up, counted like this: not more than
    /// [`AT_ONCE`] beyond now.
    frugal: bool,
    used: HashMap<u32, Instant>,
}

/// A thread that does one thing after the other.
#[derive(Debug)]
struct Worker {
    works: Sender<Work>,
    /// Its number.
    tid: u32,
}

impl Errands {
    /// Which take no more than a hundredth of a CPU for the files of one user.
    pub fn frugal() -> Self {
        Self { frugal: true, ..Self::default() }
    }

    /// CPU time that was used for files of a user elsewhere.
    pub fn charge(&mut self, user: u32, took: Nanos) {
        let now = Instant::now();
        for (who, share) in [(user, SHARE), (ALL, SHARE_OF_ALL)] {
            let until = self.used.get(&who).copied().unwrap_or(now).max(now);
            // Whatever it took, it is over in a minute.
            let longest = now + 3 * AT_ONCE;
            self.used.insert(who, (until + Duration::from_nanos(took.0) * share).min(longest));
        }
    }

    /// What `work` on files of a user returns; nothing if it does not return in time, or if files of this user are not looked at just
    /// now (see [`accepts`](Self::accepts)).
    pub fn run<T: Send + 'static>(
        &mut self,
        user: u32,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if !self.accepts(user) {
            return None;
        }
        let (answer, answered) = channel();
        // Its end of this one is dropped when it has ended, however that comes.
        let (ends, ended) = channel::<()>();
        let whole: Work = Box::new(move || {
            let _ends = ends;
            let before = (Instant::now(), wanted_to_run());
            let began = thread_cpu_time();
            let found = work();
            let took = thread_cpu_time().saturating_sub(began);
            let waited = before.0.elapsed().saturating_sub(wanted_to_run().saturating_sub(before.1));
            // It may be waited for no longer.
            let _ = answer.send((found, waited, took));
        });
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => Worker::start()?,
        };
        thread.works.send(whole).ok()?;
        let found = loop {
            match answered.recv_timeout(LIMIT) {
                Err(RecvTimeoutError::Timeout) if thread.wants_to_run() => {}
                found => break found,
            }
        };
        let waited = found.as_ref().map_or(LIMIT, |(_, waited, _)| *waited);
        // What has not come back may still be at it.
        let took = found.as_ref().map_or(Nanos(LIMIT.as_nanos() as u64), |(.., took)| *took);
        self.charge(user, took);
        if waited > USUAL {
            self.rests.insert(user, Instant::now() + waited * REST);
        }
        match found {
            Err(RecvTimeoutError::Timeout) => self.away.push((user, ended)),
            _ => self.thread = Some(thread),
        }
        found.ok().map(|(found, ..)| found)
    }

    /// Whether files of a user are looked at just now: not if they have taken long lately, or have never answered.
    pub fn accepts(&mut self, user: u32) -> bool {
        let now = Instant::now();
        self.rests.retain(|_, until| *until > now);
        self.used.retain(|_, until| *until > now);
        let is_used_up = |who| self.used.get(&who).is_some_and(|until| *until > now + AT_ONCE);
        if self.frugal && (is_used_up(user) || is_used_up(ALL)) {
            return false;
        }
        self.away.retain(|(_, ended)| {
            !matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected))
        });
        let of_user = self.away.iter().filter(|(of, _)| *of == user).count();
        !self.rests.contains_key(&user) && of_user < MOST && self.away.len() < MOST_OF_ALL
    }
}

impl Worker {
    fn start() -> Option<Self> {
        let ((works, received), (number, numbered)) = (channel::<Work>(), channel());
        // Signals are for the thread that waits for them.
        let blocked = AllBlocked::new();
        let thread = std::thread::Builder::new().name("whatif-files".to_owned()).stack_size(1 << 18);
        let started = thread.spawn(move || {
            let _ = number.send(kernel::cpu::own_thread());
            received.into_iter().for_each(|work| work());
        });
        drop(blocked);
        started.ok()?;
        Some(Self { works, tid: numbered.recv().ok()? })
    }

    /// Whether it waits for a CPU, or has one: the machine is busy.
    fn wants_to_run(&self) -> bool {
        is_running(self.tid)
    }
}

/// Whether a thread of ours waits for a CPU, or has one.
pub fn is_running(tid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"))
        .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('R')))
}

/// How long the calling thread has had a CPU, or has waited for one, since it was started (sched-stats.rst); nothing where the kernel
/// does not say it.
fn wanted_to_run() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().take(2).filter_map(|nanos| nanos.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_answers_is_left_behind() {
        let mut errands = Errands::default();
        assert_eq!(errands.run(1000, || 7), Some(7));
        let (hold, held) = channel::<()>();
        let waits = move || held.recv().is_err();
        assert_eq!(errands.run(66, waits), None);
        assert_eq!(errands.away.len(), 1);
        // Files of this user are not looked at for a while, those of others at once.
        assert_eq!(errands.run(66, || 8), None);
        assert_eq!(errands.run(1000, || 9), Some(9));
        // Also not when that time has passed, while it still waits with another one.
        let (hold_too, held_too) = channel::<()>();
        errands.rests.clear();
        assert_eq!(errands.run(66, move || held_too.recv().is_err()), None);
        errands.rests.clear();
        assert_eq!(errands.run(66, || 10), None);
        assert_eq!(errands.away.len(), 2);
        drop((hold, hold_too));
        while !errands.away.is_empty() {
            errands.rests.clear();
            errands.run(66, || 11);
        }
        assert_eq!(errands.run(66, || 12), Some(12));
    }

    #[test]
    fn files_that_cost_much_are_not_looked_at_for_a_while() {
        let burn = || {
            let begin = thread_cpu_time();
            while thread_cpu_time().saturating_sub(begin) < Nanos(220_000_000) {}
        };
        let (mut frugal, mut generous) = (Errands::frugal(), Errands::default());
        for (errands, accepts) in [(&mut frugal, false), (&mut generous, true)] {
            assert!(errands.accepts(66) && errands.run(66, burn).is_some());
            assert_eq!((errands.accepts(66), errands.accepts(1000)), (accepts, true));
        }
        // However much it was, it is over in a minute.
        frugal.charge(66, Nanos(u64::MAX / 1000));
        assert!(frugal.used[&66] <= Instant::now() + 3 * AT_ONCE);
        // All users together have a limit as well.
        assert!(!frugal.accepts(1000));
    }

    #[test]
    fn all_users_together_do_not_take_all_threads() {
        let mut errands = Errands::default();
        let mut held = Vec::new();
        for user in 0..2 * MOST_OF_ALL as u32 {
            let (hold, wait) = channel::<()>();
            held.push(hold);
            assert_eq!(errands.run(user, move || wait.recv().is_err()), None);
        }
        assert_eq!(errands.away.len(), MOST_OF_ALL);
    }
}
