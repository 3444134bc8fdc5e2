//! The frames outside of all others that say how a thread waited, and who ended that: samples by these instead of by code.

use super::names::Names;
use archive::{ImageId, OFF_CPU_FRAME, Tree, WOKEN_BY};

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// How it waited.
    Wait,
    /// Who has woken it; how it waited, where that was not needed.
    Waker,
}

impl Outside {
    /// For each frame of a tree the image that says so; `None` of threads that did not wait.
    pub fn of(self, names: &Names, tree: &Tree) -> Vec<Option<ImageId>> {
        let is_it =
            |path: &str| path.starts_with(OFF_CPU_FRAME) || self == Self::Waker && path.starts_with(WOKEN_BY);
        let is_it = |image| names.images().get(&image).is_some_and(|image| is_it(&image.path));
        let is_it: Vec<bool> = tree.positions.iter().map(|(image, _)| is_it(*image)).collect();
        let mut found: Vec<Option<ImageId>> = Vec::with_capacity(tree.len());
        for frame in 0..tree.len() {
            let place = tree.places[frame] as usize;
            let above = tree.parent(frame).and_then(|parent| found[parent]);
            found.push(if is_it[place] { Some(tree.positions[place].0) } else { above });
        }
        found
    }
}
