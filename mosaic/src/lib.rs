//! Random concurrent programs whose causal answer is known, because their work can really be shrunk.
//!
//! ```text
//! $ mosaic seed=17 seconds=5
//! rate round 333.152
//! $ mosaic seed=17 seconds=5 R0=0.5     # what if R0 took half as long?
//! rate round 412.009
//! $ mosaic seed=17 plan                 # what program is that?
//! ```
//!
//! A seed is a program: [`draw`] makes a [`Program`] of it, by a grammar of actors (threads and forked processes)
//! that loop over steps: work, locks, bounded queues, barriers, latches, event loops, waits, files, short threads.
//! A program is also a text ([`Program::text`]), so that [`smallest`] can reduce one, and what is left can be run.
//!
//! In `sample → delay → experiment → record → profile → report` it stands outside, like `targets`: it is the thing
//! profiled. `bench mosaic` measures with it.
//!
//! # Constraints
//!
//! * The same seed is the same program on every machine and with every version of every dependency: its random numbers
//!   are made here ([`dice`]), with integers only. Only a change of the grammar makes other programs of the same seeds.
//! * Work is a number of iterations, drawn by each actor from its own numbers: all runs of a program do the same work.
//! * Every program makes progress, also with regions that do no work. [`Program::check`] says why a program does not:
//!   it follows rules (locks in order of their numbers, nothing that waits inside a section, at least one producer and one
//!   consumer of every queue) and [rehearses](rehearsal) the program without any thread or clock.
//! * One progress point, `round`, visited once per turn of one actor's loop: the measured actor, which is the main thread.
//!
//! # What it does not do
//!
//! It measures nothing; `bench mosaic` does. It has no executed programs (only forked ones), and no C++.
//!
//! # Safety
//!
//! Unsafe code is confined to [`mod@steps`], to what calls the C library: locks, semaphores and barriers of POSIX, descriptors, `fork`.

#![deny(unsafe_code)]

mod asked;
mod check;
pub mod dice;
pub mod grammar;
pub mod kinds;
pub mod program;
pub mod regions;
pub mod rehearsal;
pub mod shrink;
pub mod steps;

pub use check::Fault;
pub use grammar::draw;
pub use program::Program;
pub use shrink::smallest;
