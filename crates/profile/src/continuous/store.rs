//! The one who writes.

use super::*;
use crate::{Error, Nanos};
use std::path::{Path, PathBuf};

/// Writes a database; there is one at a time.
#[derive(Debug)]
pub struct Store {
    #[allow(dead_code)]
    folder: PathBuf,
}

/// What one flush wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes of the new segment; zero if there was nothing to write.
    pub bytes: u64,
}

/// What was merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Segments that were read,
    pub read: usize,
    /// and written,
    pub written: usize,
    /// and their bytes, before and after.
    pub bytes: (u64, u64),
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Segments older than this are removed.
    pub keep: Option<Nanos>,
    /// In segments older than this, time buckets of an hour take the place of finer ones.
    pub coarse_after: Option<Nanos>,
    /// The oldest segments are removed until the folder has at most so many bytes.
    pub most_bytes: Option<u64>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Segments,
    pub segments: usize,
    /// their samples,
    pub samples: u64,
    /// and how much smaller the folder is, in bytes.
    pub bytes: u64,
}

#[allow(unused_variables)]
impl Store {
    /// Opens the database in `folder`, which is made if need be, and becomes its only writer.
    pub fn open(folder: &Path) -> Result<Store, Error> {
        todo!()
    }

    /// The key of a machine.
    pub fn machine(&mut self, machine: &MachineInfo) -> Result<MachineId, Error> {
        todo!()
    }

    /// Begins an epoch; one of this machine that has not ended (the collector was killed) ends where its last flush did.
    pub fn begin_epoch(
        &mut self,
        machine: MachineId,
        setting: &Setting,
        name: Option<&str>,
        at: UnixSeconds,
    ) -> Result<EpochId, Error> {
        todo!()
    }

    /// Ends an epoch.
    pub fn end_epoch(&mut self, epoch: EpochId, at: UnixSeconds) -> Result<(), Error> {
        todo!()
    }

    /// The key of an image, which is added if it is new. Cheap when asked again.
    pub fn image(&mut self, image: &CodeImage) -> Result<ImageId, Error> {
        todo!()
    }

    /// The key of a label, which is added if it is new. Cheap when asked again.
    pub fn label(&mut self, label: &Label) -> Result<LabelId, Error> {
        todo!()
    }

    /// The key of an event, which is added if it is new.
    pub fn event(&mut self, name: &str) -> Result<EventId, Error> {
        todo!()
    }

    /// Names for positions that nobody could name later: of the kernel, of generated code, of files that are gone.
    pub fn add_symbols(&mut self, image: ImageId, symbols: &[(Offset, Vec<Symbol>)]) -> Result<(), Error> {
        todo!()
    }

    /// Writes a segment. When this returns, what is in it survives a crash; if it fails, the batch is as before and may be
    /// flushed again.
    pub fn flush(&mut self, epoch: EpochId, batch: &Batch) -> Result<Flushed, Error> {
        todo!()
    }

    /// Merges small segments that are over into larger ones, a bounded amount of work for each call.
    pub fn compact(&mut self, now: UnixSeconds) -> Result<Compaction, Error> {
        todo!()
    }

    /// Removes and thins out what is old.
    pub fn collect_garbage(&mut self, retention: &Retention, now: UnixSeconds) -> Result<Removed, Error> {
        todo!()
    }

    /// Adds everything that another database has: other machines, or other times of this one.
    pub fn merge(&mut self, other: &Database) -> Result<(), Error> {
        todo!()
    }

    /// Bytes of catalogue and segments.
    pub fn bytes(&self) -> Result<u64, Error> {
        todo!()
    }
}
