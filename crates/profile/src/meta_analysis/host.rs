//! What one host says about a region, from its own windows.

use super::Refused;
use crate::estimate::{ENOUGH_BLOCKS, PointEstimate};
use crate::units::Nanos;

storage::id! {
    /// Which host: a number of the caller's, the same for all rows of one host.
    HostId
}

storage::id! {
    /// Which version of the code ran: a number of the caller's.
    VersionId
}

/// What one block adds to the sums whose ratio is a slope (see [`estimate`](crate::estimate)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockTerm {
    /// *s·(v − u)*: speedup times the visits that the treated window had beyond what its baseline led to expect.
    pub over: f64,
    /// *s²·v*: what that is divided by.
    pub under: f64,
    /// *s²*: how much the block was meant to say, whatever it saw.
    pub size: f64,
}

/// Slopes, and what they may be off by, are about 1 at most; squares of what is larger than this are of no use.
const LARGEST: f64 = 1e9;

/// What the windows of one host say about what a region is worth to one progress point, with one version of the code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostSlope {
    /// The host.
    pub host: HostId,
    /// The version of the code that it ran.
    pub version: VersionId,
    /// Gain per speedup, as [`PointEstimate::slope`]. Not read where there are fewer than five blocks.
    pub slope: f64,
    /// The square of the slope's standard error, from nothing but the noise of this host's windows. Not read where there are fewer than five blocks.
    pub variance: f64,
    /// The part of the slope's standard error that more experiments do not make smaller ([`PointEstimate::method_error`]): taken to be the same on all hosts.
    pub method_error: f64,
    /// How many blocks it rests on. A host without any is counted, and that is all.
    pub blocks: usize,
    /// For how long the host took part, experiments or not.
    pub observed: Nanos,
}

impl HostSlope {
    /// From an estimate of the host's windows alone. One whose error is not known becomes a host without blocks.
    ///
    /// An estimate is not corrected for having few blocks, as [`of_windows`](HostSlope::of_windows) is: in a fleet, that counts.
    pub fn of_estimate(
        host: HostId,
        version: VersionId,
        estimate: &PointEstimate,
        observed: Nanos,
    ) -> HostSlope {
        let known = estimate.of_noise().filter(|slope| slope.se.is_finite());
        let (slope, variance) = known.map_or((0.0, 0.0), |slope| (slope.value, slope.se.powi(2)));
        let blocks = if known.is_some() { estimate.blocks } else { 0 };
        let method_error = estimate.method_error;
        HostSlope { host, version, slope, variance, method_error, blocks, observed }.or_nothing()
    }

    /// From the blocks of a host. One with so few visits that its slope or variance is no number becomes a host without blocks.
    ///
    /// A ratio of few blocks is off in the same direction on every host, so that ten thousand hosts agree on
    /// something wrong (0.8 points too small, of five blocks with windows that differ by 15 %). The jackknife removes that, and gives the variance: for blocks of unequal size,
    /// Busing, Meijer and van der Leeden, *Delete-m jackknife for unequal m*, 1999. (With speedups of 20 to 100 %, sizes differ by a factor of 25; taken as equal,
    /// it overshoots.)
    pub fn of_blocks(host: HostId, version: VersionId, blocks: &[BlockTerm], observed: Nanos) -> HostSlope {
        let sum = |of: fn(&BlockTerm) -> f64| blocks.iter().map(of).sum::<f64>();
        let (over, under, size) = (sum(|b| b.over), sum(|b| b.under), sum(|b| b.size));
        let (all, n) = (over / under, blocks.len() as f64);
        let (mut slope, mut variance) = (0.0, 0.0);
        if blocks.len() >= ENOUGH_BLOCKS {
            let without = |block: &BlockTerm| (over - block.over) / (under - block.under);
            slope = n * all - blocks.iter().map(|b| (1.0 - b.size / size) * without(b)).sum::<f64>();
            let square = |block: &BlockTerm| {
                let times = size / block.size;
                (times * all - (times - 1.0) * without(block) - slope).powi(2) / (times - 1.0)
            };
            variance = blocks.iter().map(square).sum::<f64>() / n;
        }
        let blocks = blocks.len();
        HostSlope { host, version, slope, variance, method_error: 0.0, blocks, observed }.or_nothing()
    }

    /// A host whose numbers are none says nothing: where all visits are in one block, what the others say is divided by nothing. It must not keep the other hosts from
    /// an answer.
    pub(super) fn or_nothing(self) -> HostSlope {
        let is_known = self.slope.abs() <= LARGEST && (0.0..=LARGEST).contains(&self.variance);
        if is_known { self } else { HostSlope { slope: 0.0, variance: 0.0, blocks: 0, ..self } }
    }

    /// All that one host says, with whatever versions: by the numbers of blocks. At least one row.
    pub(super) fn together(rows: &[HostSlope]) -> HostSlope {
        let blocks: usize = rows.iter().map(|row| row.blocks).sum();
        let share = |row: &HostSlope| row.blocks as f64 / blocks as f64;
        let observed: u64 = rows.iter().map(|row| row.observed.get()).fold(0, u64::saturating_add);
        HostSlope {
            slope: rows.iter().map(|row| share(row) * row.slope).sum(),
            variance: rows.iter().map(|row| share(row).powi(2) * row.variance).sum(),
            method_error: rows.iter().map(|row| share(row) * row.method_error).sum(),
            blocks,
            observed: Nanos::new(observed),
            ..rows[0]
        }
    }

    /// Whether it has enough blocks to be used.
    pub(super) fn is_used(&self) -> bool {
        self.blocks >= ENOUGH_BLOCKS
    }

    /// Degrees of freedom of the variance.
    pub(super) fn freedom(&self) -> f64 {
        self.blocks.saturating_sub(1) as f64
    }

    /// Refuses what is no number.
    pub(super) fn check(&self) -> Result<(), Refused> {
        if !self.is_used() {
            return Ok(());
        }
        for (what, value, least) in [
            ("slope", self.slope, -LARGEST),
            ("variance", self.variance, 0.0),
            ("error of the method", self.method_error, 0.0),
        ] {
            if !(least..=LARGEST).contains(&value) {
                return Err(Refused::NotANumber { host: self.host, version: self.version, what, value });
            }
        }
        Ok(())
    }
}
