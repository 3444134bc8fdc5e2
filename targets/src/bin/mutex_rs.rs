//! mutex_rs: two threads; each round is A (3 ms) inside one `std::sync::Mutex`, then B (2 ms)
//! outside it.
//!
//! Answer: as `c/mutex.c`. Here the lock is a bare futex: no pthread function is ever called.

#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};
use std::thread;

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

fn main() {
    let arguments = Arguments::of_process();
    let a = arguments.iterations("A", 3.0);
    let b = arguments.iterations("B", 2.0);
    let run = arguments.start("round");
    let mutex = Mutex::new(());
    let rounds = || {
        while !run.over() {
            let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
            A(a);
            drop(guard);
            B(b);
            whatif::progress!("round");
            run.visited();
        }
    };
    thread::scope(|scope| {
        scope.spawn(rounds);
        rounds();
        run.finish()
    })
}
