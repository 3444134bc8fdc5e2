//! pipeline_rs: three stages, A (1 ms), B (4 ms) and C (1 ms), with bounded queues of `Mutex` and
//! `Condvar` between them.
//!
//! Answer: as `c/pipeline.c`. B is the bottleneck; A and C are worth nothing.

#![forbid(unsafe_code)]

use std::thread;

use targets::queue::Queue;
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
    static TO_B: Queue = Queue::new(4);
    static TO_C: Queue = Queue::new(4);

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
