//! Doubts: why two recordings may not be comparable.

use std::collections::BTreeSet;

use super::PointChange;
use crate::caveat::{Caveat, What};
use crate::estimate::ENOUGH_RUNS;
use crate::model::{Rows, Session, Warning};
use crate::ranking::Profile;

/// What other programs may take more or less of the machine without a warning.
const SAME_LOAD: f64 = 0.1;

/// Everything to doubt about the comparison of these profiles.
pub(super) fn warnings(before: &Profile, after: &Profile, points: &[PointChange<'_>]) -> Vec<Warning> {
    let own = [("first", before), ("second", after)].map(|(which, profile)| own(which, profile));
    let (before, after) = (&before.rows, &after.rows);
    let doubts = [
        shared_runs(before, after),
        different(before, after, What::Programs, program),
        different(before, after, What::Arguments, command),
        different(before, after, What::Machines, machine),
        different_load(before, after),
        few_runs(points),
    ];
    doubts.into_iter().flatten().map(Warning::from).chain(own.into_iter().flatten()).collect()
}

/// What there is to doubt about a recording by itself, each once.
fn own(which: &str, profile: &Profile) -> BTreeSet<Warning> {
    let said = |warning: Warning| Warning {
        message: format!("the {which} recording: {}", warning.message),
        ..warning
    };
    profile.warnings().into_iter().map(|(_, warning)| said(warning)).collect()
}

fn each<T: Ord>(rows: &Rows, what: impl Fn(&Session) -> T) -> BTreeSet<T> {
    rows.sessions.iter().map(what).collect()
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// A caveat if what the sessions have in common is different.
fn different(before: &Rows, after: &Rows, what: What, of: impl Fn(&Session) -> String) -> Option<Caveat> {
    let (before, after) = (each(before, &of), each(after, &of));
    (before != after && !before.is_empty() && !after.is_empty()).then(|| Caveat::Different {
        what,
        before: list(&before),
        after: list(&after),
    })
}

fn program(session: &Session) -> String {
    session.start.program_name().to_owned()
}

fn command(session: &Session) -> String {
    match session.start.arguments.as_slice() {
        [] => "no arguments".to_owned(),
        arguments => format!("`{}`", arguments.join(" ")),
    }
}

fn machine(session: &Session) -> String {
    let start = &session.start;
    format!("{} (Linux {}, {} CPUs)", start.host, start.kernel, start.cpus)
}

/// What other programs took is not the program's doing.
fn different_load(before: &Rows, after: &Rows) -> Option<Caveat> {
    let load = |rows: &Rows| {
        let baselines = rows.windows.iter().filter(|window| window.speedup.is_zero());
        let busy: Vec<f64> = baselines.filter_map(|window| window.busy).collect();
        (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64)
    };
    let (before, after) = (load(before)?, load(after)?);
    ((before - after).abs() > SAME_LOAD).then_some(Caveat::DifferentLoad { before, after })
}

fn shared_runs(before: &Rows, after: &Rows) -> Option<Caveat> {
    let before: BTreeSet<_> = before.sessions.iter().map(|session| session.start.run()).collect();
    let after: BTreeSet<_> = after.sessions.iter().map(|session| session.start.run()).collect();
    let runs = before.intersection(&after).count();
    (runs > 0).then_some(Caveat::SharedRuns { runs })
}

fn few_runs(points: &[PointChange<'_>]) -> Option<Caveat> {
    let runs = |point: &PointChange<'_>| Some((point.before?.runs, point.after?.runs));
    let (before, after) = points.iter().filter_map(runs).min_by_key(|(a, b)| *a.min(b))?;
    (before.min(after) < ENOUGH_RUNS).then_some(Caveat::FewRuns { before, after })
}
