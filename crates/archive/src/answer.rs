//! Answers: what a database says about a selection.

use std::collections::BTreeMap;

use super::{EpochId, ImageId, LabelId, MachineId, Node, Offset, UnixSeconds};

/// Where code is.
pub type Position = (ImageId, Offset);

/// Samples at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The image.
    pub image: ImageId,
    /// The position in the image.
    pub offset: Offset,
    /// How many samples.
    pub count: u64,
}

/// All stacks, as a tree of frames; parents before their children, no two alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Where the frames are; no two alike, and many less than frames.
    pub positions: Vec<Position>,
    /// For each frame that of its caller, or [`Node::NONE`].
    pub parents: Vec<u32>,
    /// For each frame its position, as an index.
    pub places: Vec<u32>,
    /// For each frame its own samples, without those of what it calls.
    pub counts: Vec<u64>,
}

impl Tree {
    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The caller of a frame.
    pub fn parent(&self, frame: usize) -> Option<usize> {
        Some(self.parents[frame]).filter(|parent| *parent != Node::NONE).map(|parent| parent as usize)
    }

    /// Where a frame is.
    pub fn position(&self, frame: usize) -> Position {
        self.positions[self.places[frame] as usize]
    }
}

/// All stacks, kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forest {
    /// The stacks of all parts.
    pub tree: Tree,
    /// For each part samples of some of the frames, given as indices, without those of what they call. A frame may come
    /// several times.
    pub groups: BTreeMap<Group, Vec<(u32, u64)>>,
}

/// What samples can be kept apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Epochs.
    Epoch,
    /// Machines.
    Machine,
    /// Who ran.
    Label,
    /// Who ran, in which epoch.
    LabelAndEpoch,
    /// Spans of this many seconds.
    Time(i64),
}

/// One of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// By epoch.
    Epoch(EpochId),
    /// By machine.
    Machine(MachineId),
    /// By label.
    Label(LabelId),
    /// By label and epoch.
    LabelAndEpoch(LabelId, EpochId),
    /// By time: the begin of the span.
    Time(UnixSeconds),
}

/// Samples by position of the sampled instruction, kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Where there are samples; no two alike.
    pub positions: Vec<Position>,
    /// For each part samples at some of the positions, given as indices. A position may come several times.
    pub groups: BTreeMap<Group, Vec<(u32, u64)>>,
}

impl Parts {
    /// All samples of a part.
    pub fn samples(part: &[(u32, u64)]) -> u64 {
        part.iter().map(|(_, count)| count).sum()
    }
}
