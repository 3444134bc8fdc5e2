//! What became of the conditions of `whatif diff --fail-if`.

use super::{Share, Side};
use serde::Serialize;

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Conditions {
    /// In the order in which they were typed.
    pub conditions: Vec<Judged>,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Judged {
    /// As it was typed.
    pub condition: String,
    /// What became of it: the strongest of its rows.
    pub verdict: ConditionVerdict,
    /// Why it cannot be judged, and what helps.
    pub why: Option<String>,
    /// `share`, `total` (fractions of the samples) or `cpu` (seconds for each hour of a machine).
    pub quantity: String,
    /// `function`, `image`, `process` or `cgroup`.
    pub by: String,
    /// What the quantity is of.
    pub of: Option<Side>,
    /// What it is compared with.
    pub with: Option<Side>,
    /// How many names match, each of which was judged: the intervals of all of them are right at once in 95 of 100 cases.
    pub judged: usize,
    /// For how many of them it holds.
    pub held: usize,
    /// Those that are most beyond the limit, first first; at least the nearest.
    pub rows: Vec<JudgedRow>,
    /// A command that shows more of the first.
    pub closer: Option<String>,
}

/// What is certain of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionVerdict {
    /// It does not hold for the estimate.
    #[default]
    DoesNotHold,
    /// It holds for the estimate, but not in all of the interval.
    MayHold,
    /// It holds in all of the interval.
    Holds,
    /// It names what is not there, or was not measured.
    CannotBeJudged,
}

/// A function (or image, and so on) that was judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JudgedRow {
    /// Its name.
    pub name: String,
    /// Its image; empty where it is none's.
    pub image: String,
    /// What became of it.
    pub verdict: ConditionVerdict,
    /// The quantity.
    pub value: Share,
    /// The same in the other span.
    pub other: Option<Share>,
    /// How far the value is above the limit, with what is sure of both.
    pub excess: Share,
}
