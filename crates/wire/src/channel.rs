//! Pipes, sockets and event descriptors by which threads of the program wake one another.
//!
//! A thread that waits in `read` or `epoll_wait` may wait for the world or for another thread, and the rules
//! for the two differ (5 and 6). Whoever reads from or writes to something that has two ends notes the time;
//! a thread whose wait for the same thing ends afterwards was woken by that one.
//!
//! Keys are hashes; two channels that share an entry only matter if a wait for the one ends while the other
//! is in use.

use crate::Nanos;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Entries of the table.
pub const CHANNELS: usize = 4096;

/// A channel's entry. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u32);

impl Key {
    /// The key of anything that is told apart by these numbers.
    #[must_use]
    pub const fn hashed(words: [u64; 2]) -> Self {
        let mut hash = words[0].wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ words[1].rotate_left(32);
        hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash ^= hash >> 32;
        Self(1 + (hash % (CHANNELS as u64 - 1)) as u32)
    }

    /// The key with this number, if it is one.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        if number == 0 || number as usize >= CHANNELS { None } else { Some(Self(number)) }
    }

    /// As a number that is not zero.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// When each channel was used last, and which one learns of that as well.
#[derive(Debug)]
#[repr(C)]
pub struct Channels {
    fresh: AtomicU32,
    reserved: AtomicU32,
    touched: [AtomicU64; CHANNELS],
    /// The `epoll` instance that watches a channel.
    watcher: [AtomicU32; CHANNELS],
}

impl Channels {
    /// A key for a channel that has just been made.
    pub fn fresh(&self) -> Key {
        Key(1 + self.fresh.fetch_add(1, Relaxed) % (CHANNELS as u32 - 1))
    }

    /// A thread is about to use the channel at `time` (monotonic clock).
    pub fn touch(&self, key: Key, time: Nanos) {
        self.touched[key.0 as usize].fetch_max(time.0, AcqRel);
        if let Some(watcher) = Key::from_number(self.watcher[key.0 as usize].load(Relaxed)) {
            self.touched[watcher.0 as usize].fetch_max(time.0, AcqRel);
        }
    }

    /// When the channel was last used by a thread of the program.
    pub fn touched(&self, key: Key) -> Nanos {
        Nanos(self.touched[key.0 as usize].load(Acquire))
    }

    /// Whoever waits for `watcher` learns when `key` is used.
    pub fn watch(&self, key: Key, watcher: Key) {
        self.watcher[key.0 as usize].store(watcher.0, Relaxed);
    }
}
