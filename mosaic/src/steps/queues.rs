//! Bounded queues of items that carry nothing.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

use crossbeam::channel;

use super::{kernel, posix};
use crate::kinds;

/// A queue of one kind.
pub enum Queue {
    CondPthread {
        mutex: posix::Mutex,
        length: AtomicU32,
        capacity: u32,
        not_full: posix::Condition,
        not_empty: posix::Condition,
    },
    CondStd {
        length: Mutex<u32>,
        capacity: u32,
        not_full: Condvar,
        not_empty: Condvar,
    },
    CondParkingLot {
        length: parking_lot::Mutex<u32>,
        capacity: u32,
        not_full: parking_lot::Condvar,
        not_empty: parking_lot::Condvar,
    },
    Semaphore {
        items: posix::Semaphore,
        places: posix::Semaphore,
    },
    Futex {
        items: Count,
        places: Count,
    },
    Pipe {
        read: OwnedFd,
        write: OwnedFd,
    },
    Socketpair {
        read: UnixStream,
        write: UnixStream,
    },
    Tcp {
        read: TcpStream,
        write: TcpStream,
    },
    Eventfd {
        items: OwnedFd,
        places: OwnedFd,
        epoll: Option<OwnedFd>,
    },
    Crossbeam {
        send: channel::Sender<()>,
        receive: channel::Receiver<()>,
    },
    /// A receiver that several threads share is in a mutex, as the Rust book has it.
    Mpsc {
        send: mpsc::SyncSender<()>,
        receive: Mutex<mpsc::Receiver<()>>,
    },
    Ring {
        ring: Ring,
        relax: fn(&mut u32),
    },
}

/// A count that is never below 0: a semaphore made of a futex.
pub struct Count(AtomicU32);

/// Where the next item goes, and where the next one is; what lies between is full.
pub struct Ring {
    tail: AtomicU64,
    head: AtomicU64,
    capacity: u64,
}

/// What an eventfd is written: one more.
const ONE: [u8; 8] = 1_u64.to_ne_bytes();

impl Queue {
    /// A queue for `capacity` items with `primed` in it.
    pub fn new(kind: kinds::Queue, capacity: u32, primed: u32) -> io::Result<Self> {
        use kinds::Queue as Kind;
        let places = capacity.saturating_sub(primed);
        let length = capacity as usize;
        Ok(match kind {
            Kind::CondPthread => Self::CondPthread {
                mutex: posix::Mutex::new(),
                length: AtomicU32::new(primed),
                capacity,
                not_full: posix::Condition::new(),
                not_empty: posix::Condition::new(),
            },
            Kind::CondStd => Self::CondStd {
                length: Mutex::new(primed),
                capacity,
                not_full: Condvar::new(),
                not_empty: Condvar::new(),
            },
            Kind::CondParkingLot => Self::CondParkingLot {
                length: parking_lot::Mutex::new(primed),
                capacity,
                not_full: parking_lot::Condvar::new(),
                not_empty: parking_lot::Condvar::new(),
            },
            Kind::Semaphore => Self::Semaphore {
                items: posix::Semaphore::new(primed),
                places: posix::Semaphore::new(places),
            },
            Kind::Futex => {
                Self::Futex { items: Count(AtomicU32::new(primed)), places: Count(AtomicU32::new(places)) }
            }
            Kind::Pipe => {
                let (read, write) = kernel::pipe(capacity)?;
                Self::Pipe { read, write }.with(primed)
            }
            Kind::Socketpair => {
                let (read, write) = UnixStream::pair()?;
                kernel::small_buffer(write.as_fd(), capacity)?;
                Self::Socketpair { read, write }.with(primed)
            }
            Kind::Tcp => {
                let (read, write) = connection()?;
                // Each acknowledgement is a place.
                (&read).write_all(&vec![0; length])?;
                Self::Tcp { read, write }.with(primed)
            }
            Kind::Eventfd | Kind::EventfdEpoll => {
                let items = kernel::counting_eventfd(primed)?;
                let epoll = (kind == Kind::EventfdEpoll).then(kernel::epoll).transpose()?;
                if let Some(epoll) = &epoll {
                    kernel::watch(epoll.as_fd(), items.as_raw_fd(), 0, kernel::Watch::Level)?;
                }
                Self::Eventfd { items, places: kernel::counting_eventfd(places)?, epoll }
            }
            Kind::Crossbeam => {
                let (send, receive) = channel::bounded(length);
                Self::Crossbeam { send, receive }.with(primed)
            }
            Kind::Mpsc => {
                let (send, receive) = mpsc::sync_channel(length);
                Self::Mpsc { send, receive: Mutex::new(receive) }.with(primed)
            }
            Kind::RingPause => Self::ring(capacity, primed, |_| std::hint::spin_loop()),
            Kind::RingYield => Self::ring(capacity, primed, |_| std::thread::yield_now()),
            Kind::RingPauseYield => Self::ring(capacity, primed, |turns| {
                *turns += 1;
                if *turns > 100 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }),
        })
    }

