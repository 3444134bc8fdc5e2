//! Locks.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::{kernel, posix};
use crate::kinds;

/// A lock of one kind.
pub enum Lock {
    MutexPthread(posix::Mutex),
    MutexStd(std::sync::Mutex<()>),
    MutexParkingLot(parking_lot::Mutex<()>),
    RwlockPthread(posix::RwLock),
    RwlockStd(std::sync::RwLock<()>),
    /// 0 is free, 1 taken, 2 taken and maybe waited for (U. Drepper, "Futexes Are Tricky", 2011, mutex 2).
    Futex(AtomicU32),
    /// With `sched_yield` or with `pause`.
    Spin(AtomicBool, fn()),
}

impl Lock {
    pub fn new(kind: kinds::Lock) -> Self {
        match kind {
            kinds::Lock::MutexPthread => Self::MutexPthread(posix::Mutex::new()),
            kinds::Lock::MutexStd => Self::MutexStd(std::sync::Mutex::default()),
            kinds::Lock::MutexParkingLot => Self::MutexParkingLot(parking_lot::Mutex::default()),
            kinds::Lock::RwlockPthread => Self::RwlockPthread(posix::RwLock::new()),
            kinds::Lock::RwlockStd => Self::RwlockStd(std::sync::RwLock::default()),
            kinds::Lock::Futex => Self::Futex(AtomicU32::new(0)),
            kinds::Lock::SpinYield => Self::Spin(AtomicBool::new(false), std::thread::yield_now),
            kinds::Lock::SpinPause => Self::Spin(AtomicBool::new(false), std::hint::spin_loop),
        }
    }

    /// Runs `section` with the lock, as one of several readers if it is `shared` and the lock has such.
    pub fn with(&self, shared: bool, section: impl FnOnce()) {
        match self {
            Self::MutexPthread(mutex) => {
                mutex.lock();
                section();
                mutex.unlock();
            }
            Self::MutexStd(mutex) => {
                let _guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                section();
            }
            Self::MutexParkingLot(mutex) => {
                let _guard = mutex.lock();
                section();
            }
            Self::RwlockPthread(lock) => {
                if shared {
                    lock.read()
                } else {
                    lock.write()
                }
                section();
                lock.unlock();
            }
            Self::RwlockStd(lock) if shared => {
                let _guard = lock.read().unwrap_or_else(PoisonError::into_inner);
                section();
            }
            Self::RwlockStd(lock) => {
                let _guard = lock.write().unwrap_or_else(PoisonError::into_inner);
                section();
            }
            Self::Futex(word) => {
                take(word);
                section();
                // Release: pairs with the Acquire of the thread that takes it next.
                if word.swap(0, Ordering::Release) == 2 {
                    kernel::futex_wake(word, 1);
                }
            }
            Self::Spin(taken, relax) => {
                // Acquire: pairs with the Release below.
                while taken.swap(true, Ordering::Acquire) {
                    while taken.load(Ordering::Relaxed) {
                        relax();
                    }
                }
                section();
                taken.store(false, Ordering::Release);
            }
        }
    }
}

fn take(word: &AtomicU32) {
    // Acquire: pairs with the Release of the thread that had it before.
    if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        while word.swap(2, Ordering::Acquire) != 0 {
            kernel::futex_wait(word, 2, None);
        }
    }
}
