//! Versions: what a region is worth with each release, and what a release changed.

use super::fleet::Fleet;
use super::heterogeneity::Slope;
use super::pool;
use super::{HostSlope, Refused, VersionId, Worth};
use crate::estimate::interval::{NORMAL, beyond};
use crate::estimate::{Estimate, widened};

/// What a region is worth with one version of the code.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionWorth {
    /// The version.
    pub version: VersionId,
    /// What the region is worth with it.
    pub worth: Worth,
}

/// What the region is worth with one version more than with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VersionChange {
    /// The version before.
    pub before: VersionId,
    /// The version after.
    pub after: VersionId,
    /// The slope after less the slope before, in the mean of hosts.
    pub difference: Estimate,
    /// How often hosts and noise alone would make so large a difference.
    pub chance: f64,
    /// How many hosts have run both, if these are compared, each with itself; `None` where the hosts of one version are compared with those of the other.
    pub same_hosts: Option<usize>,
}

impl Fleet {
    /// What changed from one version to another. Where at least half of the hosts of either version have run both, each of these is compared with itself, which what hosts differ by
    /// otherwise has no part in; else the means of both versions are compared, as if no host had run both.
    ///
    /// # Errors
    ///
    /// [`Refused::TooFewHosts`] where a version has fewer than two hosts, and none has run both.
    pub fn change(&self, before: VersionId, after: VersionId) -> Result<VersionChange, Refused> {
        let (of_before, of_after) = (self.of(before), self.of(after));
        let both: Vec<(Slope, f64)> = of_before
            .iter()
            .filter_map(|old| {
                let nth = of_after.binary_search_by_key(&old.host, |new| new.host).ok()?;
                let new = &of_after[nth];
                let variance = self.noise.of(old) + self.noise.of(new);
                let slope = Slope { value: new.slope - old.slope, variance };
                Some((slope, new.method_error - old.method_error))
            })
            .collect();
        let fewer = of_before.len().min(of_after.len());
        let is_enough = both.len() >= 2 || fewer < 2;
        if !both.is_empty() && is_enough && 2 * both.len() >= fewer {
            let slopes: Vec<Slope> = both.iter().map(|(slope, _)| *slope).collect();
            let pooled = pool::pool(&slopes, self.noise.freedom, self.variances);
            // What the method gets wrong, it gets wrong both times, as far as both insert the same delays.
            let method = both.iter().map(|(_, method)| method).sum::<f64>() / both.len() as f64;
            let same_hosts = Some(both.len());
            return Ok(changed((before, after), same_hosts, pooled.estimate, pooled.freedom, method.abs()));
        }
        if fewer < 2 {
            let (before_hosts, after_hosts) = (of_before.len(), of_after.len());
            return Err(Refused::TooFewHosts { before, after, before_hosts, after_hosts });
        }
        let worth = |rows: &[HostSlope]| Worth::new(rows, 0, &self.noise, self.variances);
        let (old, new) = (worth(&of_before), worth(&of_after));
        let (a, b) = (old.of_noise.se.powi(2), new.of_noise.se.powi(2));
        // Welch's.
        let freedom = (a + b).powi(2) / (a * a / old.freedom + b * b / new.freedom);
        let noise = |worth: &Worth| 1.0 / worth.variances.iter().map(|variance| 1.0 / variance).sum::<f64>();
        let if_none_differ = NORMAL * (noise(&old) + noise(&new)).sqrt();
        let difference = new.of_noise.value - old.of_noise.value;
        let estimate = pool::around(difference, (a + b).sqrt(), freedom, if_none_differ);
        let method = (new.method_error - old.method_error).abs();
        Ok(changed((before, after), None, estimate, freedom, method))
    }

    /// What changed from each version to the next, by their numbers; without those that cannot be compared.
    pub fn drift(&self) -> Vec<VersionChange> {
        let mut versions: Vec<VersionId> = self.rows.iter().map(|row| row.version).collect();
        versions.sort_unstable();
        versions.dedup();
        versions.windows(2).filter_map(|pair| self.change(pair[0], pair[1]).ok()).collect()
    }

    /// The rows of one version, by host.
    pub(super) fn of(&self, version: VersionId) -> Vec<HostSlope> {
        self.rows.iter().filter(|row| row.version == version).copied().collect()
    }
}

