//! References: rows that refer to rows of other tables, which must be there, and rows of which there can be only one.
//!
//! SQLite holds both for everything that we write. It does not for a file that something else has changed.

use std::collections::{BTreeSet, HashSet};

use super::fault::Fault;
use crate::model::{PointId, RegionId, Rows, SessionId, StackId};

/// Whether everything that `rows` refer to is there.
pub(super) fn check(rows: &Rows) -> Result<(), Fault> {
    let sessions: BTreeSet<SessionId> = rows.sessions.iter().map(|session| session.id).collect();
    let session = |table, id: SessionId| match sessions.contains(&id) {
        true => Ok(()),
        false => Err(Fault::points_nowhere(table, "sessions", id.get())),
    };
    let region = |table, id: RegionId| match rows.regions.contains_key(&id) {
        true => Ok(()),
        false => Err(Fault::points_nowhere(table, "regions", id.get())),
    };
    let point = |table, id: PointId| match rows.points.contains_key(&id) {
        true => Ok(()),
        false => Err(Fault::points_nowhere(table, "points", id.get())),
    };
    only("points", "name and kind", rows.points.values().map(|point| (&point.name, point.kind)))?;
    only("windows", "place", rows.windows.iter().map(|w| (w.session, w.block, w.index)))?;
    for window in &rows.windows {
        session("windows", window.session)?;
        region("windows", window.region)?;
        window.visits.iter().try_for_each(|visits| point("visits", visits.point))?;
        window.in_flight.iter().try_for_each(|pair| point("in_flight", pair.begin))?;
        window.latencies.iter().try_for_each(|pair| point("latencies", pair.begin))?;
        // They are sorted.
        apart("visits", "window and point", window.visits.iter().map(|visits| visits.point))?;
        apart("in_flight", "window and point", window.in_flight.iter().map(|pair| pair.begin))?;
        apart("latencies", "window and point", window.latencies.iter().map(|pair| pair.begin))?;
    }
    for samples in &rows.samples {
        session("samples", samples.session)?;
        region("samples", samples.region)?;
    }
    only("samples", "session and region", rows.samples.iter().map(|s| (s.session, s.region)))?;
    check_stacks(rows)?;
    for samples in &rows.stack_samples {
        session("stack_samples", samples.session)?;
    }
    for production in &rows.production {
        session("production", production.session)?;
        region("production", production.region)?;
    }
    only("production", "session and region", rows.production.iter().map(|p| (p.session, p.region)))?;
    rows.snippets.keys().try_for_each(|id| region("snippets", *id))?;
    rows.warnings.iter().try_for_each(|(id, _)| session("warnings", *id))
}

/// Stacks are a tree: what a frame refers to comes before it, so that there is an end to its callers.
fn check_stacks(rows: &Rows) -> Result<(), Fault> {
    for (id, frame) in &rows.stacks {
        if !rows.functions.contains_key(&frame.function) {
            return Err(Fault::points_nowhere("stacks", "functions", frame.function.get()));
        }
        let is_there = |parent: &StackId| parent < id && rows.stacks.contains_key(parent);
        if let Some(parent) = frame.parent.filter(|parent| !is_there(parent)) {
            return Err(Fault::points_nowhere("stacks", "stacks", parent.get()));
        }
    }
    for samples in &rows.stack_samples {
        if !rows.stacks.contains_key(&samples.stack) {
            return Err(Fault::points_nowhere("stack_samples", "stacks", samples.stack.get()));
        }
    }
    only("stack_samples", "session and stack", rows.stack_samples.iter().map(|s| (s.session, s.stack)))
}

/// Whether all keys of sorted rows are different.
fn apart<K: PartialEq>(
    table: &'static str,
    what: &str,
    mut keys: impl Iterator<Item = K>,
) -> Result<(), Fault> {
    let Some(mut last) = keys.next() else { return Ok(()) };
    for key in keys {
        if key == last {
            return Err(Fault::twice(table, what));
        }
        last = key;
    }
    Ok(())
}

/// Whether all keys are different, in whatever order they are.
fn only<K: Eq + std::hash::Hash>(
    table: &'static str,
    what: &str,
    mut keys: impl Iterator<Item = K>,
) -> Result<(), Fault> {
    let mut known = HashSet::new();
    if keys.all(|key| known.insert(key)) { Ok(()) } else { Err(Fault::twice(table, what)) }
}
