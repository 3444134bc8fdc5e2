//! The commands on a database of continuous profiles.
//!
//! **Does:** hand what was typed to [`cycles`], and show the answers; the commands that change databases: import, merge, remove what is old.
//! **Does not:** take samples, analyse, or draw.
//! **Place:** sample → count → store → query → **report**.

pub mod cli;
mod diff;
mod export;
mod flame;
mod gc;
mod import;
mod merge;
pub mod page;
mod perf_data;
mod shown;
mod trial;

pub use diff::said as said_of_conditions;
pub use export::export;
pub use flame::put as put_flame;
pub use import::{import, is_perf_data};
pub use merge::merge;
// `whatif collect` is told sizes alike.
pub use gc::bytes;
// What they leave behind keeps the room that the collector frees.
pub use trial::remove_abandoned as remove_abandoned_trials;

use crate::show;
use anyhow::Result;
use profile::printable;
pub use shown::answer;

/// Does what was asked. Returns the exit status.
pub fn run(command: &cli::Command) -> Result<i32> {
    match command {
        cli::Command::Top(args) => answer(&cycles::top(args)?, args.json),
        cli::Command::List(args) => answer(&cycles::list(args)?, args.json),
        cli::Command::Annotate(args) => answer(&cycles::annotate(args)?, args.json),
        cli::Command::Flame(args) => flame::flame(args),
        cli::Command::Diff(args) => return diff::diff(args),
        cli::Command::Stats(args) => answer(&cycles::stats(args)?, args.json),
    }?;
    Ok(0)
}

/// Does what was asked after `whatif db`.
pub fn care(command: &cli::Care) -> Result<()> {
    match command {
        cli::Care::Epochs(args) => match &args.name {
            Some(name) => {
                let epoch = cycles::name_newest(args, name)?.get();
                show::print(&format!("epoch {epoch} is now called {}\n", printable(name)))
            }
            None => answer(&cycles::epochs(args)?, args.json),
        },
        cli::Care::Gc(args) => gc::gc(args),
        cli::Care::Unknown(args) => answer(&cycles::unknown(args)?, args.json),
    }
}
