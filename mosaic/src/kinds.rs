//! The kinds of things that programs are made of, by the names that texts and tables have for them.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($(#[$of_variant:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$of_variant])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// All of them, the simplest first.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in texts and tables.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

kinds! {
    /// What keeps others out of a section.
    Lock {
        /// `pthread_mutex_t`
        MutexPthread = "mutex_pthread",
        /// `std::sync::Mutex`: a futex called by Rust's library
        MutexStd = "mutex_std",
        /// `parking_lot::Mutex`
        MutexParkingLot = "mutex_parking_lot",
        /// `pthread_rwlock_t`
        RwlockPthread = "rwlock_pthread",
        /// `std::sync::RwLock`
        RwlockStd = "rwlock_std",
        /// A word and `syscall(SYS_futex)`
        Futex = "lock_futex",
        /// A word, taken in a loop with `sched_yield`
        SpinYield = "lock_spin_yield",
        /// A word, taken in a loop with `pause`
        SpinPause = "lock_spin_pause",
    }
}

kinds! {
    /// A bounded queue of items that carry nothing.
    Queue {
        /// `pthread_mutex_t` and two `pthread_cond_t`
        CondPthread = "queue_cond_pthread",
        /// `std::sync::Mutex` and two `Condvar`s
        CondStd = "queue_cond_std",
        /// `parking_lot::Mutex` and two `Condvar`s
        CondParkingLot = "queue_cond_parking_lot",
        /// Two process-shared `sem_t`
        Semaphore = "queue_semaphore",
        /// Two counting words and `syscall(SYS_futex)`
        Futex = "queue_futex",
        /// A pipe with room for so many pages
        Pipe = "queue_pipe",
        /// A pair of unix stream sockets with small buffers
        Socketpair = "queue_socketpair",
        /// A TCP connection over the loopback interface; the other side acknowledges each item
        Tcp = "queue_tcp",
        /// Two eventfds that count: items and places
        Eventfd = "queue_eventfd",
        /// Two eventfds that count; a thread that takes an item waits in `epoll_wait`
        EventfdEpoll = "queue_eventfd_epoll",
        /// `crossbeam`'s bounded channel
        Crossbeam = "queue_crossbeam",
        /// `std::sync::mpsc::sync_channel`
        Mpsc = "queue_mpsc",
        /// A lock-free ring, waited for with `sched_yield`
        RingYield = "ring_yield",
        /// A lock-free ring, waited for with a hundred `pause`s, then with `sched_yield`
        RingPauseYield = "ring_pause_yield",
        /// A lock-free ring, waited for with `pause`
        RingPause = "ring_pause",
    }
}

kinds! {
    /// Where actors wait for each other.
    Barrier {
        /// `pthread_barrier_t`
        Pthread = "barrier_pthread",
        /// `std::sync::Barrier`
        Std = "barrier_std",
        /// `parking_lot`'s mutex and condition variable
        ParkingLot = "barrier_parking_lot",
        /// Some microseconds with `pause`, then a futex, as OpenMP's libraries do it
        SpinFutex = "barrier_spin_futex",
        /// With `sched_yield`
        SpinYield = "barrier_spin_yield",
        /// With `pause`
        SpinPause = "barrier_spin_pause",
    }
}

kinds! {
    /// Where one actor waits until others have arrived so many times.
    Latch {
        /// `pthread_mutex_t` and `pthread_cond_t`
        CondPthread = "latch_cond_pthread",
        /// `std::sync::Mutex` and `Condvar`
        CondStd = "latch_cond_std",
        /// A word and `syscall(SYS_futex)`
        Futex = "latch_futex",
        /// A word, read with `sched_yield`
        SpinYield = "latch_spin_yield",
    }
}

kinds! {
    /// Ways to let a certain time pass.
    Wait {
        /// `nanosleep`
        Nanosleep = "wait_nanosleep",
        /// `pthread_cond_timedwait` that times out
        CondTimedwait = "wait_cond_timedwait",
        /// `Condvar::wait_timeout` of `std` that times out
        CondStd = "wait_cond_std",
        /// `Condvar::wait_for` of `parking_lot` that times out
        CondParkingLot = "wait_cond_parking_lot",
        /// `sem_timedwait` that times out
        SemTimedwait = "wait_sem_timedwait",
        /// A futex that is never woken
        Futex = "wait_futex",
        /// `ppoll` of nothing
        Poll = "wait_poll",
    }
}

kinds! {
    /// How an event loop learns of the time.
    Timer {
        /// A periodic timerfd
        Timerfd = "timer_timerfd",
        /// The timeout of `epoll_wait`
        Timeout = "timer_timeout",
    }
}

kinds! {
    /// How a short-lived thread is started.
    Thread {
        /// `std::thread::scope`
        Std = "thread_std",
        /// `pthread_create`
        Pthread = "thread_pthread",
    }
}

/// Names of kinds that are no object.
pub mod names {
    /// A forked process takes part.
    pub const FORKED: &str = "forked";
    /// `sched_yield` for its own sake.
    pub const YIELD: &str = "yield";
    /// Writes to a file.
    pub const FILE: &str = "file_write";
    /// Writes to a file, and waits until they are on the disk.
    pub const FSYNC: &str = "file_fsync";
    /// Several sources of events in one `epoll_wait`.
    pub const DISPATCH: &str = "event_loop";
    /// An event loop whose sources are re-armed by `epoll_ctl` after every event.
    pub const REARMED: &str = "event_loop_rearmed";
    /// Sections of 20 µs or less, under a lock that others take as well.
    pub const SHORT_SECTIONS: &str = "short_sections";
    /// Three or more actors per CPU, taken as two.
    pub const CROWDED: &str = "crowded";
}

impl Lock {
    /// Whether readers share it.
    #[must_use]
    pub const fn has_readers(self) -> bool {
        matches!(self, Self::RwlockPthread | Self::RwlockStd)
    }
}

impl Queue {
    /// Whether processes can share it.
    #[must_use]
    pub const fn crosses(self) -> bool {
        matches!(
            self,
            Self::Semaphore | Self::Pipe | Self::Socketpair | Self::Tcp | Self::Eventfd | Self::EventfdEpoll
        )
    }

    /// Whether a descriptor becomes readable with an item.
    #[must_use]
    pub const fn is_pollable(self) -> bool {
        matches!(self, Self::Pipe | Self::Socketpair | Self::Tcp | Self::Eventfd)
    }

    /// The items that it is sure to hold.
    #[must_use]
    pub const fn most(self) -> u32 {
        match self {
            // Its buffer has room for a few times as many.
            Self::Socketpair => 4,
            // A pipe's pages; without privileges a user has 16384 in all.
            Self::Pipe => 16,
            _ => 64,
        }
    }
}
