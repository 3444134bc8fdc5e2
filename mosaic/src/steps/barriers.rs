//! Barriers and latches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::{kernel, posix};
use crate::kinds;

/// A barrier of one kind.
pub enum Barrier {
    Pthread(posix::Barrier),
    Std(std::sync::Barrier),
    ParkingLot {
        parties: u32,
        state: parking_lot::Mutex<(u32, u32)>,
        passed: parking_lot::Condvar,
    },
    /// With a function that passes a moment, given how many have passed, while the word has a value.
    Spin {
        parties: u32,
        arrived: AtomicU32,
        generation: AtomicU32,
        pass: fn(&AtomicU32, u32, u32),
        wakes: bool,
    },
}

/// `pause`s before a futex: some tens of microseconds, as OpenMP's libraries do it on a machine with as many CPUs as threads.
const PATIENCE: u32 = 2000;

impl Barrier {
    /// A barrier that `parties` threads pass together.
    pub fn new(kind: kinds::Barrier, parties: u32) -> Self {
        let spin = |pass, wakes| Self::Spin {
            parties,
            arrived: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            pass,
            wakes,
        };
        match kind {
            kinds::Barrier::Pthread => Self::Pthread(posix::Barrier::new(parties)),
            kinds::Barrier::Std => Self::Std(std::sync::Barrier::new(parties as usize)),
            kinds::Barrier::ParkingLot => Self::ParkingLot {
                parties,
                state: parking_lot::Mutex::default(),
                passed: parking_lot::Condvar::new(),
            },
            kinds::Barrier::SpinPause => spin(|_, _, _| std::hint::spin_loop(), false),
            kinds::Barrier::SpinYield => spin(|_, _, _| std::thread::yield_now(), false),
            kinds::Barrier::SpinFutex => spin(
                |word, value, turns| {
                    if turns < PATIENCE {
                        std::hint::spin_loop()
                    } else {
                        kernel::futex_wait(word, value, None)
                    }
                },
                true,
            ),
        }
    }

    /// Waits until all are there.
    pub fn wait(&self) {
        match self {
            Self::Pthread(barrier) => barrier.wait(),
            Self::Std(barrier) => _ = barrier.wait(),
            Self::ParkingLot { parties, state, passed } => {
                let mut state = state.lock();
                state.0 += 1;
                if state.0 == *parties {
                    *state = (0, state.1.wrapping_add(1));
                    passed.notify_all();
                } else {
                    let generation = state.1;
                    passed.wait_while(&mut state, |state| state.1 == generation);
                }
            }
            Self::Spin { parties, arrived, generation, pass, wakes } => {
                // Read before arriving: afterwards it may change at any time.
                let now = generation.load(Ordering::Relaxed);
                // AcqRel: the last thread to arrive has seen what all did before, and so has a thread that sees the new generation.
                if arrived.fetch_add(1, Ordering::AcqRel) + 1 == *parties {
                    arrived.store(0, Ordering::Relaxed);
                    generation.store(now.wrapping_add(1), Ordering::Release);
                    if *wakes {
                        kernel::futex_wake(generation, i32::MAX);
                    }
                    return;
                }
                let mut turns = 0;
                // Acquire: pairs with the Release above.
                while generation.load(Ordering::Acquire) == now {
                    pass(generation, now, turns);
                    turns += 1;
                }
            }
        }
    }
}

/// A latch of one kind.
pub enum Latch {
    CondPthread { mutex: posix::Mutex, count: AtomicU32, more: posix::Condition },
    CondStd { count: Mutex<u32>, more: Condvar },
    Word { count: AtomicU32, wakes: bool },
}

impl Latch {
    pub fn new(kind: kinds::Latch) -> Self {
        match kind {
            kinds::Latch::CondPthread => Self::CondPthread {
                mutex: posix::Mutex::new(),
                count: AtomicU32::new(0),
                more: posix::Condition::new(),
            },
            kinds::Latch::CondStd => Self::CondStd { count: Mutex::new(0), more: Condvar::new() },
            kinds::Latch::Futex => Self::Word { count: AtomicU32::new(0), wakes: true },
            kinds::Latch::SpinYield => Self::Word { count: AtomicU32::new(0), wakes: false },
        }
    }

    /// Counts one.
    pub fn arrive(&self) {
        match self {
            // Relaxed, here and below: the mutex protects the count.
            Self::CondPthread { mutex, count, more } => {
                mutex.lock();
                count.fetch_add(1, Ordering::Relaxed);
                more.signal();
                mutex.unlock();
            }
            Self::CondStd { count, more } => {
                *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                more.notify_one();
            }
            Self::Word { count, wakes } => {
                // Release: pairs with the Acquire in `wait`.
                count.fetch_add(1, Ordering::Release);
                if *wakes {
                    kernel::futex_wake(count, 1);
                }
            }
        }
    }

    /// Waits for so many, and takes them off. Only one thread waits.
    pub fn wait(&self, arrivals: u32) {
        match self {
            Self::CondPthread { mutex, count, more } => {
                mutex.lock();
                while count.load(Ordering::Relaxed) < arrivals {
                    more.wait(mutex);
                }
                count.fetch_sub(arrivals, Ordering::Relaxed);
                mutex.unlock();
            }
            Self::CondStd { count, more } => {
                let count = count.lock().unwrap_or_else(PoisonError::into_inner);
                let count = more.wait_while(count, |count| *count < arrivals);
                *count.unwrap_or_else(PoisonError::into_inner) -= arrivals;
            }
            Self::Word { count, wakes } => {
                loop {
                    let now = count.load(Ordering::Acquire);
                    if now >= arrivals {
                        break;
                    }
                    if *wakes { kernel::futex_wait(count, now, None) } else { std::thread::yield_now() }
                }
                count.fetch_sub(arrivals, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn nobody_passes_a_barrier_alone() {
        const PARTIES: u32 = 3;
        for kind in kinds::Barrier::ALL {
            let barrier = Barrier::new(*kind, PARTIES);
            let phase = AtomicU32::new(0);
            thread::scope(|scope| {
                for _ in 0..PARTIES {
                    scope.spawn(|| {
                        for round in 0..30 {
                            phase.fetch_add(1, Ordering::Relaxed);
                            barrier.wait();
                            assert_eq!(
                                phase.load(Ordering::Relaxed),
                                PARTIES * (round + 1),
                                "{}",
                                kind.name()
                            );
                            barrier.wait();
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn a_latch_waits_for_all() {
        for kind in kinds::Latch::ALL {
            let latch = Latch::new(*kind);
            let arrived = AtomicU32::new(0);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..30 {
                            arrived.fetch_add(1, Ordering::Relaxed);
                            latch.arrive();
                        }
                    });
                }
                for round in 1..=12 {
                    latch.wait(10);
                    assert!(arrived.load(Ordering::Relaxed) >= 10 * round, "{}", kind.name());
                }
            });
        }
    }
}
