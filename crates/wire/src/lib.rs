//! The contract between the two processes: what the controller (`whatif run`) and the runtime
//! (`libwhatif_rt.so` inside the profiled program) share in one memory-mapped file.
//!
//! sample → **delay → experiment** → record → profile → report
//!
//! # What is here
//!
//! The layout ([`SharedMemory`]), its version and build ID, and the few lock-free protocols that both
//! sides must agree on: the delay account ([`account`]) and its past ([`history`], [`hits`]), the published experiment
//! ([`experiment`]), the code map ([`code`]), where executed programs have their code ([`files`]), the code that only waits ([`circles`]), progress counters ([`counter`], [`stamps`], [`latency`]), thread slots ([`slot`]), the
//! sample ring ([`ring`]), the channels between threads ([`channel`]) and what comes from outside ([`arrivals`]). And what a program
//! asks before it executes another one ([`follow`]).
//!
//! # What is not here
//!
//! System calls, clocks, policy; but for the decision whether what comes from outside waits for the program
//! ([`arrivals::Source::judge`]), which both sides act upon. Nothing here blocks, allocates or can fail in a way that needs a
//! message. Everything is `no_std` and may be called from a signal handler.
//!
//! # Rules
//!
//! * Every field is an atomic, because two processes and many threads see it at once. The comment of
//!   each says what a store publishes and which load it pairs with.
//! * A change to a layout here also changes [`PROTOCOL`]. The build ID changes by itself.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod account;
pub mod arrivals;
mod atomic;
pub mod channel;
pub mod circles;
pub mod code;
pub mod counter;
pub mod experiment;
pub mod files;
pub mod filter;
pub mod follow;
pub mod history;
pub mod hits;
pub mod late;
pub mod latency;
pub mod layout;
pub mod made;
pub mod mixing;
pub mod ring;
pub mod slot;
pub mod stamps;
mod units;
pub mod unwind;

pub use account::{Account, LocalAccount, SharedAccount, Waiting};
pub use layout::{Handshake, Header, SharedMemory};
pub use units::{Address, Epoch, Nanos, Speedup};

/// Version of the layout. Bumped by hand with every change to it.
pub const PROTOCOL: u32 = 26;

/// First word of the shared memory: `whatif01` in ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"whatif01");

/// Environment variable by which the controller tells the runtime the number of the inherited file
/// descriptor of the shared memory, or the name of a socket ([`follow`]). The runtime removes it again.
pub const REGION_VARIABLE: &str = "WHATIF_REGION";

/// Frames of a callchain that a sample carries at most.
pub const MAX_FRAMES: usize = 200;

/// The build ID of this side: a hash of the sources of both sides, in the decimal digits of `WHATIF_BUILD_ID`, which the
/// controller's build script sets for the controller and for the runtime that it builds. None if there is no such script: then 0.
#[must_use]
pub const fn build_id(digits: Option<&str>) -> u64 {
    let Some(digits) = digits else { return 0 };
    let bytes = digits.as_bytes();
    let (mut value, mut i) = (0_u64, 0);
    while i < bytes.len() {
        value = value.wrapping_mul(10).wrapping_add((bytes[i] - b'0') as u64);
        i += 1;
    }
    value
}
