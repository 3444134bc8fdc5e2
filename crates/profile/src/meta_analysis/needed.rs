//! How much more has to be measured until an interval is narrow enough, in hosts and in time.

use super::heterogeneity::Heterogeneity;
use super::{HostDays, Weights, Worth};
use crate::estimate::interval::student_of;

/// More than this many times of what there is, is never.
const MOST: f64 = 1e6;

/// What it takes until the half width of [`Worth::of_noise`] is `goal`: either more hosts, or more time of the same ones. Both are about what they say: how
/// much hosts differ is only known as well as there are hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needed {
    /// The half width that is asked for: gain per speedup, 0.02 for ± 2 points.
    pub goal: f64,
    /// More hosts, each of which takes part as those do in the mean; `None` for a single one, which says nothing of others.
    pub hosts: Option<MoreHosts>,
    /// More time of the hosts that there are; `None` where they differ too much.
    pub time: Option<HostDays>,
    /// What the half width would be if the same hosts were measured forever.
    pub floor: f64,
}

/// More hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoreHosts {
    /// How many more.
    pub hosts: usize,
    /// How long they take part, all together.
    pub time: HostDays,
}

impl Worth {
    /// What it takes until the half width of [`of_noise`](Worth::of_noise) is `goal`, if hosts take part as they have up to now.
    pub fn needed(&self, goal: f64) -> Needed {
        // Either Student's interval or its bound is wider, and only the first becomes narrower by degrees of freedom, or is kept wide by how much hosts differ.
        let half = |freedom: f64| student_of(freedom) * self.of_noise.se;
        let of_time = |times: f64| half(self.freedom) * (self.variance(times) / self.variance(1.0)).sqrt();
        let after = |times: f64| of_time(times).max(self.bound / times.sqrt());
        let floor = after(f64::INFINITY);
        let more_time = || {
            let times = least(|times| after(times) <= goal)?;
            Some(HostDays::new((times - 1.0) * self.observed.get()))
        };
        let more_hosts = || {
            let of = |times: f64| half(self.freedom * times).max(self.bound) / times.sqrt();
            let times = least(|times| of(times) <= goal)?;
            let hosts = ((times - 1.0) * self.hosts as f64).ceil();
            let time = HostDays::new(hosts * self.observed.get() / self.hosts as f64);
            Some(MoreHosts { hosts: hosts as usize, time })
        };
        let hosts = if self.heterogeneity.is_some() { more_hosts() } else { None };
        Needed { goal, hosts, time: if floor < goal { more_time() } else { None }, floor }
    }

    /// The variance of the mean if each host had so many times as many blocks.
    fn variance(&self, times: f64) -> f64 {
        let between = self.heterogeneity.map_or(0.0, |Heterogeneity { tau, .. }| tau * tau);
        let of_hosts = self.variances.iter().map(|variance| between + variance / times);
        match self.weights {
            Weights::Noise => 1.0 / of_hosts.map(|variance| 1.0 / variance).sum::<f64>(),
            Weights::Even => of_hosts.sum::<f64>() / (self.hosts as f64).powi(2),
        }
    }
}

/// The least number from 1 on for which something holds that holds for all larger ones as well.
fn least(holds: impl Fn(f64) -> bool) -> Option<f64> {
    if holds(1.0) {
        return Some(1.0);
    }
    let (mut low, mut high) = (1.0, MOST);
    if !holds(high) {
        return None;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use crate::meta_analysis::fleet::tests::{even, row, worth};

    #[test]
    fn hosts_that_do_not_differ_may_as_well_be_measured_longer() {
        // 400 hosts, whose slopes scatter as their noise makes them: 0.1 around 0.3.
        let slopes: Vec<f64> = (0..400).map(|nth| 0.3 + if nth % 2 == 0 { 0.1 } else { -0.1 }).collect();
        let worth = worth(&even(&slopes, 0.0101));
        let half = worth.of_noise.half_width();
        let needed = worth.needed(half / 2.0);
        // Four times as much of either.
        let (hosts, time) = (needed.hosts.unwrap(), needed.time.unwrap());
        assert!((hosts.hosts as f64 / 1200.0 - 1.0).abs() < 0.01, "{needed:?}");
        assert!((time.get() / 1200.0 - 1.0).abs() < 0.01 && needed.floor < 1e-6, "{needed:?}");
        assert!((hosts.time.get() - hosts.hosts as f64).abs() < 1e-9);
    }

    #[test]
    fn hosts_that_differ_take_more_hosts() {
        // τ² = 0.04, noise 0.01: time takes off a fifth of the variance and no more.
        let slopes: Vec<f64> = (0..400)
            .map(|nth| 0.3 + if nth % 2 == 0 { 0.05_f64.sqrt() } else { -(0.05_f64.sqrt()) })
            .collect();
        let worth = worth(&even(&slopes, 0.01));
        let half = worth.of_noise.half_width();
        let needed = worth.needed(half / 2.0);
        assert_eq!(needed.time, None);
        assert!((needed.floor / half - 0.8_f64.sqrt()).abs() < 0.002, "{needed:?}");
        assert!((needed.hosts.unwrap().hosts as f64 / 1200.0 - 1.0).abs() < 0.01, "{needed:?}");
        // A goal between the two: 0.9 of the variance, so half of the noise, so as much time again.
        let little = worth.needed(half * 0.9_f64.sqrt());
        assert!((little.time.unwrap().get() / 400.0 - 1.0).abs() < 0.02, "{little:?}");
    }

    #[test]
    fn what_is_reached_needs_nothing() {
        let needed = worth(&even(&[0.3; 50], 0.0001)).needed(0.02);
        assert_eq!((needed.hosts.unwrap().hosts, needed.time.unwrap().get()), (0, 0.0));
    }

    #[test]
    fn a_bound_does_not_shrink_by_degrees_of_freedom() {
        // Three hosts that agree by chance: the half width is that of their noise, 1.96 · 0.1 / √3, whatever Student's t is of two degrees of freedom.
        let worth = worth(&even(&[0.3, 0.3001, 0.2999], 0.01));
        let half = worth.of_noise.half_width();
        assert!((half - 1.959_964 * 0.1 / 3.0_f64.sqrt()).abs() < 1e-6, "{worth:?}");
        let needed = worth.needed(half / 2.0);
        // Four times as many (or one more, by rounding), and four times as long.
        assert!((9..=10).contains(&needed.hosts.unwrap().hosts), "{needed:?}");
        assert!((needed.time.unwrap().get() / 9.0 - 1.0).abs() < 1e-6 && needed.floor < 1e-6, "{needed:?}");
    }

    #[test]
    fn one_host_says_nothing_of_others() {
        let needed = worth(&[row(1, 1, 0.3, 0.01, 21)]).needed(0.02);
        assert_eq!(needed.hosts, None);
        // (2.086 · 0.1 / 0.02)² = 108.8 days of the same host, and one is there.
        assert!((needed.time.unwrap().get() - 107.8).abs() < 0.5, "{needed:?}");
    }

    #[test]
    fn two_hosts_gain_most_from_a_third() {
        let worth = worth(&even(&[0.2, 0.4], 0.001));
        let needed = worth.needed(worth.of_noise.half_width() / 3.0);
        assert!(needed.hosts.unwrap().hosts <= 3, "{needed:?}");
    }
}
