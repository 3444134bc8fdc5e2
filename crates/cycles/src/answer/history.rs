//! What happened to a collector.

use serde::Serialize;

/// In the order in which it happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct History {
    /// The folder of the database.
    pub database: String,
    /// From when on, in seconds since 1970.
    pub since: i64,
    /// Oldest first.
    pub rows: Vec<HistoryRow>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HistoryRow {
    /// When, in seconds since 1970.
    pub at: i64,
    /// Until when, in seconds since 1970, of what took a while.
    pub until: Option<i64>,
    /// When, for people.
    #[serde(skip)]
    pub time: String,
    /// The machine.
    pub machine: String,
    /// The number of the epoch, if it is of one.
    pub epoch: Option<i64>,
    /// `epoch`, `ended`, `killed`, `gap`, `lost`, `rate`, `full`, `stored`, `sample-cost`, `clock`, `missed` or `books`.
    pub kind: &'static str,
    /// What happened and why, for people.
    pub message: String,
}
