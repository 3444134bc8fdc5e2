//! What processes wait for that is no pipe and no socket: System V semaphores and message queues, POSIX message queues, locks of files. Each is one channel, named
//! by what it is for all processes.

use crate::channel::{self, Descriptors};
use crate::memory::attached;
use crate::{signals, sys, wait};
use core::ffi::{c_int, c_void};
use wire::Nanos;
use wire::channel::{Event, Key};
use wire::slot::Slot;

const SEMAPHORES: u64 = 1 << 62;
const MESSAGES: u64 = 1 << 61;
const FILE: u64 = 1 << 60;
const CHILDREN: u64 = 1 << 59;
const PROCESS: u64 = 1 << 57;

/// A set of semaphores.
pub fn semaphores(id: c_int) -> Key {
    Key::hashed([u64::from(id.cast_unsigned()), SEMAPHORES])
}

/// A message queue of System V.
pub fn messages(id: c_int) -> Key {
    Key::hashed([u64::from(id.cast_unsigned()), MESSAGES])
}

/// A POSIX message queue, or a file that is locked.
pub fn file(fd: c_int) -> Option<Key> {
    let (_, device, inode) = sys::file_kind(fd)?;
    Some(Key::hashed([inode, device ^ FILE]))
}

/// The ends of the children of a process.
pub fn ends_of_children(process: u32) -> Event {
    Key::hashed([u64::from(process), CHILDREN]).data()
}

/// The end of a process, for those that have a descriptor of it (pidfd_open(2)).
pub fn end_of(process: u32) -> Key {
    Key::hashed([u64::from(process), PROCESS])
}

/// When a profiled child of this process last ended: that may have sent the signal which has ended a wait.
pub fn child_ended() -> Nanos {
    channel::used(ends_of_children(sys::getpid()))
}

/// `struct sembuf`.
#[repr(C)]
struct Operation {
    number: u16,
    by: i16,
    flags: u16,
}

/// What operations on semaphores cause: those that change one may end a wait.
///
/// # Safety
/// `operations` must be what the program passes to `semop`: so many of them.
pub unsafe fn raises(id: c_int, operations: *mut c_void, count: usize) -> Option<Event> {
    /// `SEMOPM` is 500; the kernel refuses more.
    const MOST: usize = 500;
    // Where it cannot be told, it may be one.
    let readable =
        count <= MOST && sys::is_readable(operations.addr(), count * size_of::<Operation>()) == Ok(true);
    let raises = !readable || {
        // One may wait until a semaphore is raised, or until it is zero.
        // SAFETY: they have just been read.
        (0..count).any(|nth| unsafe { operations.cast::<Operation>().add(nth).read_unaligned() }.by != 0)
    };
    raises.then(|| semaphores(id).data())
}

/// Those whose files are locked through them: what closes them unlocks the files.
static LOCKED: Descriptors = Descriptors::new();

/// A forked child has none of the locks, or shares them with its parent: what it closes unlocks nothing.
pub fn in_child() {
    LOCKED.clear();
}

/// A descriptor is about to be closed.
pub fn closes(fd: c_int) {
    if LOCKED.take(fd)
        && let Some(key) = file(fd)
        && attached().is_some()
    {
        channel::touch(key.data(), sys::now());
    }
}

/// The process is about to end.
pub fn closes_all() {
    LOCKED.each(closes);
}

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

    /// By `lockf(3)`, if it does anything.
    pub fn by_lockf(command: c_int) -> Option<Self> {
        match command {
            0 => Some(Self::Unlocks),
            1 => Some(Self::Locks),
            2 => Some(Self::Tries),
            _ => None,
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
    let Some(unlocked) = file(fd).map(Key::data) else { return wait::around_world(slot, call) };
    let call = || signals::undisturbed(slot, call);
    if what == Locking::Unlocks {
        let result = wait::around_channel(slot, Some(unlocked), call, |_| Nanos::ZERO, None);
        if result == 0 {
            LOCKED.take(fd);
        }
        return result;
    }
    let since = sys::now();
    wait::before_sleep(slot);
    // It returns with the lock, so it never pauses behind it.
    let woken = |result: &c_int| *result == 0 && what == Locking::Locks && channel::used(unlocked) > since;
    let result = wait::around_wait_holding(slot, call, woken);
    if result == 0 {
        LOCKED.add(fd);
    }
    result
}
