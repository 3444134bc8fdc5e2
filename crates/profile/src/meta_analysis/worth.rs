//! What making a region faster is worth across hosts.

use super::heterogeneity::{Heterogeneity, Slope};
use super::noise::Noise;
use super::pool::{self, Pooled};
use super::{HostDays, HostSlope, Variances, Weights};
use crate::estimate::{Estimate, widened};

/// Whom an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// One host has enough windows: the answer and its interval are about this host, and say nothing of others.
    OneHost,
    /// Several have: the answer is the mean of hosts like these, and the interval knows that they differ.
    Hosts,
}

/// What making a region faster is worth across hosts: gain per speedup, as [`PointEstimate::slope`](crate::PointEstimate::slope) of one recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// Whom it is about.
    pub basis: Basis,
    /// How many hosts it rests on.
    pub hosts: usize,
    /// How many more have fewer than five blocks, and are left out.
    pub left_out: usize,
    /// How many blocks those that are used have together.
    pub blocks: usize,
    /// How long they took part.
    pub observed: HostDays,
    /// The mean of the true slopes of hosts, each of which counts the same.
    pub estimate: Estimate,
    /// The same, if nothing but noise and the difference of hosts were in the way.
    pub of_noise: Estimate,
    /// The part of the standard error that neither more hosts nor more time make smaller: that of the method.
    pub method_error: f64,
    /// How hosts were weighted.
    pub weights: Weights,
    /// How much hosts differ; `None` for a single one.
    pub heterogeneity: Option<Heterogeneity>,
    /// Where the true slope of a host that has not been measured lies (95 % of such hosts, if hosts are about normal); `None` for fewer than three hosts.
    pub new_host: Option<Estimate>,
    /// Degrees of freedom of [`of_noise`](Self::of_noise).
    pub(super) freedom: f64,
    /// The half width of [`of_noise`](Self::of_noise) is no smaller: what it would be if hosts did not differ.
    pub(super) bound: f64,
    /// The sampling variance of each host.
    pub(super) variances: Vec<f64>,
}

impl Worth {
    /// Of hosts that all have enough blocks, one row each; at least one.
    pub(super) fn new(rows: &[HostSlope], left_out: usize, noise: &Noise, variances: Variances) -> Worth {
        let slopes = slopes(rows, noise);
        let Pooled { estimate, freedom, bound, weights, heterogeneity, new_host } =
            pool::pool(&slopes, noise.freedom, variances);
        let blocks: usize = rows.iter().map(|row| row.blocks).sum();
        let method = |row: &HostSlope| row.method_error * row.blocks as f64 / blocks as f64;
        let method_error = rows.iter().map(method).sum();
        Worth {
            basis: if rows.len() == 1 { Basis::OneHost } else { Basis::Hosts },
            hosts: rows.len(),
            left_out,
            blocks,
            observed: rows.iter().map(|row| HostDays::from(row.observed)).sum(),
            estimate: widened(estimate, method_error),
            of_noise: estimate,
            method_error,
            weights,
            heterogeneity,
            new_host: new_host.map(|new_host| widened(new_host, method_error)),
            freedom,
            bound,
            variances: slopes.iter().map(|slope| slope.variance).collect(),
        }
    }
}

pub(super) fn slopes(rows: &[HostSlope], noise: &Noise) -> Vec<Slope> {
    rows.iter().map(|row| Slope { value: row.slope, variance: noise.of(row) }).collect()
}
