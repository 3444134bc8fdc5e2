//! Noise: the sampling variance of each host, from the windows of all.

use super::HostSlope;

/// No slope of a host is known better than this (0.01 points): where a point is visited like clockwork, blocks may agree to the last visit.
const LEAST: f64 = 1e-8;

/// Where the sampling variances of hosts come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variances {
    /// One variance of a block for all hosts, by each host's number of blocks; and an interval that does not rely on it.
    #[default]
    Pooled,
    /// Each host's own, as in a textbook, with Hartung and Knapp's interval. It is wrong for many hosts with few windows, and
    /// here to show that.
    Own,
}

/// The variance of a block over all hosts that are used, by their degrees of freedom; and how many these are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    variances: Variances,
    per_block: f64,
    pub(super) freedom: f64,
}

impl Noise {
    pub(super) fn new(rows: &[HostSlope], variances: Variances) -> Noise {
        let freedom: f64 = rows.iter().map(HostSlope::freedom).sum();
        let squares: f64 = rows.iter().map(|row| row.freedom() * row.variance * row.blocks as f64).sum();
        Noise { variances, per_block: squares / freedom, freedom }
    }

    /// The sampling variance of a slope.
    pub(super) fn of(&self, row: &HostSlope) -> f64 {
        let variance = match self.variances {
            Variances::Pooled => self.per_block / row.blocks as f64,
            Variances::Own => row.variance,
        };
        variance.max(LEAST)
    }
}