    fn ring(capacity: u32, primed: u32, relax: fn(&mut u32)) -> Self {
        let ring =
            Ring { tail: AtomicU64::new(primed.into()), head: AtomicU64::new(0), capacity: capacity.into() };
        Self::Ring { ring, relax }
    }

    /// The queue with so many items more.
    fn with(self, items: u32) -> Self {
        (0..items).for_each(|_| self.push());
        self
    }

    /// Adds an item; waits while the queue is full.
    pub fn push(&self) {
        match self {
            // Relaxed, here and below: the mutex protects the length.
            Self::CondPthread { mutex, length, capacity, not_full, not_empty } => {
                mutex.lock();
                while length.load(Ordering::Relaxed) == *capacity {
                    not_full.wait(mutex);
                }
                length.fetch_add(1, Ordering::Relaxed);
                not_empty.signal();
                mutex.unlock();
            }
            Self::CondStd { length, capacity, not_full, not_empty } => {
                let length = length.lock().unwrap_or_else(PoisonError::into_inner);
                let mut length = not_full
                    .wait_while(length, |length| *length == *capacity)
                    .unwrap_or_else(PoisonError::into_inner);
                *length += 1;
                not_empty.notify_one();
            }
            Self::CondParkingLot { length, capacity, not_full, not_empty } => {
                let mut length = length.lock();
                not_full.wait_while(&mut length, |length| *length == *capacity);
                *length += 1;
                not_empty.notify_one();
            }
            Self::Semaphore { items, places } => {
                places.wait();
                items.post();
            }
            Self::Futex { items, places } => {
                places.take();
                items.give();
            }
            Self::Pipe { write, .. } => kernel::write(write.as_fd(), &[0; kernel::PAGE]),
            Self::Socketpair { write, .. } => kernel::write(write.as_fd(), &[0]),
            Self::Tcp { write, .. } => {
                // Both fail only when the other side is gone, and then the process ends.
                _ = (&*write).read_exact(&mut [0]);
                _ = (&*write).write_all(&[0]);
            }
            Self::Eventfd { items, places, .. } => {
                kernel::read(places.as_fd(), &mut [0; 8]);
                kernel::write(items.as_fd(), &ONE);
            }
            // The receiver lives as long as the queue.
            Self::Crossbeam { send, .. } => _ = send.send(()),
            Self::Mpsc { send, .. } => _ = send.send(()),
            Self::Ring { ring, relax } => until(*relax, || ring.push()),
        }
    }

