//! The command from end to end. One program for all of it, because linking it takes longer than most of these tests do;
//! `support/machine.rs` says which of them run beside each other.
//!
//! ```text
//! $ cargo test --release -p whatif --test all answer::
//! ```

mod ab;
mod agent;
mod answer;
mod attach;
mod circles;
mod collect;
mod commands;
mod compare;
mod corners;
mod cycles;
mod ends;
mod explain;
mod failures;
mod faults;
mod fleet;
mod hint;
mod import;
mod kills;
mod launch;
mod live;
#[path = "../../fleet/tests/support/machines.rs"]
mod machines;
mod matrix;
mod mcp;
mod named;
#[allow(dead_code, reason = "the tests of the crate `fleet` use the rest")]
#[path = "../../fleet/tests/support/nodes.rs"]
mod nodes;
mod off_cpu;
mod page;
mod placed_points;
mod points;
mod python;
mod runtime_symbols;
mod sandboxes;
mod sanitizers;
mod signals;
mod stacks;
mod support;
mod survey;
#[path = "../../profile/tests/synthetic/mod.rs"]
mod synthetic;
mod threads;
mod transparency;
mod trees;
mod unmarked;
mod watch;
mod wrappers;
