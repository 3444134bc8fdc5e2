//! Target: the program that is profiled. It is the child, or what the child has become by executing it; or another process, started
//! behind the child (a wrapper that has forked). The child's end is ours; the target's ends its profile.

use super::{Child, Exit, Tree, asked_to_end};
use kernel::clock::monotonic;
use kernel::cpu::ProcessStat;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Nanos;

/// See the module.
#[derive(Debug)]
pub struct Target<'a> {
    child: &'a Child,
    /// The process that the child looks after, which has run before.
    attached: Option<u32>,
    /// Those that it looks after besides, and that none of these has started.
    joined: Joined,
    other: Option<Other>,
    /// What may go on when it has ended.
    tree: Option<Arc<Tree>>,
}

/// Processes that join one that was attached to: they come and go.
pub type Joined = Arc<Mutex<Vec<u32>>>;

/// A process that is not ours to wait for.
#[derive(Debug)]
struct Other {
    pid: u32,
    process: Arc<OwnedFd>,
    ended: Arc<AtomicBool>,
    /// How often it was found stopped that had been running before.
    stops: AtomicU64,
    stopped: AtomicBool,
}

impl<'a> Target<'a> {
    /// The child itself.
    #[must_use]
    pub fn child(child: &'a Child) -> Self {
        Self { child, attached: None, joined: Joined::default(), other: None, tree: None }
    }

    /// The process with this ID, which the child looks after, and those that join it: the child ends when that one has ended, and lets all go when it is asked to end.
    #[must_use]
    pub fn attached(child: &'a Child, pid: u32, joined: Joined) -> Self {
        Self { attached: Some(pid), joined, ..Self::child(child) }
    }

    /// The process with this ID, which the child has started, or is.
    ///
    /// # Errors
    /// It has ended, or threads or descriptors cannot be had.
    pub fn behind(child: &'a Child, pid: u32) -> io::Result<Self> {
        if pid == child.pid() {
            return Ok(Self::child(child));
        }
        let number = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        let process = Arc::new(pidfd_open(number, PidfdFlags::empty())?);
        let ended = Arc::new(AtomicBool::new(false));
        let (watched, seen, progress) =
            (Arc::clone(&process), Arc::clone(&ended), Arc::clone(child.progress()));
        std::thread::Builder::new().name("target".into()).spawn(move || {
            // A descriptor of a process becomes readable when it has ended.
            while poll(&mut [PollFd::new(&*watched, PollFlags::IN)], None).is_err() {}
            seen.store(true, Ordering::Release);
            progress.wake();
        })?;
        let (stops, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Self {
            child,
            attached: None,
            joined: Joined::default(),
            other: Some(Other { pid, process, ended, stops, stopped }),
            tree: None,
        })
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.attached.unwrap_or_else(|| self.other.as_ref().map_or(self.child.pid(), |other| other.pid))
    }

    /// Goes on with what the program leaves when it ends, as far as that says so.
    #[must_use]
    pub fn with(self, tree: Arc<Tree>) -> Self {
        self.child.progress().set_tree(Arc::clone(&tree));
        Self { tree: Some(tree), ..self }
    }

    /// The processes that have started everything that belongs to it: the child, and what goes on when that has ended.
    #[must_use]
    pub fn roots(&self) -> Vec<u32> {
        if let Some(pid) = self.attached {
            let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
            return std::iter::once(pid).chain(joined.iter().copied()).collect();
        }
        let child = self.child.try_wait().is_none().then(|| self.child.pid());
        let others = self.tree.iter().flat_map(|tree| tree.roots());
        child.into_iter().chain(others).collect()
    }

    /// There was an experiment on it.
    pub fn is_profiled(&self) {
        self.tree.iter().for_each(|tree| tree.is_profiled());
    }

    /// What goes on when the run is over, as a sentence.
    #[must_use]
    pub fn survivors(&self) -> Option<String> {
        // What was attached to goes on in any case.
        self.tree.as_ref().filter(|_| self.attached.is_none())?.survivors()
    }

    /// Whether the run is over: it has ended, or the child has, with which everything does, unless the run goes on with what it leaves.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        if !self.has_first_ended() {
            return false;
        }
        let Some(tree) = &self.tree else { return true };
        if tree.over().is_some() {
            return true;
        }
        let went_well = self.child.try_wait().is_none_or(|exit| exit == Exit::Code(0));
        let may_go_on = tree.is_held() || went_well && !self.was_asked() && !asked_to_end();
        if may_go_on && tree.goes_on() && tree.is_any() {
            return false;
        }
        tree.end();
        true
    }

    /// Whether it has ended, or the child has.
    fn has_first_ended(&self) -> bool {
        self.child.try_wait().is_some() || self.is_gone()
    }

    fn is_gone(&self) -> bool {
        self.other.as_ref().is_some_and(|other| other.ended.load(Ordering::Acquire))
    }

    /// Waits until the run is over, or until `deadline` on the monotonic clock; whether it is.
    pub fn has_ended_by(&self, deadline: Nanos) -> bool {
        /// Time between two looks at what goes on.
        const LOOK: Nanos = Nanos(20_000_000);
        let Some(tree) = &self.tree else { return self.child.wait_for(deadline, || self.is_gone()) };
        while !self.has_ended() {
            let left = deadline.saturating_sub(monotonic());
            if left == Nanos::ZERO {
                return false;
            }
            if self.has_first_ended() {
                tree.wait(left.min(LOOK));
            } else {
                self.child.wait_for(deadline, || self.is_gone());
            }
        }
        true
    }

    /// Waits until the run is over. How the program ended is known of the child only.
    pub fn wait(&self) -> Option<Exit> {
        const LONG: Nanos = Nanos(3_600_000_000_000);
        while !self.has_ended_by(monotonic() + LONG) {}
        self.other.is_none().then(|| self.child.wait())
    }

    /// Asks it to end, or what goes on after it; see [`Child::terminate`].
    pub fn terminate(&self, signal: Signal) {
        let has_ended = self.has_first_ended();
        if let Some(tree) = &self.tree {
            tree.terminate(has_ended.then_some(signal));
        }
        match &self.other {
            None => self.child.terminate(signal),
            Some(other) => {
                self.child.note_asked(signal);
                if !has_ended || self.tree.is_none() {
                    let _ = pidfd_send_signal(&*other.process, signal);
                }
            }
        }
    }

    /// Ends it at once; see [`Child::kill`].
    pub fn kill(&self) {
        self.terminate(if self.attached.is_some() { Signal::TERM } else { Signal::KILL });
    }

    /// Whether it has been asked to end.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.child.was_asked()
    }

    /// How often it has been stopped, as far as that was seen; see [`Child::stops`].
    #[must_use]
    pub fn stops(&self) -> u64 {
        self.child.stops() + self.other.as_ref().map_or(0, |other| other.stops.load(Ordering::Relaxed))
    }

    /// Whether it is stopped now.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        if self.tree.as_ref().is_some_and(|tree| tree.is_stopped()) {
            return true;
        }
        if let Some(pid) = self.attached {
            return ProcessStat::of(pid).is_ok_and(|stat| stat.state == 'T');
        }
        let Some(other) = &self.other else { return self.child.is_stopped() };
        let stopped = ProcessStat::of(other.pid).is_ok_and(|stat| stat.state == 'T');
        if stopped && !other.stopped.swap(stopped, Ordering::Relaxed) {
            other.stops.fetch_add(1, Ordering::Relaxed);
        }
        other.stopped.store(stopped, Ordering::Relaxed);
        stopped
    }
}
