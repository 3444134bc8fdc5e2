//! Production: what continuous profiles of the same program say about a region.

use super::{RegionId, SessionId};
use crate::units::UnixSeconds;

/// What a region costs in production, as it was known to the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Production {
    /// The run.
    pub session: SessionId,
    /// The region.
    pub region: RegionId,
    /// Its share of the program's samples there, 0 to 1.
    pub share: f64,
    /// The number of samples in that share.
    pub samples: u64,
    /// The time from which on the samples were taken.
    pub since: UnixSeconds,
    /// The time until which the samples were taken.
    pub until: UnixSeconds,
    /// The number of machines on which the samples were taken.
    pub hosts: u32,
}
