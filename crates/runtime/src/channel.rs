//! Which pipe, socket or event descriptor a call is about: the kinds by which threads wake one another.
//!
//! The kind of a descriptor is found out when it is first used and remembered by its number until the
//! program closes it. One that is closed unnoticed and used again for something else is taken
//! for what it was: a wait on it may then count as one on the wrong side of rules 5 and 6.
//!
//! The calls that make descriptors and give them up are in `interpose/descriptors.rs`, those that wait for several in
//! `interpose/readiness.rs`. Not here: what is reached without a call that we see (`io_uring`, system call instructions of the program's own).

use crate::memory::shared;
use crate::socket::{self, Socket};
use crate::{sys, tls};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use wire::Nanos;
use wire::channel::{Event, Key};

/// Something can be read: also `EPOLLIN`.
pub const POLLIN: u32 = 1;
/// Something can be written: also `EPOLLOUT`.
pub const POLLOUT: u32 = 4;

/// Descriptors beyond this number are the world.
pub const REMEMBERED: usize = 1 << 16;
/// Not looked at yet.
const UNKNOWN: u32 = 0;
/// Neither end is another thread's.
const WORLD: u32 = u32::MAX;

static KINDS: [AtomicU32; REMEMBERED] = [const { AtomicU32::new(UNKNOWN) }; REMEMBERED];
/// Those that this process has used itself.
static USED: Descriptors = Descriptors::new();

/// A set of descriptors.
pub struct Descriptors {
    words: [AtomicU64; REMEMBERED / 64],
    /// None from this number on was ever in it.
    end: AtomicU32,
}

impl Descriptors {
    pub const fn new() -> Self {
        Self { words: [const { AtomicU64::new(0) }; REMEMBERED / 64], end: AtomicU32::new(0) }
    }

    /// The word and the bit of a descriptor.
    #[inline]
    fn bit(&self, fd: c_int) -> Option<(&AtomicU64, u64)> {
        let fd = usize::try_from(fd).ok()?;
        Some((self.words.get(fd / 64)?, 1 << (fd % 64)))
    }

    #[inline]
    pub fn add(&self, fd: c_int) {
        if let Some((word, bit)) = self.bit(fd)
            && word.load(Relaxed) & bit == 0
        {
            word.fetch_or(bit, Relaxed);
            self.end.fetch_max(fd as u32 + 1, Relaxed);
        }
    }

