//! Production: what the runs were told about the cost of their regions where it matters.

use crate::model::{Production, RegionId, Rows};
use crate::ranking::Profile;
use crate::units::UnixSeconds;

/// Which samples production shares rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// The time from which on they were taken.
    pub since: UnixSeconds,
    /// The time until which they were taken.
    pub until: UnixSeconds,
    /// The number of machines on which they were taken, as far as one run knew.
    pub hosts: u32,
}

impl Profile {
    /// Which samples the production shares of regions rest on; `None` if no run was told any.
    pub fn production(&self) -> Option<Covered> {
        let covered = |row: &Production| Covered { since: row.since, until: row.until, hosts: row.hosts };
        self.rows.production.iter().map(covered).reduce(|a, b| Covered {
            since: a.since.min(b.since),
            until: a.until.max(b.until),
            hosts: a.hosts.max(b.hosts),
        })
    }
}

/// The share of a region in production, as the latest run that was told knows it.
pub(crate) fn share(rows: &Rows, region: RegionId) -> Option<f64> {
    let of_region = rows.production.iter().filter(|row| row.region == region && row.share.is_finite());
    of_region.max_by_key(|row| row.session).map(|row| row.share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;

    #[test]
    fn the_latest_run_knows() {
        let row = |session, region, share| Production {
            session: SessionId::new(session),
            region: RegionId::new(region),
            share,
            samples: 10,
            since: UnixSeconds(session),
            until: UnixSeconds(10 + session),
            hosts: 2,
        };
        let production = vec![row(1, 1, 0.1), row(2, 1, 0.2), row(1, 2, 0.3)];
        let rows = Rows { production, ..Rows::default() };
        let of = |region| share(&rows, RegionId::new(region));
        assert_eq!((of(1), of(2), of(3)), (Some(0.2), Some(0.3), None));
        let profile = Profile::new(rows, &crate::EstimateOptions::default());
        let covered = Covered { since: UnixSeconds(1), until: UnixSeconds(12), hosts: 2 };
        assert_eq!(profile.production(), Some(covered));
    }
}
