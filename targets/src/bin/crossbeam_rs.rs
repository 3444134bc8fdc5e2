//! crossbeam_rs: three stages, A (1 ms), B (4 ms) and C (1 ms), on crossbeam's scoped threads, with
//! its bounded channels between them.
//!
//! Answer: as `c/pipeline.c`. A channel spins and yields for a few microseconds before it parks.

#![forbid(unsafe_code)]

use crossbeam::channel::bounded;
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
    let a = arguments.iterations("A", 1.0);
    let b = arguments.iterations("B", 4.0);
    let c = arguments.iterations("C", 1.0);
    let run = arguments.start("item");
    let (to_b, from_a) = bounded(4);
    let (to_c, from_b) = bounded(4);
    let stages = crossbeam::scope(|scope| {
        scope.spawn(|_| {
            loop {
                A(a);
                to_b.send(()).expect("B runs until the process ends");
            }
        });
        scope.spawn(|_| {
            for () in &from_a {
                B(b);
                to_c.send(()).expect("C runs until the process ends");
            }
        });
        while !run.over() {
            from_b.recv().expect("B runs until the process ends");
            C(c);
            whatif::progress!("item");
            run.visited();
        }
        run.finish()
    });
    stages.expect("no stage panics")
}