    fn has(&self, fd: c_int) -> bool {
        self.bit(fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// It is in the set no longer; whether it was.
    pub fn take(&self, fd: c_int) -> bool {
        self.has(fd) && self.bit(fd).is_some_and(|(word, bit)| word.fetch_and(!bit, Relaxed) & bit != 0)
    }

    pub fn each(&self, call: impl FnMut(c_int)) {
        (0..self.end.load(Relaxed) as c_int).filter(|fd| self.has(*fd)).for_each(call);
    }

    pub fn clear(&self) {
        let words = (self.end.swap(0, Relaxed) as usize).div_ceil(64);
        self.words[..words].iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// A forked child has copies of its parent's descriptors, and has used none of them.
pub fn in_child() {
    USED.clear();
}

/// Nothing is known of any descriptor.
pub fn forget() {
    USED.clear();
    KINDS.iter().for_each(|kind| kind.store(UNKNOWN, Relaxed));
}

/// The channels that a descriptor reads from and writes to: the same for pipes and event descriptors, two for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub input: Option<Key>,
    pub output: Option<Key>,
}

impl Ends {
    /// Neither end is another thread's.
    pub const WORLD: Self = Self { input: None, output: None };

    /// A pipe or an event descriptor: one channel, which is written to and read from.
    pub const fn both(key: Key) -> Self {
        Self { input: Some(key), output: Some(key) }
    }

    /// The first of two sockets with these inodes, which are connected.
    pub const fn of_pair([own, other]: [u64; 2]) -> Self {
        const PAIR: u64 = 1 << 63;
        Self { input: Some(Key::hashed([own, PAIR])), output: Some(Key::hashed([other, PAIR])) }
    }

    /// As a word that is not [`UNKNOWN`].
    fn to_word(self) -> u32 {
        let number = |key: Option<Key>| key.map_or(0, Key::number);
        let word = u32::from(number(self.input)) | u32::from(number(self.output)) << 16;
        if word == 0 { WORLD } else { word }
    }

    /// The numbers of [`WORLD`] are no keys.
    fn from_word(word: u32) -> Self {
        Self { input: Key::from_number(word as u16), output: Key::from_number((word >> 16) as u16) }
    }

    /// The channels have just been made.
    pub fn begin(self) {
        let channels = &shared().channels;
        self.input.into_iter().chain(self.output).for_each(|key| channels.begin(key));
    }

    /// What waits at the other end will find that this one is closed.
    pub fn hang_up(self, now: Nanos) {
        self.output.into_iter().for_each(|key| touch(key.data(), now));
        self.input.into_iter().for_each(|key| touch(key.room(), now));
    }

    /// When threads last caused any of `events` (as in poll(2)).
    fn used(self, events: u32) -> Nanos {
        let data = self.input.filter(|_| events & !POLLOUT != 0).map(|key| used(key.data()));
        let room = self.output.filter(|_| events & POLLOUT != 0).map(|key| used(key.room()));
        data.max(room).unwrap_or(Nanos::ZERO)
    }
}

/// The channels behind a descriptor.
#[inline]
pub fn of(fd: c_int) -> Ends {
    let Some(kind) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) else { return Ends::WORLD };
    match kind.load(Relaxed) {
        UNKNOWN => find(fd, kind),
        WORLD => Ends::WORLD,
        word => {
            USED.add(fd);
            Ends::from_word(word)
        }
    }
}

/// The same, if it is known already.
pub fn known(fd: c_int) -> Ends {
    let kind = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd));
    kind.map_or(Ends::WORLD, |kind| Ends::from_word(kind.load(Relaxed)))
}

/// What a descriptor is from now on; `None`: to be looked at when it is used next.
pub fn remember(fd: c_int, ends: Option<Ends>) {
    if let Some(kind) = usize::try_from(fd).ok().and_then(|fd| KINDS.get(fd)) {
        kind.store(ends.map_or(UNKNOWN, Ends::to_word), Relaxed);
        if ends.is_some() {
            USED.add(fd);
        }
    }
}

/// The process is about to end, and with it the ends of channels that it has used: threads of others that wait at the other end may find that.
pub fn hang_up_all() {
    let now = sys::now();
    USED.each(|fd| known(fd).hang_up(now));
}

/// A pipe is one inode, a connection within this machine two addresses.
#[cold]
fn find(fd: c_int, kind: &AtomicU32) -> Ends {
    let Some((mode, device, inode)) = sys::file_kind(fd) else { return Ends::WORLD };
    let ends = match mode & KIND {
        FIFO => Ends::both(Key::hashed([inode, device])),
        SOCKET => match socket::look(fd) {
            Socket::Connected { input, output } => Ends { input: Some(input), output: Some(output) },
            // Nothing is written to it: its data comes from those who connect.
            Socket::Listening(key) => Ends { input: Some(key), output: None },
            Socket::World => match shared().channels.other_end(inode) {
                Some(other) => Ends::of_pair([inode, other]),
                None => Ends::WORLD,
            },
            // What it will be is not known yet, so nothing is remembered.
            Socket::Unconnected => return Ends::WORLD,
        },
        // A filter may allow this thread no more than it calls itself.
        NONE if tls::slot().is_none() => return Ends::WORLD,
        NONE => told(fd),
        _ => Ends::WORLD,
    };
    kind.store(ends.to_word(), Relaxed);
    USED.add(fd);
    ends
}

