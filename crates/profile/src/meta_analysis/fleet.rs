//! A fleet: what all hosts say about one region and one progress point.

use super::noise::Noise;
use super::{HostSlope, Refused, Variances, VersionWorth, Worth};

/// What all hosts say about one region and one progress point, checked, in an order of its own.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Those with enough blocks, by host and version; at least one.
    pub(super) rows: Vec<HostSlope>,
    /// The others, likewise.
    pub(super) few: Vec<HostSlope>,
    pub(super) noise: Noise,
    pub(super) variances: Variances,
}

impl Fleet {
    /// From one row for each host and version that it ran.
    ///
    /// # Errors
    ///
    /// [`Refused`] where a number is none, two rows are of the same host and version, or no host has enough blocks.
    pub fn new(hosts: &[HostSlope], variances: Variances) -> Result<Fleet, Refused> {
        let mut sorted = hosts.to_vec();
        sorted.sort_by_key(|row| (row.host, row.version));
        for pair in sorted.windows(2) {
            if (pair[0].host, pair[0].version) == (pair[1].host, pair[1].version) {
                return Err(Refused::Twice { host: pair[0].host, version: pair[0].version });
            }
        }
        sorted.iter().try_for_each(HostSlope::check)?;
        let (rows, few): (Vec<HostSlope>, Vec<HostSlope>) = sorted.into_iter().partition(HostSlope::is_used);
        if rows.is_empty() {
            return Err(Refused::NoWindows { hosts: few.chunk_by(|a, b| a.host == b.host).count() });
        }
        let noise = Noise::new(&rows, variances);
        Ok(Fleet { rows, few, noise, variances })
    }

    /// What the region is worth across hosts, whatever version they ran.
    pub fn worth(&self) -> Worth {
        let rows: Vec<HostSlope> =
            self.rows.chunk_by(|a, b| a.host == b.host).map(HostSlope::together).collect();
        let is_used = |host| rows.binary_search_by_key(&host, |row| row.host).is_ok();
        let few = self.few.chunk_by(|a, b| a.host == b.host).filter(|rows| !is_used(rows[0].host));
        Worth::new(&rows, few.count(), &self.noise, self.variances)
    }

