//! Target: the program that is profiled. It is the child, or what the child has become by executing it; or another process, started
//! behind the child (a wrapper that has forked). The child's end is ours; the target's ends its profile.

use super::{Child, Exit};
use kernel::clock::monotonic;
use kernel::cpu::ProcessStat;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wire::Nanos;

/// See the module.
#[derive(Debug)]
pub struct Target<'a> {
    child: &'a Child,
    other: Option<Other>,
}

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
        Self { child, other: None }
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
        Ok(Self { child, other: Some(Other { pid, process, ended, stops, stopped }) })
    }

    /// Its process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.other.as_ref().map_or(self.child.pid(), |other| other.pid)
    }

    /// The process that the program is, or that has started it.
    #[must_use]
    pub fn root(&self) -> u32 {
        self.child.pid()
    }

    /// Whether it has ended; or the child has, with which everything does.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.child.try_wait().is_some() || self.is_gone()
    }

    fn is_gone(&self) -> bool {
        self.other.as_ref().is_some_and(|other| other.ended.load(Ordering::Acquire))
    }

    /// Waits until it has ended, or until `deadline` on the monotonic clock; whether it has.
    pub fn has_ended_by(&self, deadline: Nanos) -> bool {
        self.child.wait_for(deadline, || self.is_gone())
    }

    /// Waits until it ends. How it did is known of the child only.
    pub fn wait(&self) -> Option<Exit> {
        if self.other.is_none() {
            return Some(self.child.wait());
        }
        const LONG: Nanos = Nanos(3_600_000_000_000);
        while !self.has_ended_by(monotonic() + LONG) {}
        None
    }

    /// Asks it to end; see [`Child::terminate`].
    pub fn terminate(&self, signal: Signal) {
        match &self.other {
            None => self.child.terminate(signal),
            Some(other) => {
                self.child.note_asked(signal);
                let _ = pidfd_send_signal(&*other.process, signal);
            }
        }
    }

    /// Ends it at once; see [`Child::kill`].
    pub fn kill(&self) {
        self.terminate(Signal::KILL);
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
        let Some(other) = &self.other else { return self.child.is_stopped() };
        let stopped = ProcessStat::of(other.pid).is_ok_and(|stat| stat.state == 'T');
        if stopped && !other.stopped.swap(stopped, Ordering::Relaxed) {
            other.stops.fetch_add(1, Ordering::Relaxed);
        }
        other.stopped.store(stopped, Ordering::Relaxed);
        stopped
    }
}
