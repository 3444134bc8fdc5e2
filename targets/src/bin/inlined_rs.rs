//! inlined_rs: one thread; a round is `first` and `second`, into which A (3 ms) is inlined, then B
//! (4 ms).
//!
//! Answer: as `c/inlined.c`. A s·60 %, B s·40 %; only debug information says where A went.

#![forbid(unsafe_code)]

use std::hint::black_box;

use targets::run::Arguments;
use targets::work;

#[expect(non_snake_case)]
#[expect(clippy::inline_always, reason = "inlining is the point")]
#[inline(always)]
fn A(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn B(iterations: u64) {
    work!(iterations);
}

#[inline(never)]
fn first(iterations: u64) {
    black_box("first");
    A(iterations);
}

#[inline(never)]
fn second(iterations: u64) {
    A(iterations);
    black_box("second");
}

fn main() {
    let arguments = Arguments::of_process();
    let a = arguments.iterations("A", 3.0);
    let b = arguments.iterations("B", 4.0);
    let run = arguments.start("round");
    while !run.over() {
        first(a);
        second(a);
        B(b);
        whatif::progress!("round");
        run.visited();
    }
    run.finish();
}
