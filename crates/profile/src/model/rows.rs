//! Rows: everything a recording holds, in memory.

use std::collections::BTreeMap;

use super::{
    Arrivals, Function, FunctionId, Point, PointId, Production, Region, RegionId, Session, SessionId,
    Snippet, StackFrame, StackId, StackSamples, Warning, Window,
};
use crate::units::Nanos;

/// All rows of a recording, as they were at one moment.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Runs, oldest first.
    pub sessions: Vec<Session>,
    /// Regions by key.
    pub regions: BTreeMap<RegionId, Region>,
    /// Progress points by key.
    pub points: BTreeMap<PointId, Point>,
    /// Windows in the order they were recorded.
    pub windows: Vec<Window>,
    /// Samples of each region over each whole run.
    pub samples: Vec<RegionSamples>,
    /// Functions on stacks by key.
    pub functions: BTreeMap<FunctionId, Function>,
    /// Stacks by key: those that call come before those that are called.
    pub stacks: BTreeMap<StackId, StackFrame>,
    /// Samples of each stack over each whole run.
    pub stack_samples: Vec<StackSamples>,
    /// What regions cost in production, where a run was told.
    pub production: Vec<Production>,
    /// Source around regions.
    pub snippets: BTreeMap<RegionId, Snippet>,
    /// Doubts, with the session that raised them.
    pub warnings: Vec<(SessionId, Warning)>,
}

impl Rows {
    /// How many CPUs the machine has, where other programs' requests, or their answers, came to the program.
    pub(crate) fn cpus_of_servers(&self) -> Option<u32> {
        let serves = |session: &&Session| session.arrivals.iter().any(Arrivals::is_used);
        self.sessions.iter().filter(serves).map(|session| session.start.cpus).max()
    }

    /// The warnings with this code, those of the first session first.
    pub(crate) fn warned<'r>(&'r self, code: &'r str) -> impl DoubleEndedIterator<Item = &'r Warning> {
        self.warnings.iter().map(|(_, warning)| warning).filter(move |warning| warning.code == code)
    }
}

/// How often a region was sampled over a whole session: inside windows and between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSamples {
    /// The session.
    pub session: SessionId,
    /// The region.
    pub region: RegionId,
    /// How many samples.
    pub count: u64,
    /// The CPU time they stand for.
    pub weight: Nanos,
}
