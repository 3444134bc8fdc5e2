//! From what the kernel writes about a whole machine to counts of stacks: the collector of continuous profiling.
//!
//! **Does:** sample all CPUs (or one's own processes), follow what processes map, execute and end, turn addresses into
//! images and offsets, count equal stacks together, keep books of what was expected, stored and lost, and hold its own
//! cost below a budget. The records of a file are followed by the same code ([`Recorded`]), but then only they say what there was.
//!
//! **Does not:** look for names of functions (but for the kernel's and those of generated code, which could not be found
//! later), or write files: the caller stores a [`Collected`].
//!
//! **Constraints:** no unsafe code; the path of a sample allocates nothing when its stack is known; memory is bounded by
//! the number of different stacks between two of them, not by the number of processes that ran.
//!
//! **Place:** **sample → count** → store → query → report. Described in section 5 of "Continuous Profiling: Where
//! Have All the Cycles Gone?" (SOSP 1997), whose driver and daemon this is; `docs/collector.md` says what is different.
#![forbid(unsafe_code)]

mod calibration;
mod callchain;
mod callers;
mod cgroup;
mod collected;
mod collector;
mod command_line;
mod copy_sizes;
mod environment;
mod errands;
mod files;
mod follower;
mod governor;
mod hash;
mod images;
mod jit;
mod kernel_code;
mod labels;
mod legend;
mod limits;
mod merge;
mod meter;
mod naming;
mod off_cpu;
mod origin;
mod own;
mod particulars;
mod processes;
mod programs;
mod python;
mod python_functions;
mod python_layout;
mod python_merge;
mod python_names;
mod reader;
mod recorded;
mod sink;
mod slots;
mod space;
pub mod stacks;
mod start;
mod threads;
mod unidentified;
mod unwinding;
mod vdso;
mod waits;
mod walk;
mod writer;

pub use collected::Collected;
pub use collector::{Collector, Known};
pub use governor::{Budget, Cost, Governor};
pub use images::ImageIndex;
pub use labels::LabelIndex;
pub use legend::{Legend, Named};
pub use limits::Limits;
pub use meter::Tally;
pub use naming::{NameKeeping, NamesRead};
pub use off_cpu::Costs;
pub use particulars::Lapses;
pub use python::Interpreted;
pub use recorded::{Recorded, Recording, Seen};
pub use sink::{SampleSeen, SampleSink};
pub use start::{Callers, Options, StartError};
pub use unwinding::Unwound;
pub use writer::Writer;
