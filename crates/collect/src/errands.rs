//! Work on files of others, with a time limit: a file system that never answers holds up a thread of its own, and nothing else.

use kernel::clock::thread_cpu_time;
use kernel::signals::AllBlocked;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use wire::Nanos;

/// How long answers are waited for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// The longest that is waited for an answer, if the thread does not wait for a CPU. A disk that has to start turning takes longer; it
    /// is asked again later.
    limit: Duration,
    /// Answers for which the thread has waited less are at no user's expense.
    usual: Duration,
}

impl Patience {
    const USUAL: Self = Self { limit: Duration::from_millis(300), usual: Duration::from_millis(20) };
    /// In tests what is right does not depend on what else keeps the machine busy.
    const ENDLESS: Self = Self { limit: Duration::from_secs(100), usual: Duration::from_secs(100) };
}

impl Default for Patience {
    fn default() -> Self {
        if cfg!(test) { Self::ENDLESS } else { Self::USUAL }
    }
}

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
    patience: Patience,
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
        let Patience { limit, usual } = self.patience;
        let found = loop {
            match answered.recv_timeout(limit) {
                Err(RecvTimeoutError::Timeout) if thread.wants_to_run() => {}
                found => break found,
            }
        };
        let waited = found.as_ref().map_or(limit, |(_, waited, _)| *waited);
        // What has not come back may still be at it.
        let took = found.as_ref().map_or(Nanos(limit.as_nanos() as u64), |(.., took)| *took);
        self.charge(user, took);
        if waited > usual {
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

    /// Gives up what never answers at once.
    const SHORT: Patience = Patience { limit: Duration::from_millis(5), usual: Duration::ZERO };

    /// A file of a user that does not answer until what is returned is dropped.
    fn never_answers(errands: &mut Errands, user: u32) -> Sender<()> {
        let (hold, held) = channel();
        errands.patience = SHORT;
        assert_eq!(errands.run(user, move || held.recv().is_err()), None);
        errands.patience = Patience::ENDLESS;
        hold
    }

    #[test]
    fn what_never_answers_is_left_behind() {
        let mut errands = Errands::default();
        assert_eq!(errands.run(1000, || 7), Some(7));
        let hold = never_answers(&mut errands, 66);
        assert_eq!(errands.away.len(), 1);
        // Files of this user are not looked at for a while, those of others at once.
        let rest = errands.rests.get_mut(&66).expect("files of this user are left alone for a while");
        *rest += Duration::from_secs(3600);
        assert_eq!(errands.run(66, || 8), None);
        assert_eq!(errands.run(1000, || 9), Some(9));
        // Also not when that time has passed, while it still waits with another one.
        errands.rests.clear();
        let hold_too = never_answers(&mut errands, 66);
        errands.rests.clear();
        assert_eq!(errands.run(66, || 10), None);
        assert_eq!(errands.away.len(), 2);
        drop((hold, hold_too));
        while !errands.away.is_empty() {
            errands.run(66, || 11);
        }
        assert_eq!(errands.run(66, || 12), Some(12));
    }

    #[test]
    fn files_that_cost_much_are_not_looked_at_for_a_while() {
        const BURNT: Nanos = Nanos(20_000_000);
        let burn = || {
            let begin = thread_cpu_time();
            while thread_cpu_time().saturating_sub(begin) < BURNT {}
        };
        let (mut frugal, mut generous) = (Errands::frugal(), Errands::default());
        for (errands, accepts) in [(&mut frugal, false), (&mut generous, true)] {
            let begin = Instant::now();
            assert!(errands.accepts(66) && errands.run(66, burn).is_some());
            assert!(errands.used[&66] >= begin + Duration::from_nanos(BURNT.0) * SHARE);
            errands.charge(66, Nanos(600_000_000));
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
        let held: Vec<_> = (0..MOST_OF_ALL as u32).map(|user| never_answers(&mut errands, user)).collect();
        assert_eq!((errands.accepts(1000), errands.run(1000, || 7)), (false, None));
        assert_eq!(errands.away.len(), held.len());
    }
}
