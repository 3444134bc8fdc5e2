//! A bounded queue of items that carry nothing, with a `Mutex` and two `Condvar`s (the counterpart
//! of `c/queue.h`).

use std::sync::{Condvar, Mutex, PoisonError};

/// The queue. Only its length matters.
#[derive(Debug)]
pub struct Queue {
    capacity: usize,
    length: Mutex<usize>,
    not_full: Condvar,
    not_empty: Condvar,
}

impl Queue {
    /// An empty queue for `capacity` items.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, length: Mutex::new(0), not_full: Condvar::new(), not_empty: Condvar::new() }
    }

    /// Adds an item; waits while the queue is full.
    pub fn push(&self) {
        let length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        let mut length = self
            .not_full
            .wait_while(length, |length| *length == self.capacity)
            .unwrap_or_else(PoisonError::into_inner);
        *length += 1;
        self.not_empty.notify_one();
    }

    /// Takes an item; waits while the queue is empty.
    pub fn pop(&self) {
        let length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        let mut length =
            self.not_empty.wait_while(length, |length| *length == 0).unwrap_or_else(PoisonError::into_inner);
        *length -= 1;
        self.not_full.notify_one();
    }
}
