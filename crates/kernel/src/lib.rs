//! What the controller and the collector ask of the kernel: the shared memory, the clock, signals, samples of CPUs, and what `/proc` knows.
//!
//! sample → delay → **experiment → record** → profile → report
//!
//! **sample** → count → store → query → report
//!
//! # What is here
//!
//! * [`shared_mapping`]: the shared memory as a file and a mapping, and waking the threads that pause on it.
//! * [`clock`]: the monotonic clock, and sleeping until a point on it.
//! * [`mod@maps`]: what a process has mapped where.
//! * [`name_spaces`]: running this program inside of those of another process.
//! * [`connections`]: who has the other ends of TCP connections.
//! * [`cpu`]: who uses the machine's CPUs.
//! * [`cpu_limit`]: how much CPU time a control group may use.
//! * [`signals`]: the dispositions this process was started with, and dying by a signal.
//! * [`child`]: starting a program as if we were not there.
//! * [`switching`]: what it takes to switch from one thread to another.
//! * [`trial`]: what the kernel allows.
//! * [`untrusted`]: opening files that others have made, if their owner is to be trusted.
//! * [`mod@peer`]: who is at the other end of a local socket.
//! * [`perf_map`]: the list of functions that a process has generated, as it grows.
//! * [`process_memory`]: reading the memory of a process.
//! * [`python_frames`]: the frames of Python's interpreter when a sample is taken.
//! * [`stack_copies`]: as much of sampled stacks as each process needs, by a BPF program.
//! * [`waits`]: where threads wait, by BPF programs at switches and wake-ups.
//! * [`stream`]: samples of whole CPUs, and what processes map, execute and end, as the kernel writes it.
//! * [`visits`]: counting how often a process executes an instruction.
//! * [`mod@semaphore`]: switching on a probe that is guarded, in one process.
//! * [`heap`]: giving memory back that is no longer needed.
//! * [`wakeup`]: what it costs here to wake a CPU that sleeps.
//! * [`mod@say`]: words to the user, where nothing is lost if they cannot be said.
//! * [`mod@tracee`]: stopping a thread of another process to make calls in its stead.
//!
//! # What is not here
//!
//! Decisions and messages; but for one: whose files are trusted is decided in [`untrusted`]. Everything returns [`std::io::Error`] as the kernel gave it; the command says
//! what it means and what to do.
//!
//! # Constraints
//!
//! Besides `wire` and the runtime, this is the only crate with unsafe code, so that the controller proper
//! can forbid it. Each function that needs it is safe to call.

mod bpf;
mod btf;
pub mod child;
pub mod clock;
pub mod connections;
pub mod cpu;
pub mod cpu_limit;
mod event;
mod file_size_limit;
pub mod heap;
pub mod maps;
pub mod name_spaces;
pub mod peer;
pub mod perf_map;
pub mod process_memory;
pub mod python_frames;
pub mod say;
pub mod semaphore;
pub mod shared_mapping;
pub mod signals;
pub mod stack_copies;
mod stack_reading;
pub mod stream;
pub mod switching;
pub mod tracee;
pub mod trial;
#[cfg(test)]
mod until;
pub mod untrusted;
pub mod usage;
pub mod visits;
pub mod waits;
pub mod wakeup;

pub use maps::{FileOffset, Mapping, maps};
pub use shared_mapping::SharedMapping;
