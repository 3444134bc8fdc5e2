//! `whatif diff`: the difference, and the conditions of `--fail-if` as `whatif compare` has them.

use super::flame;
use super::shown::answer;
use crate::compare::gate::{CANNOT_BE_JUDGED, HOLDS};
use anyhow::Result;
use cycles::arguments::Diff;
use cycles::{ConditionVerdict, Conditions, Judged};
use profile::printable;

/// Shows what was asked for. Returns the exit status: 0, or 1 if a condition holds for certain, or 2 if one cannot be judged.
pub fn diff(args: &Diff) -> Result<i32> {
    let conditions = (!args.fail_if.is_empty()).then(|| cycles::judge(args));
    match (&args.flame, args.sides()) {
        (Some(path), _) => {
            flame::compare(args, path)?;
            if let Some(conditions) = &conditions {
                answer(conditions, args.json)?;
            }
        }
        (None, Some(_)) => {
            let mut difference = cycles::diff(args)?;
            difference.conditions.clone_from(&conditions);
            answer(&difference, args.json)?;
        }
        (None, None) => answer(conditions.as_ref().unwrap_or(&Conditions::default()), args.json)?,
    }
    Ok(said(conditions.as_ref()))
}

/// Says what became of conditions; returns the exit status.
pub fn said(conditions: Option<&Conditions>) -> i32 {
    let judged = conditions.into_iter().flat_map(|conditions| &conditions.conditions);
    judged.map(say).fold(0, i32::max)
}

/// Says on standard error what became of a condition, unless it plainly does not hold; returns the exit status.
fn say(judged: &Judged) -> i32 {
    let typed = printable(&judged.condition);
    let first = judged.rows.first().map_or("", |row| row.name.as_str());
    match judged.verdict {
        ConditionVerdict::Holds => {
            let more = match judged.held {
                0 | 1 => String::new(),
                held => format!(" and {} more", held - 1),
            };
            kernel::say!("whatif: --fail-if '{typed}' holds: {}{more}", printable(first));
            HOLDS
        }
        ConditionVerdict::MayHold => {
            kernel::say!(
                "whatif: note: --fail-if '{typed}' holds for the estimate of {}, but not for certain\n  longer spans make the interval \
                 narrower",
                printable(first)
            );
            0
        }
        ConditionVerdict::DoesNotHold => 0,
        ConditionVerdict::CannotBeJudged => {
            kernel::say!(
                "whatif: --fail-if '{typed}' cannot be judged: {}",
                judged.why.as_deref().unwrap_or_default()
            );
            CANNOT_BE_JUDGED
        }
    }
}
