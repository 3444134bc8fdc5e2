//! Programs with known causal answers.
//!
//! A causal profiler predicts what a program would gain if a function were faster. These programs
//! can say whether that is so, because the work of their functions can *really* be shrunk:
//!
//! ```text
//! $ mutex seconds=5
//! rate round 333.152
//! $ mutex seconds=5 A=0.5       # what if A took half as long?
//! rate round 498.733
//! ```
//!
//! In `sample → delay → experiment → record → profile → report` they stand outside, as the thing
//! profiled. The C and C++ ones are in `c/`, the Rust ones in `src/bin/`; [`TARGETS`] lists all,
//! with the arguments that matter, and [`build`](fn@build) compiles them.
//!
//! # Constraints
//!
//! * The head of each program says what the answer is and why.
//! * Work is a number of iterations of a dependent loop, not a time: a function that is paused or
//!   preempted has as much left to do as before.
//! * The loop of a region stands in the region's own function, which is never inlined: the innermost
//!   function of a sample is the region. (Except where inlining, instances or callers are the point.)
//! * `REGION=0` leaves a program that still makes progress.
//! * One progress point, visited once per round, which also prints the native rate at the end. The
//!   main thread makes rounds, and asks for the time between them.
//! * The answers hold for two CPUs, and on more where the head does not say otherwise.
//!
//! # What this does not do
//!
//! It measures nothing; `bench truth` does.

#![forbid(unsafe_code)]

pub mod build;
pub mod queue;
pub mod run;
pub mod table;

pub use build::{build, path};
pub use table::{Language, TARGETS, Target};

/// The work of a region: a chain of dependent instructions that no compiler can shorten. A macro, so
/// that the loop belongs to the function that it stands in. It begins with the number of its line:
/// functions that do exactly the same are one function to LLVM.
#[macro_export]
#[collapse_debuginfo(yes)]
macro_rules! work {
    ($iterations:expr) => {{
        let mut left: u64 = $iterations;
        let mut x = 88_172_645_463_325_252 + u64::from(line!());
        while left > 0 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            left -= 1;
        }
        ::core::hint::black_box(x);
    }};
}
