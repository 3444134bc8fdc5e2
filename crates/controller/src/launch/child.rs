//! The running program, and how it ends.

use super::Tree;
use kernel::clock::monotonic;
use kernel::cpu::ProcessStat;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, waitid};
use std::io;
use std::process;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::Nanos;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The program. A thread of its own waits for it; all other threads ask this.
///
/// It is reaped when this is dropped, so its process ID means it, and no other process, as long as this lives,
/// and its last entries in `/proc` can be read even when it has ended.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    progress: Arc<Progress>,
    /// The signal that asked it to end, or zero.
    asked: AtomicI32,
}

/// The process ID of the program that runs, and has not been reaped; zero if there is none.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Waits for the end of the program that runs now; none if none does. For a thread that has panicked: needs no lock, and none of
/// the other threads.
pub fn wait_for_the_program() -> Option<Exit> {
    let pid = Pid::from_raw(RUNNING.load(Ordering::Relaxed))?;
    loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(Errno::INTR) => {}
            Ok(Some(status)) => return ended(&status),
            Ok(None) | Err(_) => return None,
        }
    }
}

fn ended(status: &WaitIdStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or(status.terminating_signal().map(Exit::Signal))
}

/// What the waiting thread has seen.
#[derive(Debug)]
pub(super) struct Progress {
    pid: Pid,
    seen: Mutex<Seen>,
    changed: Condvar,
    /// What may go on when it has ended.
    tree: Mutex<Option<Arc<Tree>>>,
    /// Whether it is one of ours that looks after the program, and no signal reaches it but from us.
    is_guardian: bool,
}

#[derive(Debug, Default)]
struct Seen {
    /// And when.
    exit: Option<(Exit, Nanos)>,
    stopped: bool,
    stops: u64,
}

impl Child {
    /// Begins to wait for the program, which is a child of this process.
    pub(super) fn watch(process: process::Child) -> io::Result<Self> {
        RUNNING.store(Pid::from_child(&process).as_raw_nonzero().get(), Ordering::Relaxed);
        Self::begin(process, false)
    }

    /// The same for one of ours that looks after the program: it ends when this process has ended.
    pub(super) fn watch_guardian(process: process::Child) -> io::Result<Self> {
        Self::begin(process, true)
    }

