//! parking_lot_rs: two threads; each round is A (3 ms) inside one `parking_lot::Mutex`, then B (2 ms)
//! outside it.
//!
//! Answer: as `c/mutex.c`. The lock spins a little first; a thread that waits longer is in a table of the
//! library's own, with a futex for each thread.

#![forbid(unsafe_code)]

use std::thread;

use parking_lot::Mutex;
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
            let guard = mutex.lock();
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
