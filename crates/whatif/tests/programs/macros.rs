//! `whatif-points` in a Rust program, which prints how many rounds there were.

use std::sync::Mutex;

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
    let (mutex, made) = (Mutex::new(0_u64), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..400 {
                    whatif::scope!("request");
                    let x = hot();
                    *mutex.lock().unwrap() ^= x;
                    whatif::progress!("round");
                    *made.lock().unwrap() += 1;
                }
            });
        }
    });
    println!("{}\ndone", made.into_inner().unwrap());
}