/// A difference of noise and hosts, widened by what the method may have got wrong only once.
fn changed(
    (before, after): (VersionId, VersionId),
    same_hosts: Option<usize>,
    difference: Estimate,
    freedom: f64,
    method: f64,
) -> VersionChange {
    let difference = widened(difference, method);
    let chance =
        if difference.se > 0.0 { beyond(difference.value.abs() / difference.se, freedom) } else { 1.0 };
    VersionChange { before, after, difference, chance, same_hosts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta_analysis::fleet::tests::row;
    use crate::meta_analysis::{Basis, Variances};

    const OLD: VersionId = VersionId::new(1);
    const NEW: VersionId = VersionId::new(2);

    fn fleet(rows: &[HostSlope]) -> Fleet {
        Fleet::new(rows, Variances::Pooled).unwrap()
    }

    #[test]
    fn hosts_that_ran_both_are_compared_with_themselves() {
        // Hosts are far apart, and each gained 0.09 to 0.11: mean 0.1, variance of a mean 0.0001 / 3.
        let hosts = [(0.1, 0.09), (0.4, 0.1), (0.9, 0.11)];
        let rows: Vec<HostSlope> = (1..)
            .zip(hosts)
            .flat_map(|(host, (old, more))| [row(host, 1, old, 1e-6, 20), row(host, 2, old + more, 1e-6, 20)])
            .collect();
        let change = fleet(&rows).change(OLD, NEW).unwrap();
        assert_eq!(change.same_hosts, Some(3));
        let half = 4.303 * (0.0001_f64 / 3.0).sqrt();
        assert!((change.difference.value - 0.1).abs() < 1e-9, "{change:?}");
        assert!((change.difference.half_width() / half - 1.0).abs() < 1e-6, "{change:?}");
        assert_eq!(fleet(&rows).drift(), [change]);
        // Back is the same with the other sign.
        let back = fleet(&rows).change(NEW, OLD).unwrap();
        assert!((back.difference.lo + change.difference.hi).abs() < 1e-12);
    }

    #[test]
    fn other_hosts_are_compared_by_their_means() {
        // 0.1, 0.3 and 0.2, 0.6: means 0.2 and 0.4, variances of a mean 0.01 and 0.04; Welch's 0.05² / (0.01² + 0.04²) = 1.47.
        let rows = [
            row(1, 1, 0.1, 1e-6, 20),
            row(2, 1, 0.3, 1e-6, 20),
            row(3, 2, 0.2, 1e-6, 20),
            row(4, 2, 0.6, 1e-6, 20),
        ];
        let change = fleet(&rows).change(OLD, NEW).unwrap();
        assert_eq!(change.same_hosts, None);
        assert!(
            (change.difference.value - 0.2).abs() < 1e-6
                && (change.difference.se - 0.05_f64.sqrt()).abs() < 1e-6
        );
        // Between 12.7 and 4.3 standard errors.
        let errors = change.difference.half_width() / change.difference.se;
        assert!(errors > 4.4 && errors < 12.6 && change.chance > 0.3, "{change:?}");
    }

    #[test]
    fn two_hosts_cannot_tell_versions() {
        let rows = [row(1, 1, 0.1, 1e-4, 20), row(2, 2, 0.3, 1e-4, 20)];
        let refused = fleet(&rows).change(OLD, NEW).unwrap_err();
        assert_eq!(
            refused,
            Refused::TooFewHosts { before: OLD, after: NEW, before_hosts: 1, after_hosts: 1 }
        );
        assert!(fleet(&rows).drift().is_empty());
        // One host that ran both can, as far as it goes.
        let same = [row(1, 1, 0.1, 1e-4, 20), row(1, 2, 0.3, 1e-4, 20)];
        let change = fleet(&same).change(OLD, NEW).unwrap();
        assert_eq!(change.same_hosts, Some(1));
        assert!(change.difference.lo > 0.15 && change.difference.hi < 0.25, "{change:?}");
    }

    #[test]
    fn each_version_has_its_worth() {
        let rows = [
            row(1, 1, 0.1, 1e-4, 20),
            row(2, 1, 0.3, 1e-4, 20),
            row(1, 2, 0.2, 1e-4, 20),
            row(3, 2, 0.6, 1e-4, 2),
        ];
        let fleet = fleet(&rows);
        let [old, new] = &fleet.versions()[..] else { panic!("{fleet:?}") };
        assert_eq!((old.worth.basis, old.worth.hosts), (Basis::Hosts, 2));
        assert_eq!((new.worth.basis, new.worth.hosts, new.worth.left_out), (Basis::OneHost, 1, 1));
        // A host that ran two versions is one host.
        assert_eq!((fleet.worth().hosts, fleet.worth().blocks, fleet.worth().left_out), (2, 60, 1));
    }
}