    /// Takes an item; waits while the queue is empty.
    pub fn pop(&self) {
        match self {
            Self::CondPthread { mutex, length, not_full, not_empty, .. } => {
                mutex.lock();
                while length.load(Ordering::Relaxed) == 0 {
                    not_empty.wait(mutex);
                }
                length.fetch_sub(1, Ordering::Relaxed);
                not_full.signal();
                mutex.unlock();
            }
            Self::CondStd { length, not_full, not_empty, .. } => {
                let length = length.lock().unwrap_or_else(PoisonError::into_inner);
                let mut length = not_empty
                    .wait_while(length, |length| *length == 0)
                    .unwrap_or_else(PoisonError::into_inner);
                *length -= 1;
                not_full.notify_one();
            }
            Self::CondParkingLot { length, not_full, not_empty, .. } => {
                let mut length = length.lock();
                not_empty.wait_while(&mut length, |length| *length == 0);
                *length -= 1;
                not_full.notify_one();
            }
            Self::Semaphore { items, places } => {
                items.wait();
                places.post();
            }
            Self::Futex { items, places } => {
                items.take();
                places.give();
            }
            Self::Pipe { read, .. } => kernel::read(read.as_fd(), &mut [0; kernel::PAGE]),
            Self::Socketpair { read, .. } => kernel::read(read.as_fd(), &mut [0]),
            Self::Tcp { read, .. } => {
                _ = (&*read).read_exact(&mut [0]);
                _ = (&*read).write_all(&[0]);
            }
            Self::Eventfd { items, places, epoll } => {
                if let Some(epoll) = epoll {
                    while kernel::wait(epoll.as_fd(), &mut [0; 8], -1) == 0 {}
                }
                kernel::read(items.as_fd(), &mut [0; 8]);
                kernel::write(places.as_fd(), &ONE);
            }
            Self::Crossbeam { receive, .. } => _ = receive.recv(),
            Self::Mpsc { receive, .. } => {
                _ = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
            Self::Ring { ring, relax } => until(*relax, || ring.pop()),
        }
    }

    /// The descriptor that becomes readable with an item, if the queue has one.
    pub fn readable(&self) -> Option<RawFd> {
        match self {
            Self::Pipe { read, .. } => Some(read.as_raw_fd()),
            Self::Socketpair { read, .. } => Some(read.as_raw_fd()),
            Self::Tcp { read, .. } => Some(read.as_raw_fd()),
            Self::Eventfd { items, epoll: None, .. } => Some(items.as_raw_fd()),
            _ => None,
        }
    }
}

/// Both ends of a connection over the loopback interface, which send at once what there is.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

fn until(relax: fn(&mut u32), done: impl Fn() -> bool) {
    let mut turns = 0;
    while !done() {
        relax(&mut turns);
    }
}

impl Count {
    fn take(&self) {
        loop {
            let count = self.0.load(Ordering::Relaxed);
            if count == 0 {
                kernel::futex_wait(&self.0, 0, None);
            } else if self.0.compare_exchange(count, count - 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                // Acquire: pairs with the Release in `give`.
                return;
            }
        }
    }

    fn give(&self) {
        self.0.fetch_add(1, Ordering::Release);
        kernel::futex_wake(&self.0, 1);
    }
}

impl Ring {
    /// Whether there was a place.
    fn push(&self) -> bool {
        // Acquire: pairs with the Release of `pop`. The head only grows: an old one means less room than there is.
        let (head, tail) = (self.head.load(Ordering::Acquire), self.tail.load(Ordering::Relaxed));
        tail.wrapping_sub(head) < self.capacity
            && self.tail.compare_exchange(tail, tail + 1, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Whether there was an item.
    fn pop(&self) -> bool {
        // Acquire: pairs with the Release of `push`.
        let (tail, head) = (self.tail.load(Ordering::Acquire), self.head.load(Ordering::Relaxed));
        head < tail
            && self.head.compare_exchange(head, head + 1, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn every_kind_passes_all_items_on() {
        const ITEMS: u32 = 300;
        for kind in kinds::Queue::ALL {
            for (capacity, primed) in [(1, 0), (4, 3)] {
                let queue = Queue::new(*kind, capacity, primed).unwrap();
                thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| (0..ITEMS).for_each(|_| queue.push()));
                        scope.spawn(|| (0..ITEMS).for_each(|_| queue.pop()));
                    }
                });
                (0..primed).for_each(|_| queue.pop());
                assert_eq!(queue.readable().is_some(), kind.is_pollable(), "{}", kind.name());
            }
        }
    }

    #[test]
    fn a_full_queue_waits() {
        for kind in kinds::Queue::ALL {
            let queue = Queue::new(*kind, 2, 1).unwrap();
            let pushed = AtomicU32::new(0);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..200 {
                        queue.push();
                        // Relaxed: the loop below asks for no more.
                        pushed.fetch_add(1, Ordering::Relaxed);
                    }
                });
                // Small buffers have room for more than two items, but not for all.
                for popped in 0..201 {
                    assert!(pushed.load(Ordering::Relaxed) <= popped + 100, "{}", kind.name());
                    queue.pop();
                }
            });
        }
    }
}