/// What the kernel tells of a descriptor that is no file: an event descriptor has a number that is the same in all processes, and one that stands for a process can be read from
/// when that has ended.
fn told(fd: c_int) -> Ends {
    let mut buffer = [0; 256];
    let text = sys::read_numbered("fdinfo/", fd.cast_unsigned(), "", &mut buffer);
    if let Some(id) = number_behind(text, b"\neventfd-id:") {
        return Ends::both(event_descriptor(id));
    }
    let process = number_behind(text, b"\nPid:").and_then(|process| u32::try_from(process).ok());
    Ends { input: process.map(end_of), output: None }
}

/// The channel of an event descriptor that the kernel has given this number.
const fn event_descriptor(id: u64) -> Key {
    const EVENT: u64 = 1 << 58;
    Key::hashed([id, EVENT])
}

/// The end of a process, for those that have a descriptor of it (pidfd_open(2)).
pub const fn end_of(process: u32) -> Key {
    const PROCESS: u64 = 1 << 57;
    Key::hashed([process as u64, PROCESS])
}

/// The number behind a word and white space.
fn number_behind(text: &[u8], word: &[u8]) -> Option<u64> {
    let at = text.windows(word.len()).position(|at| at == word)? + word.len();
    let rest = text[at..].trim_ascii_start();
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    core::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

/// The type of a file, as `st_mode` has it.
const KIND: u64 = 0o170_000;
/// What event descriptors and the like have.
const NONE: u64 = 0;
const FIFO: u64 = 0o010_000;
const SOCKET: u64 = 0o140_000;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Pipe,
    Socket,
    Other,
}

/// The inode of what a descriptor stands for.
pub fn inode(fd: c_int) -> Option<u64> {
    sys::file_kind(fd).map(|(_, _, inode)| inode)
}

/// Looks at a descriptor: a system call. With the inode, which copies of the descriptor have as well.
pub fn what(fd: c_int) -> (What, u64) {
    match sys::file_kind(fd).map(|(mode, _, inode)| (mode & KIND, inode)) {
        Some((FIFO, inode)) => (What::Pipe, inode),
        Some((SOCKET, inode)) => (What::Socket, inode),
        _ => (What::Other, 0),
    }
}

/// A thread is about to cause `event` at once.
pub fn touch(event: Event, time: Nanos) {
    shared().channels.touch(event, time, sys::futex_wake);
}

/// When a thread of the program last caused `event`.
pub fn used(event: Event) -> Nanos {
    shared().channels.used(event)
}

/// The same for a descriptor and events as in poll(2).
pub fn used_by(fd: c_int, events: u32) -> Nanos {
    of(fd).used(events)
}

/// Calls a function that may fill or empty a channel, beginning at `time`.
#[inline]
pub fn causing<T>(event: Option<Event>, time: Nanos, call: impl FnOnce() -> T) -> T {
    let Some(event) = event else { return call() };
    let channels = &shared().channels;
    channels.begins(event, time, sys::futex_wake);
    let result = call();
    channels.ends(event);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_the_kernel_tells() {
        let text = b"pos:\t0\nflags:\t02\neventfd-count:                7\neventfd-id: 23\n";
        assert_eq!(number_behind(text, b"\neventfd-id:"), Some(23));
        assert_eq!(number_behind(text, b"\nPid:"), None);
        assert_eq!(number_behind(b"\nPid:\t-1\n", b"\nPid:"), None, "it has ended");
        assert_eq!(number_behind(b"\nPid:\t99999999999999999999\n", b"\nPid:"), None);
        assert_eq!(number_behind(b"\nPid:", b"\nPid:"), None);
    }

    #[test]
    fn ends_fit_into_a_word() {
        let [first, second] = [Key::hashed([1, 2]), Key::hashed([3, 4])];
        for ends in [
            Ends::WORLD,
            Ends::both(first),
            Ends { input: Some(first), output: Some(second) },
            Ends { input: None, output: Some(second) },
            Ends { input: Some(first), output: None },
        ] {
            assert_ne!(ends.to_word(), UNKNOWN);
            assert_eq!(Ends::from_word(ends.to_word()), ends);
        }
        assert_eq!(Ends::from_word(UNKNOWN), Ends::WORLD);
    }
}
