//! Doubts: why two recordings may not be comparable.

use std::collections::BTreeSet;

use super::PointChange;
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
        different_programs(before, after),
        different_commands(before, after),
        different_machines(before, after),
        different_load(before, after),
        few_runs(points),
    ];
    doubts.into_iter().flatten().chain(own.into_iter().flatten()).collect()
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

/// A warning if what the sessions have in common is different.
fn different(
    before: &Rows,
    after: &Rows,
    what: impl Fn(&Session) -> String,
    code: &str,
    noun: &str,
    advice: &str,
) -> Option<Warning> {
    let (before, after) = (each(before, &what), each(after, &what));
    (before != after && !before.is_empty() && !after.is_empty()).then(|| Warning {
        code: code.into(),
        message: format!("the recordings are of different {noun}: {} and {}", list(&before), list(&after)),
        advice: advice.into(),
    })
}

fn program(session: &Session) -> String {
    session.start.program_name().to_owned()
}

fn different_programs(before: &Rows, after: &Rows) -> Option<Warning> {
    let advice = "compare recordings of the same program, unless one is the other under a new name";
    different(before, after, program, "different-programs", "programs", advice)
}

fn different_commands(before: &Rows, after: &Rows) -> Option<Warning> {
    let command = |session: &Session| match session.start.arguments.as_slice() {
        [] => "no arguments".to_owned(),
        arguments => format!("`{}`", arguments.join(" ")),
    };
    let advice = "what changed may be the work and not the program: record both with the same arguments";
    different(before, after, command, "different-arguments", "arguments", advice)
}

fn different_machines(before: &Rows, after: &Rows) -> Option<Warning> {
    let machine = |session: &Session| {
        let start = &session.start;
        format!("{} (Linux {}, {} CPUs)", start.host, start.kernel, start.cpus)
    };
    let advice = "rates of different machines say nothing about the program: record both on the same one";
    different(before, after, machine, "different-machines", "machines", advice)
}

/// What other programs took is not the program's doing.
fn different_load(before: &Rows, after: &Rows) -> Option<Warning> {
    let load = |rows: &Rows| {
        let baselines = rows.windows.iter().filter(|window| window.speedup.is_zero());
        let busy: Vec<f64> = baselines.filter_map(|window| window.busy).collect();
        (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64)
    };
    let (before, after) = (load(before)?, load(after)?);
    ((before - after).abs() > SAME_LOAD).then(|| Warning {
        code: "different-load".into(),
        message: format!(
            "other programs used {:.0} % of the machine in the first recording and {:.0} % in the second",
            before * 100.0,
            after * 100.0
        ),
        advice: "what changed may be the machine and not the program: record both again, by turns".into(),
    })
}

fn shared_runs(before: &Rows, after: &Rows) -> Option<Warning> {
    let before: BTreeSet<_> = before.sessions.iter().map(|session| session.start.run()).collect();
    let after: BTreeSet<_> = after.sessions.iter().map(|session| session.start.run()).collect();
    let shared = before.intersection(&after).count();
    (shared > 0).then(|| Warning {
        code: "shared-runs".into(),
        message: format!("{shared} of the runs are in both recordings, so that they are not independent"),
        advice: "record what is to be compared into separate files: whatif run -o FILE -- PROGRAM".into(),
    })
}

fn few_runs(points: &[PointChange<'_>]) -> Option<Warning> {
    let runs = |point: &PointChange<'_>| Some((point.before?.runs, point.after?.runs));
    let (before, after) = points.iter().filter_map(runs).min_by_key(|(a, b)| *a.min(b))?;
    let runs = |n: usize| if n == 1 { "one run".to_owned() } else { format!("{n} runs") };
    (before.min(after) < ENOUGH_RUNS).then(|| Warning {
        code: "few-runs".into(),
        message: format!(
            "{} against {}: the intervals of the points do not know how much one run differs from the next",
            runs(before),
            runs(after)
        ),
        advice: format!(
            "record at least {ENOUGH_RUNS} runs into each file, best by turns: whatif run -o FILE -- PROGRAM"
        ),
    })
}
