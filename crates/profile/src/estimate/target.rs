//! What an estimate is about: visits to a point, or the time between two.

use crate::model::PointId;

/// What is to become faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Visits to a point.
    Throughput(PointId),
    /// The time between a begin and an end.
    Latency {
        /// The begin point.
        begin: PointId,
        /// The end point.
        end: PointId,
    },
}

impl Target {
    /// The point whose visits are counted: the end of a latency pair.
    pub fn counted(self) -> PointId {
        match self {
            Target::Throughput(point) => point,
            Target::Latency { end, .. } => end,
        }
    }

    /// The name used in exports: `throughput` or `latency`.
    pub fn kind(self) -> &'static str {
        match self {
            Target::Throughput(_) => "throughput",
            Target::Latency { .. } => "latency",
        }
    }
}
