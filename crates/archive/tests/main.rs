//! What is stored of continuous profiles is what is read. One program for all of it, because each would be linked by itself.

mod archive;
mod crash;
#[path = "support/expected.rs"]
mod expected;
mod labels;
mod merge;
mod readers;
