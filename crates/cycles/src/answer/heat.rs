//! A map over time: samples of each row in each column of time, and where nothing was collected.

use super::{Heading, Share, Worth};
use serde::Serialize;

/// Samples over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    /// What was asked.
    pub heading: Heading,
    /// What the rows are: `process`
    pub by: String,
    /// Where the first column begins, in seconds since 1970.
    pub start: i64,
    /// The length of a column, in seconds.
    pub column_s: i64,
    /// How many columns there are.
    pub columns: usize,
    /// What `scale` makes of samples: `cores`, or `samples/s` where the event is no clock.
    pub unit: &'static str,
    /// What one sample in a column is in that unit; `null` where nothing was collected.
    pub scale: Vec<Option<f64>>,
    /// Samples that the clock called for in each column.
    pub expected: Vec<u64>,
    /// Samples of each column that were lost.
    pub lost: Vec<u64>,
    /// All samples of each column that were asked for.
    pub samples: Vec<u64>,
    /// When nothing was collected: from and to, in seconds since 1970.
    pub gaps: Vec<(i64, i64)>,
    /// How many shorter gaps are not among them.
    pub more_gaps: usize,
    /// Those with most samples first.
    pub rows: Vec<HeatRow>,
    /// How many are not among them.
    pub more: usize,
}

/// One row of the map.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeatRow {
    /// Its name.
    pub name: String,
    /// The image it is in; empty where it is none's.
    pub image: String,
    /// Its samples.
    pub samples: u64,
    /// Their share of all.
    pub share: Share,
    /// The CPU time they stand for; `null` where the event is no clock.
    pub cpu_ns: Option<u64>,
    /// What making it faster is worth, if it is a function.
    pub worth: Option<Worth>,
    /// Samples in each column.
    pub cells: Vec<u64>,
    /// The lower ends of their 95 % intervals, in samples.
    pub lo: Vec<f64>,
    /// The upper ends.
    pub hi: Vec<f64>,
    /// What one of its samples is, and when nothing was collected: of rows that are machines, whose own they are.
    pub own: Option<OwnTime>,
}

/// When a machine was collected.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OwnTime {
    /// As [`Heat::scale`].
    pub scale: Vec<Option<f64>>,
    /// As [`Heat::gaps`].
    pub gaps: Vec<(i64, i64)>,
}
