//! park_rs: two threads take turns, A (2 ms) and B (3 ms), with `thread::park` and `unpark`.
//!
//! Answer: one waits while the other works: A s·40 %, B s·60 %.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
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

/// Parks until it is the turn of B, or of A.
fn await_turn(turn_of_b: &AtomicBool, wanted: bool) {
    while turn_of_b.load(Ordering::Acquire) != wanted {
        thread::park();
    }
}

fn main() {
    let arguments = Arguments::of_process();
    let a = arguments.iterations("A", 2.0);
    let b = arguments.iterations("B", 3.0);
    let run = arguments.start("round");
    let turn_of_b = &AtomicBool::new(false);
    let main = thread::current();
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            loop {
                await_turn(turn_of_b, true);
                B(b);
                turn_of_b.store(false, Ordering::Release);
                main.unpark();
            }
        });
        while !run.over() {
            A(a);
            turn_of_b.store(true, Ordering::Release);
            other.thread().unpark();
            await_turn(turn_of_b, false);
            whatif::progress!("round");
            run.visited();
        }
        run.finish()
    })
}
