//! Continuous profiles: where the cycles of a machine go, day after day.
//!
//! **Does:** keep samples in a folder: a catalogue (SQLite, the same layout as a recording) and immutable segments
//! (Parquet), each of them a span of time; give them back by time, machine, process, cgroup and image.
//!
//! **Does not:** take samples, look into files for names, or draw anything.
//!
//! **Constraints:** one writer, many readers, which never wait for each other. A segment is written and synced before the
//! catalogue knows of it, so that a crash at any moment loses what was not flushed yet and nothing else.
//!
//! **Place:** sample → count → **store** → query → report.
#![forbid(unsafe_code)]

mod answer;
mod catalogue;
mod cells;
mod cgroup;
mod checksum;
mod columns;
mod compaction;
mod condition;
mod database;
mod draft;
mod environment;
mod frames;
mod garbage;
mod journal;
mod kept_names;
mod lock;
mod machine_key;
mod merge;
mod model;
mod name_table;
mod names;
mod pages;
mod part;
mod query;
mod rare;
mod rewrite;
mod rows;
mod segment;
mod steps;
mod store;
mod uid;
mod waits;

pub use answer::{By, Forest, Group, Leaf, Parts, Position, Tree};
pub use cells::Cell;
pub use cgroup::cgroup_in;
pub use compaction::Compaction;
pub use condition::{About, Condition};
pub use database::{Database, OF_AGENT, Selection};
pub use environment::Environment;
pub use garbage::{Removed, Retention};
pub use journal::{Entry, EntryKind, Interval, was_killed};
pub use kept_names::{Kept, KeptNames, KeptSize, LATELY, TableOwner};
pub use machine_key::machine_key;
pub use model::{
    Batch, Books, CUT_DEEP, CUT_SHORT, CUT_UNKNOWN, CodeImage, CollectorEpoch, Count, EpochId, EventId,
    ImageId, ImageKind, LIST_GIVEN_UP, LONGEST_LABEL, LONGEST_LABEL_NAME, Label, LabelId, MachineId,
    MachineInfo, NOT_ENDED, Node, Offset, Setting, Symbol, TOO_MANY_STACKS, TOO_MUCH_MAPPED, is_label_name,
    is_label_value, is_mark,
};
pub use name_table::NameTableWriter;
pub use names::KnownPositions;
pub use rows::{Rows, Sampled};
#[doc(hidden)]
pub use steps::Watcher;
pub use storage::UnixSeconds;
pub use store::{Flushed, Store};
pub use uid::new_uid;
pub use waits::{
    OFF_CPU, OFF_CPU_FRAME, STOPPED, WAITS, WAITS_FOR_CPU, WAITS_FOR_DEVICE, WAITS_UNINTERRUPTIBLE, WOKEN_BY,
};
