//! Rows: everything a recording holds, in memory.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Whom the program served, or asked.
    pub(crate) fn served(&self) -> Served {
        let serves = |session: &&Session| session.arrivals.iter().any(Arrivals::are_of_others);
        let serving = || self.sessions.iter().filter(serves);
        let of_clients = self.warnings.iter().filter(|(_, warning)| warning.code == Warning::CLIENTS_HERE);
        let said: BTreeSet<SessionId> = of_clients.map(|(session, _)| *session).collect();
        // What is known of others is about all CPUs.
        let has_all = serving().all(|session| session.start.machine_cpus() == Some(session.start.cpus));
        let cpus = serving().map(|session| session.start.cpus).max().filter(|_| has_all);
        let clients_are_here = cpus.is_some() && serving().all(|session| said.contains(&session.id));
        Served { cpus, clients_are_here }
    }

    /// The warnings with this code, those of the first session first.
    pub(crate) fn warned<'r>(&'r self, code: &'r str) -> impl DoubleEndedIterator<Item = &'r Warning> {
        self.warnings.iter().map(|(_, warning)| warning).filter(move |warning| warning.code == code)
    }
}

/// Other programs that the program served, or asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    /// How many CPUs the machine has, where there are any, and the program may run on all of them.
    pub(crate) cpus: Option<u32>,
    /// Whether they were nearly all that used the machine beside the program, in each run.
    pub(crate) clients_are_here: bool,
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
