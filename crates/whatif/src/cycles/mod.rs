//! The tools that read the database of continuous profiles.
//!
//! **Does:** turn what was typed into a selection, ask the database, find names, and hand the answer to `report`.
//! **Does not:** take samples, or draw. **Constraints:** every answer begins with the books; what has no name is reported, not
//! guessed; names once found are kept in the database.
//! **Place:** sample → record → profile → **report**.

mod annotate;
pub mod cli;
mod code;
mod diff;
mod epochs;
mod export;
mod flame;
mod functions;
mod gc;
mod heading;
mod import;
mod kallsyms;
mod list;
mod merge;
mod nameless;
mod names;
mod pattern;
mod perf_data;
mod place;
mod query;
mod running;
mod share;
mod stacks;
mod stats;
mod time;
mod top;
mod trial;
mod unknown;
mod worth;

pub use export::export;
pub use import::{import, is_perf_data, machine_key};
// `whatif collect` writes where these read, and is told ages, sizes and names alike.
pub use epochs::check_name as check_epoch_name;
pub use gc::bytes;
pub use place::default_folder;
pub use time::age;
// What they leave behind keeps the room that the collector frees.
pub use trial::remove_abandoned as remove_abandoned_trials;
// `whatif run --hint-db` asks them what production spends its time in.
pub use names::Names;
pub use pattern::last;
pub use query::{Query, open};

/// A time as people type it: an age, a local time, or RFC 3339.
pub fn parse_time(text: &str) -> Result<profile::continuous::UnixSeconds, String> {
    time::parse(text, &jiff::Zoned::now())
}

use crate::show;
use anyhow::Result;
use report::cycles::Answer;
use std::io::IsTerminal as _;

/// Does what was asked.
pub fn run(command: &cli::Command) -> Result<()> {
    match command {
        cli::Command::Top(args) => top::top(args),
        cli::Command::List(args) => list::list(args),
        cli::Command::Annotate(args) => annotate::annotate(args),
        cli::Command::Flame(args) => flame::flame(args),
        cli::Command::Diff(args) => diff::diff(args),
        cli::Command::Stats(args) => stats::stats(args),
        cli::Command::Epochs(args) => epochs::epochs(args),
        cli::Command::Gc(args) => gc::gc(args),
        cli::Command::Unknown(args) => unknown::unknown(args),
        cli::Command::Db(cli::Db { command: cli::DbCommand::Merge(args) }) => merge::merge(args),
    }
}

/// Prints an answer for people or for programs.
fn answer(answer: &impl Answer, json: bool) -> Result<()> {
    match json {
        true => show::print(&answer.json()),
        false => show::print(&answer.draw(show::style(std::io::stdout().is_terminal(), 0))),
    }
}
