//! Where the cycles go: what the tools find out from a database of continuous profiles.
//!
//! **Does:** turn what was typed ([`arguments`]) into a selection of samples, ask the database, find names, estimate shares and what differs, and put what
//! code costs beside what it is worth. The answers are tables, lists and graphs ([`Top`], [`Difference`], …).
//!
//! **Does not:** take samples, or draw: `report` does.
//!
//! **Constraints:** no unsafe code; every answer begins with the books of its samples; code without a name is listed as such, and its name is not guessed; names that were found are
//! kept in the database.
//!
//! **Place:** sample → count → store → **query** → report.
#![forbid(unsafe_code)]

mod alert;
mod annotate;
mod answer;
// Their doc comments are the help texts that clap prints.
#[allow(missing_docs)]
pub mod arguments;
mod bounds;
mod cgroup;
mod code;
mod collected;
pub mod condition;
pub mod counted;
mod diff;
mod epochs;
mod expression;
mod files;
mod filter;
mod folder;
mod functions;
mod grouping;
mod heading;
mod heat;
mod history;
mod label_key;
mod list;
mod nameless;
mod names;
mod outside;
mod pattern;
mod query;
mod running;
mod servers;
mod share;
mod stacks;
mod stats;
pub mod time;
mod top;
mod truncated;
mod unknown;
mod verdict;
mod worth;

pub use alert::{judge, judge_counted};
pub use annotate::annotate;
// The event whose samples are of waiting time.
pub use answer::*;
pub use archive::{OFF_CPU, OFF_CPU_FRAME};
pub use diff::{diff, flames};
pub use epochs::{check_name as check_epoch_name, epochs, name_newest};
pub use expression::Where;
pub use folder::default_folder;
pub use grouping::{CodeKey, GroupBy, Roots};
pub use heat::{HeatArguments, HeatRows, heat};
pub use history::history;
pub use label_key::LabelKey;
pub use list::list;
pub use names::Names;
pub use pattern::{glob, last};
pub use query::{Query, open};
pub use stacks::{both, flame, flame_of, stacks, value};
pub use stats::stats;
pub use top::top;
pub use unknown::unknown;
pub use verdict::{DifferenceVerdict, VariationVerdict};
pub use worth::Worths;

/// A time as people type it: an age, a local time, or RFC 3339.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse_time(text: &str) -> Result<archive::UnixSeconds, String> {
    time::parse(text, &jiff::Zoned::now())
}
