//! generic_rs: one thread; a round is A for three types (1 ms, 2 ms and 3 ms), then B (4 ms).
//!
//! Answer: A, the sum of its instances, s·60 %; B s·40 %.

#![forbid(unsafe_code)]

use std::hint::black_box;

use targets::run::Arguments;
use targets::work;

#[expect(non_snake_case)]
#[inline(never)]
fn A<T>(iterations: u64) {
    work!(iterations);
    // Instances that do the same would become one.
    black_box(size_of::<T>());
}

#[expect(non_snake_case)]
#[inline(never)]
fn B(iterations: u64) {
    work!(iterations);
}

fn main() {
    let arguments = Arguments::of_process();
    let a = arguments.iterations("A", 1.0);
    let b = arguments.iterations("B", 4.0);
    let run = arguments.start("round");
    while !run.over() {
        A::<u8>(a);
        A::<[u16; 3]>(2 * a);
        A::<String>(3 * a);
        B(b);
        whatif::progress!("round");
        run.visited();
    }
    run.finish();
}
