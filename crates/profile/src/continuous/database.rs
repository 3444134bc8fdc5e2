//! The one who reads.

use super::*;
use crate::Error;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Reads a database, while somebody writes it or not.
#[derive(Debug)]
pub struct Database {
    #[allow(dead_code)]
    folder: PathBuf,
}

/// Which samples. What is not given is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Time buckets that begin in this span.
    pub time: Option<Range<UnixSeconds>>,
    /// Of these machines.
    pub machines: Option<Vec<MachineId>>,
    /// Of these epochs.
    pub epochs: Option<Vec<EpochId>>,
    /// Of these labels.
    pub labels: Option<Vec<LabelId>>,
    /// Of this event; the first that there is otherwise.
    pub event: Option<EventId>,
    /// Only samples whose sampled instruction is in one of these images.
    pub images: Option<Vec<ImageId>>,
}

/// Samples at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The image
    pub image: ImageId,
    /// and the position in it.
    pub offset: Offset,
    /// How many samples.
    pub count: u64,
}

/// All stacks, as a tree of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Frames; parents before their children, no two alike.
    pub nodes: Vec<Node>,
    /// Samples of each node itself, without what it calls.
    pub counts: Vec<u64>,
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
    /// Spans of so many seconds.
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
    /// By time: the begin of the span.
    Time(UnixSeconds),
}

#[allow(unused_variables)]
impl Database {
    /// Opens the database in `folder`.
    pub fn open(folder: &Path) -> Result<Database, Error> {
        todo!()
    }

    /// All machines.
    pub fn machines(&self) -> Result<BTreeMap<MachineId, MachineInfo>, Error> {
        todo!()
    }

    /// All epochs, oldest first.
    pub fn epochs(&self) -> Result<Vec<Epoch>, Error> {
        todo!()
    }

    /// All images.
    pub fn images(&self) -> Result<BTreeMap<ImageId, CodeImage>, Error> {
        todo!()
    }

    /// All labels.
    pub fn labels(&self) -> Result<BTreeMap<LabelId, Label>, Error> {
        todo!()
    }

    /// All events.
    pub fn events(&self) -> Result<BTreeMap<EventId, String>, Error> {
        todo!()
    }

    /// The span of time that there are segments of.
    pub fn span(&self) -> Result<Option<Range<UnixSeconds>>, Error> {
        todo!()
    }

    /// What became of the samples in the selected time, machines, epochs and event (labels and images do not count here).
    pub fn books(&self, selection: &Selection) -> Result<Vec<(EpochId, Books)>, Error> {
        todo!()
    }

    /// Samples by position of the sampled instruction, in no order.
    pub fn leaves(&self, selection: &Selection) -> Result<Vec<Leaf>, Error> {
        todo!()
    }

    /// The same, kept apart.
    pub fn leaves_by(&self, selection: &Selection, by: By) -> Result<BTreeMap<Group, Vec<Leaf>>, Error> {
        todo!()
    }

    /// All stacks.
    pub fn tree(&self, selection: &Selection) -> Result<Tree, Error> {
        todo!()
    }

    /// Samples of each label.
    pub fn by_label(&self, selection: &Selection) -> Result<BTreeMap<LabelId, u64>, Error> {
        todo!()
    }

    /// What is known about positions in an image.
    pub fn symbols(&self, image: ImageId) -> Result<HashMap<Offset, Vec<Symbol>>, Error> {
        todo!()
    }

    /// Keeps names for the next query, where the folder can be written; nothing otherwise.
    pub fn remember_symbols(&self, image: ImageId, symbols: &[(Offset, Vec<Symbol>)]) {
        todo!()
    }

    /// Gives an epoch a name.
    pub fn name_epoch(&self, epoch: EpochId, name: &str) -> Result<(), Error> {
        todo!()
    }

    /// Causal recordings that are kept beside it: `recordings/*.db` in the folder, oldest first.
    pub fn recordings(&self) -> Vec<PathBuf> {
        todo!()
    }
}
