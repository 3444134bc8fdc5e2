//! The sample ring of one thread: written by its signal handler, drained by the controller.
//!
//! A record is `1 + 1 + frames` words: a head (frames in the low 8 bits, flags in the next 8, the program in the next 16, weight
//! in nanoseconds in the high 32), the time, the callchain innermost first. A record that finds no room is
//! counted and lost.
//!
//! The flags also say what the runtime made of the sample, so that the controller, which finds out by itself what the sample
//! belongs to, can check it.

use crate::atomic::{AtomicU64, Ordering, length};
use crate::{Address, MAX_FRAMES, Nanos};

/// Words of a ring.
pub const RING_WORDS: usize = length(2312, 8);

/// In the first word of a sample, next to its depth.
const CUT: u64 = 1 << 8;
/// Where the bits of a [`Judgement`] begin.
const JUDGEMENT: u32 = 9;
/// Where the program's begin.
const PROGRAM: u32 = 16;

/// What the runtime made of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement(u8);

impl Judgement {
    /// Nothing in particular.
    pub const NONE: Self = Self(0);
    /// It belongs to the selected region.
    pub const HIT: Self = Self(1);
    /// Nothing is credited for it: the thread spins, which counts as waiting.
    pub const SPINNING: Self = Self(2);
    /// Nothing is credited for it: it came after the experiment's deadline.
    pub const LATE: Self = Self(4);
    /// Its credit waits until a call of the thread's is over.
    pub const DEFERRED: Self = Self(8);
    /// A timer has taken it.
    pub const TIMED: Self = Self(16);

    const BITS: u64 = 31;

    /// Both together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `self` if `holds`, otherwise nothing.
    #[must_use]
    pub const fn when(self, holds: bool) -> Self {
        if holds { self } else { Self::NONE }
    }

    /// Whether all of `other` holds.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was handled, on the monotonic clock.
    pub time: Nanos,
    /// The CPU time that it stands for.
    pub weight: Nanos,
    /// How many frames are valid.
    pub depth: usize,
    /// Whether there were more, which found no room.
    pub cut: bool,
    /// What the runtime made of it.
    pub judgement: Judgement,
    /// The program that its process runs ([`mark`](crate::slot::mark)); zero where that is not known. The slot may be another one's by now.
    pub program: u16,
    /// The callchain, innermost first; return addresses already point into the call.
    pub frames: [Address; MAX_FRAMES],
}

impl Sample {
    /// A sample without frames.
    #[must_use]
    pub const fn new(time: Nanos, weight: Nanos) -> Self {
        Self {
            time,
            weight,
            depth: 0,
            cut: false,
            judgement: Judgement::NONE,
            program: 0,
            frames: [Address(0); MAX_FRAMES],
        }
    }

    /// The valid frames.
    #[must_use]
    pub fn callchain(&self) -> &[Address] {
        &self.frames[..self.depth.min(MAX_FRAMES)]
    }
}

/// A ring with one producer and one consumer.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[repr(C)]
pub struct Ring {
    /// Words ever written. Release by the producer, Acquire by the consumer: publishes the words.
    head: AtomicU64,
    /// Words ever read. Release by the consumer, Acquire by the producer: frees the words.
    tail: AtomicU64,
    lost: AtomicU64,
    words: [AtomicU64; RING_WORDS],
}

impl Ring {
    fn word(&self, index: u64) -> &AtomicU64 {
        &self.words[(index % RING_WORDS as u64) as usize]
    }

    /// Appends a sample. Called from the signal handler.
    pub fn push(&self, sample: &Sample) {
        let head = self.head.load(Ordering::Relaxed);
        let used = head.wrapping_sub(self.tail.load(Ordering::Acquire)) as usize;
        let callchain = sample.callchain();
        let length = callchain.len() + 2;
        if used + length > RING_WORDS {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let weight = sample.weight.0.min(u64::from(u32::MAX));
        let flags = if sample.cut { CUT } else { 0 } | u64::from(sample.judgement.0) << JUDGEMENT;
        let program = u64::from(sample.program) << PROGRAM;
        self.word(head).store((weight << 32) | program | flags | callchain.len() as u64, Ordering::Relaxed);
        self.word(head + 1).store(sample.time.0, Ordering::Relaxed);
        let mut at = head + 2;
        for frame in callchain {
            self.word(at).store(frame.0, Ordering::Relaxed);
            at += 1;
        }
        self.head.store(at, Ordering::Release);
    }

    /// Takes the oldest sample. Called by the controller.
    pub fn pop(&self) -> Option<Sample> {
        let tail = self.tail.load(Ordering::Relaxed);
        let filled = self.head.load(Ordering::Acquire).wrapping_sub(tail) as usize;
        if filled < 2 {
            return None;
        }
        let first = self.word(tail).load(Ordering::Relaxed);
        let depth = ((first & 0xff) as usize).min(MAX_FRAMES);
        let mut sample = Sample::new(Nanos(self.word(tail + 1).load(Ordering::Relaxed)), Nanos(first >> 32));
        sample.depth = depth;
        sample.cut = first & CUT != 0;
        sample.judgement = Judgement((first >> JUDGEMENT & Judgement::BITS) as u8);
        sample.program = (first >> PROGRAM) as u16;
        for (i, frame) in sample.frames[..depth].iter_mut().enumerate() {
            *frame = Address(self.word(tail + 2 + i as u64).load(Ordering::Relaxed));
        }
        self.tail.store(tail + 2 + depth as u64, Ordering::Release);
        Some(sample)
    }

    /// Samples that found no room so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    fn ring() -> Box<Ring> {
        let mut memory = Box::<Ring>::new_uninit();
        // SAFETY: all-zero bytes are a valid value of every atomic in the struct.
        unsafe {
            memory.as_mut_ptr().write_bytes(0, 1);
            memory.assume_init()
        }
    }

    fn sample(number: u64, depth: usize) -> Sample {
        let mut sample = Sample::new(Nanos(number), Nanos(number * 3));
        sample.depth = depth;
        sample.cut = number.is_multiple_of(3);
        sample.judgement = Judgement((number % 16) as u8);
        sample.program = (number * 77) as u16;
        for i in 0..depth {
            sample.frames[i] = Address(number + i as u64);
        }
        sample
    }

    #[test]
    fn samples_come_out_as_they_went_in_round_and_round() {
        let ring = ring();
        for number in 0..5_000 {
            let sent = sample(number, number as usize % (MAX_FRAMES + 1));
            ring.push(&sent);
            assert_eq!(ring.pop().unwrap(), sent);
        }
        assert!(ring.pop().is_none());
        assert_eq!(ring.lost(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let ring = ring();
        for number in 0..100 {
            ring.push(&sample(number, 62));
        }
        let kept = core::iter::from_fn(|| ring.pop()).count() as u64;
        assert_eq!(kept, RING_WORDS as u64 / 64);
        assert_eq!(kept + ring.lost(), 100);
    }

    #[test]
    fn producer_and_consumer_on_two_threads() {
        let ring = ring();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..20_000).for_each(|n| ring.push(&sample(n, n as usize % 9))));
            scope.spawn(|| {
                let (mut seen, mut last) = (0, None);
                while seen + ring.lost() < 20_000 {
                    if let Some(got) = ring.pop() {
                        assert_eq!(got, sample(got.time.0, got.time.0 as usize % 9));
                        assert!(last < Some(got.time));
                        last = Some(got.time);
                        seen += 1;
                    }
                }
            });
        });
    }
}
