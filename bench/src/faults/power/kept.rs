//! What a program keeps, as the next one who opens it counts it.

use std::path::Path;

use anyhow::Result;

use super::log::Event;

/// How much there is of each thing that is kept: it only becomes more.
pub type Content = Vec<u64>;

/// What a program keeps.
pub trait Kept {
    /// Opens what is in the folder, as the next one does who uses it, and counts it; nothing if there is nothing yet. An error is a finding.
    fn open(&self, folder: &Path) -> Result<Content>;

    /// Whether everything that has been written before this event is said to be kept when it is over.
    fn promises(&self, event: &Event) -> bool;
}
