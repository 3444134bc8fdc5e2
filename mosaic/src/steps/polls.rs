//! Event loops: timers, wake-ups and sockets in one epoll instance.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::kernel::{self, Watch};
use crate::kinds;

/// What an event loop waits in.
pub struct Poll {
    epoll: OwnedFd,
    timer: Timer,
    rearmed: bool,
}

enum Timer {
    Timerfd(OwnedFd),
    /// By the timeout of waits; when it goes off next. The mutex is never contended: one actor waits.
    Timeout {
        period: Duration,
        next: Mutex<Instant>,
    },
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is an item for the arm with this number.
    Item(usize),
    /// The timer went off.
    Timer,
}

/// The timer's name in epoll.
const TIMER: u64 = u64::MAX;

impl Poll {
    /// With `arms`, the descriptors that become readable.
    pub fn new(kind: kinds::Timer, micros: u32, rearmed: bool, arms: &[RawFd]) -> io::Result<Self> {
        let (epoll, period) = (kernel::epoll()?, Duration::from_micros(micros.into()));
        for (number, descriptor) in arms.iter().enumerate() {
            let how = if rearmed { Watch::Once } else { Watch::Level };
            kernel::watch(epoll.as_fd(), *descriptor, number as u64, how)?;
        }
        let timer = match kind {
            kinds::Timer::Timerfd => {
                let timer = kernel::periodic_timer(period)?;
                kernel::watch(epoll.as_fd(), timer.as_raw_fd(), TIMER, Watch::Level)?;
                Timer::Timerfd(timer)
            }
            kinds::Timer::Timeout => Timer::Timeout { period, next: Mutex::new(Instant::now() + period) },
        };
        Ok(Self { epoll, timer, rearmed })
    }

    /// Waits, and calls `handle` for everything that has happened. An item is there until it is taken.
    pub fn turn(&self, mut handle: impl FnMut(Event)) {
        let mut names = [0; 8];
        let found = kernel::wait(self.epoll.as_fd(), &mut names, self.timeout());
        for name in &names[..found] {
            match (&self.timer, usize::try_from(*name)) {
                (Timer::Timerfd(timer), _) if *name == TIMER => {
                    kernel::read(timer.as_fd(), &mut [0; 8]);
                    handle(Event::Timer);
                }
                (_, Ok(arm)) => handle(Event::Item(arm)),
                (_, Err(_)) => {}
            }
        }
        if let Timer::Timeout { period, next } = &self.timer {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            if Instant::now() >= *next {
                handle(Event::Timer);
                *next = Instant::now() + *period;
            }
        }
    }

    /// Arms a source again whose item was taken.
    pub fn taken(&self, arm: usize, descriptor: RawFd) {
        if self.rearmed {
            let again = kernel::watch(self.epoll.as_fd(), descriptor, arm as u64, Watch::Again);
            assert!(again.is_ok(), "{again:?}");
        }
    }

    /// In milliseconds; −1 is no timeout.
    fn timeout(&self) -> i32 {
        match &self.timer {
            Timer::Timerfd(_) => -1,
            Timer::Timeout { next, .. } => {
                let next = *next.lock().unwrap_or_else(PoisonError::into_inner);
                let left = next.saturating_duration_since(Instant::now());
                i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::queues::Queue;
    use super::*;

    #[test]
    fn timers_and_items_are_told_apart() {
        for timer in kinds::Timer::ALL {
            for rearmed in [false, true] {
                let queue = Queue::new(kinds::Queue::Eventfd, 2, 2).unwrap();
                let descriptor = queue.readable().unwrap();
                let poll = Poll::new(*timer, 2000, rearmed, &[descriptor]).unwrap();
                let (mut items, mut timers) = (0, 0);
                while items < 2 || timers < 2 {
                    poll.turn(|event| match event {
                        Event::Timer => timers += 1,
                        Event::Item(arm) => {
                            queue.pop();
                            items += 1;
                            poll.taken(arm, descriptor);
                        }
                    });
                }
                assert_eq!(items, 2, "{}", timer.name());
            }
        }
    }
}
