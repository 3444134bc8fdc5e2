//! The cost of a progress point in a program that is not profiled: this one.

use std::hint::black_box;
use std::time::Instant;

const VISITS: u32 = 200_000_000;

pub fn run() {
    let empty = nanos_per_turn(|| {});
    let visit = nanos_per_turn(|| whatif::progress!("bench"));
    println!(
        "one visit: {:.2} ns (a turn of the loop takes {empty:.2} ns without it, {visit:.2} ns with it)",
        visit - empty
    );
}

/// The quickest of five measurements.
fn nanos_per_turn(body: impl Fn()) -> f64 {
    (0..5)
        .map(|_| {
            let began = Instant::now();
            for turn in 0..VISITS {
                body();
                black_box(turn);
            }
            began.elapsed().as_secs_f64() * 1e9 / f64::from(VISITS)
        })
        .fold(f64::INFINITY, f64::min)
}
