//! Units of experiments: what a number means is part of its type.

use std::fmt;

pub use storage::{Nanos, UnixSeconds};

/// How much faster a region is made, virtually: 0 (a baseline) to 100 % (it costs nothing).
///
/// Kept in thousandths, so that speedups can be compared and used as keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Speedup(u16);

impl Speedup {
    /// The speedup of a baseline window.
    pub const ZERO: Speedup = Speedup(0);

    /// From per cent; `None` above 100.
    pub const fn from_percent(percent: u16) -> Option<Speedup> {
        if percent > 100 { None } else { Some(Speedup(percent * 10)) }
    }

    /// From thousandths; `None` above 1000.
    pub const fn from_per_mille(per_mille: u16) -> Option<Speedup> {
        if per_mille > 1000 { None } else { Some(Speedup(per_mille)) }
    }

    /// In thousandths, 0 to 1000.
    pub const fn per_mille(self) -> u16 {
        self.0
    }

    /// As a fraction, 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// True for a baseline.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Speedup {
    /// `25 %`, or `12.5 %` where thousandths matter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{} %", self.0 / 10),
            tenth => write!(f, "{}.{tenth} %", self.0 / 10),
        }
    }
}

/// The number of a window within its session, as `wire::Epoch` counts them; see rule 9 in `crates/runtime/README.md`. (Not an epoch of the collector, `archive::CollectorEpoch`.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch with this number.
    pub const fn new(number: u64) -> Epoch {
        Epoch(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The integral over time of a number of visits in flight (begun − ended): visits × nanoseconds.
///
/// Signed, because older recordings have less than nothing in flight where a beginning was missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VisitNanos(i64);

impl VisitNanos {
    /// `visit_ns` visits × nanoseconds.
    pub const fn new(visit_ns: i64) -> VisitNanos {
        VisitNanos(visit_ns)
    }

    /// In visits × nanoseconds.
    pub const fn get(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speedups_are_shown_in_per_cent() {
        for (per_mille, shown) in [(0, "0 %"), (250, "25 %"), (125, "12.5 %"), (1000, "100 %")] {
            assert_eq!(Speedup::from_per_mille(per_mille).unwrap().to_string(), shown);
        }
        assert_eq!(Speedup::from_percent(101), None);
        assert_eq!(Speedup::from_per_mille(1001), None);
        assert_eq!(Speedup::from_percent(100).unwrap().fraction(), 1.0);
    }
}
