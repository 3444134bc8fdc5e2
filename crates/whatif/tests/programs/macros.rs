//! `whatif-points` in a Rust program.

use std::time::{Duration, Instant};

#[inline(never)]
fn hot() -> u64 {
    let mut x = 88_172_645_463_325_252_u64;
    for _ in 0..130_000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    std::hint::black_box(x)
}

fn main() {
    let end = Instant::now() + Duration::from_millis(1200);
    let mutex = std::sync::Mutex::new(0_u64);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while Instant::now() < end {
                    whatif::scope!("request");
                    let x = hot();
                    *mutex.lock().unwrap() ^= x;
                    whatif::progress!("round");
                }
            });
        }
    });
    println!("done");
}
