//! rayon_join_rs: each round is a `rayon::join` of A (6 ms) and B (4 ms) on a pool of two threads, then
//! C (2 ms).
//!
//! Answer: C s·25 %. A is worth its share until it is as short as B (25 %), B nothing. A thread that waits
//! looks for work and yields for a while before it sleeps.

#![forbid(unsafe_code)]

use rayon::ThreadPoolBuilder;
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

fn main() {
    let arguments = Arguments::of_process();
    let a = arguments.iterations("A", 6.0);
    let b = arguments.iterations("B", 4.0);
    let c = arguments.iterations("C", 2.0);
    let run = arguments.start("round");
    let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("two threads can be had");
    pool.install(|| {
        while !run.over() {
            rayon::join(|| A(a), || B(b));
            C(c);
            whatif::progress!("round");
            run.visited();
        }
        run.finish()
    })
}
