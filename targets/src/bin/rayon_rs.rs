//! rayon_rs: each round is a `par_iter` over 32 items on a pool of two threads; half of the items need
//! A (0.3 ms), the others B (0.2 ms).
//!
//! Answer: the threads share whatever work there is: A s·60 %, B s·40 %.

#![forbid(unsafe_code)]

use rayon::ThreadPoolBuilder;
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};
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

fn main() {
    let arguments = Arguments::of_process();
    let a = arguments.iterations("A", 0.3);
    let b = arguments.iterations("B", 0.2);
    let run = arguments.start("round");
    let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("two threads can be had");
    pool.install(|| {
        while !run.over() {
            // Pieces of one item: rayon would cut as coarsely as there are threads.
            (0..32).into_par_iter().with_max_len(1).for_each(|item| if item % 2 == 0 { A(a) } else { B(b) });
            whatif::progress!("round");
            run.visited();
        }
        run.finish()
    })
}
