//! `libwhatif_rt.so`: the half of the causal profiler that lives inside the profiled program.
//!
//! **sample → delay** → experiment → record → profile → report
//!
//! # What it does
//!
//! Samples each thread's CPU time, keeps each thread's delay account, pauses the threads that owe,
//! registers threads, hands out progress counters. The rules of virtual time are in
//! `crates/runtime/README.md`; the numbers in the comments are theirs.
//!
//! # What it does not do
//!
//! Choose experiments, read debug information, write files, print. The controller does, in its own
//! process.
//!
//! # The rules this code lives by
//!
//! It runs inside another program's process, partly in a signal handler, partly inside the program's own
//! locks and allocators. Therefore:
//!
//! 1. No allocation (there is no `alloc`), no formatting, no panics that unwind.
//! 2. No lock that the program could hold. Lock-free or nothing.
//! 3. System calls are raw (`sys`): no interposed function is ever called from here, and `errno` is
//!    never touched.
//! 4. The real functions are looked up once (`real`), by reading the loaded objects' symbol tables, and
//!    not by `dlsym`, which may allocate, take locks and set its error state.
//! 5. No pause between acquiring a lock and returning to the caller.
//! 6. What is undefined in the library is on the allow-list of `crates/whatif/tests/runtime_symbols.rs`.
//! 7. No file imports itself through others (`tests/circles.rs`): what the handler and the interposed functions share lies below both.
//! 8. When anything is missing — no shared memory, no slot, no sampler — every function does what the
//!    original does, and nothing else.

#![no_std]
// As an ordinary library, without the exported names, most of this has no caller.
#![cfg_attr(not(whatif_cdylib), allow(dead_code))]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!("the runtime supports x86-64 Linux with glibc only");

mod account;
mod actions;
mod altstack;
mod arrivals;
mod attach;
mod audit;
mod beliefs;
mod call_stack;
mod callchain;
mod channel;
mod context;
mod cpus;
mod deadline;
mod deferral;
mod delay;
mod epoll;
mod follow;
mod fork;
mod interpose;
mod late;
mod maps;
mod memory;
mod object;
mod passing;
mod period;
mod progress;
mod random;
mod real;
mod redirect;
mod region;
mod room;
mod sampler;
mod sampling;
mod sandbox;
mod short_runs;
mod signals;
mod socket;
mod spin;
mod stopwatch;
mod stretch;
mod switches;
mod sys;
mod thread;
mod ticks;
mod tls;
mod urgent;
mod wait;
mod yields;

#[cfg(whatif_cdylib)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Nothing here is meant to panic. If it does all the same, dying loudly beats corrupting the program.
    sys::abort()
}

// Named by the prebuilt `core`, which was compiled for unwinding. Hidden, so that the program's own is
// never replaced.
#[cfg(whatif_cdylib)]
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality:",
    "ud2"
);

#[cfg(test)]
extern crate std;
