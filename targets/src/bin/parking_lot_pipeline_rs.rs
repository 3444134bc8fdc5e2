//! parking_lot_pipeline_rs: three stages, A (1 ms), B (4 ms) and C (1 ms), with bounded queues of
//! `parking_lot`'s `Mutex` and `Condvar` between them.
//!
//! Answer: as `c/pipeline.c`. Notifying may move a sleeper from one futex to another.

#![forbid(unsafe_code)]

use std::thread;

use parking_lot::{Condvar, Mutex};
use targets::run::Arguments;
use targets::work;

#[expect(non_snake_case)]
#[inline(never)]
fn A(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn B(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn C(iterations: u64) {
    work!(iterations);
}

const CAPACITY: usize = 4;

/// As `targets::queue::Queue`, of other parts.
struct Queue {
    length: Mutex<usize>,
    not_full: Condvar,
    not_empty: Condvar,
}

impl Queue {
    const fn new() -> Self {
        Self { length: Mutex::new(0), not_full: Condvar::new(), not_empty: Condvar::new() }
    }

    fn push(&self) {
        let mut length = self.length.lock();
        self.not_full.wait_while(&mut length, |length| *length == CAPACITY);
        *length += 1;
        self.not_empty.notify_one();
    }

    fn pop(&self) {
        let mut length = self.length.lock();
        self.not_empty.wait_while(&mut length, |length| *length == 0);
        *length -= 1;
        self.not_full.notify_one();
    }
}

fn main() {
    static TO_B: Queue = Queue::new();
    static TO_C: Queue = Queue::new();

    let arguments = Arguments::of_process();
    let a = arguments.iterations("A", 1.0);
    let b = arguments.iterations("B", 4.0);
    let c = arguments.iterations("C", 1.0);
    let run = arguments.start("item");
    thread::spawn(move || {
        loop {
            A(a);
            TO_B.push();
        }
    });
    thread::spawn(move || {
        loop {
            TO_B.pop();
            B(b);
            TO_C.push();
        }
    });
    while !run.over() {
        TO_C.pop();
        C(c);
        whatif::progress!("item");
        run.visited();
    }
    run.finish();
}
