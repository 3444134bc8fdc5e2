//! Corners of system calls and signals: tiny programs, each about one of them, that print what they saw. A program under `whatif run`
//! must see what it sees alone, whatever takes its samples.
//!
//! [`CORNERS`] is the table of them; [`Runner`] runs one of them alone and under a [`Sampler`] with delays, and compares how it ends and what
//! it prints. The tests of the command run each corner under one sampler (`cargo test --release -p whatif --test all corners::`),
//! `bench -- corners` runs all of them under all samplers, and `bench -- accept` runs the real programs.
//!
//! # Constraints
//!
//! * What a program prints depends on nothing but what it is about: counts, errors and statuses, never times, so that equality is
//!   exact. Where a thing that it is about can happen more or less often, the program itself checks what must hold.
//! * A corner that this machine cannot have is skipped, and the program says why (status 77).
//!
//! # What it does not do
//!
//! It measures nothing, and does not look at the recordings. In `sample → delay → experiment → record → profile → report` it stands outside,
//! as `targets` does.

#![forbid(unsafe_code)]

mod compile;
mod ended;
mod runner;
mod sampler;
mod table;

pub use ended::Ended;
pub use runner::{Native, Outcome, Runner};
pub use sampler::Sampler;
pub use table::{CORNERS, Corner, Differs, Ends, Program};
