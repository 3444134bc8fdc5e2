//! Tree: the processes that a run is about besides its first one, and when the run is over.
//!
//! A process belongs to it that holds our shared memory: it has it mapped, or is about to map it. That is how a daemon is found whose parents
//! have ended, and how it is told from another process that has got its number; from then on its descriptor means it, whatever becomes of
//! the number. Nothing is looked for before the first process has ended.

use crate::arguments::UntilExit;
use kernel::SharedMapping;
use kernel::clock::monotonic;
use kernel::cpu::ProcessStat;
use kernel::maps::FileId;
use profile::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{fstat, major, minor};
use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::{Nanos, SharedMemory};

/// A daemon leaves its first process within this time.
const FIRST_MOMENTS: Nanos = Nanos(10_000_000_000);
/// What ends because the first process has ended is no daemon: it gets this long.
const LAST_MOMENTS: Nanos = Nanos(100_000_000);
/// The same at the end of the run, before the user is told that it goes on.
const AFTERWARDS: Nanos = Nanos(300_000_000);
/// How often processes are looked for that were forked since.
const LOOK: Nanos = Nanos(500_000_000);
/// So many are named.
const NAMED: usize = 5;

/// See the module.
#[derive(Debug)]
pub struct Tree {
    memory: &'static SharedMemory,
    /// The file that all of them have mapped.
    file: Option<FileId>,
    /// What the user says.
    until: Option<UntilExit>,
    /// Whether a daemon is held on to, where the user does not say until when the run goes on.
    may_hold: bool,
    quiet: bool,
    begun: Nanos,
    /// Whether the run goes on after the first process.
    held: AtomicBool,
    /// When the first process was found to have left something (monotonic clock); zero as long as that has not been so.
    left: AtomicU64,
    /// When the run was over (monotonic clock); zero as long as it goes on.
    over: AtomicU64,
    /// Whether there was an experiment.
    profiled: AtomicBool,
    /// Whether the terminal has interrupted the run: what it does not reach is not waited for.
    interrupted: AtomicBool,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    members: Vec<Member>,
    looked: Nanos,
    /// Whether they were asked to end: no others are waited for.
    asked: bool,
}

/// One of the processes.
#[derive(Debug)]
struct Member {
    pid: u32,
    process: OwnedFd,
    parent: u32,
}

impl Member {
    fn has_ended(&self) -> bool {
        one_ends([&self.process], Nanos::ZERO)
    }

    fn is_reached_by_terminal(&self) -> bool {
        ProcessStat::of(self.pid)
            .is_ok_and(|stat| stat.group == getpgrp().as_raw_nonzero().get().cast_unsigned())
    }

    /// `name (process 12)`.
    fn shown(&self) -> String {
        let program = std::fs::read_link(format!("/proc/{}/exe", self.pid)).unwrap_or_default();
        let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let own = || std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        let name = if program.is_empty() { own() } else { program };
        format!("{} (process {})", printable(name.trim_end()), self.pid)
    }
}

/// Waits for the end of one of these processes, at most so long; whether it has come.
fn one_ends<'p>(processes: impl IntoIterator<Item = &'p OwnedFd>, time: Nanos) -> bool {
    // A descriptor of a process becomes readable when it has ended.
    let mut all: Vec<PollFd<'_>> =
        processes.into_iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
    let (seconds, rest) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    let time = Timespec { tv_sec: seconds.cast_signed(), tv_nsec: rest.cast_signed() };
    poll(&mut all, Some(&time)).is_ok_and(|ready| ready > 0)
}

impl Tree {
    /// Of a run whose processes share this memory. `may_hold`: whether it may go on with a daemon if `until` does not
    /// say when it ends; `quiet`: whether the user is not told.
    pub fn new(shared: &SharedMapping, until: Option<UntilExit>, may_hold: bool, quiet: bool) -> Self {
        let file = fstat(shared.fd())
            .ok()
            .map(|file| FileId { device: (major(file.st_dev), minor(file.st_dev)), inode: file.st_ino });
        Self {
            memory: shared.memory(),
            file,
            until,
            may_hold,
            quiet,
            begun: monotonic(),
            held: AtomicBool::new(until == Some(UntilExit::All)),
            left: AtomicU64::new(0),
            over: AtomicU64::new(0),
            profiled: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            found: Mutex::default(),
        }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There was an experiment: the first process is no mere beginning of another one.
    pub fn is_profiled(&self) {
        self.profiled.store(true, Ordering::Relaxed);
    }

    /// Whether what is executed now may still join: also while it is not known yet whether the first process was the last one.
    pub fn may_go_on(&self) -> bool {
        let is_wanted = self.held.load(Ordering::Relaxed) || self.until.is_none() && self.may_hold;
        is_wanted && self.over.load(Ordering::Relaxed) == 0
    }

    /// Whether the run goes on after the first process.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) || self.left.load(Ordering::Relaxed) != 0
    }

