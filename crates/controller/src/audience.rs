//! The people who watch a run: what they are told, and what they ask for.

use anyhow::Result;
use profile::{Profile, Region};
use std::path::Path;

/// Shows people what is found while a program runs, and hears what they want to know.
pub trait Audience {
    /// A program is about to run, and is recorded there.
    ///
    /// # Errors
    /// Why nothing can be shown; the program is not run then.
    fn begins(&self, recording: &Path) -> Result<()>;

    /// There is an answer: the program has ended, or goes on without experiments.
    fn answered(&self, profile: &Profile, recording: &Path);

    /// Whether a viewer wants to know more about this region, so that it gets more experiments.
    fn wants(&self, region: &Region) -> bool;

    /// Whether a viewer wants to know more about any region, so that the answer is not enough yet.
    fn wants_more(&self) -> bool;

    /// The last run has ended. Returns when everything has been seen.
    fn ended(&self, recording: &Path);
}
