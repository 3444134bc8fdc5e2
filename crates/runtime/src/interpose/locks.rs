//! Locks of files: `flock`, `lockf` and `fcntl`. Any process that has the file open may wait for one.

use crate::{channel, object, signals, sys, wait};
use core::ffi::c_int;
use wire::Nanos;
use wire::channel::Key;
use wire::slot::Slot;

/// What a call does with the lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// Waits until it has it.
    Locks,
    /// Takes it if it is free.
    Tries,
    Unlocks,
}

impl Locking {
    /// By `flock(2)`.
    pub fn by_flock(operation: c_int) -> Self {
        const LOCK_NB: c_int = 4;
        const LOCK_UN: c_int = 8;
        match operation {
            _ if operation & LOCK_UN != 0 => Self::Unlocks,
            _ if operation & LOCK_NB != 0 => Self::Tries,
            _ => Self::Locks,
        }
    }

    /// By `fcntl(2)` with its third argument, if the command is about locks.
    pub fn by_fcntl(command: c_int, argument: usize) -> Option<Self> {
        const F_UNLCK: u16 = 2;
        let waits = match command {
            6 | 37 => false, // F_SETLK, F_OFD_SETLK
            7 | 38 => true,  // F_SETLKW, F_OFD_SETLKW
            _ => return None,
        };
        // The first field of a `struct flock`.
        let mut words = [0; 1];
        let is_read = sys::read_own(argument, &mut words) == Some(size_of_val(&words));
        is_read.then_some(match words[0] as u16 {
            F_UNLCK => Self::Unlocks,
            _ if waits => Self::Locks,
            _ => Self::Tries,
        })
    }
}

/// Around a call that does so with the lock of the file behind a descriptor: another thread may wait for what it unlocks, and it for another thread.
pub fn locking(slot: &Slot, fd: c_int, what: Locking, call: impl FnOnce() -> c_int) -> c_int {
    let Some(unlocked) = object::file(fd).map(Key::data) else { return wait::around_world(slot, call) };
    let call = || signals::undisturbed(slot, call);
    if what == Locking::Unlocks {
        let result = wait::around_channel(slot, Some(unlocked), call, |_| Nanos::ZERO, None);
        if result == 0 {
            object::locked(fd, false);
        }
        return result;
    }
    let since = sys::now();
    wait::before_sleep(slot);
    // It returns with the lock, so it never pauses behind it.
    let woken = |result: &c_int| *result == 0 && what == Locking::Locks && channel::used(unlocked) > since;
    let result = wait::around_wait_holding(slot, call, woken);
    if result == 0 {
        object::locked(fd, true);
    }
    result
}

/// The same around `lockf(3)`, if the command does anything with a lock.
pub fn by_lockf(slot: &Slot, fd: c_int, command: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let what = match command {
        0 => Locking::Unlocks,
        1 => Locking::Locks,
        2 => Locking::Tries,
        _ => return call(),
    };
    locking(slot, fd, what, call)
}