    fn begin(process: process::Child, is_guardian: bool) -> io::Result<Self> {
        let pid = Pid::from_child(&process);
        let progress = Arc::new(Progress {
            pid,
            seen: Mutex::default(),
            changed: Condvar::new(),
            tree: Mutex::default(),
            is_guardian,
        });
        let watched = Arc::clone(&progress);
        std::thread::Builder::new().name("wait".into()).spawn(move || watched.watch())?;
        Ok(Self { process, progress, asked: AtomicI32::new(0) })
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn try_wait(&self) -> Option<Exit> {
        self.progress.seen().exit.map(|(exit, _)| exit)
    }

    /// Waits until it ends.
    pub fn wait(&self) -> Exit {
        let mut seen = self.progress.seen();
        loop {
            match seen.exit {
                Some((exit, _)) => return exit,
                None => seen = self.progress.changed.wait(seen).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Waits until it ends, or until `deadline` on the monotonic clock. As punctual as the calling thread's
    /// timers: see [`kernel::clock::sleep_precisely`].
    pub fn wait_until(&self, deadline: Nanos) -> Option<Exit> {
        self.wait_for(deadline, || false);
        self.try_wait()
    }

    /// Waits until it ends, `other` is the case (looked at when the wait begins, and after each [`Progress::wake`]), or `deadline` has come on
    /// the monotonic clock; whether one of the first two has.
    pub(super) fn wait_for(&self, deadline: Nanos, other: impl Fn() -> bool) -> bool {
        let mut seen = self.progress.seen();
        loop {
            if seen.exit.is_some() || other() {
                return true;
            }
            let left = deadline.saturating_sub(monotonic());
            if left == Nanos::ZERO {
                return false;
            }
            let waited = self.progress.changed.wait_timeout(seen, Duration::from_nanos(left.0));
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks it to end. If it does so by this signal, that counts as a success: it was our wish.
    pub fn terminate(&self, signal: Signal) {
        self.note_asked(signal);
        self.progress.send(signal);
    }

    /// A program that it has started is asked to end, by this signal.
    pub(super) fn note_asked(&self, signal: Signal) {
        self.asked.store(signal.as_raw(), Ordering::Relaxed);
    }

    /// Ends it at once, which counts as a success: it was our wish.
    pub fn kill(&self) {
        self.terminate(Signal::KILL);
    }

    /// Whether it has been asked to end.
    pub fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != 0
    }

    /// How the program's end is to be passed on.
    pub fn verdict(&self, exit: Exit) -> Exit {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != 0 && exit == Exit::Signal(asked) { Exit::Code(0) } else { exit }
    }

    /// The same for a wrapper, which may say as shells do that a program of its own has ended by the signal.
    pub fn verdict_of_wrapper(&self, exit: Exit) -> Exit {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != 0 && exit == Exit::Code(128 + asked) { Exit::Code(0) } else { self.verdict(exit) }
    }

    /// How often it has been stopped (Ctrl-Z, `kill -STOP`). A window in which this changed measured nothing.
    #[must_use]
    pub fn stops(&self) -> u64 {
        self.progress.seen().stops
    }

    /// Whether it is stopped now.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.progress.seen().stopped
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Its number may be another's after this. Does not wait for a program that still runs.
        RUNNING.store(0, Ordering::Relaxed);
        let _ = self.process.try_wait();
    }
}

impl Progress {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Signals are for these as well, once it has ended.
    pub(super) fn set_tree(&self, tree: Arc<Tree>) {
        *self.tree.lock().unwrap_or_else(PoisonError::into_inner) = Some(tree);
    }

    /// A signal has come to us: whether that is all about it, because the program is none that we have started. One that `ends` asks who looks after it to end.
    pub(super) fn takes(&self, ends: bool) -> bool {
        if self.is_guardian && ends {
            self.send(Signal::TERM);
        }
        self.is_guardian
    }

    /// What may go on when it has ended.
    pub(super) fn tree(&self) -> Option<Arc<Tree>> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets those who wait look again.
    pub(super) fn wake(&self) {
        let _seen = self.seen();
        self.changed.notify_all();
    }

    /// When its end was seen.
    pub(super) fn ended(&self) -> Option<Nanos> {
        self.seen().exit.map(|(_, when)| when)
    }

    /// Sends it a signal, if it has not ended.
    pub(super) fn send(&self, signal: Signal) {
        // Its number stays its own until it is reaped, which does not happen before its end has been seen.
        let seen = self.seen();
        if seen.exit.is_none() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// The waiting thread. Needs no SIGCHLD, which may be blocked or handled by others.
    fn watch(&self) {
        const MOMENT: Duration = Duration::from_millis(1);
        loop {
            let kinds = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
            // An end is only looked at, and left for `Drop` to reap.
            match waitid(WaitId::Pid(self.pid), kinds | WaitIdOptions::NOWAIT) {
                Err(Errno::INTR) => {}
                Ok(Some(status)) if status.stopped() || status.continued() => self.follow_job_control(),
                // By us, for a moment: see `Held`, and `Patcher`.
                Ok(Some(status)) if status.trapped() => std::thread::sleep(MOMENT),
                Ok(Some(status)) => return self.end(ended(&status)),
                // It was reaped elsewhere. Not in this program.
                Ok(None) | Err(_) => return self.end(None),
            }
        }
    }

    fn end(&self, exit: Option<Exit>) {
        self.seen().exit = Some((exit.unwrap_or(Exit::Code(255)), monotonic()));
        self.changed.notify_all();
    }

    fn follow_job_control(&self) {
        let kinds = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), kinds) else { return };
        let by = status.stopping_signal().filter(|_| status.stopped());
        {
            let mut seen = self.seen();
            seen.stopped = by.is_some();
            seen.stops += u64::from(by.is_some());
        }
        // The shell waits for us and only sees that *we* stop. A plain SIGSTOP was meant for the program
        // alone (by a debugger, say): then its sender continues it, but would not continue us.
        let job_control = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
        if job_control.iter().any(|signal| by == Some(signal.as_raw())) && self.is_stopped_still() {
            let _ = kill_process(rustix::process::getpid(), Signal::STOP);
        }
    }

    /// Whether it has ended, noticed or not.
    pub(super) fn has_ended_by_now(&self) -> bool {
        self.ended().is_some() || ProcessStat::of(self.pid()).is_ok_and(|stat| stat.state == 'Z')
    }

    /// Whether it is stopped at this moment.
    pub(super) fn is_stopped_still(&self) -> bool {
        ProcessStat::of(self.pid()).is_ok_and(|stat| stat.state == 'T')
    }
}