    /// When the run was over, if it is.
    pub fn over(&self) -> Option<Nanos> {
        Some(Nanos(self.over.load(Ordering::Relaxed))).filter(|over| *over != Nanos::ZERO)
    }

    /// The run is over.
    pub(super) fn end(&self) {
        let _ = self.over.compare_exchange(0, monotonic().0.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The first process has ended by itself and well, as far as that is known: whether the run goes on if others are there. Where it was only the
    /// beginning of a daemon, it does, and the user is told.
    pub(super) fn goes_on(&self) -> bool {
        if self.held.load(Ordering::Relaxed) {
            return true;
        }
        if self.over().is_some() || !self.may_hold_now() || !self.is_any() {
            return false;
        }
        let now = monotonic();
        let _ = self.left.compare_exchange(0, now.0, Ordering::Relaxed, Ordering::Relaxed);
        let left = Nanos(self.left.load(Ordering::Relaxed));
        if now.saturating_sub(left) >= LAST_MOMENTS && !self.held.swap(true, Ordering::Relaxed) && !self.quiet
        {
            kernel::say!(
                "whatif: the first process has ended, and the run goes on with {} (--until-exit first ends it at once)",
                self.names()
            );
        }
        true
    }

    /// Whether the first process may have been the beginning of a daemon, if it has ended now.
    fn may_hold_now(&self) -> bool {
        let is_early = monotonic().saturating_sub(self.begun) < FIRST_MOMENTS;
        let has_left = self.left.load(Ordering::Relaxed) != 0;
        let is_beginning = has_left || is_early && !self.profiled.load(Ordering::Relaxed);
        self.until.is_none() && self.may_hold && is_beginning
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.found().members.iter().map(Member::shown).collect();
        crate::failure::list(&names, NAMED)
    }

    /// Whether any process is there that is waited for.
    pub(super) fn is_any(&self) -> bool {
        let mut found = self.found();
        found.members.retain(|member| !member.has_ended());
        let time = monotonic();
        let is_due = found.members.is_empty() || time.saturating_sub(found.looked) >= LOOK;
        if is_due && !found.asked {
            found.members = self.look();
            if found.members.is_empty() {
                // One may have been forked with a lower number while others were looked at, and its parent have ended.
                found.members = self.look();
            }
            found.looked = time;
        }
        match self.interrupted.load(Ordering::Relaxed) {
            true => found.members.iter().any(Member::is_reached_by_terminal),
            false => !found.members.is_empty(),
        }
    }

    /// Waits until one of them ends, or for so long.
    pub(super) fn wait(&self, time: Nanos) {
        // Copies: meanwhile a signal may be passed on.
        let processes: Vec<OwnedFd> =
            self.found().members.iter().filter_map(|member| member.process.try_clone().ok()).collect();
        one_ends(processes.iter(), time);
    }

    /// Those that no other one of them has started.
    pub fn roots(&self) -> Vec<u32> {
        let found = self.found();
        let is_root = |member: &&Member| !found.members.iter().any(|other| other.pid == member.parent);
        found.members.iter().filter(is_root).map(|member| member.pid).collect()
    }

    /// Sends these a signal.
    pub fn send(&self, signal: Signal) {
        // Looks for them, if there was no need to yet.
        self.is_any();
        let roots = self.roots();
        for member in self.found().members.iter().filter(|member| roots.contains(&member.pid)) {
            let _ = pidfd_send_signal(&member.process, signal); // it may have ended
        }
    }

    /// Asks them to end by this signal, if they are to be asked, and waits for no others.
    pub(super) fn terminate(&self, signal: Option<Signal>) {
        if let Some(signal) = signal {
            self.send(signal);
        }
        self.found().asked = true;
    }

    /// The terminal has sent a signal to its group: to those of them that are in it, and to us.
    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// Whether one of them is stopped.
    pub fn is_stopped(&self) -> bool {
        self.found()
            .members
            .iter()
            .any(|member| ProcessStat::of(member.pid).is_ok_and(|stat| stat.state == 'T'))
    }

    /// What goes on after the run, as one sentence.
    pub fn survivors(&self) -> Option<String> {
        let until = monotonic() + AFTERWARDS;
        let mut found = self.look();
        while !found.is_empty() && monotonic() < until {
            one_ends(found.iter().map(|member| &member.process), until.saturating_sub(monotonic()));
            found.retain(|member| !member.has_ended());
        }
        let names: Vec<String> = found.iter().map(Member::shown).collect();
        let names = crate::failure::list(&names, NAMED);
        (!found.is_empty()).then(|| format!("still running, at full speed and no longer profiled: {names}"))
    }

    /// All processes that hold the memory, besides ourselves.
    fn look(&self) -> Vec<Member> {
        let own = std::process::id();
        let Ok(since) = ProcessStat::of(own).map(|stat| stat.started) else { return Vec::new() };
        let Ok(folders) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = folders.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| *pid != own).filter_map(|pid| self.member(pid, since)).collect()
    }

    fn member(&self, pid: u32, since: Nanos) -> Option<Member> {
        let stat = ProcessStat::of(pid).ok().filter(|stat| stat.started >= since)?;
        if matches!(stat.state, 'Z' | 'X') {
            return None;
        }
        let process = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?;
        let member = Member { pid, process, parent: stat.parent };
        // What was looked at was the process of the descriptor, if that has not ended since.
        (self.is_held_by(pid) && !member.has_ended()).then_some(member)
    }

    /// Whether a process holds the memory.
    fn is_held_by(&self, pid: u32) -> bool {
        let Some(file) = self.file else { return false };
        match kernel::maps(pid) {
            Ok(mappings) if mappings.iter().any(|mapping| mapping.file == file) => true,
            Ok(_) => self.is_about_to_map(pid, file).unwrap_or(false),
            // It hides from others of its user: what it has written there itself counts.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.memory.slots.used().iter().any(|slot| {
                    let thread = slot.tid.load(Ordering::Acquire);
                    let is_its = slot.is_taken() && slot.pid.load(Ordering::Relaxed) == pid;
                    is_its && Path::new(&format!("/proc/{pid}/task/{thread}")).exists()
                })
            }
            Err(_) => false,
        }
    }

    /// Whether it has been given the memory, which it maps before its first instruction.
    fn is_about_to_map(&self, pid: u32, file: FileId) -> io::Result<bool> {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
        let is_it = |entry: std::fs::DirEntry| {
            std::fs::metadata(entry.path())
                .is_ok_and(|it| it.ino() == file.inode && (major(it.dev()), minor(it.dev())) == file.device)
        };
        Ok(descriptors.into_iter().any(is_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_belongs_to_it_that_holds_the_memory() {
        let shared = SharedMapping::create().unwrap();
        let tree = Tree::new(&shared, Some(UntilExit::All), false, true);
        let own = std::process::id();
        assert!(tree.is_held_by(own), "it is mapped here");
        let mut command = Command::new("sleep");
        command.arg("1000");
        let mut holds = kernel::child::spawn(command, Some(shared.fd())).unwrap();
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        // Other tests have children of their own, which are copies of this process for a moment.
        let is_member = |pid| tree.look().iter().any(|member| member.pid == pid);
        while !is_member(holds.id()) {
            std::thread::yield_now();
        }
        assert!(!is_member(other.id()) && !is_member(own));
        assert!(tree.is_any() && tree.may_go_on() && tree.over().is_none());
        holds.kill().unwrap();
        // Not waited for: a process that has ended belongs to nothing.
        while is_member(holds.id()) {
            std::thread::yield_now();
        }
        for child in [&mut holds, &mut other] {
            let _ = child.kill();
            child.wait().unwrap();
        }
        tree.end();
        assert!(!tree.may_go_on() && tree.over().is_some());
    }

    #[test]
    fn a_run_goes_on_with_a_daemon_only_where_that_is_the_program() {
        let shared = SharedMapping::create().unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000");
        let mut daemon = kernel::child::spawn(command, Some(shared.fd())).unwrap();
        let tree = |until, may_hold| Tree::new(&shared, until, may_hold, true);
        assert!(!tree(Some(UntilExit::First), true).goes_on(), "as it was typed");
        assert!(!tree(None, false).goes_on(), "one run of many");
        let profiled = tree(None, true);
        profiled.is_profiled();
        assert!(!profiled.goes_on(), "it was the program itself");
        let held = tree(None, true);
        assert!(!held.is_held() && held.may_go_on());
        assert!(held.goes_on() && held.is_held());
        assert!(tree(Some(UntilExit::All), false).goes_on());
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
}
