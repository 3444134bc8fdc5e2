//! Progress points as counters in shared memory, so that they survive whatever happens to the program.

use crate::Nanos;
use crate::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, length, spin_loop};
use crate::stamps::SharedStamps;

/// Progress points of one program.
pub const MAX_COUNTERS: usize = length(4096, 2);
/// Bytes of a progress point's name; longer ones are cut.
pub const NAME_BYTES: usize = length(216, 1);

/// What a visit means. The numbers are those of the established `_coz_get_counter` interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// A unit of work was completed.
    Throughput = 1,
    /// A unit of work began.
    Begin = 2,
    /// A unit of work ended.
    End = 3,
}

impl Kind {
    /// The kind with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Throughput),
            2 => Some(Self::Begin),
            3 => Some(Self::End),
            _ => None,
        }
    }
}

/// What comes with a `SIGTRAP` that stands for a visit: this, and the place of the counter in the low 32 bits. No address looks like that.
pub const VISIT: u64 = 0x7769_6669_0000_0000;

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const READY: u32 = 2;

/// One progress point. The first two words are what `_coz_get_counter` hands out.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(256))]
pub struct Counter {
    /// Visits; the program increments it.
    pub count: AtomicU64,
    /// Unused; part of the established interface.
    pub backoff: AtomicU64,
    /// When those visits were that came by [`visit`](Counter::visit).
    pub stamps: SharedStamps,
    /// Of ends: the visits whose beginning is known.
    pub paired: Paired,
    /// Of ends: the number of the [`Distribution`](crate::latency::Distribution) of how long those visits took; zero while there is none.
    pub distribution: AtomicU32,
    state: AtomicU32,
    kind: AtomicU32,
    length: AtomicU32,
    name: [AtomicU8; NAME_BYTES],
}

/// Visits to an end that belong to a beginning: the one before in the same thread, or the one with the same key.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Paired {
    /// How many there were.
    pub count: AtomicU64,
    /// How long they took together, in nanoseconds by the threads' own clocks.
    pub time: AtomicU64,
    /// How many ends or beginnings had no counterpart.
    pub strays: AtomicU64,
}

/// All progress points.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Counters([Counter; MAX_COUNTERS]);

impl Counters {
    /// The counter of this kind and name; the same one for the life of the process. `None` when the
    /// table is full. Callable from several threads at once, and from a signal handler.
    pub fn get(&self, kind: Kind, name: &[u8]) -> Option<&Counter> {
        let name = &name[..name.len().min(NAME_BYTES)];
        self.0.iter().find(|counter| counter.claim(kind, name) || counter.is(kind, name))
    }

    /// The counter at a [`place`](Self::place).
    pub fn at(&self, place: usize) -> Option<&Counter> {
        self.0.get(place).filter(|counter| counter.state.load(Ordering::Acquire) == READY)
    }

    /// Where a counter of this table is in it.
    pub fn place(&self, counter: &Counter) -> usize {
        (core::ptr::from_ref(counter).addr() - self.0.as_ptr().addr()) / size_of::<Counter>()
    }

    /// The points registered so far, in the order of their registration.
    pub fn registered(&self) -> impl Iterator<Item = &Counter> {
        self.0.iter().take_while(|counter| counter.state.load(Ordering::Acquire) == READY)
    }
}

impl Counter {
    /// Claims a free entry. Release on READY publishes kind and name to the Acquire in `settled`.
    fn claim(&self, kind: Kind, name: &[u8]) -> bool {
        let free = self.state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            return false;
        }
        self.kind.store(kind as u32, Ordering::Relaxed);
        self.length.store(name.len() as u32, Ordering::Relaxed);
        for (to, from) in self.name.iter().zip(name) {
            to.store(*from, Ordering::Relaxed);
        }
        self.state.store(READY, Ordering::Release);
        true
    }

    /// Waits, for a bounded time, until the thread that claimed the entry has named it. (A thread killed in
    /// between, or a signal handler that interrupted the very claim, must not hang us.)
    fn settled(&self) -> bool {
        for _ in 0..100_000 {
            if self.state.load(Ordering::Acquire) == READY {
                return true;
            }
            spin_loop();
        }
        false
    }

    fn is(&self, kind: Kind, name: &[u8]) -> bool {
        self.settled()
            && self.kind.load(Ordering::Relaxed) == kind as u32
            && self.length.load(Ordering::Relaxed) as usize == name.len()
            && self.name().eq(name.iter().copied())
    }

    /// A visit, which the thread's own clock shows to be at `time`.
    pub fn visit(&self, time: Nanos) {
        self.stamps.add(time);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The counter of beginnings that this one, of ends, belongs to: of the same name.
    pub fn beginning<'a>(&self, all: &'a Counters) -> Option<&'a Counter> {
        let of_same_name =
            |counter: &&Counter| counter.kind() == Some(Kind::Begin) && counter.name().eq(self.name());
        all.registered().find(of_same_name)
    }

    /// The kind of the point.
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_number(self.kind.load(Ordering::Relaxed))
    }

    /// The bytes of the name, as the program gave them.
    pub fn name(&self) -> impl Iterator<Item = u8> + '_ {
        let length = (self.length.load(Ordering::Relaxed) as usize).min(NAME_BYTES);
        self.name[..length].iter().map(|byte| byte.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{boxed::Box, vec::Vec};

    fn counters() -> Box<Counters> {
        let mut memory = Box::<Counters>::new_uninit();
        // SAFETY: all-zero bytes are a valid value of every atomic in the struct.
        unsafe {
            memory.as_mut_ptr().write_bytes(0, 1);
            memory.assume_init()
        }
    }

    #[test]
    fn the_same_name_and_kind_is_the_same_counter() {
        let all = counters();
        let a = all.get(Kind::Throughput, b"a").unwrap();
        assert!(core::ptr::eq(a, all.get(Kind::Throughput, b"a").unwrap()));
        assert!(!core::ptr::eq(a, all.get(Kind::Begin, b"a").unwrap()));
        assert!(!core::ptr::eq(a, all.get(Kind::Throughput, b"ab").unwrap()));
        let names: Vec<Vec<u8>> = all.registered().map(|c| c.name().collect()).collect();
        assert_eq!(names, [b"a".to_vec(), b"a".to_vec(), b"ab".to_vec()]);
        assert!(all.at(all.place(a)).is_some_and(|found| core::ptr::eq(found, a)));
        assert_eq!(all.place(all.get(Kind::Throughput, b"ab").unwrap()), 2);
        assert!(all.at(3).is_none());
    }

    #[test]
    fn racing_threads_get_one_counter() {
        let all = counters();
        let seen: Vec<usize> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| core::ptr::from_ref(all.get(Kind::End, b"x").unwrap()).addr()))
                .collect();
            handles.into_iter().map(|h| h.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|address| *address == seen[0]));
        assert_eq!(all.registered().count(), 1);
    }

    #[test]
    fn a_full_table_says_so() {
        let all = counters();
        for i in 0..MAX_COUNTERS {
            assert!(all.get(Kind::Throughput, &i.to_le_bytes()).is_some());
        }
        assert!(all.get(Kind::Throughput, b"one too many").is_none());
    }
}
