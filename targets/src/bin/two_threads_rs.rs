//! two_threads_rs: each round spawns two threads and joins them; A works 5 % longer than B.
//!
//! Answer: as `c/two_threads.c`. A at most 5 %, whatever the speedup; B nothing.

#![forbid(unsafe_code)]

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
    let a = arguments.iterations("A", 10.0);
    let b = arguments.iterations("B", 10.0 / 1.05);
    let run = arguments.start("round");
    while !run.over() {
        thread::scope(|scope| {
            let first = scope.spawn(|| A(a));
            let second = scope.spawn(|| B(b));
            first.join().expect("A does not panic");
            second.join().expect("B does not panic");
        });
        whatif::progress!("round");
        run.visited();
    }
    run.finish();
}
