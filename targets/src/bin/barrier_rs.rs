//! barrier_rs: two threads meet at a `std::sync::Barrier` after A (6 ms) and B (4 ms).
//!
//! Answer: as `c/barrier.c`. The barrier is a `Mutex` and a `Condvar`, and those are futexes.

#![forbid(unsafe_code)]

use std::sync::Barrier;
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
    let a = arguments.iterations("A", 6.0);
    let b = arguments.iterations("B", 4.0);
    let run = arguments.start("round");
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                B(b);
                barrier.wait();
            }
        });
        while !run.over() {
            A(a);
            barrier.wait();
            whatif::progress!("round");
            run.visited();
        }
        run.finish()
    })
}
