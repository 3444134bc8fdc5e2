//! The signal state this process was started with, which its child must get and `std` would lose.
//!
//! Rust's start-up code ignores SIGPIPE, and the command handles what the terminal sends. Both are our own
//! affair: a program under `nohup` must still ignore SIGHUP, one in a background pipeline SIGINT. So the
//! state is read in a constructor, before it is changed.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Signals are numbered from 1 to 64; signal `n` is bit `n − 1` of a set.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// Written once, before `main`, when there is one thread.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = remember;

extern "C" fn remember() {
    let ignored = SIGNALS.filter(|signal| disposition(*signal) == libc::SIG_IGN);
    IGNORED.store(ignored.map(bit).sum(), Ordering::Relaxed);
    BLOCKED.store(change_mask(libc::SIG_BLOCK, 0), Ordering::Relaxed);
}

/// Whether this process was started with `signal` ignored.
#[must_use]
pub fn was_ignored(signal: i32) -> bool {
    SIGNALS.contains(&signal) && IGNORED.load(Ordering::Relaxed) & bit(signal) != 0
}

/// Gives the calling process the dispositions, and the calling thread the mask, that we were started with.
/// Called between `fork` and `exec`: makes system calls and nothing else.
pub(crate) fn restore_inherited() {
    for signal in SIGNALS {
        set_disposition(signal, if was_ignored(signal) { libc::SIG_IGN } else { libc::SIG_DFL });
    }
    change_mask(libc::SIG_SETMASK, BLOCKED.load(Ordering::Relaxed));
}

/// All signals are blocked in the calling thread while this lives, and in the threads it starts for good.
#[derive(Debug)]
pub struct AllBlocked {
    before: u64,
    /// The mask belongs to a thread.
    not_send: PhantomData<*const ()>,
}

impl AllBlocked {
    /// Blocks them.
    #[must_use = "the signals are unblocked when this is dropped"]
    pub fn new() -> Self {
        // Without these two glibc could not stop its own threads (pthread_cancel, setuid).
        let all = !(bit(32) | bit(33));
        Self { before: change_mask(libc::SIG_SETMASK, all), not_send: PhantomData }
    }
}

impl Default for AllBlocked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, self.before);
    }
}

/// Ignores `signal` from now on, also in a program that is executed in place of this one.
pub fn ignore(signal: i32) {
    if SIGNALS.contains(&signal) {
        set_disposition(signal, libc::SIG_IGN);
    }
}

/// Ends this process by `signal`, so that the process that waits for it sees that. Leaves no core file: the one that
/// matters is the program's. Ends it with 128 + `signal` should the signal not be deadly.
pub fn die_by(signal: i32) -> ! {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // A core pattern that is a pipe disregards the limit, but not this.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if SIGNALS.contains(&signal) {
        set_disposition(signal, libc::SIG_DFL);
        change_mask(libc::SIG_UNBLOCK, bit(signal));
        // SAFETY: sends to the calling thread, so that the signal is delivered before the call returns.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
    }
    std::process::exit(128 + signal)
}

// What follows asks the kernel itself: the C library keeps signals 32 and 33 from its callers, and ignored
// or blocked ones are inherited like any other.

/// The kernel's `struct sigaction`: the handler, and up to three words that do not matter here.
type Action = [libc::sighandler_t; 4];

/// Bytes of the kernel's signal set.
const SET_BYTES: usize = size_of::<u64>();

fn disposition(signal: i32) -> libc::sighandler_t {
    let mut action: Action = [libc::SIG_DFL; 4];
    let nothing = std::ptr::null::<Action>();
    // SAFETY: only asks; the kernel writes one action, or nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, nothing, &raw mut action, SET_BYTES) };
    action[0]
}

/// `disposition` is SIG_DFL or SIG_IGN. The kernel refuses SIGKILL and SIGSTOP, which is right.
fn set_disposition(signal: i32, disposition: libc::sighandler_t) {
    debug_assert!(disposition == libc::SIG_DFL || disposition == libc::SIG_IGN);
    let action: Action = [disposition, 0, 0, 0];
    let nothing = std::ptr::null_mut::<Action>();
    // SAFETY: no flags, an empty mask, and no code to run.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, nothing, SET_BYTES) };
}

/// Changes the mask of the calling thread; returns the one from before.
fn change_mask(how: i32, set: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: reads and writes a set each.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set, &raw mut before, SET_BYTES) };
    before
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_comes_back() {
        let before = change_mask(libc::SIG_BLOCK, 0);
        let blocked = AllBlocked::new();
        // The kernel never blocks these two.
        let never = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
        assert_eq!(change_mask(libc::SIG_BLOCK, 0), !(bit(32) | bit(33) | never));
        drop(blocked);
        assert_eq!(change_mask(libc::SIG_BLOCK, 0), before);
    }

    #[test]
    fn dispositions_are_read_and_written() {
        // A signal that nothing else in this test program uses.
        let signal = libc::SIGPWR;
        for disposition in [libc::SIG_IGN, libc::SIG_DFL] {
            set_disposition(signal, disposition);
            assert_eq!(super::disposition(signal), disposition);
        }
        assert!(!was_ignored(0) && !was_ignored(65));
    }
}