    /// The same for each version that a host with enough blocks has run, by their numbers.
    pub fn versions(&self) -> Vec<VersionWorth> {
        let mut versions: Vec<_> = self.rows.iter().map(|row| row.version).collect();
        versions.sort_unstable();
        versions.dedup();
        let of_version = |version| {
            let few = self.few.iter().filter(|row| row.version == version).count();
            VersionWorth { version, worth: Worth::new(&self.of(version), few, &self.noise, self.variances) }
        };
        versions.into_iter().map(of_version).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::meta_analysis::{Basis, HostId, VersionId};
    use crate::units::Nanos;

    const DAY: Nanos = Nanos::new(86_400_000_000_000);

    /// A row of a host that took part for a day.
    pub(crate) fn row(host: i64, version: i64, slope: f64, variance: f64, blocks: usize) -> HostSlope {
        let (host, version) = (HostId::new(host), VersionId::new(version));
        HostSlope { host, version, slope, variance, method_error: 0.0, blocks, observed: DAY }
    }

    /// Hosts with these slopes and 20 blocks each.
    pub(crate) fn even(slopes: &[f64], variance: f64) -> Vec<HostSlope> {
        (1..).zip(slopes).map(|(host, slope)| row(host, 1, *slope, variance, 20)).collect()
    }

    pub(crate) fn worth(rows: &[HostSlope]) -> Worth {
        Fleet::new(rows, Variances::Pooled).unwrap().worth()
    }

    #[test]
    fn equal_hosts_have_students_interval() {
        // Mean 0.4, variance of a mean 0.13 / 3; t with two degrees of freedom.
        let worth = worth(&even(&[0.1, 0.3, 0.8], 0.01));
        let half = 4.303 * (0.13_f64 / 3.0).sqrt();
        assert!((worth.estimate.value - 0.4).abs() < 1e-12);
        assert!((worth.estimate.half_width() - half).abs() < 1e-9, "{worth:?}");
        assert!((worth.heterogeneity.unwrap().tau - 0.12_f64.sqrt()).abs() < 1e-6);
        // τ² = 0.12 and the error of the mean, with one degree of freedom.
        let new_host = 12.706 * (0.12_f64 + 0.13 / 3.0).sqrt();
        assert!((worth.new_host.unwrap().half_width() - new_host).abs() < 1e-4);
        assert_eq!((worth.basis, worth.hosts, worth.blocks), (Basis::Hosts, 3, 60));
    }

    #[test]
    fn an_interval_is_not_narrower_than_that_of_equal_hosts() {
        // By chance nearly the same: the noise of each host says ± 1.96 · 0.1 / √2.
        let worth = worth(&even(&[0.3, 0.3001], 0.01));
        assert!((worth.estimate.half_width() - 1.959_964 * 0.1 / 2.0_f64.sqrt()).abs() < 1e-6, "{worth:?}");
    }

    #[test]
    fn one_host_has_its_own_interval() {
        let worth = worth(&[row(1, 1, 0.3, 0.01, 21)]);
        // t with 20 degrees of freedom.
        assert!((worth.estimate.half_width() - 2.086 * 0.1).abs() < 1e-3, "{worth:?}");
        assert_eq!((worth.basis, worth.heterogeneity, worth.new_host), (Basis::OneHost, None, None));
    }

    #[test]
    fn order_does_not_matter_and_scale_does_what_it_should() {
        let rows: Vec<HostSlope> = (0..50)
            .map(|nth| {
                let x = f64::from(nth);
                row(i64::from(nth), 1, 0.3 + 0.1 * (x * 1.7).sin(), 0.01 + 0.001 * x, 5 + nth as usize)
            })
            .collect();
        let all = worth(&rows);
        let mut turned = rows.clone();
        turned.reverse();
        turned.swap(3, 30);
        assert_eq!(worth(&turned), all);
        let tenfold: Vec<HostSlope> = rows
            .iter()
            .map(|row| HostSlope { slope: 10.0 * row.slope, variance: 100.0 * row.variance, ..*row })
            .collect();
        let tenfold = worth(&tenfold);
        for (a, b) in [
            (all.estimate.value, tenfold.estimate.value),
            (all.estimate.half_width(), tenfold.estimate.half_width()),
            (all.heterogeneity.unwrap().tau, tenfold.heterogeneity.unwrap().tau),
        ] {
            assert!((10.0 * a - b).abs() < 1e-6, "{a} {b}");
        }
        let (a, b) = (all.heterogeneity.unwrap(), tenfold.heterogeneity.unwrap());
        assert!((a.q - b.q).abs() < 1e-6 && (a.i_squared - b.i_squared).abs() < 1e-9);
    }

    #[test]
    fn hosts_without_windows_are_counted_and_change_nothing() {
        let mut rows = even(&[0.1, 0.3, 0.8], 0.01);
        let without = worth(&rows);
        rows.push(row(9, 1, f64::NAN, f64::NAN, 0));
        rows.push(row(10, 1, 7.0, 9.0, 4));
        // Host 1 also ran another version, hardly.
        rows.push(row(1, 2, 7.0, 9.0, 1));
        let with = worth(&rows);
        assert_eq!((with.left_out, with.hosts, with.estimate), (2, 3, without.estimate));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for (slope, variance, what) in [
            (f64::NAN, 0.01, "slope"),
            (f64::INFINITY, 0.01, "slope"),
            (0.3, f64::NAN, "variance"),
            (0.3, f64::INFINITY, "variance"),
            (0.3, -1.0, "variance"),
            (1e300, 0.01, "slope"),
        ] {
            let rows = [row(1, 1, 0.3, 0.01, 20), row(2, 1, slope, variance, 20)];
            let refused = Fleet::new(&rows, Variances::Pooled).unwrap_err();
            assert!(matches!(refused, Refused::NotANumber { what: w, .. } if w == what), "{refused}");
            assert!(refused.to_string().contains("\n  leave this host out"), "{refused}");
        }
        let twice = [row(1, 1, 0.3, 0.01, 20), row(1, 1, 0.4, 0.01, 20)];
        assert!(matches!(Fleet::new(&twice, Variances::Pooled), Err(Refused::Twice { .. })));
        let none = [row(1, 1, 0.3, 0.01, 0), row(1, 2, 0.3, 0.01, 4), row(2, 1, 0.3, 0.01, 0)];
        assert_eq!(Fleet::new(&none, Variances::Pooled).unwrap_err(), Refused::NoWindows { hosts: 2 });
        assert_eq!(Fleet::new(&[], Variances::Pooled).unwrap_err(), Refused::NoWindows { hosts: 0 });
    }

    #[test]
    fn clockwork_has_no_noise_and_no_infinity() {
        let worth = worth(&even(&[0.3; 30], 0.0));
        assert_eq!(worth.estimate.value, 0.3);
        assert!(worth.estimate.half_width() < 1e-4 && worth.estimate.half_width() > 0.0, "{worth:?}");
        assert_eq!(worth.heterogeneity.unwrap().i_squared, 0.0);
    }

    #[test]
    fn what_the_method_gets_wrong_does_not_shrink_with_hosts() {
        let rows: Vec<HostSlope> = even(&[0.29, 0.31].repeat(500), 0.0001)
            .iter()
            .map(|row| HostSlope { method_error: 0.04, ..*row })
            .collect();
        let worth = worth(&rows);
        assert!(worth.of_noise.half_width() < 0.001);
        assert!((worth.estimate.half_width() - 1.959_964 * 0.04).abs() < 1e-4, "{worth:?}");
    }

    #[test]
    fn where_busy_hosts_differ_all_count_the_same() {
        let rows = |by_blocks: f64| -> Vec<HostSlope> {
            (0..200)
                .map(|nth| {
                    let busy = nth % 2 == 0;
                    let away =
                        0.01 * ((f64::from(nth) * 0.7).sin() + if busy { by_blocks } else { -by_blocks });
                    let blocks = if busy { 400 } else { 10 };
                    row(i64::from(nth), 1, 0.3 + away, 0.04 / blocks as f64, blocks)
                })
                .collect()
        };
        let (alike, different) = (worth(&rows(0.0)), worth(&rows(2.0)));
        assert_eq!((alike.weights, different.weights), (Weights::Noise, Weights::Even));
        assert!((different.estimate.value - 0.3).abs() < 0.002, "{different:?}");
    }

    use crate::meta_analysis::Weights;
}
