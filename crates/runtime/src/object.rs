//! What processes wait for that is no pipe and no socket: System V semaphores and message queues, POSIX message queues, locks of files. Each is one channel, named
//! by what it is for all processes.

use crate::channel::{self, Descriptors};
use crate::memory::attached;
use crate::sys;
use core::ffi::{c_int, c_void};
use wire::Nanos;
use wire::channel::{Event, Key};

const SEMAPHORES: u64 = 1 << 62;
const MESSAGES: u64 = 1 << 61;
const FILE: u64 = 1 << 60;
const CHILDREN: u64 = 1 << 59;

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

/// A file is locked through a descriptor, or is no longer.
pub fn locked(fd: c_int, is_locked: bool) {
    if is_locked {
        LOCKED.add(fd);
    } else {
        LOCKED.take(fd);
    }
}
