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
    /// Its share of the program's samples there, 0 to 1,
    pub share: f64,
    /// and how many they are.
    pub samples: u64,
    /// The samples were taken from this time on,
    pub since: UnixSeconds,
    /// until this one,
    pub until: UnixSeconds,
    /// and on so many machines.
    pub hosts: u32,
}
