//! Profiles of Coz, read as recordings.
//!
//! **Does:** turn the lines of a profile, in either format of Coz's, into [`Rows`] that the estimators take as
//! they are. **Does not:** read files, or guess what Coz did not write: see the table. **Constraints:** pure; a
//! line that cannot be read costs no more than the experiment that it belongs to. **Place:** sample → delay →
//! experiment → **record** → profile → report.
//!
//! Writing these formats is `report`'s. What is in a profile, and what is not what it seems:
//!
//! | record | what it says | trap |
//! |---|---|---|
//! | `startup` | a run begins | runs are appended to the file |
//! | `experiment` | line, speedup, effective time, samples in the line | effective time below zero is written as a number near 2⁶⁴ |
//! | `throughput-point` | visits | called `progress-point` before 2015 |
//! | `latency-point` | begins, ends, and what is in flight when the experiment ends | the last of these may be below zero, and is then near 2⁶⁴ (or 2³²) |
//! | `samples` | samples in a line since the run began | written several times in a run, each time all of them: the last one counts |
//! | `runtime` | how long the run took | only the last one of a run that ended; the others are the length of one experiment |
//! | `shutdown` | when the run ended | only in old profiles |
//!
//! The last experiment of a run that ended counts for nothing: it was under way when the program ended, and
//! goes on for its full length.
//!
//! # What Coz does not write
//!
//! | ours | from a profile |
//! |---|---|
//! | inserted delay | what is missing from the length of the nearest baseline, at most a sample's worth per sample in the line |
//! | when a window began | the sum of what was before it |
//! | a block | the experiments of a line and the baseline of it that is nearest in the run: see `blocks.rs` |
//! | mean in flight | the number in flight at the end |
//! | weight of samples | 1 ms each, which is Coz's period |
//! | program, arguments, host, CPUs, build, threads, books, load of the machine | nothing |

mod blocks;
mod file;
mod record;
mod rows;
mod run;

pub use file::{DATABASE, Unreadable, is_profile_of_coz, load as load_either, rows as rows_of_either};
pub(crate) use rows::UNKNOWN_PROGRAM;

use crate::model::Rows;

/// How many lines at the beginning show what kind of file it is.
const LINES_THAT_TELL: usize = 100;

/// The bytes are not of a profile of Coz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no profile of Coz: no line of it begins a run or an experiment\n  \
     give a file that coz run has written, such as profile.coz or profile.jsonl"
)]
pub struct NotCoz;

/// Whether `bytes` look like a profile of Coz.
pub fn is_profile(bytes: &[u8]) -> bool {
    let mut lines = record::lines(bytes).take(LINES_THAT_TELL);
    lines.any(|line| line.is_ok_and(|record| record.begins_something()))
}

/// Reads a profile. `name` is what the file is called, for the options of the sessions.
///
/// Lines that could not be read are counted in a warning.
///
/// # Errors
///
/// [`NotCoz`] if nothing in it begins a run or an experiment.
pub fn read(bytes: &[u8], name: &str) -> Result<Rows, NotCoz> {
    let (runs, damage) = run::runs(record::lines(bytes));
    if runs.is_empty() { Err(NotCoz) } else { Ok(rows::of(&runs, damage, name)) }
}
