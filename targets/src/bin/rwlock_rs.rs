//! rwlock_rs: two threads; each round is A (3 ms) under the write lock of one `std::sync::RwLock`,
//! B (2 ms) outside, and a glance under the read lock.
//!
//! Answer: as `c/rwlock.c`.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::{PoisonError, RwLock};
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
    let total = RwLock::new(0_u64);
    let rounds = || {
        while !run.over() {
            let mut writing = total.write().unwrap_or_else(PoisonError::into_inner);
            A(a);
            *writing += 1;
            drop(writing);
            B(b);
            black_box(*total.read().unwrap_or_else(PoisonError::into_inner));
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
