//! tokio_rs: an async task does A (2 ms) and sends an item through a bounded channel; the main task
//! receives it and has B (3 ms) done by the pool for blocking calls.
//!
//! Answer: B is worth its share until it is as short as A (33 %), A nothing. An item passes through
//! three kinds of threads, and any worker may do A.

#![forbid(unsafe_code)]

use targets::run::Arguments;
use targets::work;
use tokio::runtime::Builder;
use tokio::sync::mpsc::channel;
use tokio::task::spawn_blocking;

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
    let a = arguments.iterations("A", 2.0);
    let b = arguments.iterations("B", 3.0);
    let run = arguments.start("item");
    let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("two threads can be had");
    runtime.block_on(async {
        let (to_b, mut from_a) = channel(4);
        tokio::spawn(async move {
            loop {
                A(a);
                to_b.send(()).await.expect("the main task runs until the process ends");
            }
        });
        while !run.over() {
            from_a.recv().await.expect("A runs until the process ends");
            spawn_blocking(move || B(b)).await.expect("B does not panic");
            whatif::progress!("item");
            run.visited();
        }
        run.finish()
    })
}
